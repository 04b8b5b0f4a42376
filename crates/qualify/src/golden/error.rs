//! What can be wrong with a golden dataset.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Faults that are kept with their words; of a file that is no dataset at all,
/// the rest is counted.
const MOST_TOLD: usize = 10_000;

/// Why a golden dataset cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GoldenError {
    /// Lines of it are no items.
    #[error("{0}")]
    Faulty(GoldenFaults),
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is no longer what it was when it was checked.
    #[error("{}: changed while it was in use; begin again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
}

impl GoldenError {
    pub(crate) fn unreadable(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::Unreadable { path, source }
    }
}

/// Everything that is wrong with a golden dataset, or with a file of shadow pairs. Shown, it is one line a fault:
/// file, line, and what is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoldenFaults {
    path: PathBuf,
    faults: Vec<GoldenFault>,
    more: usize,
}

impl GoldenFaults {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The faults, in the order of lines; the first ten thousand of them.
    pub fn faults(&self) -> &[GoldenFault] {
        &self.faults
    }

    /// How many faults there are beyond those.
    pub fn more(&self) -> usize {
        self.more
    }

    /// None yet, of `path`.
    pub(crate) fn of(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            ..Self::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    pub(crate) fn line(&mut self, line: usize, what: String) {
        self.add(Some(line), what);
    }

    pub(super) fn dataset(&mut self, what: &str) {
        self.add(None, what.to_owned());
    }

    fn add(&mut self, line: Option<usize>, what: String) {
        if self.faults.len() < MOST_TOLD {
            self.faults.push(GoldenFault { line, what });
        } else {
            self.more += 1;
        }
    }
}

impl fmt::Display for GoldenFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        for (i, GoldenFault { line, what }) in self.faults.iter().enumerate() {
            let end = if i == 0 { "" } else { "\n" };
            match line {
                Some(line) => write!(f, "{end}{path}:{line}: {what}")?,
                None => write!(f, "{end}{path}: {what}")?,
            }
        }
        if self.more > 0 {
            write!(f, "\n{path}: and {} more faults", self.more)?;
        }
        Ok(())
    }
}

/// One thing that is wrong with a golden dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoldenFault {
    /// The line, from 1; none where it is the file as a whole.
    pub line: Option<usize>,
    /// What was seen and what is expected.
    pub what: String,
}

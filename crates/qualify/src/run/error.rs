//! Why a run cannot begin, or go on.

use crate::golden::GoldenError;
use evenkeel_core::ModelId;
use std::io;
use std::path::{Path, PathBuf};

/// Why a run cannot begin, or go on. None of it says anything about a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The role is not configured, or was not read to be measured.
    #[error("no role `{0}` is configured")]
    UnknownRole(String),
    /// There is nothing beside the primary to measure.
    #[error(
        "role `{role}` has no candidate beside its primary `{primary}`: name some, or add fallbacks to its roster"
    )]
    NoCandidate {
        /// The role.
        role: String,
        /// Its primary.
        primary: ModelId,
    },
    /// A number that a run cannot be asked for with.
    #[error("{key} is {seen}, expected {expected}")]
    OutOfRange {
        /// What it is for.
        key: &'static str,
        /// What was seen.
        seen: String,
        /// What is expected.
        expected: &'static str,
    },
    /// A budget, and models whose prices are not known.
    #[error(
        "a budget cannot be kept: the prices of {} are not known; \
         write input_usd_per_mtok and output_usd_per_mtok into models.toml",
        list(.0)
    )]
    NoPrices(Vec<ModelId>),
    /// The dataset has no item for the role.
    #[error("{}: no item is for role `{role}`; its items name {}", path.display(), roles.join(", "))]
    NoItem {
        /// The dataset.
        path: PathBuf,
        /// The role.
        role: String,
        /// The roles that items name.
        roles: Vec<String>,
    },
    /// The dataset cannot be used, or changed while it was in use.
    #[error(transparent)]
    Golden(#[from] GoldenError),
    /// A candidate's router cannot be built.
    #[error("`{candidate}` cannot be asked: {source}")]
    Candidate {
        /// The candidate.
        candidate: ModelId,
        /// Why.
        source: evenkeel::RouterError,
    },
    /// A file of the run cannot be written.
    #[error("{}: cannot be written: {source}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of the run cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line of the journal is none.
    #[error("{}:{line}: {what}", path.display())]
    Journal {
        /// The journal.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// The manifest is none of this version's.
    #[error("{}: is no manifest of a run: {what}", path.display())]
    Manifest {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The run that is to go on was made with other things.
    #[error("{}: cannot go on, since this is another run: {}", path.display(), differences.join("; "))]
    Differs {
        /// The manifest of the run that is there.
        path: PathBuf,
        /// Each thing that differs, with both values.
        differences: Vec<String>,
    },
    /// A run that was broken off is there, and nobody said to go on with it.
    #[error(
        "{}: a run was broken off here; go on with it (--resume), or take it away to begin anew",
        path.display()
    )]
    Unfinished {
        /// Its journal.
        path: PathBuf,
    },
    /// Another run is at work in the folder.
    #[error("{}: a run is at work here ({holder}); wait for its end, or use another folder", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
        /// Who holds it, and since when.
        holder: String,
    },
    /// There is no run to go on with.
    #[error("{}: no run is here to go on with", path.display())]
    NothingToResume {
        /// Where its manifest would be.
        path: PathBuf,
    },
    /// Scorers fail, whatever the answer.
    #[error("answers cannot be scored: {0}")]
    Scoring(String),
}

impl RunError {
    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::Write { path, source }
    }

    pub(crate) fn locked(path: PathBuf, holder: &str) -> Self {
        let holder = if holder.is_empty() {
            "which has not said whose it is"
        } else {
            holder
        };
        let holder = holder.to_owned();
        Self::Locked { path, holder }
    }

    pub(crate) fn read(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::Read { path, source }
    }

    pub(crate) fn journal(path: &Path, line: usize, what: String) -> Self {
        let path = path.to_owned();
        Self::Journal { path, line, what }
    }
}

fn list(models: &[ModelId]) -> String {
    let names: Vec<&str> = models.iter().map(ModelId::as_str).collect();
    names.join(", ")
}

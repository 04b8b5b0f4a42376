//! Golden datasets: questions with graded answers, one JSON object a line.

mod entries;
mod error;
mod item;
mod keys;
mod lines;
mod reader;
mod request;
mod shared;

pub use error::{GoldenError, GoldenFault, GoldenFaults};
pub use item::{Item, WeightedScorer};
pub(crate) use keys::{Keys, brief, kind};
pub(crate) use lines::Line;

use crate::hashes::ToolsHasher;
use crate::scorers::Needs;
use lines::Lines;
use reader::{ItemReader, Surroundings};
use sha2::{Digest as _, Sha256};
use shared::SharedScorers;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A golden dataset that was read through once and holds no fault.
///
/// Of its items only their count and what they have in common is kept:
/// [`items`](Self::items) reads the file again.
#[derive(Debug, Clone)]
pub struct Golden {
    path: PathBuf,
    count: usize,
    sha256: String,
    tools_hash: String,
    roles: BTreeSet<Arc<str>>,
    needs: Needs,
    shared: SharedScorers,
    surroundings: Arc<Surroundings>,
}

impl Golden {
    /// Reads `path` through, line by line, and checks every line of it. Takes
    /// some dozen bytes an item (its id's hash) and never the items themselves.
    ///
    /// Blocks while it reads.
    ///
    /// # Errors
    /// [`GoldenError::Faulty`] with every line that is not an item, and why;
    /// [`GoldenError::Unreadable`] where the file cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, GoldenError> {
        let path = path.as_ref();
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let surroundings = Arc::new(Surroundings::new(folder));
        let mut survey = Survey::new(path, &surroundings);
        let mut lines = lines_of(path)?;
        while let Some((number, line)) =
            lines.next().map_err(|e| GoldenError::unreadable(path, e))?
        {
            survey.take(number, line);
        }
        if survey.count == 0 && survey.faults.is_empty() {
            survey
                .faults
                .dataset("holds no item: at least one line is needed");
        }
        if !survey.faults.is_empty() {
            return Err(GoldenError::Faulty(survey.faults));
        }
        Ok(Self {
            path: path.to_owned(),
            count: survey.count,
            sha256: lines.sha256(),
            tools_hash: survey.tools.finish(),
            roles: survey.roles,
            needs: survey.needs,
            shared: survey.shared,
            surroundings,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many items it holds; at least one.
    pub fn count(&self) -> usize {
        self.count
    }

    /// SHA-256 of the file's bytes, in hexadecimal: what `sha256sum` says.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The hash of the tools and schemas of its items ([`ToolsHasher`]).
    pub fn tools_hash(&self) -> &str {
        &self.tools_hash
    }

    /// The roles that its items name.
    pub fn roles(&self) -> &BTreeSet<Arc<str>> {
        &self.roles
    }

    /// The roles that its scorers ask for a judgement.
    pub fn judges(&self) -> &BTreeSet<Arc<str>> {
        &self.needs.judges
    }

    /// The scorers that every item of `role` has, of those that need not know what
    /// is expected: what any answer of the role can be scored by. Items that name
    /// no role are of every role.
    pub fn role_scorers(&self, role: &str) -> Vec<WeightedScorer> {
        self.shared.of(role)
    }

    /// Whether a scorer of it runs an external command.
    pub fn runs_commands(&self) -> bool {
        self.needs.commands
    }

    /// Its items in order, at most `limit` of them, read from the file one by one.
    /// Blocks while it reads.
    ///
    /// An error is the last thing it gives: the file cannot be read, or is no
    /// longer what it was ([`GoldenError::Changed`]), which without a limit is
    /// told for every change of it.
    pub fn items(&self, limit: Option<usize>) -> Items<'_> {
        Items {
            golden: self,
            lines: None,
            next: 0,
            end: limit.map_or(self.count, |limit| limit.min(self.count)),
            ended: false,
        }
    }
}

/// The items of a [`Golden`].
#[derive(Debug)]
pub struct Items<'g> {
    golden: &'g Golden,
    lines: Option<Lines<BufReader<File>>>,
    next: usize,
    end: usize,
    ended: bool,
}

impl Items<'_> {
    fn read(&mut self) -> Result<Option<Item>, GoldenError> {
        let golden = self.golden;
        let lines = match &mut self.lines {
            Some(lines) => lines,
            none => none.insert(lines_of(&golden.path)?),
        };
        let changed = || GoldenError::Changed {
            path: golden.path.clone(),
        };
        if self.next >= self.end && self.end < golden.count {
            return Ok(None);
        }
        let line = lines.next();
        let read = match line.map_err(|e| GoldenError::unreadable(&golden.path, e))? {
            None => None,
            Some((number, Line::Text(bytes))) if self.next < golden.count => {
                let reader = ItemReader::new(&golden.surroundings);
                Some(reader.read(bytes, number, self.next))
            }
            Some(_) => return Err(changed()),
        };
        match read {
            None if self.next < golden.count || lines.sha256() != golden.sha256 => Err(changed()),
            None => Ok(None),
            Some(read) => {
                self.next += 1;
                read.map(Some).map_err(|_| changed())
            }
        }
    }
}

impl Iterator for Items<'_> {
    type Item = Result<Item, GoldenError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let read = self.read().transpose();
        self.ended = !matches!(read, Some(Ok(_)));
        read
    }
}

pub(crate) fn lines_of(path: &Path) -> Result<Lines<BufReader<File>>, GoldenError> {
    let file = File::open(path).map_err(|e| GoldenError::unreadable(path, e))?;
    Ok(Lines::new(BufReader::with_capacity(64 * 1024, file)))
}

/// What is learnt of a dataset while it is read through.
struct Survey<'s> {
    surroundings: &'s Surroundings,
    count: usize,
    ids: HashMap<[u8; 16], usize>,
    roles: BTreeSet<Arc<str>>,
    needs: Needs,
    shared: SharedScorers,
    tools: ToolsHasher,
    faults: GoldenFaults,
}

impl<'s> Survey<'s> {
    fn new(path: &Path, surroundings: &'s Surroundings) -> Self {
        Self {
            surroundings,
            count: 0,
            ids: HashMap::new(),
            roles: BTreeSet::new(),
            needs: Needs::default(),
            shared: SharedScorers::default(),
            tools: ToolsHasher::new(),
            faults: GoldenFaults::of(path),
        }
    }

    fn take(&mut self, number: usize, line: Line<'_>) {
        let Line::Text(bytes) = line else {
            let most = lines::LONGEST / (1024 * 1024);
            self.faults
                .line(number, format!("is longer than {most} MiB"));
            return;
        };
        match ItemReader::new(self.surroundings).read(bytes, number, self.count) {
            Ok(item) => {
                self.know_id(&item.id, number);
                self.roles.extend(item.role.clone());
                self.needs.take(&item);
                self.shared.take(&item);
                self.tools.tools(&item.request.tools);
                self.tools.output(&item.request.output);
                self.count += 1;
            }
            Err(unread) => {
                if let Some(id) = unread.id {
                    self.know_id(&id, number);
                }
                for what in unread.faults {
                    self.faults.line(number, what);
                }
            }
        }
    }

    /// Half of a SHA-256 stands for the id: two ids that share it are not to be met.
    fn know_id(&mut self, id: &str, number: usize) {
        let mut hash = [0; 16];
        hash.copy_from_slice(&Sha256::digest(id)[..16]);
        if let Some(first) = self.ids.get(&hash) {
            let what = format!("the id `{}` is that of line {first} too", brief(id));
            self.faults.line(number, what);
        } else {
            self.ids.insert(hash, number);
        }
    }
}

#[cfg(test)]
mod tests;

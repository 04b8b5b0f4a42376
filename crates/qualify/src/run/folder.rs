//! Where a run of one role keeps what it needs to go on.

use super::RunError;
use super::budget::Budget;
use super::done::Done;
use super::journal::Journal;
use super::manifest::Manifest;
use super::plan::Plan;
use crate::outcome::Outcome;
use evenkeel::Settings;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that are read of who holds a folder.
const LONGEST_HOLDER: u64 = 200;

/// A role's folder within that of a report.
#[derive(Debug, Clone)]
pub struct RunFolder(PathBuf);

/// A role's folder that nobody else writes to while this is held. The system lets go of
/// it when the process ends, however it ends.
#[derive(Debug)]
pub struct LockedFolder {
    folder: RunFolder,
    /// Locked, and let go of by being closed.
    _lock: File,
}

/// A run that may begin, or go on.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) journal: Journal,
    pub(crate) manifest: Manifest,
    pub(crate) done: Done,
    pub(crate) budget: Arc<Budget>,
}

impl RunFolder {
    /// That of `role` in the folder of a report. Nothing is made yet.
    pub fn of(report: &Path, role: &str) -> Self {
        // Roles are named in visible ASCII without slashes; `..` would still lead out.
        let hidden = if role.starts_with('.') { "_" } else { "" };
        Self(report.join(format!("{hidden}{role}")))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The manifest's path.
    pub fn manifest(&self) -> PathBuf {
        self.0.join("manifest.json")
    }

    /// The journal's path.
    pub fn journal(&self) -> PathBuf {
        self.0.join("journal.jsonl")
    }

    /// Makes the folder and takes it for this process, which says in it since when.
    ///
    /// # Errors
    /// [`RunError::Locked`] where a run is at work there, and [`RunError::Write`] where
    /// nothing can be written.
    pub fn lock(self, now: jiff::Timestamp) -> Result<LockedFolder, RunError> {
        fs::create_dir_all(&self.0).map_err(|source| RunError::write(&self.0, source))?;
        let path = self.0.join("lock");
        let mut options = OpenOptions::new();
        let opened = options.create(true).read(true).write(true).truncate(false);
        let opened = opened.open(&path);
        let mut lock = opened.map_err(|source| RunError::write(&path, source))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Where the lock keeps readers out too, nobody knows who it is.
                let _ = lock.take(LONGEST_HOLDER).read_to_string(&mut holder);
                return Err(RunError::locked(self.0, holder.trim()));
            }
            Err(TryLockError::Error(source)) => return Err(RunError::write(&path, source)),
        }
        let holder = format!("process {}, since {now:.0}\n", std::process::id());
        let told = lock
            .set_len(0)
            .and_then(|()| lock.write_all(holder.as_bytes()));
        told.map_err(|source| RunError::write(&path, source))?;
        Ok(LockedFolder {
            folder: self,
            _lock: lock,
        })
    }
}

impl LockedFolder {
    /// The folder.
    pub const fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// Begins a run or goes on with the one that is there; what that one has heard is
    /// told to `on`.
    ///
    /// # Errors
    /// Where nothing can be written there, another run is there, or none to go on
    /// with.
    pub(crate) fn open(
        &self,
        plan: &Plan,
        settings: &Settings,
        begun: jiff::Timestamp,
        is_resumed: bool,
        on: &mut dyn FnMut(&Outcome),
    ) -> Result<Opened, RunError> {
        let (path, journal) = (self.folder.manifest(), self.folder.journal());
        let mut manifest = Manifest::of(plan, settings, begun);
        let mut done = Done::nothing(plan);
        let budget = Budget::new(plan.options.budget_usd);
        if !is_resumed {
            self.folder.refuse_unfinished()?;
            // The journal first: a manifest alone would be a run without outcomes.
            let journal = Journal::create(&journal)?;
            manifest.write(&path)?;
            return Ok(Opened {
                journal,
                manifest,
                done,
                budget,
            });
        }
        if !path.exists() {
            return Err(RunError::NothingToResume { path });
        }
        let before = Manifest::read(&path)?;
        let differences = before.differences(&manifest);
        if !differences.is_empty() {
            return Err(RunError::Differs { path, differences });
        }
        manifest.begun = before.begun;
        let mut wrong = None;
        let mut line = 0;
        let resumed = Journal::resume(&journal, |entry| {
            line += 1;
            // Its answer has cost, also where it is asked for again, and so will the next.
            budget.spend(&entry.outcome.candidate, entry.cost_usd());
            match done.note(&entry.outcome) {
                Ok(true) => {
                    manifest.note(&entry.outcome);
                    on(&entry.outcome);
                }
                Ok(false) => {}
                Err(what) => _ = wrong.get_or_insert((line, what)),
            }
        })?;
        if let Some((line, what)) = wrong {
            return Err(RunError::journal(&journal, line, what));
        }
        manifest.write(&path)?;
        Ok(Opened {
            journal: resumed,
            manifest,
            done,
            budget,
        })
    }
}

impl RunFolder {
    /// A run that was broken off has cost money: it is not thrown away in silence.
    fn refuse_unfinished(&self) -> Result<(), RunError> {
        let journal = self.journal();
        let has_outcomes =
            fs::metadata(&journal).is_ok_and(|found| found.is_file() && found.len() > 0);
        if !has_outcomes {
            return Ok(());
        }
        match Manifest::read(&self.manifest()) {
            Ok(manifest) if manifest.is_finished() => Ok(()),
            _ => Err(RunError::Unfinished { path: journal }),
        }
    }
}

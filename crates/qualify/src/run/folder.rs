//! Where a run of one role keeps what it needs to go on.

use super::RunError;
use super::budget::Budget;
use super::done::Done;
use super::journal::Journal;
use super::manifest::Manifest;
use super::plan::Plan;
use crate::outcome::Outcome;
use evenkeel::Settings;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A role's folder within that of a report.
#[derive(Debug, Clone)]
pub struct RunFolder(PathBuf);

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

    /// Makes the folder, and begins a run or goes on with the one that is there;
    /// what that one has heard is told to `on`.
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
        fs::create_dir_all(&self.0).map_err(|source| RunError::write(&self.0, source))?;
        let (path, journal) = (self.manifest(), self.journal());
        let mut manifest = Manifest::of(plan, settings, begun);
        let mut done = Done::nothing(plan);
        let budget = Budget::new(plan.options.budget_usd);
        if !is_resumed {
            self.refuse_unfinished()?;
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
            match done.note(&entry.outcome) {
                Ok(true) => {
                    budget.spend(entry.judges_usd + entry.outcome.cost_usd.unwrap_or(0.0));
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

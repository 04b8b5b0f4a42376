//! The run itself: every candidate is asked everything, and everything is written down.

use super::RunError;
use super::asker::{Asker, Heard, Shared};
use super::folder::LockedFolder;
use super::journal::Journal;
use super::journal_line::Entry;
use super::judges::Judges;
use super::manifest::Manifest;
use super::plan::Plan;
use super::progress::{Halt, Progress};
use super::respondent::{HttpValidators, Respondent, Way};
use super::score::SoFar;
use crate::outcome::Outcome;
use crate::scorers::CommandLimits;
use evenkeel::Settings;
use evenkeel_core::ModelId;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Outcomes that may wait to be written.
const WAITING: usize = 1_024;
/// Outcomes that are written at once, at most.
const BATCH: usize = 256;
/// Answers in a row that no scorer could score, after which none is expected to be.
const UNSCORED_IN_A_ROW: u32 = 5;

/// A run, ready to begin.
pub struct Run<'a> {
    /// What is measured.
    pub plan: Plan,
    /// The configuration, read to be measured.
    pub settings: &'a Settings,
    /// Where it is written down.
    pub folder: &'a LockedFolder,
    /// Whether it goes on with what is there.
    pub is_resumed: bool,
    /// What makes validators of kind `http`, where roles have any.
    pub http_validators: Option<HttpValidators>,
    /// Limits of external commands that score; none: none may run.
    pub commands: Option<CommandLimits>,
    /// The time of day when it begins.
    pub begun: jiff::Timestamp,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// What it was made of, and who answered.
    pub manifest: Manifest,
    /// Why it ended before everything was asked; none where everything was.
    pub stopped: Option<Stop>,
    /// Candidates that were not asked further, and why.
    pub halted: BTreeMap<ModelId, Halt>,
    /// Answers that no scorer could score, and what the first of them failed at.
    pub unscored: Option<(u32, String)>,
    /// US dollars it has cost, judges included, as far as prices are known.
    pub spent_usd: f64,
    /// How long it took, what it was broken off from left out.
    pub took: Duration,
    /// How long of that nobody was listened to, since the journal was written.
    pub writing: Duration,
}

/// Why a run ended before everything was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// What was left of the budget is less than the next question costs.
    Budget,
    /// Somebody stopped it.
    Cancelled,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Budget => "the budget is spent",
            Self::Cancelled => "it was stopped",
        })
    }
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("plan", &self.plan)
            .field("folder", &self.folder)
            .field("is_resumed", &self.is_resumed)
            .finish_non_exhaustive()
    }
}

impl Run<'_> {
    /// Asks every model of the plan everything that has not been asked, writes down
    /// what comes of it and tells it to `on`, what a resumed run has written down
    /// before included. Candidates of one provider are asked one after the other, so
    /// that none slows another; providers are asked side by side. `stop` ends the run
    /// where it stands: what is under way is given up, what has been heard is kept.
    ///
    /// # Errors
    /// [`RunError`], as far as it can be before anybody is asked; later where files
    /// cannot be read or written any more, or nothing can be scored. What was
    /// written down before stays, and the run can go on.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn run(
        self,
        progress: &mut dyn Progress,
        on: &mut (dyn FnMut(&Outcome) + Send),
        stop: CancellationToken,
    ) -> Result<Ended, RunError> {
        let way = Way {
            settings: self.settings,
            http_validators: self.http_validators.clone(),
            seed: self.plan.options.seed,
            is_streamed: self.plan.options.is_streamed,
            patience: self.plan.options.patience,
        };
        let judges = Judges::of(&self.plan.golden, &way)?;
        let respondents = self
            .plan
            .models()
            .map(|model| Respondent::new(&way, &self.plan.role, model))
            .collect::<Result<Vec<_>, _>>()?;
        self.put_to(respondents, judges, progress, on, stop).await
    }

    /// The same, to those who are ready to be asked.
    pub(crate) async fn put_to(
        self,
        respondents: Vec<Respondent>,
        judges: Judges,
        progress: &mut dyn Progress,
        on: &mut (dyn FnMut(&Outcome) + Send),
        stop: CancellationToken,
    ) -> Result<Ended, RunError> {
        let mut before: BTreeMap<ModelId, SoFar> = BTreeMap::new();
        let opened = self.folder.open(
            &self.plan,
            self.settings,
            self.begun,
            self.is_resumed,
            &mut |outcome| {
                let so_far = before.entry(outcome.candidate.clone()).or_default();
                so_far.add(outcome);
                on(outcome);
            },
        )?;
        for respondent in &respondents {
            let before = before.get(&respondent.model).copied().unwrap_or_default();
            progress.begins(&respondent.model, self.plan.questions(), before);
        }
        let shared = Shared {
            plan: self.plan,
            done: opened.done,
            budget: opened.budget.clone(),
            is_out_of_budget: AtomicBool::new(false),
            judges: Arc::new(judges),
            commands: self.commands,
        };
        let scribe = Scribe {
            journal: opened.journal,
            manifest: opened.manifest,
            progress,
            on,
            halted: BTreeMap::new(),
            unscored: None,
            unscored_in_a_row: 0,
            writing: Duration::ZERO,
        };
        ask_all(Arc::new(shared), respondents, scribe, self.folder, stop).await
    }
}

async fn ask_all(
    shared: Arc<Shared>,
    respondents: Vec<Respondent>,
    mut scribe: Scribe<'_>,
    folder: &LockedFolder,
    stop: CancellationToken,
) -> Result<Ended, RunError> {
    let began = Instant::now();
    let (heard, mut inbox) = mpsc::channel(WAITING);
    let mut lanes: BTreeMap<String, Vec<Arc<Asker>>> = BTreeMap::new();
    for respondent in respondents {
        let provider = respondent.model.provider().to_owned();
        let asker = Asker::new(shared.clone(), respondent, heard.clone());
        lanes.entry(provider).or_default().push(asker);
    }
    drop(heard);
    let mut running = JoinSet::new();
    for lane in lanes.into_values() {
        let stop = stop.clone();
        running.spawn(async move {
            let asked = async {
                for asker in lane {
                    asker.ask_all().await?;
                }
                Ok::<(), RunError>(())
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => Ok(()),
                asked = asked => asked,
            }
        });
    }
    let mut batch = Vec::with_capacity(BATCH);
    while inbox.recv_many(&mut batch, BATCH).await > 0 {
        // On an error the lanes are dropped, and with them all that is under way.
        scribe.take(&mut batch)?;
    }
    let mut asked = Ok(());
    while let Some(lane) = running.join_next().await {
        let lane = lane.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Ok(()),
        });
        asked = asked.and(lane);
    }
    scribe.finish()?;
    asked?;
    let stopped = if stop.is_cancelled() {
        Some(Stop::Cancelled)
    } else if shared.is_out_of_budget.load(Ordering::Relaxed) {
        Some(Stop::Budget)
    } else {
        None
    };
    if stopped.is_none() {
        scribe.manifest.finish();
    }
    scribe.manifest.write(&folder.folder().manifest())?;
    Ok(Ended {
        manifest: scribe.manifest,
        stopped,
        halted: scribe.halted,
        unscored: scribe.unscored,
        spent_usd: shared.budget.spent_usd(),
        took: began.elapsed(),
        writing: scribe.writing,
    })
}

/// The one who writes down what is heard, and tells it.
struct Scribe<'p> {
    journal: Journal,
    manifest: Manifest,
    progress: &'p mut dyn Progress,
    on: &'p mut (dyn FnMut(&Outcome) + Send),
    halted: BTreeMap<ModelId, Halt>,
    unscored: Option<(u32, String)>,
    unscored_in_a_row: u32,
    writing: Duration,
}

impl Scribe<'_> {
    /// Takes what was heard, in its order: outcomes are in the journal before anybody
    /// is told of them.
    fn take(&mut self, batch: &mut Vec<Heard>) -> Result<(), RunError> {
        let entries = batch.iter().filter_map(|heard| match heard {
            Heard::Ended(entry) => Some(&**entry),
            _ => None,
        });
        let began = Instant::now();
        self.journal.add(entries)?;
        self.writing += began.elapsed();
        for heard in batch.drain(..) {
            match heard {
                Heard::Ended(entry) => {
                    let Entry {
                        outcome, unscored, ..
                    } = *entry;
                    self.note_unscored(unscored)?;
                    self.manifest.note(&outcome);
                    (self.on)(&outcome);
                    self.progress.heard(&outcome);
                }
                Heard::Waits(model, wait) => self.progress.waits(&model, wait),
                Heard::Halted(model, halt) => {
                    self.progress.halted(&model, halt);
                    self.halted.insert(model, halt);
                }
                Heard::Over(model) => self.progress.ends(&model),
            }
        }
        Ok(())
    }

    /// Sees to it that everything that was written outlasts the machine.
    fn finish(&mut self) -> Result<(), RunError> {
        let began = Instant::now();
        self.journal.finish()?;
        self.writing += began.elapsed();
        Ok(())
    }

    /// Counts answers that could not be scored; an error where none is expected to be.
    fn note_unscored(&mut self, why: Option<Arc<str>>) -> Result<(), RunError> {
        let Some(why) = why else {
            self.unscored_in_a_row = 0;
            return Ok(());
        };
        self.unscored_in_a_row += 1;
        if self.unscored_in_a_row >= UNSCORED_IN_A_ROW {
            return Err(RunError::Scoring(why.to_string()));
        }
        match &mut self.unscored {
            Some((count, _)) => *count += 1,
            none => *none = Some((1, why.to_string())),
        }
        Ok(())
    }
}

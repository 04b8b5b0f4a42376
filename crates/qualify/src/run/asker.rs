//! Putting questions to one candidate.

use super::RunError;
use super::budget::Budget;
use super::done::Done;
use super::journal_line::Entry;
use super::judges::{Judges, Meter};
use super::load::Arrivals;
use super::plan::Plan;
use super::progress::Halt;
use super::respondent::{End, Reply, Respondent};
use crate::golden::Item;
use crate::outcome::{Outcome, OutcomeKind};
use crate::scorers::{CommandLimits, ScoringContext, score};
use evenkeel_core::{ChatRequest, ChatResponse, Class, ModelId, Output};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Failures in a row after which a candidate is taken for one that cannot be asked. At
/// an error rate of one half that is met by chance once in a million questions. With
/// many under way at a time it takes twice their number: a moment's outage fails all.
const FAILURES_IN_A_ROW: u32 = 20;

/// Of those under way at a time, no more count for that.
const MOST_AT_A_TIME: usize = 64;

/// The same for questions that were never taken: each has waited all its patience.
const UNMEASURED_IN_A_ROW: u32 = 3;

/// Longest piece of an answer that is kept, in characters.
const EXCERPT: usize = 600;

/// What comes of asking.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A question has come to its end.
    Ended(Box<Entry>),
    /// A rate limit is waited for.
    Waits(ModelId, Duration),
    /// A candidate is not asked further.
    Halted(ModelId, Halt),
    /// A candidate has been asked everything there is to ask.
    Over(ModelId),
}

/// What all candidates of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) plan: Plan,
    /// What had been asked before the run began.
    pub(crate) done: Done,
    pub(crate) budget: Arc<Budget>,
    /// Whether a question was not asked for want of money.
    pub(crate) is_out_of_budget: AtomicBool,
    pub(crate) judges: Arc<Judges>,
    pub(crate) commands: Option<CommandLimits>,
}

/// Puts questions to one candidate.
#[derive(Debug)]
pub(crate) struct Asker {
    shared: Arc<Shared>,
    respondent: Respondent,
    heard: mpsc::Sender<Heard>,
    streak: Mutex<Streak>,
    /// Failures in a row that halt it.
    failures_in_a_row: u32,
    /// Cancelled when it is not asked further.
    halted: CancellationToken,
}

/// What a reply is worth.
#[derive(Debug, Clone, Copy)]
struct Worth {
    kind: OutcomeKind,
    is_valid: Option<bool>,
    judges_agree: Option<bool>,
}

impl Worth {
    /// Of what has no form, and nobody judged.
    const fn of(kind: OutcomeKind) -> Self {
        Self {
            kind,
            is_valid: None,
            judges_agree: None,
        }
    }
}

/// Ends of one kind, in a row.
#[derive(Debug, Default)]
struct Streak {
    failed: u32,
    unmeasured: u32,
}

impl Asker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        respondent: Respondent,
        heard: mpsc::Sender<Heard>,
    ) -> Arc<Self> {
        let at_a_time = shared.plan.options.load.at_most().min(MOST_AT_A_TIME);
        let twice = u32::try_from(at_a_time.saturating_mul(2)).unwrap_or(u32::MAX);
        Arc::new(Self {
            shared,
            respondent,
            heard,
            streak: Mutex::default(),
            failures_in_a_row: twice.max(FAILURES_IN_A_ROW),
            halted: CancellationToken::new(),
        })
    }

    /// Asks everything that has not been asked, at the plan's pace, unless there is
    /// reason to halt. That, and dropping it, gives up what is under way.
    ///
    /// # Errors
    /// Where the dataset cannot be read any more.
    pub(crate) async fn ask_all(self: Arc<Self>) -> Result<(), RunError> {
        tokio::select! {
            biased;
            () = self.halted.cancelled() => {}
            asked = self.begin_all() => asked?,
        }
        let over = Heard::Over(self.respondent.model.clone());
        let _ = self.heard.send(over).await;
        Ok(())
    }

    /// Begins question after question, until there is none left or no money, and
    /// waits for the last.
    async fn begin_all(self: &Arc<Self>) -> Result<(), RunError> {
        let mut under_way = JoinSet::new();
        let begun = self.begin_each(&mut under_way).await;
        while let Some(ended) = under_way.join_next().await {
            rethrow(ended);
        }
        begun
    }

    async fn begin_each(self: &Arc<Self>, under_way: &mut JoinSet<()>) -> Result<(), RunError> {
        let plan = &self.shared.plan;
        let load = plan.options.load;
        let mut begun = Instant::now();
        let mut arrivals = Arrivals::of(load, plan.options.seed);
        let room = Arc::new(Semaphore::new(load.at_most().min(Semaphore::MAX_PERMITS)));
        for repeat in 0..plan.options.repeat {
            // Lines come through a buffer, from a file: each read takes microseconds.
            let mut asked = 0;
            for item in plan.golden.items(plan.read_limit()) {
                let item = item?;
                if !plan.is_asked(&item) {
                    continue;
                }
                if asked == plan.items {
                    break;
                }
                asked += 1;
                if self
                    .shared
                    .done
                    .has(&self.respondent.model, item.index, repeat)
                {
                    continue;
                }
                let due = arrivals.next_due().map(|after| begun + after);
                if let Some(due) = due {
                    sleep_until(due).await;
                }
                let place = room.clone().acquire_owned().await;
                let Some(cost) = self.shared.budget.ask(&self.respondent.model).await else {
                    self.shared.is_out_of_budget.store(true, Ordering::Relaxed);
                    return Ok(());
                };
                // The clock of an open loop stands still meanwhile.
                begun += cost.waited;
                let due = due.map(|due| due + cost.waited);
                let this = self.clone();
                under_way.spawn(async move {
                    let due = due.unwrap_or_else(Instant::now);
                    this.ask(item, repeat, due).await;
                    drop((place, cost));
                });
                while let Some(ended) = under_way.try_join_next() {
                    rethrow(ended);
                }
            }
        }
        Ok(())
    }

    /// Asks one question, scores its answer and tells of both.
    async fn ask(&self, item: Item, repeat: u32, due: Instant) {
        let model = &self.respondent.model;
        let waits = |wait| {
            // Only shown: where many wait to be heard it may go unseen.
            let _ = self.heard.try_send(Heard::Waits(model.clone(), wait));
        };
        let reply = self.respondent.ask(&item.request, due, waits).await;
        let meter = Meter::of(&self.shared.judges);
        let judged = self.judged(&item, &reply, &meter).await;
        let (worth, unscored) = match judged {
            Ok(worth) => (worth, None),
            Err(why) => (Worth::of(OutcomeKind::Unscored), Some(why.into())),
        };
        let entry = Entry {
            outcome: outcome(model, item, repeat, &reply, worth),
            judges_usd: meter.usd(),
            unscored,
        };
        self.shared.budget.spend(model, entry.cost_usd());
        let halt = self.note(worth.kind);
        let ended = Heard::Ended(Box::new(entry));
        let _ = self.heard.send(ended).await;
        if let Some(halt) = halt {
            let _ = self.heard.send(Heard::Halted(model.clone(), halt)).await;
            self.halted.cancel();
        }
    }

    /// What the reply is worth.
    ///
    /// # Errors
    /// Why no scorer can tell.
    async fn judged(
        &self,
        item: &Item,
        reply: &Reply,
        meter: &Arc<Meter>,
    ) -> Result<Worth, String> {
        match &reply.end {
            End::Unmeasured(class) => Ok(Worth::of(OutcomeKind::Unmeasured(*class))),
            End::Failed(Class::ContentFilter) => Ok(Worth::of(OutcomeKind::Refused)),
            End::Failed(class @ (Class::Semantic | Class::Malformed)) => Ok(Worth {
                is_valid: has_form(&item.request).then_some(false),
                ..Worth::of(OutcomeKind::Failed(*class))
            }),
            End::Failed(class) => Ok(Worth::of(OutcomeKind::Failed(*class))),
            End::Answered(answer) => {
                let context = ScoringContext {
                    judge: Some(meter.clone()),
                    commands: self.shared.commands.clone(),
                };
                let scored = score(item, answer, &context).await;
                let scored = scored.map_err(|e| format!("item `{}`: {e}", item.id))?;
                let kind = if scored.is_refusal {
                    OutcomeKind::Refused
                } else {
                    OutcomeKind::Answered(scored.score)
                };
                Ok(Worth {
                    kind,
                    is_valid: scored.is_valid.map(|valid| valid && !reply.was_invalid),
                    judges_agree: scored.judges_agree(),
                })
            }
        }
    }

    /// Counts ends of one kind in a row; a reason to halt the first time there is one.
    fn note(&self, kind: OutcomeKind) -> Option<Halt> {
        let mut streak = self.streak.lock().unwrap_or_else(PoisonError::into_inner);
        match kind {
            OutcomeKind::Unmeasured(class) => {
                streak.unmeasured += 1;
                (streak.unmeasured == UNMEASURED_IN_A_ROW).then_some(Halt::Limited {
                    in_a_row: UNMEASURED_IN_A_ROW,
                    class,
                })
            }
            OutcomeKind::Failed(class) if kind.is_of_the_way() => {
                streak.failed += 1;
                (streak.failed == self.failures_in_a_row).then_some(Halt::Failing {
                    in_a_row: streak.failed,
                    class,
                })
            }
            _ => {
                *streak = Streak::default();
                None
            }
        }
    }
}

/// Whether an answer to the request has a form that it can fail to have.
fn has_form(request: &ChatRequest) -> bool {
    request.output != Output::Text || !request.tools.is_empty()
}

fn outcome(model: &ModelId, item: Item, repeat: u32, reply: &Reply, worth: Worth) -> Outcome {
    let answer = match &reply.end {
        End::Answered(answer) => Some(&**answer),
        End::Failed(_) | End::Unmeasured(_) => None,
    };
    let said = |text: &str| (!text.is_empty()).then(|| Arc::from(text));
    Outcome {
        candidate: model.clone(),
        index: item.index,
        item: item.id,
        tags: item.tags,
        repeat,
        kind: worth.kind,
        is_valid: worth.is_valid,
        total: reply.total,
        first_token: reply.first_token,
        usage: reply.usage,
        cost_usd: reply.cost_usd,
        judges_agree: worth.judges_agree,
        snapshot: answer.and_then(|answer| said(&answer.model)),
        fingerprint: answer.and_then(|answer| {
            let stated = answer.extra.fields.get("system_fingerprint")?;
            said(stated.as_str()?)
        }),
        answer: answer.and_then(|answer| said(&excerpt(answer))),
    }
}

/// The beginning of an answer: its text, then its calls.
fn excerpt(answer: &ChatResponse) -> String {
    let mut text = answer.plain_text();
    for call in answer.tool_calls() {
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = write!(text, "{}({})", call.name, call.arguments);
    }
    if let Some((end, _)) = text.char_indices().nth(EXCERPT) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// A panic of a question is a panic of the run.
fn rethrow(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

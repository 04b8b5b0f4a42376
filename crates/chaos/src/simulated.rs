//! Models without a socket.

use crate::answer::Answer;
use crate::fault::{Opening, PROVIDER_FAILED, classified};
use crate::model::{Draw, Models};
use crate::script::{Act, Script};
use crate::stats::{CallGuard, Ending};
use crate::{Behaviour, Fault, Stats};
use evenkeel_core::{
    ChatResponse, Class, Delta, EventStream, Extra, Failure, Provider, ProviderCall, StreamEvent,
};
use futures_util::stream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Least time between two tokens of an endless stream: it must leave room for
/// others on a clock that only moves when everybody waits.
const ENDLESS_GAP: Duration = Duration::from_millis(1);

/// A provider of simulated models, in this process.
///
/// It answers with the numbered text of [`check_answer`](crate::check_answer)
/// after the latency its [`Behaviour`] draws, or with its fault. All waiting is
/// on tokio's clock, so it runs under a paused one. A clone shares the models.
/// A model it does not know is [`Class::ModelGone`].
#[derive(Debug, Clone)]
pub struct Simulated {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    models: Models,
    answers: AtomicU64,
}

impl Simulated {
    /// A provider `name` without models. The same `seed` draws the same
    /// latencies and faults for the same sequence of calls.
    pub fn new(name: &str, seed: u64) -> Self {
        Self {
            inner: Arc::new(Inner {
                models: Models::new(name, seed),
                answers: AtomicU64::new(0),
            }),
        }
    }

    /// With the model `name`.
    #[must_use]
    pub fn model(self, name: &str, behaviour: Behaviour) -> Self {
        self.set(name, behaviour);
        self
    }

    /// Replaces the behaviour of `model`, or adds it. Calls in flight keep
    /// the behaviour they began with.
    pub fn set(&self, model: &str, behaviour: Behaviour) {
        self.inner.models.set(model, behaviour);
    }

    /// Takes `model` away: calls to it are [`Class::ModelGone`] from now on.
    pub fn retire(&self, model: &str) {
        self.inner.models.remove(model);
    }

    /// The calls `model` got; zeros for one it does not have.
    pub fn stats(&self, model: &str) -> Stats {
        let found = self.inner.models.find(model);
        found.map(|m| m.stats()).unwrap_or_default()
    }

    /// Begins a call: counted, drawn, its text ready.
    fn begin(&self, call: &ProviderCall) -> Result<Run, Failure> {
        let begun = Instant::now();
        let models = &self.inner.models;
        let model = models.find(&call.model).ok_or_else(|| {
            let message = format!("{} has no model `{}`", models.provider, call.model);
            classified(404, Some("model_not_found"), &message)
        })?;
        let (draw, guard) = model.begin(Ending::Cancelled);
        let answer = Answer::new(Arc::clone(&model.who), &draw.behaviour, &call.request);
        let script = Script::new(&draw, &answer);
        let number = self.inner.answers.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Run {
            id: format!("sim-{number}"),
            model: Arc::clone(&call.model),
            begun,
            draw,
            answer,
            script,
            guard,
        })
    }
}

#[async_trait::async_trait]
impl Provider for Simulated {
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure> {
        let run = self.begin(&call)?.open(false).await?;
        sleep_until(run.begun + run.script.last_token()).await;
        let outcome = run.whole();
        let ending = if outcome.is_ok() {
            Ending::Ok
        } else {
            Ending::Failed
        };
        run.guard.end(ending);
        outcome
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        let run = self.begin(&call)?.open(true).await?;
        sleep_until(run.begun + run.script.opens()).await;
        Ok(Box::pin(stream::unfold(Some(run), advance)))
    }
}

/// One call in flight.
#[derive(Debug)]
struct Run {
    id: String,
    model: Arc<str>,
    begun: Instant,
    draw: Draw,
    answer: Answer,
    script: Script,
    guard: CallGuard,
}

impl Run {
    /// Waits until the request is accepted; fails or never returns where the
    /// fault says so.
    async fn open(self, stream: bool) -> Result<Self, Failure> {
        match self.draw.fault().map(|fault| fault.opening(stream)) {
            None | Some(Opening::Accept) => Ok(self),
            Some(Opening::Never) => std::future::pending().await,
            Some(Opening::Fail(failure)) => {
                sleep_until(self.begun + self.draw.behaviour.fault_delay).await;
                self.guard.end(Ending::Failed);
                Err(failure)
            }
        }
    }

    /// The outcome of a call for a whole answer, when it is due.
    fn whole(&self) -> Result<ChatResponse, Failure> {
        let transient = |message| Err(Failure::new(Class::Transient, message));
        match self.draw.fault() {
            Some(Fault::CutAfter(_) | Fault::ResetAfter(_)) => {
                transient("the connection was lost within the answer")
            }
            Some(Fault::EndAfter(_) | Fault::FalseDoneAfter(_)) => {
                transient("the answer has no finish reason")
            }
            Some(Fault::ErrorInStream { code, message, .. }) => {
                Err(event_failure(code.as_deref(), message))
            }
            _ => Ok(self
                .answer
                .response(self.id.clone(), &self.model, self.script.length())),
        }
    }

    fn event(&self, act: &Act) -> Option<StreamEvent> {
        Some(match act {
            Act::Open => StreamEvent::Start {
                id: self.id.clone(),
                model: String::from(&*self.model),
                created: 0,
                extra: Extra::default(),
            },
            Act::Token(index) => StreamEvent::Delta(Delta::Text(self.answer.piece(*index))),
            Act::KeepAlive => StreamEvent::KeepAlive,
            Act::Garbage => StreamEvent::Skipped,
            Act::Finish => StreamEvent::Finish(self.answer.finish),
            Act::Usage => StreamEvent::Usage(self.answer.usage(self.script.sent())),
            Act::Done | Act::NoDone => StreamEvent::End,
            _ => return None,
        })
    }
}

/// The failure of an error object within an answer.
fn event_failure(code: Option<&str>, message: &str) -> Failure {
    let mut failure = match code {
        Some("rate_limit_exceeded") => classified(429, code, message),
        Some("overloaded") => classified(529, code, message),
        _ => classified(500, code, message),
    };
    failure.status = None;
    failure
}

/// The next item of a stream and what is left of it.
async fn advance(state: Option<Run>) -> Option<(Result<StreamEvent, Failure>, Option<Run>)> {
    let mut run = state?;
    let (at, act) = run.script.next()?;
    let mut due = run.begun + at;
    if matches!(run.draw.fault(), Some(Fault::Endless)) {
        due = due.max(Instant::now() + ENDLESS_GAP);
    }
    if due > Instant::now() {
        sleep_until(due).await;
    }
    let failure = match &act {
        Act::Silence => std::future::pending().await,
        Act::Cut | Act::Reset => Some(Failure::new(
            Class::Transient,
            "the connection was lost within the stream",
        )),
        Act::FalseDone => Some(Failure::new(
            Class::Transient,
            "the stream ended without a finish reason",
        )),
        Act::Error { code, message } => {
            let message = if message.is_empty() {
                PROVIDER_FAILED
            } else {
                message
            };
            Some(event_failure(code.as_deref(), message))
        }
        _ => None,
    };
    if let Some(failure) = failure {
        run.guard.end(Ending::Failed);
        return Some((Err(failure), None));
    }
    let Some(event) = run.event(&act) else {
        run.guard.end(Ending::Failed);
        return None;
    };
    if event == StreamEvent::End {
        run.guard.end(Ending::Ok);
        return Some((Ok(event), None));
    }
    Some((Ok(event), Some(run)))
}

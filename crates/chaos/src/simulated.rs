//! Models without a socket.

use crate::answer::{Answer, Label};
use crate::document::{Document, answer_body, header_map};
use crate::events::Reader;
use crate::model::{Draw, Models};
use crate::script::{Act, Script, moment};
use crate::stats::{CallGuard, Ending};
use crate::{Behaviour, Dialect, Fault, Stats};
use evenkeel_core::{
    Allowance, ChatResponse, Class, Clock, EventStream, Failure, Provider, ProviderCall,
    RateLimits, StreamEvent, SystemClock,
};
use evenkeel_providers::wire::rate_limits;
use futures_util::stream;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Least time between two tokens of an endless stream: it must leave room for
/// others on a clock that only moves when everybody waits.
const ENDLESS_GAP: Duration = Duration::from_millis(1);

/// A provider of simulated models, in this process.
///
/// It answers as its [`Behaviour`] says, usually with the numbered text of
/// [`check_answer`](crate::check_answer), or with its fault. All waiting is
/// on tokio's clock, so it runs under a paused one. A clone shares the models.
/// A model it does not know is [`Class::ModelGone`].
#[derive(Debug, Clone)]
pub struct Simulated {
    inner: Arc<Inner>,
    dialect: Dialect,
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
            dialect: Dialect::default(),
        }
    }

    /// With the dialect through which its faults are seen: a call fails as the
    /// product's client of that dialect would report it.
    #[must_use]
    pub fn with_dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
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

    /// Begins a call: counted, drawn, its answer known.
    fn begin(&self, call: &ProviderCall) -> Result<Run, Failure> {
        let begun = Instant::now();
        let models = &self.inner.models;
        let model = models
            .find(&call.model)
            .ok_or_else(|| gone(&models.provider, call))?;
        let (draw, guard) = model.begin(Ending::Cancelled);
        let number = self.inner.answers.fetch_add(1, Ordering::Relaxed) + 1;
        let label = Label {
            provider: Arc::clone(&models.provider),
            model: Arc::clone(&call.model),
            dialect: self.dialect,
            number,
            created: 0,
        };
        let answer = Answer::new(label, &draw.behaviour, &call.request);
        let script = Script::new(&draw, &answer);
        let limits = draw.limits.and_then(|l| said(&l.requests, self.dialect));
        let event = limits.map(|limits| StreamEvent::RateLimits(Box::new(limits)));
        Ok(Run {
            reader: draw.fault().map(|_| Reader::new(&answer)),
            course: Course {
                begun,
                draw,
                answer,
                script,
                limits,
            },
            ready: event.map(Ok).into_iter().collect(),
            guard,
        })
    }
}

/// What the product's client of the dialect learns of a quota.
fn said(requests: &Allowance, dialect: Dialect) -> Option<RateLimits> {
    let now = SystemClock.now();
    let headers = dialect.format().limit_headers(requests, now);
    rate_limits(&header_map(&headers), now)
}

fn gone(provider: &str, call: &ProviderCall) -> Failure {
    let mut failure = Failure::new(
        Class::ModelGone,
        format!("{provider} has no model `{}`", call.model),
    );
    failure.code = Some("model_not_found".to_owned());
    failure.with_status(404)
}

/// A connection that ended within a body.
fn lost() -> Failure {
    Failure::new(
        Class::Transient,
        "the connection was lost within the answer",
    )
}

#[async_trait::async_trait]
impl Provider for Simulated {
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure> {
        let run = self.begin(&call)?;
        let mut outcome = run.course.whole().await;
        if let Some(limits) = run.course.limits {
            let said = match &mut outcome {
                Ok(response) => &mut response.rate_limits,
                Err(failure) => &mut failure.rate_limits,
            };
            *said = Some(Box::new(limits));
        }
        run.guard.end(match outcome {
            Ok(_) => Ending::Ok,
            Err(_) => Ending::Failed,
        });
        outcome
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        let run = self.begin(&call)?;
        if let Some(mut failure) = run.course.refused().await {
            run.guard.end(Ending::Failed);
            failure.rate_limits = run.course.limits.map(Box::new);
            return Err(failure);
        }
        run.course.wait(run.course.script.opens()).await;
        Ok(Box::pin(stream::unfold(Some(run), Run::advance)))
    }
}

type Item = Result<StreamEvent, Failure>;

/// One call in flight.
#[derive(Debug)]
struct Run {
    course: Course,
    /// Reads the stream of a faulty call.
    reader: Option<Reader>,
    ready: VecDeque<Item>,
    guard: CallGuard,
}

/// What is to happen to a call.
#[derive(Debug)]
struct Course {
    begun: Instant,
    draw: Draw,
    answer: Answer,
    script: Script,
    /// What a client learns of the quota.
    limits: Option<RateLimits>,
}

impl Course {
    fn dialect(&self) -> Dialect {
        self.answer.label.dialect
    }

    async fn wait(&self, since_request: Duration) {
        let due = moment(self.begun, since_request);
        if due > Instant::now() {
            sleep_until(due).await;
        }
    }

    /// The failure that comes instead of an answer, after its delay; none
    /// where there is an answer, of whatever kind.
    async fn refused(&self) -> Option<Failure> {
        let fault = self.draw.fault()?;
        let transient = |message| Failure::new(Class::Transient, message);
        let failure = match fault {
            Fault::Hang => std::future::pending().await,
            Fault::Refuse => Failure::new(Class::Unreachable, "connection refused"),
            Fault::Reset => transient("connection reset before an answer"),
            Fault::Close => transient("connection closed before an answer"),
            // What a client makes of it at its limit, without unpacking that much.
            Fault::GzipBomb => {
                Failure::new(Class::Malformed, "the unpacked body is too long").with_status(200)
            }
            _ => match Document::of(fault, self.dialect())?.read(self.dialect()) {
                Err(failure) => failure,
                Ok(_) => Failure::new(Class::Malformed, "the answer is no stream").with_status(200),
            },
        };
        self.wait(self.draw.behaviour.fault_delay).await;
        Some(failure)
    }

    /// The outcome of a call for a whole answer, when it is due.
    async fn whole(&self) -> Result<ChatResponse, Failure> {
        let fault = self.draw.fault();
        let dialect = self.dialect();
        if let Some(document) = fault.and_then(|fault| Document::of(fault, dialect)) {
            self.wait(self.draw.behaviour.fault_delay).await;
            return document.read(dialect);
        }
        if let Some(failure) = self.refused().await {
            return Err(failure);
        }
        match fault {
            Some(Fault::StallAfter(_) | Fault::KeepAlivesOnly { .. } | Fault::Endless) => {
                std::future::pending::<()>().await;
            }
            _ => self.wait(self.script.last_token()).await,
        }
        let response = self.answer.response(self.script.length());
        match fault {
            None => Ok(response),
            Some(Fault::CutAfter(_) | Fault::ResetAfter(_)) => Err(lost().with_status(200)),
            Some(_) => Document::answer(answer_body(&response, fault, dialect)).read(dialect),
        }
    }
}

impl Run {
    /// The next item of a stream and what is left of it.
    async fn advance(state: Option<Self>) -> Option<(Item, Option<Self>)> {
        let mut run = state?;
        while run.ready.is_empty() {
            let (at, act) = run.course.script.next()?;
            run.course.wait(at).await;
            if act == Act::Silence {
                std::future::pending::<()>().await;
            }
            run.act(&act).await;
        }
        let item = run.ready.pop_front()?;
        let ending = match &item {
            Ok(StreamEvent::End) => Ending::Ok,
            Ok(_) => return Some((item, Some(run))),
            Err(_) => Ending::Failed,
        };
        run.guard.end(ending);
        Some((item, None))
    }

    /// Makes ready what an act brings.
    async fn act(&mut self, act: &Act) {
        let sent = self.course.script.sent();
        let answer = &self.course.answer;
        match &mut self.reader {
            Some(_) if matches!(act, Act::Cut | Act::Reset) => self.ready.push_back(Err(lost())),
            Some(reader) => {
                self.ready.extend(reader.read(act, answer, sent));
                if self.course.draw.fault() == Some(&Fault::Endless) {
                    tokio::time::sleep(ENDLESS_GAP).await;
                }
            }
            None => {
                let events = answer.events(act, sent).into_iter();
                self.ready.extend(events.map(Ok));
            }
        }
    }
}

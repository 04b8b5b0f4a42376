//! What happened: every request's end, every event, every upstream call.

use evenkeel_chaos::{ShelvedCall, Stats};
use evenkeel_core::{CallId, Class, Event, EventKind, Finish, Meta, ModelId, Observer, Trail};
use evenkeel_router::{CallError, CallErrorKind};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How a request ended for its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// With a complete answer.
    Answered,
    /// Without one.
    Refused {
        /// `exhausted` where no rung of the roster could answer, `failed` where one
        /// failure decided, else `degraded_input`, `queued` or `not_kept`.
        kind: &'static str,
        /// The class of the failure, where there is one.
        class: Option<Class>,
        /// When asking again may help.
        retry_after: Option<Duration>,
    },
    /// With a stream that broke after its commit.
    Broke(Class),
    /// The caller left.
    Left,
}

impl End {
    pub(crate) fn refused(error: &CallError) -> Self {
        let kind = match &error.kind {
            CallErrorKind::Exhausted(_) => "exhausted",
            CallErrorKind::Failed(_) => "failed",
            CallErrorKind::UnknownRole(_) => "unknown_role",
            CallErrorKind::DegradedInput { .. } => "degraded_input",
            CallErrorKind::Queued { .. } => "queued",
            CallErrorKind::NotKept { .. } => "not_kept",
            _ => "refused",
        };
        Self::Refused {
            kind,
            class: error.kind.class(),
            retry_after: error.retry_after,
        }
    }

    /// Whether `words` mean this end: its whole name, or what stands before the colon.
    pub fn is_named(&self, words: &str) -> bool {
        let own = self.to_string();
        own == words || own.split(':').next() == Some(words)
    }
}

/// `ok`, `exhausted`, `failed:auth`, `broke:timeout`, `left`.
impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered => f.write_str("ok"),
            Self::Refused { kind, class, .. } => match class {
                Some(class) if *kind == "failed" => write!(f, "{kind}:{class}"),
                _ => f.write_str(kind),
            },
            Self::Broke(class) => write!(f, "broke:{class}"),
            Self::Left => f.write_str("left"),
        }
    }
}

/// One request. Times count from when it was asked, `began` from the beginning.
#[derive(Debug, Clone)]
pub struct RequestRecord {
    /// Its place in the order they were asked, from 0.
    pub nth: usize,
    /// The place of its traffic in the scenario.
    pub traffic: usize,
    /// When it was asked.
    pub began: Duration,
    /// When its caller got the first content.
    pub first_token: Option<Duration>,
    /// When it ended for its caller.
    pub ended: Duration,
    /// How.
    pub end: End,
    /// Of the answer, where there is one.
    pub meta: Option<Meta>,
    /// All text its caller got.
    pub text: String,
    /// Why the answer ended, where there is one.
    pub finish: Option<Finish>,
    /// Everything that happened to it; empty where the router told of no end of it.
    pub trail: Arc<Trail>,
    /// Ends that the router told of; one, if it is sound.
    pub ends_told: usize,
}

/// One event, and when it came.
#[derive(Debug, Clone)]
pub struct Told {
    /// Since the beginning.
    pub at: Duration,
    /// The call it belongs to.
    pub call: Option<CallId>,
    /// What happened.
    pub kind: EventKind,
}

/// Everything that happened.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// The requests, in the order they were asked.
    pub requests: Vec<RequestRecord>,
    /// The events, in the order they came.
    pub events: Vec<Told>,
    /// What reached each model, probes included.
    pub upstream: BTreeMap<ModelId, Stats>,
    /// The calls that found nothing left and were kept.
    pub kept: Vec<ShelvedCall>,
    /// Calls that the router itself held to be under way when the last had ended: of
    /// each role, and places taken at each of its models.
    pub held: Vec<(String, usize)>,
}

/// Remembers every event.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<Vec<Event>>);

impl Observer for Memory {
    fn on(&self, event: &Event) {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(event.clone());
    }
}

impl Memory {
    /// What was told so far, with times since `origin`.
    pub(crate) fn told(&self, origin: Instant) -> Vec<Told> {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let told = events.iter().map(|event| Told {
            at: event.at.saturating_duration_since(origin),
            call: event.call,
            kind: event.kind.clone(),
        });
        told.collect()
    }
}

/// The id that the request of this number is asked by.
pub(crate) fn request_id(nth: usize) -> Arc<str> {
    Arc::from(format!("r{nth}"))
}

/// Gives each request the trail that was told at its end. What is asked later for one
/// that was kept is a call of the ticket's, and none of the caller's.
pub(crate) fn attach_trails(requests: &mut [RequestRecord], events: &[Told]) {
    let mut numbers: HashMap<CallId, usize> = HashMap::new();
    for told in events {
        match (&told.kind, told.call) {
            (EventKind::CallStarted { request_id, .. }, Some(call)) => {
                let nth = request_id.as_deref().and_then(|id| id.strip_prefix('r'));
                let Some(nth) = nth.and_then(|nth| nth.parse::<usize>().ok()) else {
                    continue;
                };
                let request = requests.get(nth);
                let was_kept = request.is_some_and(|r| r.ends_told > 0 && r.end.is_named("queued"));
                if !was_kept {
                    numbers.insert(call, nth);
                }
            }
            (EventKind::CallEnded { trail, .. }, Some(call)) => {
                let nth = numbers.get(&call);
                if let Some(request) = nth.and_then(|nth| requests.get_mut(*nth)) {
                    request.trail = trail.clone();
                    request.ends_told += 1;
                }
            }
            _ => {}
        }
    }
}

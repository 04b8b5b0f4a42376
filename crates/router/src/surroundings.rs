//! What the router's parts share beside roles and health: who hears, what
//! the calendar says, who waits for background work.

use crate::drill::Drills;
use crate::feedback::Answers;
use crate::validation::Blocking;
use crate::workflows::Workflows;
use evenkeel_core::{CallId, Clock, Event, EventKind, Observer, TraceContext};
use jiff::civil::Date;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

/// The observer, the calendar clock, the prober's bell and the background tasks.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    pub(crate) observer: Arc<dyn Observer>,
    /// Whether anybody was handed in to hear.
    pub(crate) is_heard: bool,
    /// Whether events carry requests and answers.
    pub(crate) wants_content: bool,
    pub(crate) clock: Arc<dyn Clock>,
    /// Wakes the prober.
    pub(crate) wake_prober: Arc<Notify>,
    /// The places for validators that may hold a thread.
    pub(crate) blocking: Blocking,
    /// Losers kept open to be measured, and the prober; awaited at shutdown.
    pub(crate) tasks: TaskTracker,
    /// Workflow runs that callers may ask after.
    pub(crate) workflows: Arc<Workflows>,
    /// Answers that callers may give feedback on.
    pub(crate) answers: Arc<Answers>,
    /// The drills that run.
    pub(crate) drills: Arc<Drills>,
}

impl Surroundings {
    /// Tells the observer. Its panic ends here: it costs no caller an answer,
    /// and what the observer does not hear of happens all the same.
    pub(crate) fn tell(&self, now: Instant, call: Option<CallId>, kind: EventKind) {
        if !self.is_heard {
            return;
        }
        let event = Event {
            at: now,
            call,
            kind,
        };
        let _ = catch_unwind(AssertUnwindSafe(|| self.observer.on(&event)));
    }

    /// The trace context of a call that has begun; none where the observer panics.
    pub(crate) fn call_trace(&self, call: CallId) -> Option<TraceContext> {
        if !self.is_heard {
            return None;
        }
        catch_unwind(AssertUnwindSafe(|| self.observer.call_context(call))).unwrap_or_default()
    }

    /// The trace context of an attempt; none where the observer panics.
    pub(crate) fn trace(&self, call: CallId, attempt: usize) -> Option<TraceContext> {
        catch_unwind(AssertUnwindSafe(|| self.observer.context(call, attempt))).unwrap_or_default()
    }

    pub(crate) fn today(&self) -> Date {
        let now = jiff::Timestamp::try_from(self.clock.now());
        let now = now.unwrap_or(jiff::Timestamp::MAX);
        jiff::tz::Offset::UTC.to_datetime(now).date()
    }
}

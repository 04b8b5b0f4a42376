//! What becomes of a call when nothing is left.

use std::time::Duration;

use crate::faults::Faults;

/// What a call that no rung could answer leads to (`on_exhausted`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnExhausted {
    /// `error`: its caller is told so, and that is all.
    #[default]
    Error,
    /// `queue`: it becomes a ticket, which is retried until something answers.
    Queue,
    /// `escalate`: as `queue`, and an operator is told, who may answer it.
    Escalate,
}

/// How tickets are retried (`queue`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePolicy {
    /// `max_age_ms`: a ticket is retried this long, at least once.
    pub max_age: Duration,
    /// `base_ms`: the first wait's upper bound (full jitter, doubling).
    pub base: Duration,
    /// `cap_ms`: no wait between two tries is longer.
    pub cap: Duration,
    /// `max_attempts`: most retries of a ticket; `None`: as many as fit its age.
    pub max_attempts: Option<u32>,
    /// `max_open`: with this many open tickets of the role no more are accepted.
    pub max_open: u32,
    /// `max_concurrency`: tickets of the role that are worked on at once, beside
    /// its live calls.
    pub max_concurrency: u32,
}

/// A ticket older than a month answers a question that nobody asks any more.
const LONGEST_AGE: Duration = Duration::from_secs(30 * 86_400);

impl Default for QueuePolicy {
    fn default() -> Self {
        Self {
            max_age: Duration::from_secs(86_400),
            base: Duration::from_secs(5),
            cap: Duration::from_secs(900),
            max_attempts: None,
            max_open: 10_000,
            max_concurrency: 2,
        }
    }
}

impl QueuePolicy {
    pub(crate) fn add_faults(&self, faults: &mut Faults) {
        faults.span_to("queue.max_age_ms", self.max_age, LONGEST_AGE);
        faults.span("queue.base_ms", self.base);
        faults.span("queue.cap_ms", self.cap);
        faults.not_below("queue.cap_ms", self.cap, "queue.base_ms", self.base);
        if let Some(most) = self.max_attempts {
            faults.at_least_one("queue.max_attempts", most);
        }
        faults.at_least_one("queue.max_open", self.max_open);
        faults.at_least_one("queue.max_concurrency", self.max_concurrency);
    }
}

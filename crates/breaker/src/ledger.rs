//! What is kept under the breaker's lock: off the closed path.

use std::time::{Duration, Instant};

use crate::event::Cause;

/// The history behind the current state.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// When the current state began.
    pub(crate) since: Instant,
    /// Why it began; `None` for the first.
    pub(crate) cause: Option<Cause>,
    /// Openings in a row, this one included.
    pub(crate) openings: u32,
    pub(crate) trials: Trials,
}

impl Ledger {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            since: now,
            cause: None,
            openings: 0,
            trials: Trials::none(now),
        }
    }
}

/// The trial calls of one half-open generation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trials {
    /// Permits that are out.
    pub(crate) out: u32,
    /// Successes counted.
    pub(crate) succeeded: u32,
    /// When a permit last went out or an outcome last came in.
    stirred: Instant,
}

impl Trials {
    pub(crate) const fn none(now: Instant) -> Self {
        Self {
            out: 0,
            succeeded: 0,
            stirred: now,
        }
    }

    /// Whether permits out and outcomes counted make up `threshold`.
    pub(crate) const fn are_full(&self, threshold: u32) -> bool {
        self.out.saturating_add(self.succeeded) >= threshold
    }

    pub(crate) fn begin(&mut self, now: Instant) {
        self.out += 1;
        self.stirred = self.stirred.max(now);
    }

    pub(crate) fn succeed(&mut self, now: Instant) {
        self.out -= 1;
        self.succeeded += 1;
        self.stirred = self.stirred.max(now);
    }

    pub(crate) const fn give_back(&mut self) {
        self.out -= 1;
    }

    /// What is left of `timeout` since something last happened.
    pub(crate) fn patience(&self, now: Instant, timeout: Duration) -> Duration {
        match now.checked_duration_since(self.stirred) {
            Some(quiet) => timeout.saturating_sub(quiet),
            None => timeout.saturating_add(self.stirred.saturating_duration_since(now)),
        }
    }
}

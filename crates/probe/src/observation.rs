//! One attempt under observation.

use std::time::{Duration, Instant};

/// One attempt, from [`begin`](crate::LatencyWindow::begin) to `finish` or `cancel`.
///
/// It remembers the limits and the evidence generation in force when it began. Dropped without either it
/// is as if cancelled at the last `overdue`: what that counted stays, nothing more is counted.
#[must_use = "an observation counts nothing until it is overdue, finished or cancelled"]
#[derive(Debug)]
pub struct Observation {
    pub(crate) began: Instant,
    pub(crate) generation: u64,
    pub(crate) p95: Duration,
    pub(crate) p99: Duration,
    pub(crate) counted: Counted,
    pub(crate) run_entry: Option<u64>,
}

/// Which limits an attempt has been counted at; T99 never before T95.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Counted {
    Nowhere,
    AtP95,
    AtBoth,
}

impl Observation {
    /// When the attempt began.
    pub const fn began(&self) -> Instant {
        self.began
    }

    /// Whether it has been counted as an exceedance of T95 already.
    pub fn is_over(&self) -> bool {
        self.counted >= Counted::AtP95
    }

    /// Whether it is an exceedance of T95 at `now`, counted already or not.
    pub fn exceeds(&self, now: Instant) -> bool {
        self.is_over() || self.age(now) > self.p95
    }

    /// How old the attempt is at `now`; zero for an earlier instant than it began.
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }
}

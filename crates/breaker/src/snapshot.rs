//! A breaker at one moment, for people and dashboards.

use std::time::{Duration, Instant};

use crate::{event::Cause, state::State};

/// What [`Breaker::snapshot`](crate::Breaker::snapshot) saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The state an admission would have met, as [`Breaker::state`](crate::Breaker::state) says.
    pub state: State,
    /// Changes of state so far.
    pub generation: u64,
    /// When the last change of state was.
    pub since: Instant,
    /// What caused it; `None` if there was none yet.
    pub cause: Option<Cause>,
    /// Until an admission is worth asking for; `None` if it would be granted.
    pub retry_in: Option<Duration>,
    /// Failures in a row; 0 unless closed.
    pub failures_in_a_row: u32,
    /// Openings in a row, each of which makes the next longer.
    pub openings_in_a_row: u32,
    /// Outcomes in the window of the rate rule; 0 unless closed and there is one.
    pub window_calls: u64,
    /// Failures among them.
    pub window_failures: u64,
    /// Slow calls among them.
    pub window_slow: u64,
    /// Trial permits that are out; 0 unless half-open.
    pub trials_out: u32,
    /// Trial calls that have succeeded; 0 unless half-open.
    pub trials_succeeded: u32,
    /// Listeners that have panicked.
    pub listener_panics: u64,
}

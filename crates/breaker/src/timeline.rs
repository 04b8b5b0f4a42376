//! Instants as whole nanoseconds, so that they fit in an atomic.

use std::time::{Duration, Instant};

/// Counts from the reading something was built at.
///
/// Readings before that count as 0, those more than 584 years after it as [`u64::MAX`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeline(Instant);

impl Timeline {
    pub(crate) const fn from(origin: Instant) -> Self {
        Self(origin)
    }

    /// Nanoseconds from the origin to `at`.
    pub(crate) fn nanos(self, at: Instant) -> u64 {
        nanos(at.saturating_duration_since(self.0))
    }

    /// The reading so many nanoseconds after the origin, unless it is later than the clock goes.
    pub(crate) fn at(self, nanos: u64) -> Option<Instant> {
        self.0.checked_add(Duration::from_nanos(nanos))
    }

    /// From `now` to `deadline` nanoseconds after the origin; zero if that is past.
    pub(crate) fn until(self, deadline: u64, now: Instant) -> Duration {
        let deadline = Duration::from_nanos(deadline);
        match now.checked_duration_since(self.0) {
            Some(passed) => deadline.saturating_sub(passed),
            None => deadline.saturating_add(self.0.saturating_duration_since(now)),
        }
    }
}

/// Whole nanoseconds of `span`, at most [`u64::MAX`].
pub(crate) const fn nanos(span: Duration) -> u64 {
    span.as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(span.subsec_nanos() as u64)
}

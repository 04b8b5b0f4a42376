//! Dates that outlive the process, from clocks that do not jump.

use evenkeel_core::Clock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// Tells time in milliseconds since 1970: the calendar clock is read once, when
/// the process begins, and from then on the monotonic one counts. So a calendar
/// clock that is set while the process runs makes no ticket due, old or lost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeline {
    began: Instant,
    began_ms: i64,
}

impl Timeline {
    /// A timeline that begins with what `clock` says now.
    pub(super) fn begin(clock: &dyn Clock) -> Self {
        Self {
            began: Instant::now(),
            began_ms: unix_ms(clock.now()),
        }
    }

    /// Milliseconds now.
    pub(super) fn now(&self) -> i64 {
        self.began_ms.saturating_add(whole_ms(self.began.elapsed()))
    }
}

#[cfg(test)]
impl Timeline {
    /// As if `ms` more had passed.
    pub(super) fn shift(&mut self, ms: i64) {
        self.began_ms += ms;
    }
}

/// Unix time in milliseconds; 0 before 1970.
pub(super) fn unix_ms(time: SystemTime) -> i64 {
    whole_ms(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Whole milliseconds.
pub(super) fn whole_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Milliseconds from `now` until `then`; none if that is over.
pub(super) fn until(then: i64, now: i64) -> Duration {
    Duration::from_millis(u64::try_from(then.saturating_sub(now)).unwrap_or(0))
}

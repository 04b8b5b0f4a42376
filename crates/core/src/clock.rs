//! The calendar clock. Monotonic time is never read through it.

use std::fmt;
use std::time::SystemTime;

/// Tells the calendar time. Everything that measures durations takes an
/// `Instant` instead; this is for end-of-life dates, HTTP dates and records.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The time of day now.
    fn now(&self) -> SystemTime;
}

/// The machine's own clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place that reads the calendar clock"
        )]
        SystemTime::now()
    }
}

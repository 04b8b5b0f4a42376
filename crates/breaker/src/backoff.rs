//! The wait before a retry.

use std::time::Duration;

use crate::period::{grown, scaled};

/// Exponential backoff with full jitter: the n-th delay lies anywhere between 0 and
/// `min(cap, base × 2^(n-1))`.
///
/// Full jitter is what spreads callers that failed together best ("Exponential Backoff And Jitter", AWS
/// Architecture Blog, 2015). Every `base` and `cap` is valid; a zero one means no delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Longest first delay. Default 200 ms.
    pub base: Duration,
    /// Longest delay of all. Default 30 s.
    pub cap: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(200),
            cap: Duration::from_secs(30),
        }
    }
}

impl Backoff {
    /// The delay before the `nth` retry (from 1; 0 counts as 1), for a random `unit` between 0 and 1.
    ///
    /// A `unit` outside that range is moved to its nearer end, NaN counts as 1.
    pub fn delay(&self, nth: u32, unit: f64) -> Duration {
        let longest = grown(self.base, 2.0, self.cap, nth);
        let unit = if unit.is_nan() {
            1.0
        } else {
            unit.clamp(0.0, 1.0)
        };
        scaled(longest, unit).min(longest)
    }

    /// The wait before the `nth` retry: the delay, or the server's Retry-After if that is longer; `None`
    /// if it would not be over before `left` is: then retrying makes no sense.
    pub fn wait(
        &self,
        nth: u32,
        unit: f64,
        retry_after: Option<Duration>,
        left: Duration,
    ) -> Option<Duration> {
        let wait = self.delay(nth, unit).max(retry_after.unwrap_or_default());
        (wait < left).then_some(wait)
    }
}

//! A limit as its provider reports it, reckoned on from the report.

use crate::mean::as_f64;
use evenkeel_core::Allowance;
use std::time::{Duration, Instant};

/// How long a report holds that names no reset: limits are of a minute, mostly.
const USUAL: Duration = Duration::from_secs(60);
/// The longest that is believed.
const LONGEST: Duration = Duration::from_secs(86_400);
/// The shortest time over which an allowance is taken to fill up again once its
/// report is over: longer than the next report needs to come.
const SHORTEST: Duration = Duration::from_secs(1);
/// No wait is shorter, so that nobody asks again in the same moment.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// What is left of an allowance, by the last report and by what was sent since.
///
/// Providers name the time until the allowance is *full* again (OpenAI, Anthropic),
/// so that what is left grows evenly until then. Without a limit nothing comes back
/// before the reset, and after it nothing is known. With one, what was sent since
/// the report is missing at the reset and comes back in as long again: right for
/// allowances that fill up evenly, and soon right for those that begin anew.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reported {
    /// As of `at`; below zero where more was sent than was left.
    left: f64,
    at: Instant,
    per_second: f64,
    limit: Option<f64>,
    /// When the allowance is full again.
    until: Instant,
    window: Duration,
    /// What was sent since the report.
    sent: f64,
}

impl Reported {
    /// A report heard at `now`; none where it leaves out what is left, or where the
    /// allowance is full. `since` is what was sent after the request it came with.
    pub(super) fn new(allowance: &Allowance, since: u64, now: Instant) -> Option<Self> {
        let remaining = as_f64(allowance.remaining?);
        let limit = allowance.limit.map(as_f64);
        let reset = allowance.reset.unwrap_or(USUAL).min(LONGEST);
        if reset.is_zero() {
            return None;
        }
        let used = limit.map_or(0.0, |limit| (limit - remaining).max(0.0));
        let since = as_f64(since);
        Some(Self {
            left: remaining - since,
            at: now,
            per_second: used / reset.as_secs_f64(),
            limit,
            until: now.checked_add(reset)?,
            window: reset.max(SHORTEST),
            sent: since,
        })
    }

    /// How long until `count` are left; none where they are. More than the whole
    /// allowance waits for a full one.
    pub(super) fn lacks(&mut self, count: u64, now: Instant) -> Option<Duration> {
        self.go_on(now);
        if now >= self.until {
            return None;
        }
        let count = as_f64(count).min(self.limit.unwrap_or(f64::INFINITY));
        let lacking = count - self.left;
        if lacking <= 0.0 {
            return None;
        }
        let until_reset = self.until.saturating_duration_since(now);
        let refilled = Duration::try_from_secs_f64(lacking / self.per_second);
        let wait = refilled.map_or(until_reset, |wait| wait.min(until_reset));
        Some(wait.max(LEAST_WAIT))
    }

    pub(super) fn take(&mut self, count: u64) {
        self.left -= as_f64(count);
        self.sent += as_f64(count);
    }

    /// Reckons on to `now`, beyond the reset where the limit is known.
    fn go_on(&mut self, now: Instant) {
        if now < self.until {
            self.refill(now);
        } else if let Some(limit) = self.limit {
            let full_at = self.until + self.window;
            let missing = if now < full_at { self.sent } else { 0.0 };
            self.left = limit - missing;
            let anew = missing / self.window.as_secs_f64();
            // No quicker than the report says that it fills up, where it does say so.
            self.per_second = if self.per_second > 0.0 {
                anew.min(self.per_second)
            } else {
                anew
            };
            self.at = self.until;
            self.until = full_at.max(now + self.window);
            if missing > 0.0 {
                self.until = full_at;
                self.refill(now);
            } else {
                self.at = now;
            }
            self.sent = 0.0;
        }
    }

    fn refill(&mut self, now: Instant) {
        let age = now.saturating_duration_since(self.at).as_secs_f64();
        self.left += age * self.per_second;
        self.at = now;
    }
}

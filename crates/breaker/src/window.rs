//! Shares of failed and slow calls over recent outcomes.

mod count;
mod horizon;
mod seat;
mod slots;
mod time;

use std::time::{Duration, Instant};

use crate::{
    config::{RateRule, RateWindow},
    event::Cause,
    timeline::{Timeline, nanos},
    window::{count::CountWindow, time::TimeWindow},
};

/// What a window counts an outcome as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sample {
    Good,
    /// A success slower than the slow-call rule allows.
    Slow,
    Failure,
}

/// What lies in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) calls: u64,
    pub(crate) failures: u64,
    pub(crate) slow: u64,
}

/// The generation of a window is over: what was to be recorded is stale.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Over;

/// A rate rule with the window it is judged over.
#[derive(Debug)]
pub(crate) struct Gate {
    limits: Limits,
    window: Window,
    slow_after: Option<Duration>,
}

/// The numbers of a rate rule, as whole numbers.
#[derive(Clone, Copy, Debug)]
struct Limits {
    min_calls: u64,
    /// Per mille of failures.
    failures: u64,
    /// Per mille of slow calls; above 1000 if slow calls are not judged.
    slow: u64,
}

#[derive(Debug)]
enum Window {
    Time(Box<TimeWindow>),
    Count(CountWindow),
}

impl Gate {
    /// For a rule that has been validated.
    pub(crate) fn new(rule: &RateRule, timeline: Timeline) -> Self {
        Self {
            limits: Limits {
                min_calls: rule.min_calls.into(),
                failures: per_mille(rule.failure_rate),
                slow: rule.slow.map_or(1001, |slow| per_mille(slow.rate)),
            },
            window: match rule.window {
                RateWindow::Time(span) => {
                    Window::Time(Box::new(TimeWindow::new(nanos(span), timeline)))
                }
                RateWindow::Calls(calls) => Window::Count(CountWindow::new(calls)),
            },
            slow_after: rule.slow.map(|slow| slow.longer_than),
        }
    }

    /// Whether a success that took so long is slow.
    pub(crate) fn is_slow(&self, took: Duration) -> bool {
        self.slow_after.is_some_and(|limit| took > limit)
    }

    /// Starts an empty window for `generation`.
    pub(crate) fn restart(&self, generation: u64, now: Instant) {
        match &self.window {
            Window::Time(window) => window.restart(generation, now),
            Window::Count(window) => window.restart(generation),
        }
    }

    /// Empties the window of `generation`.
    pub(crate) fn wipe(&self, generation: u64, now: Instant) {
        match &self.window {
            Window::Time(window) => window.restart(generation, now),
            Window::Count(window) => window.wipe(generation),
        }
    }

    /// Counts a success at `now` if that takes next to nothing, and says whether the window is to be judged
    /// with it; `None` if it has not been counted.
    #[inline]
    pub(crate) fn record_success(&self, generation: u64, now: Instant) -> Option<bool> {
        match &self.window {
            Window::Time(window) => window.record_success(generation, now),
            Window::Count(_) => None,
        }
    }

    /// Counts an outcome at `now` and judges the window with it.
    pub(crate) fn record(
        &self,
        generation: u64,
        sample: Sample,
        now: Instant,
    ) -> Result<Option<Cause>, Over> {
        let blemished = match &self.window {
            Window::Time(window) => window.record(generation, sample, now)?,
            Window::Count(window) => {
                window.record(generation, sample)?;
                true
            }
        };
        if blemished {
            self.judge(generation)
        } else {
            Ok(None)
        }
    }

    /// What the window trips as it is, if anything.
    pub(crate) fn judge(&self, generation: u64) -> Result<Option<Cause>, Over> {
        let worth = |failures, slow| self.limits.may_hold(failures, slow);
        let tally = match &self.window {
            Window::Time(window) => window.tally(generation, 0, worth)?,
            Window::Count(window) => Some(window.tally(generation)?),
        };
        Ok(tally.and_then(|tally| self.limits.judge(tally)))
    }

    /// What lies in the window of `generation` at `now`.
    pub(crate) fn tally(&self, generation: u64, now: Instant) -> Tally {
        let tally = match &self.window {
            Window::Time(window) => window.tally(generation, window.number_at(now), |_, _| true),
            Window::Count(window) => window.tally(generation).map(Some),
        };
        tally.ok().flatten().unwrap_or_default()
    }
}

impl Limits {
    /// Whether so many can reach a share at all, as there are at least `min_calls` outcomes then.
    fn may_hold(self, failures: u64, slow: u64) -> bool {
        let reaches = |count, share| count * 1000 >= share * self.min_calls;
        reaches(failures, self.failures) || reaches(slow, self.slow)
    }

    /// Holds if and only if there are `min_calls` outcomes and the share reaches its limit, in whole numbers.
    fn judge(
        self,
        Tally {
            calls,
            failures,
            slow,
        }: Tally,
    ) -> Option<Cause> {
        if calls < self.min_calls {
            None
        } else if failures * 1000 >= self.failures * calls {
            Some(Cause::FailureRate { failures, calls })
        } else if slow * 1000 >= self.slow * calls {
            Some(Cause::SlowRate { slow, calls })
        } else {
            None
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a validated share is between 1 and 1000"
)]
fn per_mille(share: f64) -> u64 {
    (share * 1000.0).round() as u64
}

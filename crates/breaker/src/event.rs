//! What is told about a change of state.

use std::{
    fmt::{self, Display, Formatter},
    time::{Duration, Instant},
};

use crate::state::State;

/// One change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The state that was left.
    pub from: State,
    /// The state that was entered.
    pub to: State,
    /// Why.
    pub cause: Cause,
    /// The generation that begins with this change; the n-th change of a breaker carries n.
    pub generation: u64,
    /// When, by the reading that was handed in; never before the change that preceded it.
    pub at: Instant,
    /// From `at` until calls are tried again; only for [`State::Open`].
    pub retry_in: Option<Duration>,
}

impl Display for Transition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}: {}", self.from, self.to, self.cause)?;
        match self.retry_in {
            Some(wait) => write!(f, ", retry in {wait:?}"),
            None => Ok(()),
        }
    }
}

/// Why a breaker changed its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Closed to open: this many failures in a row.
    ConsecutiveFailures {
        /// Length of the run.
        failures: u32,
    },
    /// Closed to open: the share of failures in the window.
    FailureRate {
        /// Failures in the window.
        failures: u64,
        /// Outcomes in the window.
        calls: u64,
    },
    /// Closed to open: the share of slow calls in the window.
    SlowRate {
        /// Slow calls in the window.
        slow: u64,
        /// Outcomes in the window.
        calls: u64,
    },
    /// Closed or half-open to open: [`Breaker::trip`](crate::Breaker::trip) was called.
    Tripped,
    /// Open to half-open: the open time was over and a call came.
    OpenElapsed,
    /// Half-open to closed: enough trial calls succeeded.
    TrialsSucceeded,
    /// Half-open to open: a trial call failed.
    TrialFailed,
    /// Half-open to open: a trial call succeeded, but slower than the slow-call rule allows.
    TrialSlow,
    /// Half-open to open: all permits were out and none came back in time.
    TrialsTimedOut,
    /// An operator forced the breaker open.
    ForcedOpen,
    /// An operator disabled the breaker.
    Disabled,
    /// An operator closed the breaker.
    Reset,
}

impl Cause {
    /// The cause's name in `snake_case`, without its numbers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ConsecutiveFailures { .. } => "consecutive_failures",
            Self::FailureRate { .. } => "failure_rate",
            Self::SlowRate { .. } => "slow_rate",
            Self::Tripped => "tripped",
            Self::OpenElapsed => "open_elapsed",
            Self::TrialsSucceeded => "trials_succeeded",
            Self::TrialFailed => "trial_failed",
            Self::TrialSlow => "trial_slow",
            Self::TrialsTimedOut => "trials_timed_out",
            Self::ForcedOpen => "forced_open",
            Self::Disabled => "disabled",
            Self::Reset => "reset",
        }
    }
}

impl Display for Cause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ConsecutiveFailures { failures } => write!(f, "{failures} failures in a row"),
            Self::FailureRate { failures, calls } => {
                write!(f, "{failures} of {calls} calls failed")
            }
            Self::SlowRate { slow, calls } => write!(f, "{slow} of {calls} calls were slow"),
            Self::Tripped => f.write_str("tripped from outside"),
            Self::OpenElapsed => f.write_str("the open time is over"),
            Self::TrialsSucceeded => f.write_str("the trial calls succeeded"),
            Self::TrialFailed => f.write_str("a trial call failed"),
            Self::TrialSlow => f.write_str("a trial call was slow"),
            Self::TrialsTimedOut => f.write_str("no trial call came back in time"),
            Self::ForcedOpen => f.write_str("forced open by an operator"),
            Self::Disabled => f.write_str("disabled by an operator"),
            Self::Reset => f.write_str("reset by an operator"),
        }
    }
}

//! What a window says.

use std::fmt;
use std::time::Duration;

/// Observations and exceedances inside the window since evidence last started anew.
///
/// Always `over99 <= n99 <= n95` and `over95 <= n95`. `n99` leaves out attempts cancelled between the two
/// limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Observations judged against the p95 limit.
    pub n95: u64,
    /// Those above it.
    pub over95: u64,
    /// Observations judged against the p99 limit.
    pub n99: u64,
    /// Those above it.
    pub over99: u64,
}

/// The state of a window at an instant.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not enough observations to say either.
    Unknown,
    /// Enough observations for both percentiles (20 and 100, and at least `min_samples`), and no breach.
    Healthy,
    /// A detector fired.
    Breached(Breach),
}

impl Verdict {
    /// Whether a detector fired.
    pub const fn is_breached(self) -> bool {
        matches!(self, Self::Breached(_))
    }
}

/// A breach: which detector fired on which numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The detector; the first of p95, p99, spike if several hold.
    pub detector: Detector,
    /// The limit it watches: T95 for `p95` and `spike`, T99 for `p99`.
    pub limit: Duration,
    /// Observations in the window that were judged against that limit. A spike breach outlives them.
    pub samples: u64,
    /// Those above it.
    pub exceedances: u64,
}

/// How a breach was found.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Detector {
    /// More exceedances of T95 in the window than an endpoint with its p95 at the limit shows.
    P95,
    /// The same of T99.
    P99,
    /// The cumulative sum over exceedances of T95: a run of slow calls, whatever the window remembers.
    Spike,
}

impl Detector {
    /// The name events and metrics use: `p95`, `p99`, `spike`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::Spike => "spike",
        }
    }
}

impl fmt::Display for Detector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The beginning or the end of a breach episode; each is given to exactly one caller.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The window is in breach from here on.
    Breached(Breach),
    /// It no longer is.
    Cleared,
}

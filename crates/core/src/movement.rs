//! Why traffic moves, and what was known of latency when it did.

use std::time::Duration;

/// Why a role's traffic was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubstitutionReason {
    /// The p95 rule.
    LatencyP95Breach,
    /// The p99 rule.
    LatencyP99Breach,
    /// The spike detector.
    LatencySpike,
    /// The model's end of life has passed.
    Eol,
    /// An operator moved it.
    Manual,
    /// A drill plays the end of the model's life.
    Drill,
}

impl SubstitutionReason {
    /// Whether the model was too slow: it is probed, and comes back by itself.
    pub const fn is_slowness(self) -> bool {
        match self {
            Self::LatencyP95Breach | Self::LatencyP99Breach | Self::LatencySpike => true,
            Self::Eol | Self::Manual | Self::Drill => false,
        }
    }

    /// The name used in events and headers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LatencyP95Breach => "latency_p95_breach",
            Self::LatencyP99Breach => "latency_p99_breach",
            Self::LatencySpike => "latency_spike",
            Self::Eol => "eol",
            Self::Manual => "manual",
            Self::Drill => "drill",
        }
    }
}

/// Why a role's traffic went back up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestorationReason {
    /// Probes and canaries found it well.
    Recovered,
    /// An operator moved it, or let go of a role that was forced.
    Manual,
    /// The model is said to live on after all.
    Eol,
    /// The drill that moved it is over.
    Drill,
}

impl RestorationReason {
    /// The name used in events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recovered => "recovered",
            Self::Manual => "manual",
            Self::Eol => "eol",
            Self::Drill => "drill",
        }
    }
}

/// How a hedge ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HedgeResult {
    /// Its answer was taken, or that of the attempt that took its place.
    Won,
    /// Another attempt's answer was taken, or none.
    Lost,
    /// It did not start: its budget or a concurrency limit forbade it.
    Refused,
}

impl HedgeResult {
    /// The name used outside Rust.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Won => "won",
            Self::Lost => "lost",
            Self::Refused => "refused",
        }
    }
}

/// Latencies of a rung as its window reports them, beside the role's limits. Told of a breach
/// they count calls in flight that are late at their age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    /// `total` or `first_token`.
    pub measure: &'static str,
    /// The 95th percentile; none without a sample.
    pub p95: Option<Duration>,
    /// The 99th percentile; none without a sample.
    pub p99: Option<Duration>,
    /// The limit on p95.
    pub slo_p95: Duration,
    /// The limit on p99.
    pub slo_p99: Duration,
    /// Samples that the percentiles are of.
    pub samples: u64,
}

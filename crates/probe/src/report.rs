//! What a window reports about latency; no decision is taken from it.

use std::time::Duration;

use crate::histogram::Histogram;
use crate::quantile::percentile;

/// Fewest samples a p95 is trusted on: below 20 a nearest-rank p95 is just the maximum.
pub(crate) const P95_FLOOR: u64 = 20;
/// Fewest samples a p99 is trusted on: below 100 a nearest-rank p99 is just the maximum.
pub(crate) const P99_FLOOR: u64 = 100;

/// Percentiles by nearest rank over the latest half to whole window of samples, at most the latest 65,535
/// to 131,070.
///
/// Samples are the latencies of finished attempts, and of cancelled ones that had passed T95 the age they
/// had. A percentile is never below the exact one of those samples and at most 1/128 plus one microsecond
/// above it, up to 4 h 46 min; above that it is the maximum. `p50 <= p95 <= p99 <= max`, and all are None
/// without samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many samples the percentiles are of.
    pub samples: u64,
    /// The median.
    pub p50: Option<Duration>,
    /// The 95th percentile.
    pub p95: Option<Duration>,
    /// The 99th percentile.
    pub p99: Option<Duration>,
    /// The largest sample, exact.
    pub max: Option<Duration>,
    /// Fewer than 20 samples: the p95 is just the maximum.
    pub p95_indicative: bool,
    /// Fewer than 100 samples: the p99 is just the maximum.
    pub p99_indicative: bool,
}

impl Report {
    /// The report on the samples of all histograms, of which `max` nanoseconds is the largest.
    pub(crate) fn of<C: Copy + Into<u64>>(histograms: &[&Histogram<C>], max: u64) -> Self {
        let samples = histograms.iter().map(|histogram| histogram.len()).sum();
        Self {
            samples,
            p50: percentile(histograms, 50, max),
            p95: percentile(histograms, 95, max),
            p99: percentile(histograms, 99, max),
            max: (samples > 0).then(|| Duration::from_nanos(max)),
            p95_indicative: samples < P95_FLOOR,
            p99_indicative: samples < P99_FLOOR,
        }
    }
}

//! Percentiles by nearest rank over histograms of latencies.

use std::time::Duration;

use crate::histogram::{HIGHEST, Histogram, at_rank};

/// Nanoseconds as the histograms hold them: microseconds, rounded up, so that no percentile is too low.
pub(crate) const fn to_micros(nanos: u64) -> u64 {
    nanos.div_ceil(1_000)
}

/// The rank, from 1, of the `percent`-th percentile among `n`: the smallest with at least that share of
/// samples at or below it. 0 if there are none.
pub(crate) const fn nearest_rank(percent: u64, n: u64) -> u64 {
    // ceil(n percent / 100) = n - floor(n (100 - percent) / 100), split so that nothing overflows.
    let above = 100 - percent;
    n - (n / 100 * above + n % 100 * above / 100)
}

/// The `percent`-th percentile over all histograms, none above `max` nanoseconds, the largest sample. None
/// without samples.
///
/// It is its bucket's upper edge: at least the sample of that rank, and at most 1/128 plus one microsecond
/// above it. The last bucket also holds everything larger: there it is the maximum.
pub(crate) fn percentile<C: Copy + Into<u64>>(
    histograms: &[&Histogram<C>],
    percent: u64,
    max: u64,
) -> Option<Duration> {
    let n = histograms.iter().map(|histogram| histogram.len()).sum();
    let micros = at_rank(histograms, nearest_rank(percent, n).max(1))?;
    let nanos = if micros >= HIGHEST {
        max
    } else {
        micros * 1_000
    };
    Some(Duration::from_nanos(nanos.min(max)))
}

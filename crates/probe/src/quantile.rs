//! Percentiles by nearest rank over histograms of latencies.

use hdrhistogram::{Counter, Histogram};

/// Largest latency kept apart from larger ones, in microseconds: 4 h 46 min. Above it a percentile is the
/// exact maximum.
const HIGHEST: u64 = (256 << 26) - 1;

/// Significant digits: buckets are at most 1/128 of their lower edge wide (DESIGN: 2 digits).
const DIGITS: u8 = 2;

/// An empty histogram of microseconds; 3,584 counts.
pub(crate) fn histogram<T: Counter>() -> Histogram<T> {
    Histogram::new_with_bounds(1, HIGHEST, DIGITS)
        .expect("1 to HIGHEST with 2 digits is a valid range")
}

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

/// The values in nanoseconds at the ascending `ranks` among both histograms, none above `max`.
///
/// A value is its bucket's upper edge: at least the sample of that rank, and at most 1/128 plus one
/// microsecond above it.
pub(crate) fn at_ranks<T: Counter, const N: usize>(
    histograms: [&Histogram<T>; 2],
    ranks: [u64; N],
    max: u64,
) -> [u64; N] {
    let mut values = [max; N];
    let mut streams = histograms.map(|histogram| {
        histogram
            .iter_recorded()
            .map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value().as_u64()))
            .peekable()
    });
    let (mut seen, mut filled) = (0, 0);
    while filled < N {
        let [first, second] = &mut streams;
        let from_first = match (first.peek(), second.peek()) {
            (Some(a), Some(b)) => a.0 <= b.0,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => break,
        };
        let stream = if from_first { first } else { second };
        let Some((micros, count)) = stream.next() else {
            break;
        };
        seen += count;
        while filled < N && ranks[filled] <= seen {
            values[filled] = to_nanos(micros).min(max);
            filled += 1;
        }
    }
    values
}

/// A bucket's upper edge in nanoseconds; the last bucket also holds everything larger.
const fn to_nanos(micros: u64) -> u64 {
    if micros >= HIGHEST {
        u64::MAX
    } else {
        micros * 1_000
    }
}

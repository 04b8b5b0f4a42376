//! Latencies added up.

use crate::{LatencyMeasures, Quantiles};
use hdrhistogram::Histogram;
use std::time::Duration;

/// The longest latency that is told apart, in microseconds: a day, which no
/// deadline exceeds.
const LONGEST_US: u64 = 86_400_000_000;

/// Latencies of answers, to three digits.
#[derive(Debug)]
pub(crate) struct Latencies {
    total: Histogram<u32>,
    first_token: Histogram<u32>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            total: histogram(),
            first_token: histogram(),
        }
    }
}

impl Latencies {
    /// Takes an answer's times in: to its end, and to its first content where it was
    /// streamed.
    pub(crate) fn record(&mut self, total: Duration, first_token: Option<Duration>) {
        record(&mut self.total, total);
        if let Some(first_token) = first_token {
            record(&mut self.first_token, first_token);
        }
    }

    /// What they come to.
    pub(crate) fn measures(&self) -> LatencyMeasures {
        LatencyMeasures {
            total: quantiles(&self.total),
            first_token: quantiles(&self.first_token),
        }
    }
}

/// Three digits, growing as longer latencies come: 270 KB at a day, 60 at a second.
fn histogram() -> Histogram<u32> {
    let mut histogram = Histogram::new_with_bounds(1, 1_000_000, 3)
        .expect("the bounds and the digits are those of the crate's own range");
    histogram.auto(true);
    histogram
}

/// A time of 0 counts as a microsecond, one above a day as a day.
fn record(histogram: &mut Histogram<u32>, time: Duration) {
    let time = u64::try_from(time.as_micros()).unwrap_or(LONGEST_US);
    histogram
        .record(time.clamp(1, LONGEST_US))
        .expect("a histogram that grows takes a day");
}

fn quantiles(histogram: &Histogram<u32>) -> Option<Quantiles> {
    let at = |q| Duration::from_micros(histogram.value_at_quantile(q));
    (!histogram.is_empty()).then(|| Quantiles {
        p50: at(0.50),
        p95: at(0.95),
        p99: at(0.99),
    })
}

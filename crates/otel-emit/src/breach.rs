//! Words for breaches that several signals tell.

/// The percentile whose limit a detector of breaches holds latencies against: the spike
/// detector counts exceedances of the limit on p95.
pub fn breached_percentile(detector: &str) -> &'static str {
    if detector == "p99" { "p99" } else { "p95" }
}

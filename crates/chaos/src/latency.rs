//! How long a simulated model takes.

use std::time::Duration;

/// The 99th percentile of the standard normal distribution.
const Z99: f64 = 2.326_347_874;

/// A distribution of latencies. Those that change with time count it from the
/// moment the behaviour was set.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Latency {
    /// Always the same.
    Fixed(Duration),
    /// Log-normal, the usual shape of a healthy endpoint.
    LogNormal {
        /// Half of the calls take less.
        median: Duration,
        /// One call in a hundred takes longer. Not above the median: every call takes the median.
        p99: Duration,
    },
    /// Linear from one value to another, then constant.
    Ramp {
        /// Value at the start.
        from: Duration,
        /// Value at the end and after it.
        to: Duration,
        /// How long the way takes.
        over: Duration,
    },
    /// One value, and another for a while.
    Spike {
        /// Value outside the spike.
        base: Duration,
        /// Value within it.
        peak: Duration,
        /// When the spike begins.
        after: Duration,
        /// How long it lasts; none means for good.
        lasts: Option<Duration>,
    },
    /// A share of the calls is slow.
    Tail {
        /// What most calls take.
        body: Duration,
        /// What the slow ones take.
        tail: Duration,
        /// Share of slow calls, 0..1.
        share: f64,
    },
}

impl Default for Latency {
    /// No latency at all.
    fn default() -> Self {
        Self::Fixed(Duration::ZERO)
    }
}

impl Latency {
    /// A fixed latency in milliseconds.
    pub const fn millis(ms: u64) -> Self {
        Self::Fixed(Duration::from_millis(ms))
    }

    /// A log-normal latency, both figures in milliseconds.
    pub const fn lognormal_millis(median: u64, p99: u64) -> Self {
        Self::LogNormal {
            median: Duration::from_millis(median),
            p99: Duration::from_millis(p99),
        }
    }

    /// One latency, `since_set` after the behaviour was set.
    pub fn sample(&self, rng: &mut fastrand::Rng, since_set: Duration) -> Duration {
        match *self {
            Self::Fixed(value) => value,
            Self::LogNormal { median, p99 } => lognormal(rng, median, p99),
            Self::Ramp { from, to, over } => ramp(from, to, over, since_set),
            Self::Spike {
                base,
                peak,
                after,
                lasts,
            } => {
                let inside = since_set
                    .checked_sub(after)
                    .is_some_and(|into| lasts.is_none_or(|l| into < l));
                if inside { peak } else { base }
            }
            Self::Tail { body, tail, share } => {
                if rng.f64() < share {
                    tail
                } else {
                    body
                }
            }
        }
    }
}

fn lognormal(rng: &mut fastrand::Rng, median: Duration, p99: Duration) -> Duration {
    if median.is_zero() || p99 <= median {
        return median;
    }
    let sigma = (p99.as_secs_f64() / median.as_secs_f64()).ln() / Z99;
    // Box and Muller's method; `1 - f64()` lies in (0, 1], so its logarithm is finite.
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    let normal = radius * (std::f64::consts::TAU * rng.f64()).cos();
    Duration::try_from_secs_f64(median.as_secs_f64() * (sigma * normal).exp())
        .unwrap_or(Duration::MAX)
}

fn ramp(from: Duration, to: Duration, over: Duration, since_set: Duration) -> Duration {
    if since_set >= over {
        return to;
    }
    let way = since_set.as_secs_f64() / over.as_secs_f64();
    let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
    Duration::from_secs_f64(from + (to - from) * way)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn sorted(latency: Latency, seed: u64, n: usize) -> Vec<Duration> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut all: Vec<_> = (0..n)
            .map(|_| latency.sample(&mut rng, Duration::ZERO))
            .collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn a_lognormal_has_the_median_and_the_p99_it_was_given() {
        for seed in [1, 7, 42] {
            let all = sorted(Latency::lognormal_millis(200, 400), seed, 50_000);
            // Standard errors at 50,000 draws: median 0.4%, p99 1%; the bands are about four of them.
            let median = all[25_000].as_secs_f64();
            let p99 = all[49_500].as_secs_f64();
            assert!((0.197..0.203).contains(&median), "seed {seed}: {median}");
            assert!((0.385..0.415).contains(&p99), "seed {seed}: {p99}");
        }
    }

    #[test]
    fn a_lognormal_without_spread_is_its_median() {
        assert_eq!(
            sorted(Latency::lognormal_millis(200, 100), 3, 9),
            vec![ms(200); 9]
        );
        assert_eq!(sorted(Latency::lognormal_millis(0, 100), 3, 2), [ms(0); 2]);
    }

    #[test]
    fn the_same_seed_gives_the_same_latencies() {
        let latency = Latency::lognormal_millis(200, 900);
        assert_eq!(sorted(latency, 5, 100), sorted(latency, 5, 100));
        assert_ne!(sorted(latency, 5, 100), sorted(latency, 6, 100));
    }

    #[test]
    fn a_ramp_rises_in_a_line_and_then_stays() {
        let latency = Latency::Ramp {
            from: ms(200),
            to: ms(1_200),
            over: ms(10_000),
        };
        let mut rng = fastrand::Rng::with_seed(0);
        let mut at = |t| latency.sample(&mut rng, ms(t));
        assert_eq!(at(0), ms(200));
        assert_eq!(at(5_000), ms(700));
        assert_eq!(at(10_000), ms(1_200));
        assert_eq!(at(99_000), ms(1_200));
    }

    #[test]
    fn a_spike_begins_and_ends_when_it_was_told_to() {
        let spike = |lasts| Latency::Spike {
            base: ms(200),
            peak: ms(10_000),
            after: ms(1_000),
            lasts,
        };
        let mut rng = fastrand::Rng::with_seed(0);
        let mut at = |lasts, t| spike(lasts).sample(&mut rng, ms(t));
        assert_eq!(at(Some(ms(500)), 999), ms(200));
        assert_eq!(at(Some(ms(500)), 1_000), ms(10_000));
        assert_eq!(at(Some(ms(500)), 1_499), ms(10_000));
        assert_eq!(at(Some(ms(500)), 1_500), ms(200));
        assert_eq!(at(None, 1_000_000), ms(10_000));
    }

    #[test]
    fn a_tail_has_its_share() {
        let all = sorted(
            Latency::Tail {
                body: ms(100),
                tail: ms(3_000),
                share: 0.1,
            },
            11,
            10_000,
        );
        let slow = all.iter().filter(|d| **d == ms(3_000)).count();
        // Standard deviation 30; four of them.
        assert!((880..=1_120).contains(&slow), "{slow}");
    }
}

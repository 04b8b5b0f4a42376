//! How questions reach a candidate: one after the other, or as they fall due.

use super::error::RunError;
use serde_json::{Value, json};
use std::time::Duration;

/// Questions under way at once in an open loop, unless it is said otherwise: an
/// upstream that hangs must not fill the memory.
pub const OPEN_AT_MOST: usize = 256;

/// How questions reach a candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// So many at a time: the next is asked when one is answered. A slow model is
    /// asked less, and its latency looks better than callers would see it.
    Closed {
        /// Questions under way at a time, at least 1.
        concurrency: usize,
    },
    /// So many a second, whatever becomes of them: each is due at a time drawn
    /// beforehand (a Poisson process), and its latency counts from then, also where
    /// it could be sent only later.
    Open {
        /// Mean questions a second, above 0.
        per_second: f64,
        /// Questions under way at a time, at least 1.
        at_most: usize,
    },
}

impl Load {
    /// Highest rate that is taken for one: a slip of the finger is no load test.
    const MOST_PER_SECOND: f64 = 10_000.0;

    pub(crate) fn check(self) -> Result<(), RunError> {
        let none = |key| RunError::OutOfRange {
            key,
            seen: "0".to_owned(),
            expected: "at least 1",
        };
        match self {
            Self::Closed { concurrency: 0 } | Self::Open { at_most: 0, .. } => {
                Err(none("the number of questions at a time"))
            }
            Self::Closed { .. } => Ok(()),
            Self::Open { per_second, .. } => {
                if per_second > 0.0 && per_second <= Self::MOST_PER_SECOND {
                    return Ok(());
                }
                Err(RunError::OutOfRange {
                    key: "the load",
                    seen: format!("{per_second} questions a second"),
                    expected: "above 0, at most 10000",
                })
            }
        }
    }

    /// Questions under way at a time.
    pub(crate) const fn at_most(self) -> usize {
        match self {
            Self::Closed { concurrency } => concurrency,
            Self::Open { at_most, .. } => at_most,
        }
    }

    /// In words.
    pub fn words(self) -> String {
        match self {
            Self::Closed { concurrency } => format!("closed loop, {concurrency} at a time"),
            Self::Open { per_second, .. } => format!("open loop, {per_second} a second"),
        }
    }

    pub(crate) fn written(self) -> Value {
        match self {
            Self::Closed { concurrency } => json!({ "loop": "closed", "concurrency": concurrency }),
            Self::Open {
                per_second,
                at_most,
            } => json!({ "loop": "open", "per_second": per_second, "at_most": at_most }),
        }
    }
}

/// When questions fall due, counted from the first moment of a run.
#[derive(Debug)]
pub(crate) struct Arrivals {
    draws: fastrand::Rng,
    /// None in a closed loop: as soon as there is room.
    mean_gap: Option<f64>,
    at: f64,
}

impl Arrivals {
    /// The same seed makes the same times, so that every candidate is asked at the
    /// same pace.
    pub(crate) fn of(load: Load, seed: u64) -> Self {
        Self {
            draws: fastrand::Rng::with_seed(seed),
            mean_gap: match load {
                Load::Closed { .. } => None,
                Load::Open { per_second, .. } => Some(per_second.recip()),
            },
            at: 0.0,
        }
    }

    /// When the next question is due; none where it is as soon as there is room.
    pub(crate) fn next_due(&mut self) -> Option<Duration> {
        let mean = self.mean_gap?;
        // Gaps of a Poisson process are exponential; 1 - u is never 0.
        self.at -= mean * (1.0 - self.draws.f64()).ln();
        Some(Duration::try_from_secs_f64(self.at).unwrap_or(Duration::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: Load = Load::Open {
        per_second: 50.0,
        at_most: 1,
    };

    #[test]
    fn arrivals_are_a_poisson_process_that_its_seed_decides() {
        let times = |seed| {
            let mut arrivals = Arrivals::of(OPEN, seed);
            let due = std::iter::from_fn(|| arrivals.next_due());
            due.take(20_000).collect::<Vec<_>>()
        };
        let due = times(7);
        assert_eq!(due, times(7));
        assert_ne!(due, times(8));
        assert!(due.is_sorted());
        // 20,000 at 50 a second take 400 s, give or take 4 sigma (4 * 400 / sqrt(20,000)).
        let last = due.last().unwrap().as_secs_f64();
        assert!((388.0..412.0).contains(&last), "{last}");
        // Gaps of an exponential distribution: 1/e of them are longer than the mean.
        let gaps = due.windows(2).map(|pair| pair[1].abs_diff(pair[0]));
        let long = gaps.filter(|gap| *gap > Duration::from_millis(20)).count();
        assert!((7_080..7_640).contains(&long), "{long}");
    }

    #[test]
    fn a_closed_loop_waits_for_room_only() {
        let closed = Load::Closed { concurrency: 1 };
        assert_eq!(Arrivals::of(closed, 1).next_due(), None);
    }

    #[test]
    fn no_load_is_not_a_load() {
        let open = |per_second| Load::Open {
            per_second,
            at_most: 8,
        };
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            let error = open(wrong).check().unwrap_err().to_string();
            assert!(error.contains("above 0, at most 10000"), "{error}");
        }
        assert!(Load::Closed { concurrency: 0 }.check().is_err());
        assert!(open(0.01).check().is_ok());
    }
}

//! Estimates with intervals. No function here reads a clock or a random source:
//! the seed is an argument, and equal scores give equal intervals, in whatever
//! order they come.
//!
//! | of | interval | instead, near the ends |
//! |---|---|---|
//! | a share | Wilson | |
//! | a mean of scores | BCa bootstrap | Wilson |
//! | a ratio or a difference of means on the same items | BCa bootstrap over the items | MOVER on Wilson limits |
//!
//! A bootstrap knows nothing but the scores it saw: of five answers that are all
//! right it says that no answer is ever wrong, and of scores that are all equal
//! it says nothing (BCa divides by their spread). So the second column holds only
//! with at least [`FEWEST_ITEMS`] items and [`LEAST_CREDIT`] items' worth of
//! credit on both sides; the third column holds elsewhere. It takes a mean of
//! scores in 0..1 for a share: no such score spreads wider than one that is 0 or
//! 1 (Bhatia & Davis 2000), so it is never too narrow for that.
//!
//! Sources: E. B. Wilson 1927 (JASA 22:209); B. Efron 1987 (JASA 82:171), BCa;
//! L. D. Brown, T. T. Cai, A. DasGupta 2001 (Stat. Sci. 16:101), when a share
//! needs Wilson's; R. Bhatia, C. Davis 2000 (Amer. Math. Monthly 107:353), the
//! largest variance; R. G. Newcombe 1998 (Stat. Med. 17:2635) and A. Donner,
//! G. Y. Zou 2012 (Stat. Methods Med. Res. 21:347), MOVER for differences and
//! ratios; D. G. Bonett, R. M. Price 2006 (Stat. Med. 25:3039), the two pairs
//! that are added to a correlation.

mod bootstrap;
mod mean;
mod normal;
mod paired;
mod wilson;

pub use mean::mean_interval;
pub(crate) use paired::ratio_and_outlook;
pub use paired::{RatioOutlook, paired_difference, paired_ratio};
pub(crate) use wilson::count;
pub use wilson::share_interval;

use crate::Interval;

/// Fewest items a bootstrap is believed on. Below, its resamples are too few
/// different ones: its intervals are known to be too narrow.
pub(crate) const FEWEST_ITEMS: usize = 20;

/// Least credit that must be missing to the end of a scale, in items, for a
/// bootstrap to be believed; twice the rule of thumb for a normal approximation
/// of a share (Brown, Cai & DasGupta 2001 show why 5 is too few).
pub(crate) const LEAST_CREDIT: f64 = 10.0;

/// How intervals are made: everything that they depend on beside the scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resampling {
    seed: u64,
    resamples: usize,
    confidence: f64,
}

impl Resampling {
    /// Resamples of a bootstrap where nothing else is said: the ends of a 95%
    /// interval are then the 50th from either side, which moves them by a
    /// fortieth of the interval from seed to seed.
    pub const RESAMPLES: usize = 2_000;

    /// Confidence where nothing else is said.
    pub const CONFIDENCE: f64 = 0.95;

    /// 2,000 resamples at 95%, drawn from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self {
            seed,
            resamples: Self::RESAMPLES,
            confidence: Self::CONFIDENCE,
        }
    }

    /// With so many resamples; fewer than 100 are 100.
    #[must_use]
    pub fn with_resamples(mut self, resamples: usize) -> Self {
        self.resamples = resamples.max(100);
        self
    }

    /// The seed.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Resamples of a bootstrap.
    pub const fn resamples(&self) -> usize {
        self.resamples
    }

    /// The share of intervals that hold the truth, 0 to 1.
    pub const fn confidence(&self) -> f64 {
        self.confidence
    }

    /// How many standard deviations lie on either side of a normal estimate.
    fn z(&self) -> f64 {
        normal::quantile(f64::midpoint(1.0, self.confidence))
    }
}

/// An interval that holds its estimate and stays within `floor` and `ceiling`.
/// Bias correction may move both ends past the estimate; that is no interval to
/// act on.
fn around(estimate: f64, lower: f64, upper: f64, floor: f64, ceiling: f64) -> Interval {
    Interval {
        estimate,
        lower: lower.clamp(floor, ceiling).min(estimate),
        upper: upper.clamp(floor, ceiling).max(estimate),
    }
}

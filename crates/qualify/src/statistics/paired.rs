//! Two candidates on the same items.

use super::wilson::count;
use super::{FEWEST_ITEMS, LEAST_CREDIT, Resampling, around, bootstrap, share_interval};
use crate::Interval;

/// What the first of each pair scores relative to the second: the ratio of their
/// means over the same items, at least 0. None of no pair, where the second's
/// mean is 0 or so near that the ratio has no limits, or where a score is no
/// finite number.
///
/// BCa over the items, but MOVER with Wilson's limits with fewer than 20 items,
/// where the second has less than 10 items' worth of credit, where the two differ
/// by less than that in all, and where BCa is undefined.
pub fn paired_ratio(pairs: &[(f64, f64)], resampling: &Resampling) -> Option<Interval> {
    ratio_and_outlook(pairs, resampling).map(|(ratio, _)| ratio)
}

/// The same, and where the interval is MOVER's what it would be on more items.
pub(crate) fn ratio_and_outlook(
    pairs: &[(f64, f64)],
    resampling: &Resampling,
) -> Option<(Interval, Option<RatioOutlook>)> {
    let pairs = Pairs::of(pairs)?;
    let sums = pairs.sums;
    if sums.second.sum <= 0.0 {
        return None;
    }
    let ends = (pairs.are_telling() && sums.second.sum >= LEAST_CREDIT)
        .then(|| bootstrap::bca(&pairs.rows, resampling, |[first, second], _| first / second))
        .flatten();
    if let Some((lower, upper)) = ends {
        return Some((sums.ratio(lower, upper)?, None));
    }
    let outlook = RatioOutlook {
        sums,
        resampling: *resampling,
    };
    Some((outlook.on(sums.items)?, Some(outlook)))
}

/// What MOVER's interval of a ratio would be on more items like those measured: with
/// the same means and the same agreement of both sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatioOutlook {
    sums: PairSums,
    resampling: Resampling,
}

impl RatioOutlook {
    /// The interval on so many items; none where the ratio has no limits.
    pub fn on(&self, items: usize) -> Option<Interval> {
        let sums = self.sums.on(items);
        let (lower, upper) = sums.ratio_limits(&self.resampling)?;
        sums.ratio(lower, upper)
    }
}

/// By how much the first of each pair scores above the second, on average, −1 to
/// 1. None of no pair, or where a score is no finite number.
///
/// BCa over the pairs, but MOVER with Wilson's limits with fewer than 20 pairs,
/// where the two differ by less than 10 pairs' worth of credit in all, and where
/// BCa is undefined.
pub fn paired_difference(pairs: &[(f64, f64)], resampling: &Resampling) -> Option<Interval> {
    let pairs = Pairs::of(pairs)?;
    let n = count(pairs.rows.len());
    let gaps: Vec<[f64; 1]> = pairs.rows.iter().map(|[a, b]| [a - b]).collect();
    let ends = pairs
        .are_telling()
        .then(|| bootstrap::bca(&gaps, resampling, |[sum], n| sum / n))
        .flatten();
    let (lower, upper) = match ends {
        Some(ends) => ends,
        None => pairs.sums.difference_limits(resampling)?,
    };
    let estimate = (pairs.sums.first.sum - pairs.sums.second.sum) / n;
    Some(around(estimate, lower, upper, -1.0, 1.0))
}

/// Pairs of scores in 0..1, in ascending order, so that what is drawn does not
/// depend on theirs.
struct Pairs {
    rows: Vec<[f64; 2]>,
    sums: PairSums,
}

/// What pairs add up to: all that MOVER looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
struct PairSums {
    items: usize,
    first: Side,
    second: Side,
    /// The sum of the products of both sides.
    products: f64,
}

/// The sum of one side, and of its squares.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Side {
    sum: f64,
    squares: f64,
}

impl Pairs {
    fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let is_finite = |(a, b): &(f64, f64)| a.is_finite() && b.is_finite();
        if pairs.is_empty() || !pairs.iter().all(is_finite) {
            return None;
        }
        let mut rows: Vec<[f64; 2]> = pairs
            .iter()
            .map(|(a, b)| [a.clamp(0.0, 1.0), b.clamp(0.0, 1.0)])
            .collect();
        rows.sort_by(|x, y| x[0].total_cmp(&y[0]).then(x[1].total_cmp(&y[1])));
        let side = |k: usize| Side {
            sum: rows.iter().map(|row| row[k]).sum(),
            squares: rows.iter().map(|row| row[k] * row[k]).sum(),
        };
        let sums = PairSums {
            items: rows.len(),
            first: side(0),
            second: side(1),
            products: rows.iter().map(|[a, b]| a * b).sum(),
        };
        Some(Self { rows, sums })
    }

    /// Whether there are items and differences enough to draw from.
    fn are_telling(&self) -> bool {
        let differing: f64 = self.rows.iter().map(|[a, b]| (a - b).abs()).sum();
        self.rows.len() >= FEWEST_ITEMS && differing >= LEAST_CREDIT
    }
}

impl Side {
    fn times(self, factor: f64) -> Self {
        Self {
            sum: self.sum * factor,
            squares: self.squares * factor,
        }
    }
}

impl PairSums {
    /// Those of so many pairs like these.
    fn on(self, items: usize) -> Self {
        let factor = count(items) / count(self.items);
        Self {
            items,
            first: self.first.times(factor),
            second: self.second.times(factor),
            products: self.products * factor,
        }
    }

    /// The ratio within its limits; none where they are none.
    fn ratio(&self, lower: f64, upper: f64) -> Option<Interval> {
        let estimate = self.first.sum / self.second.sum;
        let is_finite = estimate.is_finite() && upper.is_finite();
        is_finite.then(|| around(estimate, lower, upper, 0.0, f64::MAX))
    }

    /// The correlation of the two sides with two pairs added that contradict each
    /// other, (1, 0) and (0, 1): a few items that happen to agree are no proof
    /// that the two always do.
    fn correlation(&self) -> f64 {
        let n = count(self.items) + 2.0;
        let (a, b) = (self.first.sum + 1.0, self.second.sum + 1.0);
        let covariance = self.products - a * b / n;
        let of = |sum: f64, squares: f64| squares + 1.0 - sum * sum / n;
        let spread = of(a, self.first.squares) * of(b, self.second.squares);
        (covariance / spread.sqrt()).clamp(-1.0, 1.0)
    }

    /// Wilson's limits of both sides.
    fn limits(&self, resampling: &Resampling) -> Option<(Interval, Interval)> {
        let of = |side: &Side| share_interval(side.sum, self.items, resampling);
        Some((of(&self.first)?, of(&self.second)?))
    }

    /// Where the MOVER limits of `first − R × second` meet 0 (Donner & Zou 2012).
    fn ratio_limits(&self, resampling: &Resampling) -> Option<(f64, f64)> {
        let (first, second) = self.limits(resampling)?;
        let r = self.correlation();
        let product = first.estimate * second.estimate;
        let middle =
            product - r * (first.estimate - first.lower) * (second.upper - second.estimate);
        let from_first = first.lower * (2.0 * first.estimate - first.lower);
        let from_second = second.upper * (2.0 * second.estimate - second.upper);
        let root = (middle * middle - from_first * from_second).max(0.0).sqrt();
        // The smaller root, written so that it holds where `from_second` is 0 or less.
        let lower = if middle + root > 0.0 {
            from_first / (middle + root)
        } else {
            0.0
        };
        let middle =
            product - r * (first.upper - first.estimate) * (second.estimate - second.lower);
        let from_first = first.upper * (2.0 * first.estimate - first.upper);
        let from_second = second.lower * (2.0 * second.estimate - second.lower);
        let root = (middle * middle - from_first * from_second).max(0.0).sqrt();
        Some((lower, (middle + root) / from_second))
    }

    /// The MOVER limits of `first − second` (Newcombe 1998, method 10).
    fn difference_limits(&self, resampling: &Resampling) -> Option<(f64, f64)> {
        let (first, second) = self.limits(resampling)?;
        let r = self.correlation();
        let apart = |a: f64, b: f64| (a * a - 2.0 * r * a * b + b * b).max(0.0).sqrt();
        let estimate = first.estimate - second.estimate;
        let down = apart(first.estimate - first.lower, second.upper - second.estimate);
        let up = apart(first.upper - first.estimate, second.estimate - second.lower);
        Some((estimate - down, estimate + up))
    }
}

//! The mean of scores.

use super::wilson::count;
use super::{FEWEST_ITEMS, LEAST_CREDIT, Resampling, around, bootstrap, share_interval};
use crate::Interval;

/// The mean of scores in 0..1 with its interval; none of no score, or where one
/// is no finite number. What lies outside of 0..1 is taken for the nearer end.
///
/// BCa, but Wilson's where every score is 0 or 1 (the mean is then a share), with
/// fewer than 20 scores, where less than 10 scores' worth of credit is missing to
/// 0 or to 1, and where BCa is undefined.
pub fn mean_interval(scores: &[f64], resampling: &Resampling) -> Option<Interval> {
    let rows = rows(scores)?;
    let n = count(rows.len());
    let sum: f64 = rows.iter().map(|[score]| score).sum();
    let is_share = rows.iter().all(|[score]| score.fract() == 0.0);
    let is_near = rows.len() < FEWEST_ITEMS || sum.min(n - sum) < LEAST_CREDIT;
    let ends = (!is_share && !is_near)
        .then(|| bootstrap::bca(&rows, resampling, |[sum], n| sum / n))
        .flatten();
    match ends {
        Some((lower, upper)) => Some(around(sum / n, lower, upper, 0.0, 1.0)),
        None => share_interval(sum, rows.len(), resampling),
    }
}

/// The scores in ascending order, so that what is drawn does not depend on
/// theirs.
fn rows(scores: &[f64]) -> Option<Vec<[f64; 1]>> {
    if scores.is_empty() || !scores.iter().all(|score| score.is_finite()) {
        return None;
    }
    let mut rows: Vec<[f64; 1]> = scores.iter().map(|s| [s.clamp(0.0, 1.0)]).collect();
    rows.sort_by(|[a], [b]| a.total_cmp(b));
    Some(rows)
}

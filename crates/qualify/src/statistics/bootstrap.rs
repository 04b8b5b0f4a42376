//! The bias-corrected and accelerated bootstrap.

use super::wilson::count;
use super::{Resampling, normal};

/// The ends of the BCa interval of `statistic` of the sums of the rows' columns
/// (Efron 1987). The acceleration is the jackknife's.
///
/// None where it is undefined: without rows, where the statistic has no finite
/// value for a resample or a row left out, or where leaving out any row changes
/// nothing.
pub(super) fn bca<const K: usize>(
    rows: &[[f64; K]],
    resampling: &Resampling,
    statistic: impl Fn([f64; K], f64) -> f64,
) -> Option<(f64, f64)> {
    let n = count(rows.len());
    let total = sums(rows.iter());
    let estimate = statistic(total, n);
    let acceleration = acceleration(rows, total, &statistic)?;
    let mut replicates = replicates(rows, resampling, |sums| statistic(sums, n));
    replicates.sort_by(f64::total_cmp);
    if !(estimate.is_finite() && replicates.iter().all(|value| value.is_finite())) {
        return None;
    }
    let bias = normal::quantile(share_below(&replicates, estimate));
    let end = |z: f64| {
        let moved = bias + z;
        let scale = 1.0 - acceleration * moved;
        // Past this the correction has no meaning; the end is the outermost resample.
        let adjusted = if scale > 0.0 {
            bias + moved / scale
        } else {
            moved.signum() * f64::MAX
        };
        ordered(&replicates, normal::below(adjusted))
    };
    Some((end(-resampling.z()), end(resampling.z())))
}

/// The statistic of every resample, in the order drawn.
fn replicates<const K: usize>(
    rows: &[[f64; K]],
    resampling: &Resampling,
    statistic: impl Fn([f64; K]) -> f64,
) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(resampling.seed());
    (0..resampling.resamples())
        .map(|_| statistic(resample(rows, &mut random)))
        .collect()
}

/// The sums of as many rows as there are, drawn with replacement: two rows from
/// each draw of 64 bits. A row is favoured by at most its share of 2^32.
fn resample<const K: usize>(rows: &[[f64; K]], random: &mut fastrand::Rng) -> [f64; K] {
    let n = rows.len() as u64;
    let row = |bits: u64| {
        let place = ((bits & 0xffff_ffff) * n) >> 32;
        &rows[usize::try_from(place).expect("a place among the rows")]
    };
    let mut sums = [0.0; K];
    for _ in 0..rows.len() / 2 {
        let bits = random.u64(..);
        add(&mut sums, row(bits));
        add(&mut sums, row(bits >> 32));
    }
    if rows.len() % 2 == 1 {
        add(&mut sums, row(random.u64(..)));
    }
    sums
}

fn add<const K: usize>(sums: &mut [f64; K], row: &[f64; K]) {
    for (sum, value) in sums.iter_mut().zip(row) {
        *sum += value;
    }
}

fn sums<'a, const K: usize>(rows: impl Iterator<Item = &'a [f64; K]>) -> [f64; K] {
    let mut sums = [0.0; K];
    for row in rows {
        add(&mut sums, row);
    }
    sums
}

/// A sixth of the jackknife's skewness. None where no row makes a difference.
fn acceleration<const K: usize>(
    rows: &[[f64; K]],
    total: [f64; K],
    statistic: &impl Fn([f64; K], f64) -> f64,
) -> Option<f64> {
    let fewer = count(rows.len().checked_sub(1)?);
    let without = |row: &[f64; K]| {
        let mut rest = total;
        for (sum, value) in rest.iter_mut().zip(row) {
            *sum -= value;
        }
        statistic(rest, fewer)
    };
    let mean = rows.iter().map(without).sum::<f64>() / count(rows.len());
    let (mut squares, mut cubes) = (0.0, 0.0);
    for row in rows {
        let gap = mean - without(row);
        squares += gap * gap;
        cubes += gap * gap * gap;
    }
    let acceleration = cubes / (6.0 * squares.powf(1.5));
    acceleration.is_finite().then_some(acceleration)
}

/// The share of `sorted` below `value`, those equal to it counted half: the
/// replicates of few different scores are few different values. Sums of the same
/// scores in another order may differ in their last digits, and are equal.
fn share_below(sorted: &[f64], value: f64) -> f64 {
    let tolerance = 1e-12 * value.abs().max(1.0);
    let below = sorted.partition_point(|v| *v < value - tolerance);
    let up_to = sorted.partition_point(|v| *v <= value + tolerance);
    count(below + up_to) / (2.0 * count(sorted.len()))
}

/// The value that a share `p` of `sorted` lies below, between two neighbours in
/// proportion (the (B + 1)p-th, Davison & Hinkley 1997, eq. 5.8).
fn ordered(sorted: &[f64], p: f64) -> f64 {
    let last = sorted.len() - 1;
    let place = (p * count(sorted.len() + 1) - 1.0).clamp(0.0, count(last));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the places of the slice"
    )]
    let left = place as usize;
    let right = (left + 1).min(last);
    sorted[left] + (sorted[right] - sorted[left]) * (place - count(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean([sum]: [f64; 1], n: f64) -> f64 {
        sum / n
    }

    #[test]
    fn scores_without_spread_have_no_interval() {
        assert_eq!(bca(&[[0.5]; 40], &Resampling::new(1), mean), None);
        assert_eq!(bca::<1>(&[], &Resampling::new(1), mean), None);
        assert_eq!(bca(&[[0.5]], &Resampling::new(1), mean), None);
    }

    #[test]
    fn an_interval_leans_towards_the_long_tail() {
        let rows: Vec<[f64; 1]> = (0..100).map(|i| [(f64::from(i) / 100.0).powi(4)]).collect();
        let (lower, upper) = bca(&rows, &Resampling::new(7), mean).unwrap();
        let centre = rows.iter().map(|[x]| x).sum::<f64>() / 100.0;
        assert!(upper - centre > centre - lower, "{lower} {centre} {upper}");
    }

    #[test]
    fn an_ordered_value_lies_between_its_neighbours() {
        let sorted = [1.0, 2.0, 3.0];
        assert!((ordered(&sorted, 0.5) - 2.0).abs() < 1e-12);
        assert!((ordered(&sorted, 0.375) - 1.5).abs() < 1e-12);
        assert!((ordered(&sorted, 0.0) - 1.0).abs() < 1e-12);
        assert!((ordered(&sorted, 1.0) - 3.0).abs() < 1e-12);
    }
}

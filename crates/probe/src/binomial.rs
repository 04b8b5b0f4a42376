//! The binomial tail behind the breach rule and the clear rule.
//!
//! A latency above the limit of quantile q has, on an endpoint exactly at that limit, probability
//! 1 - q; exceedances among n observations are then Bin(n, 1 - q).

// Counts stay far below 2^52, where f64 holds every integer.
#![expect(
    clippy::cast_precision_loss,
    reason = "counts below 2^52 are exact as f64"
)]

/// Confidence of the clear rule: one look at fresh observations, so 0.05 is the usual risk.
const CLEAR_RISK: f64 = 0.05;

/// The fewest exceedances of the q-quantile's limit among `n` observations that an endpoint exactly at
/// that limit shows with probability at most `a`: the smallest k with P[Bin(n, 1-q) >= k] <= a.
///
/// `q` and `a` are probabilities. With `a` of 1 or more the answer is 0. Where no count of `n` is rare
/// enough, and for a `q` or an `a` that is not a number, it is `n + 1`: never.
///
/// Exact to the accuracy of f64 (relative error of a tail below 1e-8 for n up to 10^7). Costs
/// O(log n) sums of O(sqrt(n)) terms; a window's verdict uses a precomputed table instead.
///
/// ```
/// # use evenkeel_probe::breach_count;
/// assert_eq!(breach_count(20, 0.95, 0.001), 6);
/// assert_eq!(breach_count(200, 0.99, 0.05), 6);
/// ```
pub fn breach_count(n: u64, q: f64, a: f64) -> u64 {
    let (mut low, mut high) = (0, n.saturating_add(1));
    while low < high {
        let k = low + (high - low) / 2;
        if tail(n, k, 1.0 - q) <= a {
            high = k;
        } else {
            low = k + 1;
        }
    }
    low
}

/// Whether `over` exceedances among `n` fresh observations clear a rung: with confidence 0.95 the
/// exceedance rate is below `r`, and `over` is fewer than [`breach_count`]`(n, 0.95, 0.05)`, so that no
/// evidence both clears and breaches.
///
/// For r = 0.20 that is 0 over in 14, 1 in 22, 2 in 30, 3 in 37 (zero-failure and few-failure
/// acceptance sampling). An `r` that is not a number never clears.
pub fn clears(n: u64, over: u64, r: f64) -> bool {
    over <= n
        && tail(n, n - over, 1.0 - r) <= CLEAR_RISK
        && over < breach_count(n, 0.95, CLEAR_RISK)
}

/// P[Bin(n, p) >= k]. NaN if `p` is.
pub(crate) fn tail(n: u64, k: u64, p: f64) -> f64 {
    if k == 0 {
        return if p.is_nan() { f64::NAN } else { 1.0 };
    }
    if k > n {
        return 0.0;
    }
    if p.is_nan() || p <= 0.0 {
        return if p.is_nan() { p } else { 0.0 };
    }
    if p >= 1.0 {
        return 1.0;
    }
    if k as f64 > n as f64 * p {
        sum_up(n, k, p)
    } else {
        // The lower tail of p is the upper tail of 1 - p counted from the other end.
        1.0 - sum_up(n, n - k + 1, 1.0 - p)
    }
}

/// The terms from k upwards, each from the one before, until they no longer change the sum. Meant for k
/// above the mean, where each is smaller than the last.
fn sum_up(n: u64, k: u64, p: f64) -> f64 {
    let odds = p / (1.0 - p);
    let mut term = point(n, k, p);
    let mut sum = 0.0;
    for i in k..=n {
        let next = sum + term;
        if next <= sum {
            break;
        }
        sum = next;
        term *= (n - i) as f64 / (i + 1) as f64 * odds;
    }
    sum.min(1.0)
}

/// Whether P[Bin(n, p) >= k] <= a, stopping as soon as the answer is known. For large counts, where
/// almost every call ends at one of the first two tests.
pub(crate) fn tail_at_most(n: u64, k: u64, p: f64, a: f64) -> bool {
    if k > n {
        return true;
    }
    if k as f64 <= n as f64 * p {
        // At or below the mean the tail is about one half or more, above any risk in use.
        return tail(n, k, p) <= a;
    }
    let first = point(n, k, p);
    let ratio = (n - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
    if first > a {
        return false;
    }
    // Ratios only fall from here, so a geometric series bounds the tail from above.
    first / (1.0 - ratio) <= a || sum_up(n, k, p) <= a
}

/// P[Bin(n, p) = k], 0 < p < 1, by Loader's saddle-point form ("Fast and accurate computation of binomial
/// probabilities", 2000): no cancellation between large logarithms.
pub(crate) fn point(n: u64, k: u64, p: f64) -> f64 {
    let (nf, kf) = (n as f64, k as f64);
    if k > n {
        return 0.0;
    }
    if k == 0 {
        return (nf * (-p).ln_1p()).exp();
    }
    if k == n {
        return (nf * p.ln()).exp();
    }
    let rest = nf - kf;
    let log = stirling_error(n)
        - stirling_error(k)
        - stirling_error(n - k)
        - deviance(kf, nf * p)
        - deviance(rest, nf * (1.0 - p));
    log.exp() * (nf / (std::f64::consts::TAU * kf * rest)).sqrt()
}

/// x ln(x/m) + m - x, the cost of seeing x where m is expected.
fn deviance(x: f64, m: f64) -> f64 {
    x * (x / m).ln() + m - x
}

/// ln n! - ln(sqrt(2 pi n) (n/e)^n), n >= 1.
fn stirling_error(n: u64) -> f64 {
    let x = n as f64;
    if n < 16 {
        let log_factorial: f64 = (2..=n).map(|i| (i as f64).ln()).sum();
        return log_factorial - ((x + 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln());
    }
    let square = x * x;
    (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * square)) / square) / square) / x
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P[Bin(n, p) >= k] by the recursion over n: slow and obvious.
    fn obvious_tail(n: usize, k: usize, p: f64) -> f64 {
        let mut row = vec![1.0];
        for _ in 0..n {
            let mut next = vec![0.0; row.len() + 1];
            for (i, x) in row.iter().enumerate() {
                next[i] += x * (1.0 - p);
                next[i + 1] += x * p;
            }
            row = next;
        }
        row.iter().skip(k).sum()
    }

    #[test]
    fn the_tail_is_that_of_the_plain_recursion() {
        for p in [0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.999] {
            for n in [1, 2, 5, 19, 50, 130] {
                for k in 0..=n + 1 {
                    let (fast, slow) = (tail(n as u64, k as u64, p), obvious_tail(n, k, p));
                    assert!(
                        (fast - slow).abs() <= 1e-12 + 1e-10 * slow,
                        "n {n} k {k} p {p}: {fast} {slow}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_point_is_the_step_of_the_tail() {
        for p in [0.01, 0.2, 0.95] {
            for n in [1, 2, 16, 130] {
                for k in 0..=n {
                    let step = obvious_tail(n, k, p) - obvious_tail(n, k + 1, p);
                    let said = point(n as u64, k as u64, p);
                    assert!(
                        (said - step).abs() <= 1e-12 + 1e-10 * step,
                        "n {n} k {k} p {p}: {said} {step}"
                    );
                }
            }
        }
        assert!(point(3, 4, 0.5).abs() < f64::MIN_POSITIVE);
    }

    #[test]
    fn the_short_cut_says_what_the_tail_says() {
        for n in [50_u64, 5_000, 300_000, 2_000_000] {
            for (p, mean) in [(0.01, n / 100), (0.05, n / 20)] {
                let step = usize::try_from(mean / 200).unwrap().max(1);
                for k in (mean - mean / 2..mean + mean / 2 + 20).step_by(step) {
                    for a in [0.05, 0.001, 1e-9] {
                        let said = tail_at_most(n, k, p, a);
                        assert_eq!(said, tail(n, k, p) <= a, "n {n} k {k} p {p} a {a}");
                    }
                }
            }
        }
    }

    #[test]
    fn odd_probabilities_have_an_answer() {
        assert_eq!(breach_count(10, f64::NAN, 0.05), 11);
        assert_eq!(breach_count(10, 0.95, f64::NAN), 11);
        assert_eq!(breach_count(10, 0.95, 0.0), 11);
        assert_eq!(breach_count(10, 0.95, 1.0), 0);
        assert_eq!(breach_count(10, 1.0, 0.05), 1);
        assert_eq!(breach_count(10, 0.0, 0.05), 11);
        assert_eq!(breach_count(0, 0.95, 0.05), 1);
        assert!(!clears(100, 0, f64::NAN));
        assert!(!clears(0, 0, 0.2));
        assert!(!clears(3, 4, 0.2));
        assert!(clears(1, 0, 1.0));
        assert!(!clears(1_000, 0, 0.0));
    }
}

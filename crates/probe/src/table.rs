//! The breach rule as a table, so that a verdict is one comparison.

use std::sync::{Arc, LazyLock};

use crate::binomial::{point, tail, tail_at_most};

/// Exceedance counts with a precomputed answer: at the p95 rule they stand for some 18,000 observations in
/// the window, at the p99 rule for 90,000. Above, the tail is summed (a few microseconds at most, and only
/// for a count close to the rule's edge).
const COUNTS: u32 = 1_024;

/// Fewest exceedances of a breach under any confidence above 0.
const FLOOR: u64 = 3;

/// Confidence of a standing monitor that is looked at after every call (DESIGN: 0.999).
pub(crate) const DEFAULT_CONFIDENCE: f64 = 0.999;

static DEFAULT: LazyLock<Arc<BreachTables>> =
    LazyLock::new(|| Arc::new(BreachTables::new(1.0 - DEFAULT_CONFIDENCE)));

/// When are `over` exceedances among `n` observations a breach?
#[derive(Clone, Debug)]
pub(crate) enum BreachRule {
    /// More than the share 1 - q, no statistics (confidence 0).
    Plain,
    /// At least max(3, K(n, q, 1 - confidence)).
    Binomial(Arc<BreachTables>),
}

impl BreachRule {
    pub(crate) fn new(confidence: f64) -> Self {
        if confidence <= 0.0 {
            Self::Plain
        } else {
            Self::Binomial(Arc::new(BreachTables::new(1.0 - confidence)))
        }
    }

    pub(crate) fn standing() -> Self {
        Self::Binomial(Arc::clone(&DEFAULT))
    }

    pub(crate) fn p95(&self, n: u64, over: u64) -> bool {
        match self {
            Self::Plain => over.saturating_mul(20) > n,
            Self::Binomial(tables) => tables.p95.breached(n, over),
        }
    }

    pub(crate) fn p99(&self, n: u64, over: u64) -> bool {
        match self {
            Self::Plain => over.saturating_mul(100) > n,
            Self::Binomial(tables) => tables.p99.breached(n, over),
        }
    }
}

/// The tables of both limits for one risk; shared by all windows of one configuration.
#[derive(Debug)]
pub(crate) struct BreachTables {
    p95: BreachTable,
    p99: BreachTable,
}

impl BreachTables {
    fn new(a: f64) -> Self {
        Self {
            p95: BreachTable::new(0.05, a),
            p99: BreachTable::new(0.01, a),
        }
    }
}

/// For each count k of exceedances the largest n with P[Bin(n, p) >= k] <= a: K(n) <= k exactly up to it,
/// because K rises by 0 or 1 as n rises by 1.
#[derive(Debug)]
struct BreachTable {
    p: f64,
    a: f64,
    largest_n: Box<[u32]>,
}

impl BreachTable {
    fn new(p: f64, a: f64) -> Self {
        let mut largest_n = Vec::with_capacity(COUNTS as usize);
        let mut n = 0;
        // k = 0 is never a breach; the entry is there so that k is the index.
        largest_n.push(0);
        for k in 1..COUNTS {
            n = grow(n.max(k - 1), k, p, a);
            largest_n.push(n);
        }
        Self {
            p,
            a,
            largest_n: largest_n.into(),
        }
    }

    fn breached(&self, n: u64, over: u64) -> bool {
        if over < FLOOR {
            return false;
        }
        let known = usize::try_from(over)
            .ok()
            .and_then(|k| self.largest_n.get(k));
        match known {
            Some(&largest) => n <= u64::from(largest),
            None => tail_at_most(n, over, self.p, self.a),
        }
    }
}

/// The largest n' >= n with P[Bin(n', p) >= k] <= a, given that n satisfies it (n >= k - 1).
/// Step: P[Bin(n+1) >= k] = P[Bin(n) >= k] + p P[Bin(n) = k-1].
fn grow(mut n: u32, k: u32, p: f64, a: f64) -> u32 {
    let mut tail = tail(u64::from(n), u64::from(k), p);
    let mut below = point(u64::from(n), u64::from(k - 1), p);
    loop {
        let next = tail + p * below;
        if next > a {
            return n;
        }
        tail = next;
        below *= f64::from(n + 1) / f64::from(n + 2 - k) * (1.0 - p);
        n += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binomial::breach_count;

    #[test]
    fn the_table_is_the_count_of_the_rule() {
        for a in [0.05, 0.001, 1e-6] {
            for (p, q) in [(0.05, 0.95), (0.01, 0.99)] {
                let table = BreachTable::new(p, a);
                for n in (0..400).chain((400..17_000).step_by(97)) {
                    let k = breach_count(n, q, a).max(FLOOR);
                    assert!(table.breached(n, k), "n {n} k {k} a {a}");
                    assert!(!table.breached(n, k - 1), "n {n} k {k} a {a}");
                }
            }
        }
    }

    #[test]
    fn past_the_table_the_rule_goes_on_without_a_seam() {
        let table = BreachTable::new(0.05, 0.001);
        for n in [18_000, 18_300, 19_000, 200_000, 16_000_000] {
            let k = breach_count(n, 0.95, 0.001);
            assert!(
                table.breached(n, k) && !table.breached(n, k - 1),
                "n {n} k {k}"
            );
        }
    }

    #[test]
    fn a_risk_next_to_nothing_still_builds() {
        let table = BreachTable::new(0.05, f64::EPSILON / 2.0);
        assert!(!table.breached(11, 11) && table.breached(14, 14));
    }
}

//! The breach rule and the clear rule (invariants 26, 58 and the tables of the specification).

use evenkeel_probe::{breach_count, clears};
use proptest::prelude::*;

use crate::model::{obvious_breach_count, obvious_lower_tail};

#[test]
fn the_published_table_of_breach_counts() {
    let columns = [(0.95, 0.05), (0.95, 0.001), (0.99, 0.05), (0.99, 0.001)];
    let rows = [
        (5, [2, 4, 1, 2]),
        (10, [3, 5, 2, 3]),
        (20, [4, 6, 2, 4]),
        (50, [6, 9, 3, 5]),
        (100, [10, 14, 4, 6]),
        (200, [16, 22, 6, 9]),
    ];
    for (n, expected) in rows {
        let counts = columns.map(|(q, a)| breach_count(n, q, a));
        assert_eq!(counts, expected, "n = {n}");
    }
}

#[test]
fn the_published_table_of_the_clear_rule() {
    let rows = [
        (0.05, [59, 93, 124, 153]),
        (0.10, [29, 46, 61, 76]),
        (0.20, [14, 22, 30, 37]),
    ];
    for (r, fewest) in rows {
        for (over, n) in (0..).zip(fewest) {
            assert!(clears(n, over, r), "{over} over in {n} at {r}");
            assert!(!clears(n - 1, over, r), "{over} over in {} at {r}", n - 1);
        }
    }
}

#[test]
fn the_clear_rule_never_accepts_what_breaches() {
    // The bare rule at r = 0.20 would accept 30 over in 200, where 16 breach.
    assert!(obvious_lower_tail(200, 30, 0.20) <= 0.05);
    assert!(clears(200, 15, 0.20));
    assert!(!clears(200, 16, 0.20));
}

#[test]
fn the_count_rises_by_at_most_one() {
    for q in [0.95, 0.99] {
        for a in [0.05, 0.001] {
            let counts: Vec<_> = (0..=400).map(|n| breach_count(n, q, a)).collect();
            assert!(counts.windows(2).all(|pair| pair[1] - pair[0] <= 1));
        }
    }
}

proptest! {
    #[test]
    fn inv26_the_count_is_that_of_the_plain_recursion(n in 0..300_u64, q in 0.01..0.999_f64, a in 1e-6..0.5_f64) {
        prop_assert_eq!(breach_count(n, q, a), obvious_breach_count(n, q, a));
    }

    #[test]
    fn the_clear_rule_is_that_of_the_plain_recursion(n in 0..300_u64, over in 0..40_u64, r in 0.01..0.9_f64) {
        let is_below = over <= n && obvious_lower_tail(n, over, r) <= 0.05;
        let breaches = over >= obvious_breach_count(n, 0.95, 0.05);
        prop_assert_eq!(clears(n, over, r), is_below && !breaches);
    }

    /// Invariant 58.
    #[test]
    fn inv58_no_evidence_both_clears_and_breaches(n in 0..2_000_u64, over in 0..2_000_u64, r in 0.0..1.0_f64) {
        prop_assert!(!(clears(n, over, r) && over >= breach_count(n, 0.95, 0.05)));
    }
}

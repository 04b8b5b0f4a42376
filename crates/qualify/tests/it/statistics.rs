//! What holds of every interval.

use evenkeel_qualify::{
    Interval, Resampling, mean_interval, paired_difference, paired_ratio, share_interval,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Few resamples: what is tested holds for any number.
fn quick(seed: u64) -> Resampling {
    Resampling::new(seed).with_resamples(100)
}

/// Scores as they come: often 0 or 1, sometimes in between.
fn score() -> impl Strategy<Value = f64> {
    prop_oneof![
        2 => Just(0.0),
        4 => Just(1.0),
        1 => Just(0.5),
        2 => 0.0..=1.0_f64,
    ]
}

fn assert_sound(found: Interval, floor: f64, ceiling: f64) -> Result<(), TestCaseError> {
    for end in [found.estimate, found.lower, found.upper] {
        prop_assert!(end.is_finite(), "{found:?}");
    }
    prop_assert!(found.lower <= found.estimate, "{found:?}");
    prop_assert!(found.estimate <= found.upper, "{found:?}");
    prop_assert!(found.lower >= floor && found.upper <= ceiling, "{found:?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_mean_lies_in_its_interval_and_that_in_the_scale(
        scores in vec(score(), 1..120),
        seed: u64,
    ) {
        let found = mean_interval(&scores, &quick(seed)).unwrap();
        assert_sound(found, 0.0, 1.0)?;
        let mean = scores.iter().sum::<f64>() / f64::from(u32::try_from(scores.len()).unwrap());
        prop_assert!((found.estimate - mean).abs() < 1e-9);
    }

    #[test]
    fn a_ratio_and_a_difference_lie_in_theirs(
        pairs in vec((score(), score()), 1..120),
        seed: u64,
    ) {
        let difference = paired_difference(&pairs, &quick(seed)).unwrap();
        assert_sound(difference, -1.0, 1.0)?;
        let (first, second) = pairs.iter().fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d));
        match paired_ratio(&pairs, &quick(seed)) {
            Some(ratio) => {
                assert_sound(ratio, 0.0, f64::MAX)?;
                let expected = first / second;
                prop_assert!((ratio.estimate - expected).abs() <= 1e-9 * expected.max(1.0));
            }
            None => prop_assert!(second == 0.0),
        }
    }

    #[test]
    fn the_order_of_the_items_changes_nothing(
        pairs in vec((score(), score()), 1..120).prop_shuffle(),
        seed: u64,
        turn in 0..120_usize,
    ) {
        let mut turned = pairs.clone();
        turned.rotate_left(turn % pairs.len());
        turned.reverse();
        let firsts = |pairs: &[(f64, f64)]| pairs.iter().map(|(a, _)| *a).collect::<Vec<_>>();
        prop_assert_eq!(paired_ratio(&pairs, &quick(seed)), paired_ratio(&turned, &quick(seed)));
        prop_assert_eq!(
            paired_difference(&pairs, &quick(seed)),
            paired_difference(&turned, &quick(seed))
        );
        prop_assert_eq!(
            mean_interval(&firsts(&pairs), &quick(seed)),
            mean_interval(&firsts(&turned), &quick(seed))
        );
    }

    #[test]
    fn a_share_lies_in_its_interval(of in 1..5_000_u32, part in 0.0..=1.0_f64) {
        let hits = (part * f64::from(of)).floor();
        assert_sound(share_interval(hits, of as usize, &quick(1)).unwrap(), 0.0, 1.0)?;
    }

    #[test]
    fn no_numbers_make_a_panic_or_no_number(
        pairs in vec((any::<f64>(), any::<f64>()), 0..60),
        seed: u64,
    ) {
        let firsts: Vec<f64> = pairs.iter().map(|(a, _)| *a).collect();
        let found = [
            mean_interval(&firsts, &quick(seed)),
            paired_ratio(&pairs, &quick(seed)),
            paired_difference(&pairs, &quick(seed)),
            share_interval(firsts.first().copied().unwrap_or(0.0), 3, &quick(seed)),
        ];
        for interval in found.into_iter().flatten() {
            assert_sound(interval, -1.0, f64::MAX)?;
        }
    }
}

#[test]
fn nothing_has_no_interval() {
    assert_eq!(mean_interval(&[], &quick(1)), None);
    assert_eq!(paired_ratio(&[], &quick(1)), None);
    assert_eq!(paired_difference(&[], &quick(1)), None);
    assert_eq!(mean_interval(&[0.5, f64::NAN], &quick(1)), None);
    assert_eq!(paired_ratio(&[(f64::INFINITY, 1.0)], &quick(1)), None);
    assert_eq!(paired_ratio(&[(1.0, 0.0), (0.0, 0.0)], &quick(1)), None);
    assert_eq!(paired_ratio(&[(1.0, 0.0), (0.0, 4e-309)], &quick(1)), None);
}

/// The fewer the items, the less they prove: one or two, all right, prove nothing.
#[test]
fn a_handful_of_equal_scores_is_no_certainty() {
    for (items, floor) in [(1, 0.25), (2, 0.4), (5, 0.7), (50, 0.95)] {
        let mean = mean_interval(&vec![1.0; items], &quick(1)).unwrap();
        assert!(mean.lower < floor, "{items}: {mean:?}");
        let ratio = paired_ratio(&vec![(1.0, 1.0); items], &quick(1)).unwrap();
        assert!(ratio.lower < floor, "{items}: {ratio:?}");
        let apart = paired_difference(&vec![(0.5, 0.5); items], &quick(1)).unwrap();
        assert!(apart.width() > 0.0, "{items}: {apart:?}");
    }
}

/// Scores that are all equal have no spread to draw from.
#[test]
fn equal_scores_have_an_interval_all_the_same() {
    let found = mean_interval(&[0.5; 200], &quick(1)).unwrap();
    assert!(found.width() > 0.1 && found.width() < 0.15, "{found:?}");
    let always_the_same = paired_ratio(&[(0.4, 0.8); 200], &quick(1)).unwrap();
    assert!((always_the_same.estimate - 0.5).abs() < 1e-12);
    assert!(always_the_same.width() > 0.0, "{always_the_same:?}");
}

#[test]
fn the_seed_decides_and_more_resamples_differ_less() {
    let scores: Vec<f64> = (0..100).map(|n| f64::from(n) / 100.0).collect();
    let at = |seed| mean_interval(&scores, &Resampling::new(seed)).unwrap();
    assert_eq!(at(1), at(1));
    assert_ne!(at(1), at(2));
    assert!((at(1).lower - at(2).lower).abs() < 0.1 * at(1).width());
}

//! Intervals of planted truths, drawn again and again.
//!
//! Of 2,000 intervals at 95% between 93.5% and 97% hold the truth: the count has a
//! standard deviation of half a percent, and the bounds leave three of them below
//! for the bootstrap of 200 items, which is a little too narrow, and four above for
//! shares, whose intervals only come in steps.

use crate::outcomes::{judged, limits, measured};
use evenkeel_qualify::{Interval, Resampling, Verdict, mean_interval, paired_ratio};
use fastrand::Rng;

const RUNS: u64 = 2_000;
const ITEMS: usize = 200;

/// Fewer resamples make the ends of an interval less certain and nothing better: what
/// covers with these covers with the usual 2,000.
fn resampling(seed: u64) -> Resampling {
    Resampling::new(seed).with_resamples(400)
}

/// The share of runs whose interval holds `truth`.
fn coverage(truth: f64, interval: impl Fn(&mut Rng, &Resampling) -> Interval) -> f64 {
    let held = (0..RUNS).filter(|run| {
        let mut random = Rng::with_seed(0x5eed ^ (run * 0x9e37_79b9));
        interval(&mut random, &resampling(*run)).contains(truth)
    });
    f64::from(u32::try_from(held.count()).expect("at most the runs")) / 2_000.0
}

fn assert_covers(name: &str, coverage: f64) {
    assert!((0.935..=0.97).contains(&coverage), "{name}: {coverage}");
}

fn hit(is_hit: bool) -> f64 {
    f64::from(u8::from(is_hit))
}

/// The share of `fields` answers that are right, each with chance `quality`.
fn graded(random: &mut Rng, quality: f64, fields: u8) -> f64 {
    let right: f64 = (0..fields).map(|_| hit(random.f64() < quality)).sum();
    right / f64::from(fields)
}

#[test]
fn intervals_of_a_mean_hold_the_planted_quality() {
    for quality in [0.5, 0.86, 0.95] {
        let found = coverage(quality, |random, resampling| {
            let scores: Vec<f64> = (0..ITEMS).map(|_| hit(random.f64() < quality)).collect();
            mean_interval(&scores, resampling).unwrap()
        });
        assert_covers(&format!("right or wrong, {quality}"), found);
    }
    let quality = 0.86;
    let found = coverage(quality, |random, resampling| {
        let scores: Vec<f64> = (0..ITEMS).map(|_| graded(random, quality, 5)).collect();
        mean_interval(&scores, resampling).unwrap()
    });
    assert_covers("graded", found);
}

/// Items that are hard for one are hard for the other: at half of them the same
/// draw decides for both.
fn pair(random: &mut Rng, candidate: f64, primary: f64) -> (f64, f64) {
    let luck = random.f64();
    let other = if random.bool() { luck } else { random.f64() };
    (hit(luck < candidate), hit(other < primary))
}

#[test]
fn intervals_of_a_ratio_hold_the_planted_one() {
    let (candidate, primary) = (0.86, 0.99);
    let found = coverage(candidate / primary, |random, resampling| {
        let draw = |_| pair(random, candidate, primary);
        let pairs: Vec<_> = (0..ITEMS).map(draw).collect();
        paired_ratio(&pairs, resampling).unwrap()
    });
    assert_covers("right or wrong", found);
    let (candidate, primary) = (0.7, 0.9);
    let found = coverage(candidate / primary, |random, resampling| {
        let mut draw = |_| {
            let fields: Vec<_> = (0..5).map(|_| pair(random, candidate, primary)).collect();
            let sum = fields
                .iter()
                .fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d));
            (sum.0 / 5.0, sum.1 / 5.0)
        };
        let pairs: Vec<_> = (0..ITEMS).map(&mut draw).collect();
        paired_ratio(&pairs, resampling).unwrap()
    });
    assert_covers("graded", found);
}

/// Near the ends the intervals are wider than they have to be, and never narrower.
#[test]
fn near_the_ends_a_truth_is_held_at_least_as_often() {
    let found = coverage(1.0, |random, resampling| {
        let draw = |_| pair(random, 0.985, 0.985);
        let pairs: Vec<_> = (0..ITEMS).map(draw).collect();
        paired_ratio(&pairs, resampling).unwrap()
    });
    assert!(found >= 0.95, "ratio {found}");
    let found = coverage(0.985, |random, resampling| {
        let scores: Vec<f64> = (0..ITEMS).map(|_| graded(random, 0.985, 5)).collect();
        mean_interval(&scores, resampling).unwrap()
    });
    assert!(found >= 0.95, "mean {found}");
}

/// At the threshold itself nothing may pass more often than the confidence
/// allows: 2.5% on that side, and three standard deviations of 2,000 runs.
#[test]
fn a_candidate_that_is_too_weak_passes_as_seldom_as_promised() {
    let (primary, candidate) = (0.95, 0.95 * 0.85);
    let passed = (0..RUNS).filter(|run| {
        let mut random = Rng::with_seed(0xdead ^ (run * 0x9e37_79b9));
        let draw = |_| pair(&mut random, candidate, primary);
        let pairs: Vec<_> = (0..ITEMS).map(draw).collect();
        let ratio = paired_ratio(&pairs, &resampling(*run)).unwrap();
        ratio.lower >= 0.85
    });
    let passed = passed.count();
    assert!(passed <= 72, "{passed} of {RUNS}");
}

#[test]
fn a_gate_never_passes_what_is_far_below_nor_fails_what_is_far_above() {
    for run in 0..50 {
        let mut random = Rng::with_seed(run);
        let mut scores = |quality: f64| -> Vec<f64> {
            (0..ITEMS).map(|_| hit(random.f64() < quality)).collect()
        };
        let candidates = [
            ("north/primary", scores(0.95)),
            ("south/good", scores(0.94)),
            ("south/bad", scores(0.5)),
        ];
        let judged = judged(measured(&candidates), &limits());
        assert_ne!(judged[0].verdict(), Verdict::Fail, "run {run}");
        assert_eq!(judged[1].verdict(), Verdict::Fail, "run {run}");
    }
}

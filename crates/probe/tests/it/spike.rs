//! The spike detector (invariant 26a) against the recursion in floating point.

use evenkeel_probe::{Detector, LatencyWindow, Verdict, WindowConfig};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::model::Cusum;
use crate::{at, ms, t0};

/// A window whose percentile rules can never hold: only the spike detector speaks.
fn spike_only() -> LatencyWindow {
    let config = WindowConfig::new(ms(100), ms(200), ms(1_000)).unwrap();
    LatencyWindow::new(config.min_samples(u32::MAX), t0())
}

fn is_spike(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Breached(breach) if breach.detector == Detector::Spike)
}

/// Mostly no time passes, sometimes several windows.
fn step() -> impl Strategy<Value = u64> {
    prop_oneof![19 => Just(0_u64), 1 => 0..3_000_u64]
}

proptest! {
    /// Invariant 26a. The score knows no time: any amount may pass between two observations.
    #[test]
    fn inv26a_it_is_the_recursion(steps in vec((prop::bool::weighted(0.4), step()), 0..300)) {
        let probe = spike_only();
        let mut cusum = Cusum::default();
        let mut now = 0;
        for (over, pause) in steps {
            now += pause;
            probe.record(ms(if over { 150 } else { 50 }), at(now));
            cusum.step(over);
            prop_assert_eq!(is_spike(probe.verdict(at(now))), cusum.fired, "S = {}", cusum.s);
        }
    }

    #[test]
    fn inv26a_five_in_a_row_fire_from_any_history(history in vec(any::<bool>(), 0..200)) {
        let probe = spike_only();
        for over in history {
            probe.record(ms(if over { 150 } else { 50 }), t0());
        }
        for _ in 0..5 {
            probe.record(ms(150), t0());
        }
        prop_assert!(is_spike(probe.verdict(t0())));
    }
}

#[test]
fn inv26a_four_from_zero_never_fire() {
    let probe = spike_only();
    for _ in 0..1_000 {
        (0..4).for_each(|_| probe.record(ms(150), t0()));
        assert!(!probe.verdict(t0()).is_breached());
        // 4 ln 10 / ln 1.9 = 14.4: fifteen under lead back to zero.
        (0..15).for_each(|_| probe.record(ms(50), t0()));
    }
}

#[test]
fn half_of_the_calls_over_fire_within_a_few_dozen() {
    let probe = spike_only();
    let fires_after = (1..100).find(|calls| {
        probe.record(ms(if calls % 2 == 1 { 150 } else { 50 }), t0());
        probe.verdict(t0()).is_breached()
    });
    assert_eq!(fires_after, Some(13)); // 7 ln 10 - 6 ln 1.9 = 12.27, one pair less is 10.6
}

#[test]
fn switched_off_it_never_fires() {
    let config = WindowConfig::new(ms(100), ms(200), ms(1_000)).unwrap();
    let config = config.min_samples(u32::MAX).spike_detector(false);
    let probe = LatencyWindow::new(config, t0());
    (0..50).for_each(|_| probe.record(ms(900), t0()));
    assert_eq!(probe.verdict(t0()), Verdict::Unknown);
}

#[test]
fn on_an_endpoint_exactly_on_its_limit_false_alarms_are_rare() {
    // Once in about 570,000 calls by the Markov chain; 2 million calls bring 3.5 on average, and 12 or more
    // with probability below 0.0005 (Poisson).
    let probe = spike_only();
    let (mut dice, mut alarms) = (0x9e37_79b9_7f4a_7c15_u64, 0);
    for _ in 0..2_000_000 {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let over = dice % 1_000 < 50;
        probe.record(ms(if over { 150 } else { 50 }), t0());
        if probe.verdict(t0()).is_breached() {
            alarms += 1;
            probe.restart(t0());
        }
    }
    assert!(alarms < 12, "{alarms}");
}

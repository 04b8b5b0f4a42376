//! Clocks that stand still, jump, or run backwards, and durations at both ends.

use std::time::Duration;

use evenkeel_probe::{LatencyWindow, Recovery, RecoveryConfig, Verdict, WindowConfig};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::{at, ms, t0};

const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);

fn window() -> LatencyWindow {
    let config = WindowConfig::new(ms(100), ms(250), ms(1_600)).unwrap();
    LatencyWindow::new(config, t0())
}

#[test]
fn with_time_standing_still_everything_counts() {
    let probe = window();
    (0..10_000).for_each(|_| probe.record(ms(0), t0()));
    assert_eq!(probe.counts(t0()).n95, 10_000);
}

#[test]
fn a_huge_jump_empties_the_window_and_it_goes_on() {
    let probe = window();
    (0..50).for_each(|_| probe.record(ms(0), t0()));
    let later = t0() + CENTURY;
    assert_eq!(probe.counts(later).n95, 0);
    assert_eq!(probe.report(later).samples, 0);
    probe.record(ms(0), later);
    assert_eq!(
        (probe.counts(later).n95, probe.report(later).samples),
        (1, 1)
    );
}

#[test]
fn an_earlier_instant_is_taken_as_the_latest() {
    let probe = window();
    probe.record(ms(0), at(10_000));
    probe.record(ms(0), at(10));
    assert_eq!(probe.counts(at(10)).n95, 2);
    // Both leave with the slice of the latest.
    assert_eq!(probe.counts(at(11_599)).n95, 2);
    assert_eq!(probe.counts(at(11_600)).n95, 0);
}

#[test]
fn an_instant_before_the_window_was_made_is_its_making() {
    let config = WindowConfig::new(ms(100), ms(250), ms(1_600)).unwrap();
    let probe = LatencyWindow::new(config, at(5_000));
    let obs = probe.begin(t0());
    probe.finish(obs, at(50));
    assert_eq!(probe.counts(t0()).n95, 1);
    assert_eq!(probe.counts(at(6_599)).n95, 1);
    assert_eq!(probe.counts(at(6_600)).n95, 0);
}

#[test]
fn an_end_before_the_beginning_is_a_latency_of_zero() {
    let probe = window();
    let obs = probe.begin(at(500));
    assert_eq!(obs.age(t0()), Duration::ZERO);
    probe.finish(obs, t0());
    assert_eq!(probe.report(t0()).max, Some(Duration::ZERO));
    let counts = probe.counts(t0());
    assert_eq!((counts.n95, counts.over95), (1, 0));
}

#[test]
fn the_shortest_and_the_longest_window_work() {
    for span in [
        Duration::from_nanos(1),
        Duration::from_nanos(15),
        Duration::MAX,
    ] {
        let config = WindowConfig::new(ms(100), ms(250), span).unwrap();
        let probe = LatencyWindow::new(config, t0());
        (0..5).for_each(|_| probe.record(ms(300), t0()));
        assert!(probe.verdict(t0()).is_breached());
        assert_eq!(
            probe.counts(at(1)).n95,
            if span == Duration::MAX { 5 } else { 0 }
        );
        probe.record(ms(300), t0() + CENTURY);
        assert_eq!(
            probe.counts(t0() + CENTURY).n95,
            if span == Duration::MAX { 6 } else { 1 }
        );
    }
}

#[test]
fn limits_without_end_are_never_due_and_never_passed() {
    let config = WindowConfig::new(Duration::MAX, Duration::MAX, ms(1_000)).unwrap();
    let probe = LatencyWindow::new(config, t0());
    let mut obs = probe.begin(t0());
    probe.overdue(&mut obs, t0() + CENTURY);
    probe.finish(obs, t0() + CENTURY);
    let counts = probe.counts(t0() + CENTURY);
    assert_eq!((counts.n95, counts.over95), (1, 0));
}

#[test]
fn a_restart_at_an_earlier_instant_still_forgets_everything() {
    let probe = window();
    (0..5).for_each(|_| probe.record(ms(300), at(10_000)));
    probe.restart(t0());
    assert_eq!(probe.counts(at(10_000)).n95, 0);
    assert_eq!(probe.verdict(t0()), Verdict::Unknown);
}

proptest! {
    /// Any order of any instants: nothing panics, and every answer keeps its order.
    #[test]
    fn no_sequence_of_instants_breaks_a_window(
        span in prop_oneof![1..100_u64, 1_000_000..10_000_000_000_u64, Just(u64::MAX)],
        steps in vec((any::<u64>(), any::<u64>(), 0..6_u8), 0..60),
    ) {
        let config = WindowConfig::new(ms(100), ms(250), Duration::from_nanos(span)).unwrap();
        let probe = LatencyWindow::new(config, t0());
        for (began, ended, how) in steps {
            // Up to 292 years from the origin, or within a microsecond of it.
            let near_or_far = |nanos: u64| if nanos % 2 == 1 { nanos % 1_000 } else { nanos / 2 };
            let instant = |nanos| t0() + Duration::from_nanos(near_or_far(nanos));
            let mut obs = probe.begin(instant(began));
            let ended = instant(ended);
            match how {
                0 => probe.overdue(&mut obs, ended),
                1 => probe.cancel(obs, ended),
                2 => probe.restart(ended),
                _ => probe.finish(obs, ended),
            }
            let (counts, report) = (probe.counts(ended), probe.report(ended));
            prop_assert!(counts.over95 <= counts.n95 && counts.over99 <= counts.n99 && counts.n99 <= counts.n95);
            prop_assert!(report.p50 <= report.p95 && report.p95 <= report.p99 && report.p99 <= report.max);
            let _ = (probe.judge(ended), probe.p95_since_run(ended), probe.median_at(ended));
        }
    }
}

#[test]
fn recovery_with_durations_without_end_waits_for_ever() {
    let config = RecoveryConfig {
        probe_interval: Duration::MAX,
        probe_interval_cap: Duration::MAX,
        canary_max: Duration::MAX,
        hold: Duration::MAX,
        reset_after: Duration::MAX,
        restore_after: 1,
        growth: f64::MAX,
        ..RecoveryConfig::default()
    };
    let recovery = Recovery::new(config).unwrap();
    let _ = recovery.restored(t0());
    recovery.left(t0() + CENTURY);
    assert_eq!(recovery.interval(t0()), Duration::MAX);
    assert_eq!(
        recovery.probed(t0() + 2 * CENTURY, Some(ms(1)), ms(100)),
        None
    );
    assert_eq!(recovery.next_due(), None);
}

#[test]
fn recovery_takes_an_earlier_instant_as_no_time_passed() {
    let recovery = Recovery::new(RecoveryConfig {
        restore_after: 1,
        canary: Vec::new(),
        ..RecoveryConfig::default()
    })
    .unwrap();
    recovery.left(at(100_000));
    assert_eq!(recovery.probed(t0(), Some(ms(1)), ms(100)), None);
    assert_eq!(recovery.restored(t0()), Duration::ZERO);
}

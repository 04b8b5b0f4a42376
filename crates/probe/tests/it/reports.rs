//! Reported percentiles (invariants 22, 23), published figures and the run of exceedances.

use std::time::Duration;

use evenkeel_probe::{LatencyWindow, MergedWindows, WindowConfig};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::{at, ms, t0};

const WINDOW: u64 = 1_600;

fn window() -> LatencyWindow {
    let config = WindowConfig::new(ms(100), ms(250), ms(WINDOW)).unwrap();
    LatencyWindow::new(config, t0())
}

/// The sample of rank ceil(percent n / 100).
fn nearest_rank(samples: &mut [u64], percent: usize) -> u64 {
    samples.sort_unstable();
    samples[(samples.len() * percent).div_ceil(100) - 1]
}

/// Within the stated error: at least the exact one, at most 1/128 and a microsecond above it.
fn is_near(reported: Option<Duration>, exact_nanos: u64) -> bool {
    let reported = reported.unwrap().as_nanos();
    let exact = u128::from(exact_nanos);
    exact <= reported && reported <= exact + exact / 128 + 1_000
}

/// Latencies from nanoseconds to hours.
fn latency() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..5_000_u64,
        1_000_000..10_000_000_u64,
        50_000_000..2_000_000_000_u64,
        1_000_000_000_000..17_000_000_000_000_u64,
    ]
}

proptest! {
    /// Invariants 22 and 23.
    #[test]
    fn inv22_and_23_percentiles_are_nearest_rank_within_the_stated_error(mut nanos in vec(latency(), 1..300)) {
        let probe = window();
        for &latency in &nanos {
            probe.record(Duration::from_nanos(latency), at(100_000_000));
        }
        let report = probe.report(at(100_000_000));
        prop_assert_eq!(report.samples, nanos.len() as u64);
        prop_assert!(is_near(report.p50, nearest_rank(&mut nanos, 50)));
        prop_assert!(is_near(report.p95, nearest_rank(&mut nanos, 95)));
        prop_assert!(is_near(report.p99, nearest_rank(&mut nanos, 99)));
        prop_assert_eq!(report.max, nanos.iter().max().map(|&max| Duration::from_nanos(max)));
        prop_assert!(report.p50 <= report.p95 && report.p95 <= report.p99 && report.p99 <= report.max);
    }

    /// A report is on the half windows of its own time and before, whatever came earlier.
    #[test]
    fn samples_stay_for_the_half_window_after_their_own(steps in vec((0..1_200_u64, 1..5_000_u64), 1..100)) {
        let probe = window();
        let mut list = Vec::new();
        let mut now = 0;
        for (pause, latency) in steps {
            now += pause;
            let half = now / (WINDOW / 2);
            list.retain(|(recorded, _)| recorded + 1 >= half);
            list.push((half, latency * 1_000_000));
            probe.record(ms(latency), at(now));
            let mut held: Vec<_> = list.iter().map(|(_, nanos)| *nanos).collect();
            let report = probe.report(at(now));
            prop_assert_eq!(report.samples, held.len() as u64);
            prop_assert!(is_near(report.p95, nearest_rank(&mut held, 95)));
        }
    }

    /// Several windows report as one that had got all the samples.
    #[test]
    fn merged_windows_report_as_one(nanos in vec((latency(), 0..3_usize), 1..200)) {
        let workers = [(); 3].map(|()| window());
        let whole = window();
        let now = at(100_000_000);
        for (latency, worker) in nanos {
            workers[worker].record(Duration::from_nanos(latency), now);
            whole.record(Duration::from_nanos(latency), now);
        }
        let merged = MergedWindows::new(&workers);
        prop_assert_eq!(merged.report(now), whole.report(now));
        prop_assert_eq!(merged.counts(now), whole.counts(now));
    }
}

#[test]
fn merged_verdicts_are_on_the_sum_and_a_spike_at_any_worker() {
    let workers = [(); 2].map(|()| window());
    let merged = MergedWindows::new(&workers);
    assert!(!merged.verdict(t0()).is_breached());
    (0..3).for_each(|_| workers[0].record(ms(150), t0()));
    (0..1).for_each(|_| workers[1].record(ms(150), t0()));
    assert!(!merged.verdict(t0()).is_breached());
    workers[1].record(ms(150), t0());
    assert!(merged.verdict(t0()).is_breached());

    (0..3).for_each(|_| workers[0].record(ms(150), t0()));
    assert!(merged.verdict(at(1_000_000)).is_breached());
    assert!(
        !MergedWindows::new(&workers[1..])
            .verdict(at(1_000_000))
            .is_breached()
    );
    assert!(!MergedWindows::new(&[]).verdict(t0()).is_breached());
    assert_eq!(MergedWindows::new(&[]).report(t0()).max, None);
}

#[test]
fn a_report_on_nothing_has_no_figures() {
    let report = window().report(t0());
    assert_eq!((report.samples, report.p50, report.max), (0, None, None));
    assert!(report.p95_indicative && report.p99_indicative);
}

#[test]
fn beyond_the_largest_bucket_a_percentile_is_the_maximum() {
    let probe = window();
    let day = Duration::from_secs(86_400);
    let now = t0() + 10 * day;
    probe.record(day, now);
    probe.record(2 * day, now);
    let report = probe.report(now);
    assert_eq!((report.p50, report.max), (Some(2 * day), Some(2 * day)));
}

#[test]
fn under_load_a_report_is_on_the_latest_samples_and_no_count_overflows() {
    let probe = window();
    for i in 0..200_000_u64 {
        probe.record(ms(if i % 100 < 10 { 30 } else { 20 }), t0());
    }
    let report = probe.report(t0());
    assert!((65_535..=131_070).contains(&report.samples));
    assert!(is_near(report.p50, 20_000_000) && is_near(report.p95, 30_000_000));
    assert_eq!(probe.counts(t0()).n95, 200_000);
}

#[test]
fn published_figures_appear_at_their_floors() {
    let probe = window();
    for n in 1..=20 {
        probe.record(ms(n), t0());
        assert_eq!(probe.median().is_some(), n >= 5, "{n}");
        assert_eq!(probe.p95().is_some(), n >= 20, "{n}");
        if n == 19 {
            // Of the first five, published then.
            assert!(is_near(probe.median(), 3_000_000));
        }
    }
    assert!(is_near(probe.median(), 10_000_000));
    assert!(is_near(probe.p95(), 19_000_000));
}

#[test]
fn published_figures_follow_once_a_slice() {
    let probe = window();
    (0..20).for_each(|_| probe.record(ms(10), t0()));
    (0..200).for_each(|_| probe.record(ms(90), t0()));
    assert!(is_near(probe.p95(), 10_000_000));
    // The slice has turned: the next attempt to begin brings them up to date.
    drop(probe.begin(at(100)));
    assert!(is_near(probe.p95(), 90_000_000));
}

#[test]
fn published_figures_of_an_idle_window_go_out_of_date() {
    let probe = window();
    (0..20).for_each(|_| probe.record(ms(10), t0()));
    assert!(probe.p95_at(at(WINDOW - 1)).is_some() && probe.median_at(at(WINDOW - 1)).is_some());
    assert_eq!(probe.p95_at(at(WINDOW)), None);
    assert_eq!(probe.median_at(at(WINDOW)), None);
    assert!(probe.p95().is_some());
    drop(probe.begin(at(2 * WINDOW)));
    assert_eq!((probe.p95(), probe.median()), (None, None));
}

#[test]
fn a_restart_keeps_what_is_reported() {
    let probe = window();
    let late = probe.begin(t0());
    (0..20).for_each(|_| probe.record(ms(10), t0()));
    probe.restart(t0());
    assert_eq!(probe.report(t0()).samples, 20);
    assert!(probe.p95().is_some());
    probe.finish(late, at(500));
    assert_eq!(probe.report(at(500)).samples, 21);
    assert_eq!(probe.counts(at(500)).n95, 0);
}

#[test]
fn the_run_begins_with_the_first_exceedance_and_ends_when_the_score_is_back_at_zero() {
    let probe = window();
    (0..50).for_each(|_| probe.record(ms(10), t0()));
    assert_eq!(probe.p95_since_run(t0()), None);
    probe.record(ms(400), t0());
    assert_eq!(probe.p95_since_run(t0()), Some(ms(400)));
    probe.record(ms(10), t0());
    assert_eq!(probe.p95_since_run(t0()), Some(ms(400)));
    // ln 10 / ln 1.9 = 3.6: the fourth under the limit ends the run.
    probe.record(ms(10), t0());
    probe.record(ms(10), t0());
    assert!(probe.p95_since_run(t0()).is_some());
    probe.record(ms(10), t0());
    assert_eq!(probe.p95_since_run(t0()), None);
}

#[test]
fn a_report_beside_a_breach_has_the_late_attempts_that_are_open() {
    let probe = window();
    (0..3).for_each(|_| probe.record(ms(10), t0()));
    let mut open: Vec<_> = (0..5).map(|_| probe.begin(t0())).collect();
    for obs in &mut open {
        probe.overdue(obs, at(100));
    }
    assert!(probe.verdict(at(150)).is_breached());
    assert!(probe.report(at(150)).p95 < Some(ms(100)));
    let told = probe.report_with_open(at(150));
    assert_eq!((told.samples, told.max), (8, Some(ms(150))));
    assert!(is_near(told.p95, 150_000_000) && told.p95 <= told.p99);
    // Ended, they are samples like any other, and counted once.
    for obs in open {
        probe.finish(obs, at(160));
    }
    let ended = probe.report(at(160));
    assert_eq!(probe.report_with_open(at(160)), ended);
    assert_eq!((ended.samples, ended.max), (8, Some(ms(160))));
}

#[test]
fn open_attempts_count_in_the_run_with_their_age() {
    let probe = window();
    (0..50).for_each(|_| probe.record(ms(10), t0()));
    let mut stalled: Vec<_> = (0..5).map(|_| probe.begin(t0())).collect();
    for obs in &mut stalled {
        probe.overdue(obs, at(100));
    }
    assert_eq!(probe.p95_since_run(at(100)), Some(ms(100)));
    assert_eq!(probe.p95_since_run(at(700)), Some(ms(700)));
    for obs in stalled {
        probe.cancel(obs, at(800));
    }
    assert_eq!(probe.p95_since_run(at(5_000)), Some(ms(800)));
}

#[test]
fn a_long_run_keeps_its_latest_attempts() {
    let probe = window();
    let mut first = probe.begin(t0());
    probe.overdue(&mut first, at(100));
    (0..64).for_each(|_| probe.record(ms(150), at(1_000)));
    // Its entry has been taken over by another attempt's.
    probe.finish(first, at(90_000));
    assert_eq!(probe.p95_since_run(at(90_000)), Some(ms(150)));
}

#[test]
fn the_run_starts_anew_with_the_evidence() {
    let probe = window();
    let open = probe.begin(t0());
    (0..5).for_each(|_| probe.record(ms(400), t0()));
    probe.restart(t0());
    assert_eq!(probe.p95_since_run(t0()), None);
    probe.finish(open, at(900));
    assert_eq!(probe.p95_since_run(at(900)), None);
    probe.record(ms(150), at(900));
    assert_eq!(probe.p95_since_run(at(900)), Some(ms(150)));
}

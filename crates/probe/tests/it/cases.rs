//! Faults met in products like this one.

use std::time::Duration;

use evenkeel_probe::{Counts, LatencyWindow, Verdict, WindowConfig};

use crate::{at, ms, t0};

fn window(p99: u64, span: u64) -> LatencyWindow {
    LatencyWindow::new(WindowConfig::new(ms(p99), ms(p99), ms(span)).unwrap(), t0())
}

fn near(reported: Option<Duration>, exact: u64) -> bool {
    let reported = reported.unwrap().as_micros();
    let exact = u128::from(exact) * 1_000;
    exact <= reported && reported <= exact + exact / 128 + 1
}

#[test]
fn c046_an_empty_window_has_no_percentiles_and_no_verdict() {
    let probe = window(1_000, 60_000);
    let report = probe.report(t0());
    assert_eq!((report.p50, report.p95, report.p99), (None, None, None));
    assert_eq!((probe.median(), probe.p95()), (None, None));
    assert_eq!(probe.verdict(at(1)), Verdict::Unknown);
    assert_eq!(probe.counts(at(1)), Counts::default());
}

#[test]
fn c048_one_slow_call_of_a_hundred_is_neither_the_p99_nor_a_breach() {
    let config = WindowConfig::new(ms(1_000), ms(1_000), ms(300_000)).unwrap();
    let probe = LatencyWindow::new(config.min_samples(20), t0());
    for latency in [100, 100, 100, 9_000] {
        probe.record(ms(latency), t0());
    }
    assert_eq!(probe.verdict(at(10)), Verdict::Unknown);
    (0..96).for_each(|_| probe.record(ms(100), at(1_000)));
    assert!(near(probe.report(at(1_010)).p99, 100));
    assert_eq!(probe.verdict(at(1_010)), Verdict::Healthy);
}

#[test]
fn c049_reading_alone_lets_old_samples_go() {
    let probe = window(60_000, 10_000);
    (0..50).for_each(|_| probe.record(ms(5_000), t0()));
    assert!(near(probe.report(at(9_999)).p95, 5_000));
    assert_eq!(probe.report(at(25_000)).p95, None);
    probe.record(ms(100), at(25_001));
    assert!(near(probe.report(at(25_002)).p95, 100));
}

#[test]
fn c050_the_p99_of_a_thousand_and_one_is_not_the_maximum() {
    let probe = window(60_000, 60_000);
    let now = at(10_000_000);
    (0..1_000).for_each(|_| probe.record(ms(1), now));
    probe.record(ms(10_000_000), now);
    let report = probe.report(now);
    assert!(near(report.p50, 1) && near(report.p95, 1) && near(report.p99, 1));
    assert_eq!(report.max, Some(ms(10_000_000)));
}

#[test]
fn c051_fast_services_do_not_report_zero() {
    let probe = window(60_000, 60_000);
    // Uniform in 3 to 9 ms.
    (0..100).for_each(|i| probe.record(Duration::from_micros(3_000 + 60 * i), t0()));
    let report = probe.report(at(1));
    let [p50, p99] = [report.p50, report.p99].map(|value| value.unwrap().as_micros());
    assert!((5_940..6_060).contains(&p50) && (8_880..9_000).contains(&p99));
    probe.record(Duration::from_nanos(1), t0());
    let tiny = window(60_000, 60_000);
    tiny.record(Duration::from_nanos(1), t0());
    assert!(tiny.report(t0()).p50 > Some(Duration::ZERO));
}

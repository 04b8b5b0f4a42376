//! What configuration is refused, and limits changed at run time.

use std::time::Duration;

use evenkeel_probe::{LatencyWindow, Verdict, WindowConfig};

use crate::{at, ms, t0};

#[test]
fn contradictions_are_refused_with_field_and_range() {
    let (t95, t99, span) = (ms(100), ms(200), ms(1_000));
    let refused = |config: Result<WindowConfig, _>| config.unwrap_err();
    let no_p95 = refused(WindowConfig::new(Duration::ZERO, t99, span));
    assert_eq!(no_p95.field(), "p95");
    let crossed = refused(WindowConfig::new(t99, t95, span));
    assert_eq!(
        (crossed.field(), crossed.allowed()),
        ("p99", "at least p95, which is 200ms")
    );
    let no_span = refused(WindowConfig::new(t95, t99, Duration::ZERO));
    assert_eq!(no_span.to_string(), "window is 0ns, but must be above 0");
    for confidence in [-0.1, 1.0, 1.5, f64::NAN, f64::INFINITY] {
        let config = WindowConfig::new(t95, t99, span).unwrap();
        assert_eq!(refused(config.confidence(confidence)).field(), "confidence");
    }
    assert!(WindowConfig::new(t95, t95, span).is_ok());
}

#[test]
fn new_limits_are_for_new_attempts_and_lose_no_observation() {
    let config = WindowConfig::new(ms(100), ms(200), ms(1_600)).unwrap();
    let probe = LatencyWindow::new(config, t0());
    (0..6).for_each(|_| probe.record(ms(150), t0()));
    let open = probe.begin(t0());
    assert!(probe.verdict(t0()).is_breached());

    probe.set_thresholds(ms(300), ms(600)).unwrap();
    assert_eq!(probe.thresholds(), (ms(300), ms(600)));
    let counts = probe.counts(t0());
    assert_eq!((counts.n95, counts.over95), (6, 6));
    assert!(matches!(probe.verdict(t0()), Verdict::Breached(breach) if breach.limit == ms(300)));

    assert_eq!(probe.next_due(&open), Some(at(100)));
    probe.finish(open, at(150));
    assert_eq!(probe.counts(at(150)).over95, 7);
    probe.record(ms(150), at(200));
    let counts = probe.counts(at(200));
    assert_eq!((counts.n95, counts.over95), (8, 7));
    assert_eq!(probe.report(at(200)).samples, 8);
}

#[test]
fn contradictory_new_limits_change_nothing() {
    let config = WindowConfig::new(ms(100), ms(200), ms(1_600)).unwrap();
    let probe = LatencyWindow::new(config, t0());
    assert_eq!(
        probe.set_thresholds(ms(300), ms(200)).unwrap_err().field(),
        "p99"
    );
    assert_eq!(
        probe.set_thresholds(ms(0), ms(200)).unwrap_err().field(),
        "p95"
    );
    assert_eq!(probe.thresholds(), (ms(100), ms(200)));
}

//! The configs as JSON (feature `serde`).

use std::time::Duration;

use evenkeel_probe::{LatencyWindow, RecoveryConfig, WindowConfig};
use serde_json::{from_str, json, to_value};

use crate::{at, ms, t0};

fn refusal<T: serde::de::DeserializeOwned + std::fmt::Debug>(written: &str) -> String {
    from_str::<T>(written).unwrap_err().to_string()
}

#[test]
fn a_window_needs_its_limits_and_its_span_and_has_defaults_for_the_rest() {
    let written = r#"{"p95_ms": 100, "p99_ms": 250, "window_ms": 1600}"#;
    let config: WindowConfig = from_str(written).unwrap();
    let expected = json!({
        "p95_ms": 100, "p99_ms": 250, "window_ms": 1600,
        "min_samples": 5, "confidence": 0.999, "spike_detector": true,
    });
    assert_eq!(to_value(&config).unwrap(), expected);
    let constructed = WindowConfig::new(ms(100), ms(250), ms(1_600)).unwrap();
    assert_eq!(to_value(&constructed).unwrap(), expected);
    assert!(refusal::<WindowConfig>(r#"{"p95_ms": 1, "p99_ms": 1}"#).contains("`window_ms`"));
}

#[test]
fn what_is_written_is_what_the_window_goes_by() {
    let written = r#"{"p95_ms": 100, "p99_ms": 250, "window_ms": 1600, "min_samples": 2,
                      "confidence": 0.0, "spike_detector": false}"#;
    let config: WindowConfig = from_str(written).unwrap();
    assert_eq!(
        to_value(&config).unwrap(),
        from_str::<serde_json::Value>(written).unwrap()
    );
    let window = LatencyWindow::new(config, t0());
    assert_eq!(window.thresholds(), (ms(100), ms(250)));
    window.record(ms(101), t0());
    assert!(!window.verdict(t0()).is_breached(), "below min_samples");
    window.record(ms(50), t0());
    assert!(window.verdict(t0()).is_breached(), "the plain rule: 1 in 2");
    assert_eq!(window.counts(at(1_700)).n95, 0);
}

#[test]
fn a_recovery_has_a_default_for_every_key_and_survives_a_round_trip() {
    let config: RecoveryConfig = from_str("{}").unwrap();
    assert_eq!(config, RecoveryConfig::default());
    let config = RecoveryConfig {
        probe_interval: ms(1),
        restore_below: 0.1,
        restore_after: 3,
        canary: vec![0.3],
        canary_samples: 4,
        canary_max: ms(5),
        hold: ms(6),
        growth: 7.5,
        probe_interval_cap: ms(8),
        reset_after: ms(9),
        clear_rate: 0.9,
    };
    let written = to_value(&config).unwrap();
    assert_eq!(written["probe_interval_ms"], 1);
    assert_eq!(written["probe_interval_cap_ms"], 8);
    assert_eq!(
        serde_json::from_value::<RecoveryConfig>(written).unwrap(),
        config
    );
}

#[test]
fn what_no_constructor_takes_is_not_read_either() {
    let refused = refusal::<WindowConfig>(r#"{"p95_ms": 250, "p99_ms": 100, "window_ms": 1}"#);
    assert_eq!(
        refused,
        "p99 is 100ms, but must be at least p95, which is 250ms"
    );
    let refused =
        refusal::<WindowConfig>(r#"{"p95_ms": 1, "p99_ms": 1, "window_ms": 1, "confidence": 1.0}"#);
    assert_eq!(
        refused,
        "confidence is 1.0, but must be at least 0 and below 1"
    );
    let refused = refusal::<RecoveryConfig>(r#"{"canary": [0.5, 0.1]}"#);
    assert!(
        refused.starts_with("canary is [0.5, 0.1], but must be"),
        "{refused}"
    );
    let refused = refusal::<RecoveryConfig>(r#"{"canary_share": 0.1}"#);
    assert!(refused.contains("`canary_share`"), "{refused}");
    let refused = refusal::<WindowConfig>(r#"{"p95_ms": 1, "p99_ms": 1, "window_s": 1}"#);
    assert!(refused.contains("`window_s`"), "{refused}");
}

#[test]
fn a_duration_finer_than_its_written_form_is_refused_not_rounded() {
    let config = WindowConfig::new(Duration::from_micros(1_500), ms(2), ms(2)).unwrap();
    let refused = to_value(&config).unwrap_err().to_string();
    assert_eq!(
        refused,
        "p95 is 1.5ms, but must be a whole number of milliseconds below 2^64 to be written"
    );
    let config = RecoveryConfig {
        hold: Duration::MAX,
        ..RecoveryConfig::default()
    };
    assert!(
        to_value(&config)
            .unwrap_err()
            .to_string()
            .starts_with("hold is ")
    );
}

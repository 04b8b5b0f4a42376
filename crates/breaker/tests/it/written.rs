//! The settings as JSON (feature `serde`).

use std::{fmt::Debug, time::Duration};

use evenkeel_breaker::{Backoff, BreakerConfig, RateRule, RateWindow, SlowRule};
use serde::de::DeserializeOwned;
use serde_json::{Value, from_str, from_value, json, to_value};

use crate::trace::ms;

fn refusal<T: DeserializeOwned + Debug>(written: &str) -> String {
    let error = from_str::<T>(written).expect_err("not to be read");
    error.to_string()
}

fn with_rate(rate: Option<RateRule>) -> BreakerConfig {
    BreakerConfig {
        rate,
        ..BreakerConfig::default()
    }
}

#[test]
fn every_key_has_a_default() {
    let config: BreakerConfig = from_str("{}").unwrap();
    assert_eq!(config, BreakerConfig::default());
    let config: BreakerConfig = from_str(r#"{"rate": {}}"#).unwrap();
    assert_eq!(config, BreakerConfig::default());
    assert_eq!(from_str::<Backoff>("{}").unwrap(), Backoff::default());
}

#[test]
fn the_defaults_are_written_with_their_units() {
    let written = to_value(BreakerConfig::default()).unwrap();
    let expected = json!({
        "failure_threshold": 5, "success_threshold": 2, "open_ms": 60_000, "growth": 2.0,
        "open_cap_ms": 600_000, "jitter": 0.1, "reset_after_ms": 300_000, "half_open_timeout_ms": 30_000,
        "rate": {"failure_rate": 0.5, "min_calls": 20, "window_ms": 60_000},
    });
    assert_eq!(written, expected);
    let written = to_value(Backoff::default()).unwrap();
    assert_eq!(written, json!({"base_ms": 200, "cap_ms": 30_000}));
}

#[test]
fn every_setting_survives_a_round_trip() {
    let config = BreakerConfig {
        failure_threshold: 1,
        success_threshold: 3,
        open: ms(4),
        growth: 5.5,
        open_cap: ms(6),
        jitter: 0.7,
        reset_after: ms(8),
        half_open_timeout: ms(9),
        rate: Some(RateRule {
            failure_rate: 0.01,
            min_calls: 11,
            window: RateWindow::Calls(12),
            slow: Some(SlowRule {
                longer_than: ms(13),
                rate: 0.14,
            }),
        }),
    };
    let written = to_value(config).unwrap();
    let rule = json!({"failure_rate": 0.01, "min_calls": 11, "window_calls": 12,
                      "slow": {"longer_than_ms": 13, "rate": 0.14}});
    assert_eq!(written["rate"], rule);
    assert_eq!(from_value::<BreakerConfig>(written).unwrap(), config);
    let backoff = Backoff {
        base: ms(1),
        cap: ms(2),
    };
    let written = to_value(backoff).unwrap();
    assert_eq!(from_value::<Backoff>(written).unwrap(), backoff);
}

#[test]
fn no_rate_rule_is_false_and_nothing_else() {
    let written = to_value(with_rate(None)).unwrap();
    assert_eq!(written["rate"], Value::Bool(false));
    assert_eq!(
        from_value::<BreakerConfig>(written).unwrap(),
        with_rate(None)
    );
    for wrong in [r#"{"rate": null}"#, r#"{"rate": true}"#, r#"{"rate": 0.5}"#] {
        let refused = refusal::<BreakerConfig>(wrong);
        assert!(
            refused.contains("a rate rule, or false for none"),
            "{refused}"
        );
    }
}

#[test]
fn unknown_keys_are_refused_at_every_depth() {
    for (wrong, key) in [
        (r#"{"open_s": 60}"#, "`open_s`"),
        (r#"{"rate": {"window_s": 60}}"#, "`window_s`"),
        (
            r#"{"rate": {"slow": {"longer_than_ms": 1, "rate": 0.5, "share": 1}}}"#,
            "`share`",
        ),
    ] {
        let refused = refusal::<BreakerConfig>(wrong);
        assert!(refused.starts_with("unknown field"), "{refused}");
        assert!(refused.contains(key), "{refused}");
    }
    assert!(refusal::<Backoff>(r#"{"base": 1}"#).contains("`base`"));
    assert!(refusal::<SlowRule>(r#"{"rate": 1.0}"#).contains("`longer_than_ms`"));
}

#[test]
fn what_no_breaker_is_built_with_is_not_read_either() {
    assert_eq!(
        refusal::<BreakerConfig>(r#"{"open_cap_ms": 1500}"#),
        "open_cap is 1.5s, allowed is 60s..=31536000s"
    );
    assert!(
        refusal::<BreakerConfig>(r#"{"rate": {"window_calls": 19}}"#)
            .starts_with("rate.min_calls is 20, allowed is 1..=19")
    );
    assert!(
        refusal::<RateRule>(r#"{"window_ms": 60000, "window_calls": 100}"#).starts_with(
            "rate.window is both window_ms 60000 and window_calls 100, allowed is one of them"
        )
    );
    assert!(
        refusal::<SlowRule>(r#"{"longer_than_ms": 1, "rate": 1.5}"#)
            .starts_with("rate.slow.rate is 1.5, allowed is 0.001..=1.0")
    );
}

#[test]
fn a_duration_finer_than_its_written_form_is_refused_not_rounded() {
    let config = BreakerConfig {
        half_open_timeout: Duration::from_micros(1_500),
        ..BreakerConfig::default()
    };
    assert_eq!(
        to_value(config).unwrap_err().to_string(),
        "half_open_timeout is 1.5ms, allowed is a whole number of milliseconds below 2^64 to be written"
    );
    let slow = SlowRule {
        longer_than: Duration::MAX,
        rate: 0.5,
    };
    let config = with_rate(Some(RateRule {
        slow: Some(slow),
        ..RateRule::default()
    }));
    let refused = to_value(config).unwrap_err().to_string();
    assert!(
        refused.starts_with("rate.slow.longer_than is "),
        "{refused}"
    );
}

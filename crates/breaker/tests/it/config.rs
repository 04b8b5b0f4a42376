//! Settings outside their range are refused, by name, when the thing is built.

use std::time::Duration;

use evenkeel_breaker::{
    Breaker, BreakerConfig, ConfigError, Cooldown, HedgeBudget, RateRule, RateWindow, RetryBudget,
    SlowRule,
};

use crate::trace::{ms, origin};

type Change = fn(&mut BreakerConfig);

/// The default settings, with a change to their rate rule.
fn with_rule(config: &mut BreakerConfig, change: impl FnOnce(&mut RateRule)) {
    change(config.rate.get_or_insert_default());
}

#[test]
fn every_field_of_a_breaker_names_itself() {
    let wrong: [(&str, Change); 20] = [
        ("failure_threshold", |c| c.failure_threshold = 0),
        ("success_threshold", |c| c.success_threshold = 0),
        ("open", |c| c.open = Duration::ZERO),
        ("open", |c| c.open = Duration::MAX),
        ("growth", |c| c.growth = 0.99),
        ("growth", |c| c.growth = f64::NAN),
        ("growth", |c| c.growth = f64::INFINITY),
        ("open_cap", |c| c.open_cap = ms(59_999)),
        ("open_cap", |c| c.open_cap = Duration::MAX),
        ("jitter", |c| c.jitter = -0.1),
        ("jitter", |c| c.jitter = 1.0),
        ("jitter", |c| c.jitter = f64::NAN),
        ("reset_after", |c| c.reset_after = Duration::MAX),
        ("half_open_timeout", |c| {
            c.half_open_timeout = Duration::ZERO;
        }),
        ("rate.failure_rate", |c| {
            with_rule(c, |rule| rule.failure_rate = f64::NAN);
        }),
        ("rate.failure_rate", |c| {
            with_rule(c, |rule| rule.failure_rate = 1.01);
        }),
        ("rate.min_calls", |c| {
            with_rule(c, |rule| rule.min_calls = 0);
        }),
        ("rate.min_calls", |c| {
            with_rule(c, |rule| rule.window = RateWindow::Calls(19));
        }),
        ("rate.window", |c| {
            with_rule(c, |rule| rule.window = RateWindow::Time(Duration::ZERO));
        }),
        ("rate.slow.rate", |c| {
            let slow = SlowRule {
                longer_than: ms(1),
                rate: 0.0,
            };
            with_rule(c, |rule| rule.slow = Some(slow));
        }),
    ];
    for (field, change) in wrong {
        let mut config = BreakerConfig::default();
        change(&mut config);
        let error = Breaker::new(config, 0, origin()).unwrap_err();
        assert_eq!(error.field(), field, "{error}");
        assert_eq!(config.validate(), Err(error));
    }
}

#[test]
fn the_borders_of_the_ranges_are_accepted() {
    let config = BreakerConfig {
        failure_threshold: u32::MAX,
        success_threshold: u32::MAX,
        open: Duration::from_nanos(1),
        growth: 1.0,
        open_cap: Duration::from_nanos(1),
        jitter: 0.0,
        reset_after: Duration::ZERO,
        half_open_timeout: Duration::from_nanos(1),
        rate: Some(RateRule {
            failure_rate: 0.001,
            min_calls: 1,
            window: RateWindow::Calls(1),
            slow: Some(SlowRule {
                longer_than: Duration::MAX,
                rate: 1.0,
            }),
        }),
    };
    assert_eq!(config.validate(), Ok(()));
    assert_eq!(BreakerConfig::default().validate(), Ok(()));
}

#[test]
fn a_message_says_what_was_seen_and_what_is_allowed() {
    let config = BreakerConfig {
        open_cap: ms(1500),
        ..BreakerConfig::default()
    };
    assert_eq!(
        config.validate().unwrap_err().to_string(),
        "open_cap is 1.5s, allowed is 60s..=31536000s"
    );
    let error = RetryBudget::new(1.5, 1, ms(1), origin()).unwrap_err();
    assert_eq!(error.to_string(), "ratio is 1.5, allowed is 0.0..=1.0");
    assert_eq!((error.field(), error.allowed()), ("ratio", "0.0..=1.0"));
}

#[test]
fn budgets_and_cooldowns_name_what_is_wrong() {
    let now = origin();
    let fields = |errors: &[Option<ConfigError>]| -> Vec<&'static str> {
        errors
            .iter()
            .map(|error| error.as_ref().unwrap().field())
            .collect()
    };
    let errors = [
        RetryBudget::new(f64::NAN, 1, ms(1), now).err(),
        RetryBudget::new(-0.1, 1, ms(1), now).err(),
        RetryBudget::new(0.2, 1, Duration::ZERO, now).err(),
        HedgeBudget::new(f64::NAN, 1).err(),
        HedgeBudget::new(1.1, 1).err(),
        Cooldown::new(Duration::ZERO, 2.0, ms(1)).err(),
        Cooldown::new(ms(2), f64::NAN, ms(3)).err(),
        Cooldown::new(ms(2), 2.0, ms(1)).err(),
    ];
    assert_eq!(
        fields(&errors),
        [
            "ratio", "ratio", "window", "share", "share", "base", "growth", "cap"
        ]
    );
}

//! The settings in writing: each field by its name, durations in whole milliseconds with `_ms` behind it.
//!
//! Absent keys have the documented defaults, unknown ones are refused, and what is read is checked as when a
//! breaker is built. A duration that is no whole number of milliseconds is refused in writing, not rounded.

use std::{fmt, time::Duration};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Error as _, MapAccess, Unexpected, Visitor, value::MapAccessDeserializer},
    ser::Error as _,
};

use crate::{
    backoff::Backoff,
    config::{BreakerConfig, RateRule, RateWindow, SlowRule},
    error::ConfigError,
};

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, rename = "BreakerConfig")]
struct WrittenBreaker {
    failure_threshold: u32,
    success_threshold: u32,
    open_ms: u64,
    growth: f64,
    open_cap_ms: u64,
    jitter: f64,
    reset_after_ms: u64,
    half_open_timeout_ms: u64,
    rate: RuleOrFalse,
}

/// Off is `false`, not null and not absent: TOML has no null, and absent means the default rule.
struct RuleOrFalse(Option<RateRule>);

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, rename = "RateRule")]
struct WrittenRate {
    failure_rate: f64,
    min_calls: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_calls: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slow: Option<SlowRule>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename = "SlowRule")]
struct WrittenSlow {
    longer_than_ms: u64,
    rate: f64,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, rename = "Backoff")]
struct WrittenBackoff {
    base_ms: u64,
    cap_ms: u64,
}

impl Default for WrittenBreaker {
    fn default() -> Self {
        Self::try_from(&BreakerConfig::default()).expect("the defaults are whole milliseconds")
    }
}

impl Default for WrittenRate {
    fn default() -> Self {
        let rule = RateRule::default();
        Self {
            failure_rate: rule.failure_rate,
            min_calls: rule.min_calls,
            window_ms: None,
            window_calls: None,
            slow: rule.slow,
        }
    }
}

impl Default for WrittenBackoff {
    fn default() -> Self {
        Self::try_from(&Backoff::default()).expect("the defaults are whole milliseconds")
    }
}

impl TryFrom<WrittenBreaker> for BreakerConfig {
    type Error = ConfigError;

    fn try_from(written: WrittenBreaker) -> Result<Self, ConfigError> {
        let ms = Duration::from_millis;
        let config = Self {
            failure_threshold: written.failure_threshold,
            success_threshold: written.success_threshold,
            open: ms(written.open_ms),
            growth: written.growth,
            open_cap: ms(written.open_cap_ms),
            jitter: written.jitter,
            reset_after: ms(written.reset_after_ms),
            half_open_timeout: ms(written.half_open_timeout_ms),
            rate: written.rate.0,
        };
        config.validate()?;
        Ok(config)
    }
}

impl TryFrom<&BreakerConfig> for WrittenBreaker {
    type Error = ConfigError;

    fn try_from(config: &BreakerConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            failure_threshold: config.failure_threshold,
            success_threshold: config.success_threshold,
            open_ms: whole_ms("open", config.open)?,
            growth: config.growth,
            open_cap_ms: whole_ms("open_cap", config.open_cap)?,
            jitter: config.jitter,
            reset_after_ms: whole_ms("reset_after", config.reset_after)?,
            half_open_timeout_ms: whole_ms("half_open_timeout", config.half_open_timeout)?,
            rate: RuleOrFalse(config.rate),
        })
    }
}

impl TryFrom<WrittenRate> for RateRule {
    type Error = ConfigError;

    fn try_from(written: WrittenRate) -> Result<Self, ConfigError> {
        let window = match (written.window_ms, written.window_calls) {
            (None, None) => Self::default().window,
            (Some(millis), None) => RateWindow::Time(Duration::from_millis(millis)),
            (None, Some(calls)) => RateWindow::Calls(calls),
            (Some(millis), Some(calls)) => {
                let seen = format_args!("both window_ms {millis} and window_calls {calls}");
                return Err(ConfigError::new("rate.window", &seen, "one of them"));
            }
        };
        let rule = Self {
            failure_rate: written.failure_rate,
            min_calls: written.min_calls,
            window,
            slow: written.slow,
        };
        rule.validate()?;
        Ok(rule)
    }
}

impl TryFrom<&RateRule> for WrittenRate {
    type Error = ConfigError;

    fn try_from(rule: &RateRule) -> Result<Self, ConfigError> {
        let (window_ms, window_calls) = match rule.window {
            RateWindow::Time(span) => (Some(whole_ms("rate.window", span)?), None),
            RateWindow::Calls(calls) => (None, Some(calls)),
        };
        Ok(Self {
            failure_rate: rule.failure_rate,
            min_calls: rule.min_calls,
            window_ms,
            window_calls,
            slow: rule.slow,
        })
    }
}

impl TryFrom<WrittenSlow> for SlowRule {
    type Error = ConfigError;

    fn try_from(written: WrittenSlow) -> Result<Self, ConfigError> {
        let rule = Self {
            longer_than: Duration::from_millis(written.longer_than_ms),
            rate: written.rate,
        };
        rule.validate()?;
        Ok(rule)
    }
}

impl TryFrom<&SlowRule> for WrittenSlow {
    type Error = ConfigError;

    fn try_from(rule: &SlowRule) -> Result<Self, ConfigError> {
        Ok(Self {
            longer_than_ms: whole_ms("rate.slow.longer_than", rule.longer_than)?,
            rate: rule.rate,
        })
    }
}

impl TryFrom<WrittenBackoff> for Backoff {
    type Error = ConfigError;

    fn try_from(written: WrittenBackoff) -> Result<Self, ConfigError> {
        Ok(Self {
            base: Duration::from_millis(written.base_ms),
            cap: Duration::from_millis(written.cap_ms),
        })
    }
}

impl TryFrom<&Backoff> for WrittenBackoff {
    type Error = ConfigError;

    fn try_from(backoff: &Backoff) -> Result<Self, ConfigError> {
        Ok(Self {
            base_ms: whole_ms("base", backoff.base)?,
            cap_ms: whole_ms("cap", backoff.cap)?,
        })
    }
}

fn whole_ms(field: &'static str, duration: Duration) -> Result<u64, ConfigError> {
    let is_whole = duration.subsec_nanos().is_multiple_of(1_000_000);
    u64::try_from(duration.as_millis())
        .ok()
        .filter(|_| is_whole)
        .ok_or_else(|| {
            let allowed = "a whole number of milliseconds below 2^64 to be written";
            ConfigError::new(field, &duration, allowed)
        })
}

impl<'de> Deserialize<'de> for RuleOrFalse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RuleOrFalseVisitor)
    }
}

struct RuleOrFalseVisitor;

impl<'de> Visitor<'de> for RuleOrFalseVisitor {
    type Value = RuleOrFalse;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rate rule, or false for none")
    }

    fn visit_bool<E: de::Error>(self, on: bool) -> Result<RuleOrFalse, E> {
        if on {
            return Err(E::invalid_value(Unexpected::Bool(on), &self));
        }
        Ok(RuleOrFalse(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RuleOrFalse, A::Error> {
        let rule = RateRule::deserialize(MapAccessDeserializer::new(map))?;
        Ok(RuleOrFalse(Some(rule)))
    }
}

impl Serialize for RuleOrFalse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(rule) => rule.serialize(serializer),
            None => serializer.serialize_bool(false),
        }
    }
}

/// Each field by its name, durations as `open_ms` and so on; what is absent has its default. `rate` is a
/// [`RateRule`], or `false` for none.
impl<'de> Deserialize<'de> for BreakerConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = WrittenBreaker::deserialize(deserializer)?;
        written.try_into().map_err(D::Error::custom)
    }
}

/// Refused if a duration is no whole number of milliseconds.
impl Serialize for BreakerConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = WrittenBreaker::try_from(self).map_err(S::Error::custom)?;
        written.serialize(serializer)
    }
}

/// Keys `failure_rate`, `min_calls`, `slow` (a [`SlowRule`]) and one of `window_ms` and `window_calls`; what
/// is absent has its default.
impl<'de> Deserialize<'de> for RateRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = WrittenRate::deserialize(deserializer)?;
        written.try_into().map_err(D::Error::custom)
    }
}

/// Refused if a duration is no whole number of milliseconds.
impl Serialize for RateRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = WrittenRate::try_from(self).map_err(S::Error::custom)?;
        written.serialize(serializer)
    }
}

/// Keys `longer_than_ms` and `rate`, both needed.
impl<'de> Deserialize<'de> for SlowRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = WrittenSlow::deserialize(deserializer)?;
        written.try_into().map_err(D::Error::custom)
    }
}

/// Refused if the duration is no whole number of milliseconds.
impl Serialize for SlowRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = WrittenSlow::try_from(self).map_err(S::Error::custom)?;
        written.serialize(serializer)
    }
}

/// Keys `base_ms` and `cap_ms`; what is absent has its default.
impl<'de> Deserialize<'de> for Backoff {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = WrittenBackoff::deserialize(deserializer)?;
        written.try_into().map_err(D::Error::custom)
    }
}

/// Refused if a duration is no whole number of milliseconds.
impl Serialize for Backoff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = WrittenBackoff::try_from(self).map_err(S::Error::custom)?;
        written.serialize(serializer)
    }
}

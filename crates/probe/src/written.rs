//! The configs in writing: each field by its name, durations in whole milliseconds with `_ms` behind it.
//!
//! Absent keys have the documented defaults, unknown ones are refused, and what is read is checked as by the
//! constructors. A duration that is no whole number of milliseconds is refused in writing, not rounded.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Error as _, Serialize, Serializer};

use crate::config::WindowConfig;
use crate::error::ConfigError;
use crate::recovery_config::RecoveryConfig;
use crate::table::DEFAULT_CONFIDENCE;

#[derive(serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, rename = "WindowConfig")]
struct WrittenWindow {
    p95_ms: u64,
    p99_ms: u64,
    window_ms: u64,
    #[serde(default = "min_samples")]
    min_samples: u32,
    #[serde(default = "confidence")]
    confidence: f64,
    #[serde(default = "spike_detector")]
    spike_detector: bool,
}

const fn min_samples() -> u32 {
    WindowConfig::MIN_SAMPLES
}

const fn confidence() -> f64 {
    DEFAULT_CONFIDENCE
}

const fn spike_detector() -> bool {
    true
}

#[derive(serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, default, rename = "RecoveryConfig")]
struct WrittenRecovery {
    probe_interval_ms: u64,
    restore_below: f64,
    restore_after: u32,
    canary: Vec<f64>,
    canary_samples: u32,
    canary_max_ms: u64,
    hold_ms: u64,
    growth: f64,
    probe_interval_cap_ms: u64,
    reset_after_ms: u64,
    clear_rate: f64,
}

impl Default for WrittenRecovery {
    fn default() -> Self {
        Self::try_from(&RecoveryConfig::default()).expect("the defaults are whole milliseconds")
    }
}

impl TryFrom<WrittenWindow> for WindowConfig {
    type Error = ConfigError;

    fn try_from(written: WrittenWindow) -> Result<Self, ConfigError> {
        let ms = Duration::from_millis;
        let config = Self::new(
            ms(written.p95_ms),
            ms(written.p99_ms),
            ms(written.window_ms),
        )?;
        let config = config.confidence(written.confidence)?;
        Ok(config
            .min_samples(written.min_samples)
            .spike_detector(written.spike_detector))
    }
}

impl TryFrom<&WindowConfig> for WrittenWindow {
    type Error = ConfigError;

    fn try_from(config: &WindowConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            p95_ms: whole_ms("p95", config.p95)?,
            p99_ms: whole_ms("p99", config.p99)?,
            window_ms: whole_ms("window", config.window)?,
            min_samples: config.min_samples,
            confidence: config.confidence,
            spike_detector: config.spike_detector,
        })
    }
}

impl TryFrom<WrittenRecovery> for RecoveryConfig {
    type Error = ConfigError;

    fn try_from(written: WrittenRecovery) -> Result<Self, ConfigError> {
        let ms = Duration::from_millis;
        let config = Self {
            probe_interval: ms(written.probe_interval_ms),
            restore_below: written.restore_below,
            restore_after: written.restore_after,
            canary: written.canary,
            canary_samples: written.canary_samples,
            canary_max: ms(written.canary_max_ms),
            hold: ms(written.hold_ms),
            growth: written.growth,
            probe_interval_cap: ms(written.probe_interval_cap_ms),
            reset_after: ms(written.reset_after_ms),
            clear_rate: written.clear_rate,
        };
        config.validate()?;
        Ok(config)
    }
}

impl TryFrom<&RecoveryConfig> for WrittenRecovery {
    type Error = ConfigError;

    fn try_from(config: &RecoveryConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            probe_interval_ms: whole_ms("probe_interval", config.probe_interval)?,
            restore_below: config.restore_below,
            restore_after: config.restore_after,
            canary: config.canary.clone(),
            canary_samples: config.canary_samples,
            canary_max_ms: whole_ms("canary_max", config.canary_max)?,
            hold_ms: whole_ms("hold", config.hold)?,
            growth: config.growth,
            probe_interval_cap_ms: whole_ms("probe_interval_cap", config.probe_interval_cap)?,
            reset_after_ms: whole_ms("reset_after", config.reset_after)?,
            clear_rate: config.clear_rate,
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

/// Keys `p95_ms`, `p99_ms` and `window_ms`, and if need be `min_samples`, `confidence`, `spike_detector`.
impl<'de> Deserialize<'de> for WindowConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = WrittenWindow::deserialize(deserializer)?;
        written.try_into().map_err(D::Error::custom)
    }
}

/// Refused if a duration is no whole number of milliseconds.
impl Serialize for WindowConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = WrittenWindow::try_from(self).map_err(S::Error::custom)?;
        written.serialize(serializer)
    }
}

/// Each field by its name, durations as `probe_interval_ms` and so on; what is absent has its default.
impl<'de> Deserialize<'de> for RecoveryConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = WrittenRecovery::deserialize(deserializer)?;
        written.try_into().map_err(D::Error::custom)
    }
}

/// Refused if a duration is no whole number of milliseconds.
impl Serialize for RecoveryConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = WrittenRecovery::try_from(self).map_err(S::Error::custom)?;
        written.serialize(serializer)
    }
}

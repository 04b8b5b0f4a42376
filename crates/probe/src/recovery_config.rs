//! What restoration is configured by.

use std::time::Duration;

use crate::error::ConfigError;

/// How a rung that was left gets its traffic back. The defaults are those of a role's `restore` table.
#[derive(Clone, Debug, PartialEq)]
pub struct RecoveryConfig {
    /// Least time between probes that count, and between leaving a rung and taking it back, before any
    /// growth. Default 30 s.
    pub probe_interval: Duration,
    /// A probe succeeds below this share of T95. Default 0.8.
    pub restore_below: f64,
    /// Probe successes in a row that end stage 1. Default 2.
    pub restore_after: u32,
    /// Shares of live sessions, rising; each is a stage. Empty: probes alone restore. Default 0.1, 0.5.
    pub canary: Vec<f64>,
    /// Fewest observations that end a canary stage early. Default 14: the fewest that clear 0.20.
    pub canary_samples: u32,
    /// Longest a canary stage waits for those. Default 150 s.
    pub canary_max: Duration,
    /// A breach this soon after a restoration is a flap: the interval grows. Default 60 s.
    pub hold: Duration,
    /// Factor of the interval for each flap and each failed canary. Default 2.
    pub growth: f64,
    /// Largest interval. Default 600 s.
    pub probe_interval_cap: Duration,
    /// Unbreached service after which the interval is back at its base. Default 1,800 s.
    pub reset_after: Duration,
    /// The exceedance rate a canary stage must show to be below, with confidence 0.95. Default 0.20.
    pub clear_rate: f64,
}

impl Default for RecoveryConfig {
    fn default() -> Self {
        Self {
            probe_interval: Duration::from_secs(30),
            restore_below: 0.8,
            restore_after: 2,
            canary: vec![0.1, 0.5],
            canary_samples: 14,
            canary_max: Duration::from_secs(150),
            hold: Duration::from_secs(60),
            growth: 2.0,
            probe_interval_cap: Duration::from_secs(600),
            reset_after: Duration::from_secs(1_800),
            clear_rate: 0.20,
        }
    }
}

impl RecoveryConfig {
    /// Checks every field and the fields against each other.
    ///
    /// # Errors
    /// The first field outside its range. NaN is outside every range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.check_probes()?;
        self.check_canary()?;
        if !(self.growth.is_finite() && self.growth >= 1.0) {
            return Err(ConfigError::new(
                "growth",
                &self.growth,
                "at least 1 and finite",
            ));
        }
        if self.probe_interval_cap < self.probe_interval {
            let base = self.probe_interval;
            let allowed = format!("at least probe_interval, which is {base:?}");
            let found = &self.probe_interval_cap;
            return Err(ConfigError::new("probe_interval_cap", found, allowed));
        }
        Ok(())
    }

    fn check_probes(&self) -> Result<(), ConfigError> {
        if self.probe_interval.is_zero() {
            return Err(ConfigError::new(
                "probe_interval",
                &self.probe_interval,
                "above 0",
            ));
        }
        if !(self.restore_below > 0.0 && self.restore_below <= 1.0) {
            let found = &self.restore_below;
            return Err(ConfigError::new(
                "restore_below",
                found,
                "above 0 and at most 1",
            ));
        }
        if self.restore_after == 0 {
            return Err(ConfigError::new(
                "restore_after",
                &self.restore_after,
                "at least 1",
            ));
        }
        Ok(())
    }

    fn check_canary(&self) -> Result<(), ConfigError> {
        let in_range = |share: &f64| *share > 0.0 && *share <= 1.0;
        let rises = self.canary.is_sorted_by(|a, b| a < b);
        if !(self.canary.iter().all(in_range) && rises) {
            let allowed = "shares above 0 and at most 1, each larger than the one before";
            return Err(ConfigError::new("canary", &self.canary, allowed));
        }
        if self.canary_samples == 0 {
            return Err(ConfigError::new(
                "canary_samples",
                &self.canary_samples,
                "at least 1",
            ));
        }
        if self.canary_max.is_zero() {
            return Err(ConfigError::new("canary_max", &self.canary_max, "above 0"));
        }
        if !(self.clear_rate > 0.0 && self.clear_rate < 1.0) {
            return Err(ConfigError::new(
                "clear_rate",
                &self.clear_rate,
                "above 0 and below 1",
            ));
        }
        Ok(())
    }
}

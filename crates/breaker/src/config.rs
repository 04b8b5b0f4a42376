//! Settings of a breaker.

use std::time::Duration;

use crate::error::{ConfigError, LONGEST};

/// Most calls a counted window may span; it takes 8 bytes for each.
const LARGEST_COUNT: u32 = 65_536;

/// Shortest time window: below it the 16 slices are shorter than what a scheduler keeps apart.
const SHORTEST_WINDOW: Duration = Duration::from_millis(10);

/// When a breaker opens, for how long, and what closes it.
///
/// The defaults are those of evenkeel's `[breaker]` table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerConfig {
    /// Failures in a row that open the breaker; at least 1. Default 5.
    pub failure_threshold: u32,
    /// Trial calls admitted at a time when half-open, and successes that close; at least 1. Default 2.
    pub success_threshold: u32,
    /// How long the first opening lasts; above 0, at most a year. Default 60 s.
    pub open: Duration,
    /// Factor on the open time for each further opening in a row, 1 to 1000. Default 2.
    pub growth: f64,
    /// Longest open time before jitter, and the most a Retry-After may ask for; from `open` to a year. Default 600 s.
    pub open_cap: Duration,
    /// Share of the open time by which it is spread up and down, from 0 to below 1. Default 0.1.
    pub jitter: f64,
    /// How long Closed must last before the next opening counts as the first again; 0 to a year. Default 300 s.
    pub reset_after: Duration,
    /// How long a half-open breaker with all permits out waits for an outcome; above 0, at most a year. Default 30 s.
    pub half_open_timeout: Duration,
    /// Also open on a share of failed or slow calls; `None` looks at failures in a row only.
    pub rate: Option<RateRule>,
}

/// Opens on a share of the outcomes in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateRule {
    /// Share of failures, 0.001 to 1, judged in whole per mille. Default 0.5.
    pub failure_rate: f64,
    /// Fewest outcomes in the window that are judged at all; at least 1. Default 20.
    pub min_calls: u32,
    /// Which outcomes are judged. Default: those of the last 60 s.
    pub window: RateWindow,
    /// Also judge how many calls were slow; default no.
    pub slow: Option<SlowRule>,
}

/// Which outcomes a [`RateRule`] looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateWindow {
    /// Those of the last stretch of time, 10 ms to a year, kept in 16 slices: an outcome counts for
    /// at least 15/16 of it and at most all of it, by the latest reading the window was given.
    Time(Duration),
    /// The last so many, exactly; 1 to 65,536 and at least `min_calls`.
    Calls(u32),
}

/// Opens on a share of slow calls; fed by [`Permit::success_in`](crate::Permit::success_in).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowRule {
    /// A success that took longer than this is slow.
    pub longer_than: Duration,
    /// Share of slow calls among all outcomes of the window, 0.001 to 1, judged in whole per mille.
    pub rate: f64,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self {
            failure_threshold: 5,
            success_threshold: 2,
            open: Duration::from_secs(60),
            growth: 2.0,
            open_cap: Duration::from_secs(600),
            jitter: 0.1,
            reset_after: Duration::from_secs(300),
            half_open_timeout: Duration::from_secs(30),
            rate: Some(RateRule::default()),
        }
    }
}

impl Default for RateRule {
    fn default() -> Self {
        Self {
            failure_rate: 0.5,
            min_calls: 20,
            window: RateWindow::Time(Duration::from_secs(60)),
            slow: None,
        }
    }
}

impl BreakerConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// Names the first field that is outside its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::unless_in("failure_threshold", self.failure_threshold, 1..)?;
        ConfigError::unless_in("success_threshold", self.success_threshold, 1..)?;
        unless_lasting("open", self.open)?;
        ConfigError::unless_in("growth", self.growth, 1.0..=1000.0)?;
        ConfigError::unless_in("open_cap", self.open_cap, self.open..=LONGEST)?;
        ConfigError::unless_in("jitter", self.jitter, 0.0..1.0)?;
        ConfigError::unless_in("reset_after", self.reset_after, ..=LONGEST)?;
        unless_lasting("half_open_timeout", self.half_open_timeout)?;
        self.rate.as_ref().map_or(Ok(()), RateRule::validate)
    }
}

impl RateRule {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::unless_share("rate.failure_rate", self.failure_rate)?;
        ConfigError::unless_in("rate.min_calls", self.min_calls, 1..)?;
        match self.window {
            RateWindow::Time(span) => {
                ConfigError::unless_in("rate.window", span, SHORTEST_WINDOW..=LONGEST)?;
            }
            RateWindow::Calls(calls) => {
                ConfigError::unless_in("rate.window", calls, 1..=LARGEST_COUNT)?;
                ConfigError::unless_in("rate.min_calls", self.min_calls, 1..=calls)?;
            }
        }
        self.slow.as_ref().map_or(Ok(()), SlowRule::validate)
    }
}

impl SlowRule {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::unless_share("rate.slow.rate", self.rate).map(drop)
    }
}

fn unless_lasting(field: &'static str, seen: Duration) -> Result<Duration, ConfigError> {
    ConfigError::unless_in(field, seen, Duration::from_nanos(1)..=LONGEST)
}

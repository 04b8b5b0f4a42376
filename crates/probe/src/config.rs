//! What a window is built from; only checked values exist.

use std::time::Duration;

use crate::error::ConfigError;
use crate::table::{BreachRule, DEFAULT_CONFIDENCE};

/// Limits, span and rules of a [`LatencyWindow`](crate::LatencyWindow).
///
/// Cloning shares the rule's tables (8 KiB for each confidence in use), so make one and clone it for many
/// windows.
///
/// ```
/// # use std::time::Duration;
/// # use evenkeel_probe::WindowConfig;
/// let (p95, p99) = (Duration::from_millis(1500), Duration::from_millis(2500));
/// let config = WindowConfig::new(p95, p99, Duration::from_secs(15))?
///     .min_samples(10)
///     .confidence(0.99)?;
/// let wrong = WindowConfig::new(p99, p95, Duration::from_secs(15)).unwrap_err();
/// assert_eq!(wrong.to_string(), "p99 is 1.5s, but must be at least p95, which is 2.5s");
/// # Ok::<(), evenkeel_probe::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct WindowConfig {
    pub(crate) p95: Duration,
    pub(crate) p99: Duration,
    pub(crate) window: Duration,
    pub(crate) min_samples: u32,
    #[cfg(feature = "serde")]
    pub(crate) confidence: f64,
    pub(crate) rule: BreachRule,
    pub(crate) spike_detector: bool,
}

impl WindowConfig {
    /// Fewest observations of a breach by percentile, unless set otherwise (DESIGN: 5).
    pub(crate) const MIN_SAMPLES: u32 = 5;

    /// A config with `min_samples` 5, `confidence` 0.999 and the spike detector on.
    ///
    /// `p95` and `p99` are the latency limits T95 and T99; `window` is the span evidence is taken over, cut
    /// into 16 slices: an observation counts for at least `window - window/16` and less than
    /// `window + window/16` (rounded up to whole nanoseconds). A span above 584 years is taken as that.
    ///
    /// # Errors
    /// If `p95` or `window` is zero, or `p99` is below `p95`.
    pub fn new(p95: Duration, p99: Duration, window: Duration) -> Result<Self, ConfigError> {
        check_limits(p95, p99)?;
        if window.is_zero() {
            return Err(ConfigError::new("window", &window, "above 0"));
        }
        Ok(Self {
            p95,
            p99,
            window,
            min_samples: Self::MIN_SAMPLES,
            #[cfg(feature = "serde")]
            confidence: DEFAULT_CONFIDENCE,
            rule: BreachRule::standing(),
            spike_detector: true,
        })
    }

    /// Fewest observations in the window for a breach by percentile, and for a healthy verdict. The spike
    /// detector has its own rule.
    #[must_use]
    pub const fn min_samples(mut self, n: u32) -> Self {
        self.min_samples = n;
        self
    }

    /// How sure a breach by percentile must be: the count of exceedances is one that an endpoint exactly at
    /// its limit shows with probability at most `1 - c` at one look, and at least 3. A window is looked at
    /// after every call; 0.999 raises less than one false alarm in 150,000 calls where 1% of them pass the
    /// limit (simulated, 20 in the window). `0.0` is the plain rule: more than 5% (1%) over.
    ///
    /// # Errors
    /// If `c` is not in `0.0 .. 1.0`; NaN is not.
    pub fn confidence(mut self, c: f64) -> Result<Self, ConfigError> {
        if !(0.0..1.0).contains(&c) {
            return Err(ConfigError::new("confidence", &c, "at least 0 and below 1"));
        }
        // The default's tables are shared by the whole process.
        let is_default = (c - DEFAULT_CONFIDENCE).abs() < f64::EPSILON;
        self.rule = if is_default {
            BreachRule::standing()
        } else {
            BreachRule::new(c)
        };
        #[cfg(feature = "serde")]
        {
            self.confidence = c;
        }
        Ok(self)
    }

    /// Whether the spike detector runs: five exceedances of T95 in a row are a breach whatever the window
    /// remembers.
    #[must_use]
    pub const fn spike_detector(mut self, on: bool) -> Self {
        self.spike_detector = on;
        self
    }
}

pub(crate) fn check_limits(p95: Duration, p99: Duration) -> Result<(), ConfigError> {
    if p95.is_zero() {
        return Err(ConfigError::new("p95", &p95, "above 0"));
    }
    if p99 < p95 {
        let allowed = format!("at least p95, which is {p95:?}");
        return Err(ConfigError::new("p99", &p99, allowed));
    }
    Ok(())
}

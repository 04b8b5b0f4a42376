//! What roles share and so cannot be a role's key: breakers, cooldowns, holds, retry budgets.

use std::time::Duration;

/// A circuit breaker's settings (`[breaker]`).
#[derive(Debug, Clone, PartialEq)]
pub struct BreakerPolicy {
    /// `failure_threshold`: failures in a row that open it.
    pub failure_threshold: u32,
    /// `success_threshold`: permits admitted at a time while half-open, and successes that close it.
    pub success_threshold: u32,
    /// `open_ms`: how long it stays open the first time.
    pub open: Duration,
    /// `growth`: factor on the open time at each repeated trip, at least 1.
    pub growth: f64,
    /// `open_cap_ms`: the open time grows no further.
    pub open_cap: Duration,
    /// `jitter`: share by which an open time may vary, 0 to 1.
    pub jitter: f64,
    /// `reset_after_ms`: closed this long, the open time is back at `open`.
    pub reset_after: Duration,
    /// `half_open_timeout_ms`: a half-open permit without a verdict is given up by then.
    pub half_open_timeout: Duration,
    /// `failure_rate`: share of failures in `window` that opens it, above 0, at most 1.
    pub failure_rate: f64,
    /// `min_calls`: fewest calls in `window` that `failure_rate` is judged on.
    pub min_calls: u32,
    /// `window_ms`: the span of `failure_rate`.
    pub window: Duration,
}

impl Default for BreakerPolicy {
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
            failure_rate: 0.5,
            min_calls: 20,
            window: Duration::from_secs(60),
        }
    }
}

/// How long a model is left alone after a 429 that names no time (`[cooldown]`).
#[derive(Debug, Clone, PartialEq)]
pub struct CooldownPolicy {
    /// `base_ms`: the first cooldown.
    pub base: Duration,
    /// `growth`: factor at each 429 in a row, at least 1.
    pub growth: f64,
    /// `cap_ms`: a cooldown grows no further.
    pub cap: Duration,
}

impl Default for CooldownPolicy {
    fn default() -> Self {
        Self {
            base: Duration::from_secs(1),
            growth: 2.0,
            cap: Duration::from_secs(60),
        }
    }
}

/// How long a model or its provider is set aside for what waiting a moment does not
/// mend (`[hold]`); zero: not at all. A reload ends every hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldPolicy {
    /// `quota_ms`: after used-up quota whose reset is not stated.
    pub quota: Duration,
    /// `credential_ms`: after a refused credential.
    pub credential: Duration,
    /// `model_gone_ms`: after the answer that there is no such model.
    pub model_gone: Duration,
}

impl Default for HoldPolicy {
    fn default() -> Self {
        Self {
            quota: Duration::from_secs(10 * 60),
            credential: Duration::from_secs(5 * 60),
            model_gone: Duration::from_secs(60 * 60),
        }
    }
}

/// How many same-rung retries a provider may see (`[retry_budget]`).
#[derive(Debug, Clone, PartialEq)]
pub struct RetryBudgetPolicy {
    /// `ratio`: retries per call over `window`, 0 to 1.
    pub ratio: f64,
    /// `reserve`: retries allowed whatever the number of calls.
    pub reserve: u32,
    /// `window_ms`: the span of `ratio`.
    pub window: Duration,
}

impl Default for RetryBudgetPolicy {
    fn default() -> Self {
        Self {
            ratio: 0.2,
            reserve: 10,
            window: Duration::from_secs(10),
        }
    }
}

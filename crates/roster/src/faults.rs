//! What can be wrong with settings: ranges and contradictions, each rule once for
//! the files and for policies made in code.

use std::time::Duration;

use crate::guard::{BreakerPolicy, CooldownPolicy, RetryBudgetPolicy};
use crate::policy::{HedgePolicy, PolicyError, RestorePolicy, RetryPolicy, RolePolicy};
use crate::task::Thresholds;
use crate::validator::ValidatorConfig;

/// No timed setting may be longer than a day: beyond that a slip in the unit is likelier than intent.
const LONGEST: Duration = Duration::from_secs(86_400);

/// The breaker counts a failure rate in slices; below this they are shorter than a timer's tick.
const SHORTEST_RATE_WINDOW: Duration = Duration::from_millis(10);

/// The breaker counts a failure rate in thousandths.
const LEAST_RATE: f64 = 0.001;

/// A larger factor reaches every cap in one step.
const MOST_GROWTH: f64 = 1000.0;

/// More same-rung retries than this only hammer a failing upstream.
const MOST_RETRIES: u32 = 20;

impl RolePolicy {
    pub(crate) fn faults(&self) -> Vec<Fault> {
        let mut faults = Faults::default();
        self.threshold_faults(&mut faults);
        self.clock_faults(&mut faults);
        self.validator_faults(&mut faults);
        self.stream_faults(&mut faults);
        self.share_faults(&mut faults);
        hedge_faults(&self.hedge, &mut faults);
        retry_faults(&self.retry, &mut faults);
        restore_faults(&self.restore, &mut faults);
        self.degraded.faults(&mut faults);
        self.queue.add_faults(&mut faults);
        faults.share("shadow.share", self.shadow.share);
        faults.at_least_one("shadow.max_concurrency", self.shadow.max_concurrency);
        faults.0
    }

    fn threshold_faults(&self, faults: &mut Faults) {
        faults.thresholds(&Thresholds {
            p95: self.p95,
            p99: self.p99,
            first_token_p95: self.first_token_p95,
            first_token_p99: self.first_token_p99,
        });
        if self.window < Duration::from_secs(1) || self.window > LONGEST {
            faults.add(
                "evaluation_window_seconds",
                format!(
                    "is {} s, expected 1 to {}",
                    self.window.as_secs_f64(),
                    LONGEST.as_secs()
                ),
            );
        }
        faults.at_least_one("min_samples", self.min_samples);
        if !(0.0..1.0).contains(&self.confidence) {
            faults.add(
                "confidence",
                format!("is {}, expected 0 or more and below 1", self.confidence),
            );
        }
    }

    fn clock_faults(&self, faults: &mut Faults) {
        faults.span("connect_ms", self.clocks.connect);
        faults.span("first_token_ms", self.clocks.first_token);
        faults.span("stall_ms", self.clocks.stall);
        faults.span("deadline_ms", self.clocks.deadline);
        faults.span("validator_timeout_ms", self.validator_timeout);
        if !(self.min_tokens_per_s.is_finite() && self.min_tokens_per_s >= 0.0) {
            faults.add(
                "min_tokens_per_s",
                format!("is {}, expected 0 (off) or more", self.min_tokens_per_s),
            );
        }
    }

    /// A service's own limit must lie within the one for every validator.
    fn validator_faults(&self, faults: &mut Faults) {
        for validator in &self.validators {
            let ValidatorConfig::Http(service) = validator else {
                continue;
            };
            for fault in service.faults() {
                faults.add("validators", format!("{} {}", fault.key, fault.message));
            }
            let (own, all) = (service.timeout, self.validator_timeout);
            if let Some(own) = own.filter(|own| *own > all) {
                faults.0.push(Fault {
                    key: "validators",
                    against: Some("validator_timeout_ms"),
                    message: format!(
                        "timeout_ms is {} ms, above validator_timeout_ms = {} ms",
                        own.as_millis(),
                        all.as_millis()
                    ),
                });
            }
        }
    }

    fn stream_faults(&self, faults: &mut Faults) {
        faults.at_least_one("commit_window.tokens", self.commit_window.tokens);
        faults.span("commit_window.ms", self.commit_window.time);
        faults.span("heartbeat_after_ms", self.heartbeat_after);
    }

    fn share_faults(&self, faults: &mut Faults) {
        faults.share("quality_budget", self.quality_budget);
        for (tag, budget) in &self.quality_budget_by_tag {
            if !(0.0..=1.0).contains(budget) {
                let message = format!("of `{tag}` is {budget}, expected 0 to 1");
                faults.add("quality_budget_by_tag", message);
            }
        }
        self.ranking.faults(faults);
        if self.min_context_window == Some(0) {
            let message = "is 0, expected 1 or more; leave it out for the primary's window";
            faults.add("min_context_window", message.to_owned());
        }
        faults.share("min_capability_score", self.min_capability_score);
        self.complexity.faults(faults);
        faults.share("simplify_below", self.simplify_below);
        faults.share("min_schema_compliance", self.min_schema_compliance);
        faults.at_least_one("requalify_after_days", self.requalify_after_days);
        if let Some(ceiling) = self.cost_ceiling_usd
            && !(ceiling.is_finite() && ceiling > 0.0)
        {
            faults.add(
                "cost_ceiling_usd",
                format!("is {ceiling}, expected above 0; leave it out for no ceiling"),
            );
        }
    }
}

fn hedge_faults(hedge: &HedgePolicy, faults: &mut Faults) {
    faults.share("hedge.budget", hedge.budget);
}

fn retry_faults(retry: &RetryPolicy, faults: &mut Faults) {
    for (key, count) in [
        ("retry.rate_limited", retry.rate_limited),
        ("retry.transient", retry.transient),
        ("retry.overloaded", retry.overloaded),
        ("retry.malformed", retry.malformed),
        ("retry.semantic", retry.semantic),
    ] {
        if count > MOST_RETRIES {
            faults.add(key, format!("is {count}, expected 0 to {MOST_RETRIES}"));
        }
    }
    faults.span("retry.base_ms", retry.base);
    faults.span("retry.cap_ms", retry.cap);
    faults.not_below("retry.cap_ms", retry.cap, "retry.base_ms", retry.base);
}

fn restore_faults(restore: &RestorePolicy, faults: &mut Faults) {
    faults.span("restore.probe_interval_ms", restore.probe_interval);
    faults.span("restore.probe_interval_cap_ms", restore.probe_interval_cap);
    faults.not_below(
        "restore.probe_interval_cap_ms",
        restore.probe_interval_cap,
        "restore.probe_interval_ms",
        restore.probe_interval,
    );
    faults.span("restore.canary_max_ms", restore.canary_max);
    faults.not_longer("restore.hold_ms", restore.hold);
    faults.not_longer("restore.reset_after_ms", restore.reset_after);
    faults.at_least_one("restore.restore_after", restore.restore_after);
    faults.at_least_one("restore.canary_samples", restore.canary_samples);
    faults.growth("restore.growth", restore.growth);
    if !(restore.restore_below > 0.0 && restore.restore_below <= 1.0) {
        faults.add(
            "restore.restore_below",
            format!("is {}, expected above 0, at most 1", restore.restore_below),
        );
    }
    let inside = restore.canary.iter().all(|s| *s > 0.0 && *s < 1.0);
    let rising = restore.canary.windows(2).all(|pair| pair[0] < pair[1]);
    if !(inside && rising) {
        faults.add(
            "restore.canary",
            format!(
                "is {:?}, expected rising shares, each above 0 and below 1",
                restore.canary
            ),
        );
    }
}

impl BreakerPolicy {
    pub(crate) fn faults(&self) -> Vec<Fault> {
        let mut faults = Faults::default();
        faults.at_least_one("failure_threshold", self.failure_threshold);
        faults.at_least_one("success_threshold", self.success_threshold);
        faults.at_least_one("min_calls", self.min_calls);
        faults.span("open_ms", self.open);
        faults.span("open_cap_ms", self.open_cap);
        faults.not_below("open_cap_ms", self.open_cap, "open_ms", self.open);
        faults.growth("growth", self.growth);
        if !(0.0..1.0).contains(&self.jitter) {
            faults.add(
                "jitter",
                format!("is {}, expected 0 or more and below 1", self.jitter),
            );
        }
        faults.not_longer("reset_after_ms", self.reset_after);
        faults.span("half_open_timeout_ms", self.half_open_timeout);
        if self.window < SHORTEST_RATE_WINDOW || self.window > LONGEST {
            faults.add(
                "window_ms",
                format!(
                    "is {} ms, expected {} to {}",
                    self.window.as_millis(),
                    SHORTEST_RATE_WINDOW.as_millis(),
                    LONGEST.as_millis()
                ),
            );
        }
        if !(LEAST_RATE..=1.0).contains(&self.failure_rate) {
            faults.add(
                "failure_rate",
                format!("is {}, expected {LEAST_RATE} to 1", self.failure_rate),
            );
        }
        faults.0
    }
}

impl CooldownPolicy {
    pub(crate) fn faults(&self) -> Vec<Fault> {
        let mut faults = Faults::default();
        faults.span("base_ms", self.base);
        faults.growth("growth", self.growth);
        faults.span("cap_ms", self.cap);
        faults.not_below("cap_ms", self.cap, "base_ms", self.base);
        faults.0
    }
}

impl RetryBudgetPolicy {
    pub(crate) fn faults(&self) -> Vec<Fault> {
        let mut faults = Faults::default();
        faults.share("ratio", self.ratio);
        faults.span("window_ms", self.window);
        faults.0
    }
}

/// One fault of a set of settings.
pub(crate) struct Fault {
    /// The key at fault.
    pub(crate) key: &'static str,
    /// The key it contradicts.
    pub(crate) against: Option<&'static str>,
    pub(crate) message: String,
}

impl From<Fault> for PolicyError {
    fn from(fault: Fault) -> Self {
        Self {
            key: fault.key,
            message: fault.message,
        }
    }
}

/// Collects every fault of a set of settings; shared by all written forms.
#[derive(Default)]
pub(crate) struct Faults(pub(crate) Vec<Fault>);

impl Faults {
    pub(crate) fn add(&mut self, key: &'static str, message: String) {
        self.0.push(Fault {
            key,
            against: None,
            message,
        });
    }

    /// The limits that latencies are judged by.
    pub(crate) fn thresholds(&mut self, limits: &Thresholds) {
        let (p95, p99) = ("p95_threshold_ms", "p99_threshold_ms");
        self.span(p95, limits.p95);
        self.span(p99, limits.p99);
        self.not_below(p99, limits.p99, p95, limits.p95);
        let (p95, p99) = ("first_token_p95_ms", "first_token_p99_ms");
        self.span(p95, limits.first_token_p95);
        self.span(p99, limits.first_token_p99);
        self.not_below(p99, limits.first_token_p99, p95, limits.first_token_p95);
    }

    /// A time that must be at least 1 ms and at most a day.
    pub(crate) fn span(&mut self, key: &'static str, value: Duration) {
        self.span_to(key, value, LONGEST);
    }

    /// A time that must be at least 1 ms and at most `longest`.
    pub(crate) fn span_to(&mut self, key: &'static str, value: Duration, longest: Duration) {
        if value < Duration::from_millis(1) || value > longest {
            self.add(
                key,
                format!(
                    "is {} ms, expected 1 to {}",
                    value.as_millis(),
                    longest.as_millis()
                ),
            );
        }
    }

    /// A time that may be zero.
    pub(crate) fn not_longer(&mut self, key: &'static str, value: Duration) {
        if value > LONGEST {
            self.add(
                key,
                format!(
                    "is {} ms, expected 0 to {}",
                    value.as_millis(),
                    LONGEST.as_millis()
                ),
            );
        }
    }

    pub(crate) fn not_below(
        &mut self,
        key: &'static str,
        value: Duration,
        floor_key: &'static str,
        floor: Duration,
    ) {
        if value < floor {
            self.0.push(Fault {
                key,
                against: Some(floor_key),
                message: format!(
                    "is {} ms, below {floor_key} = {} ms",
                    value.as_millis(),
                    floor.as_millis()
                ),
            });
        }
    }

    pub(crate) fn at_least_one(&mut self, key: &'static str, value: u32) {
        if value == 0 {
            self.add(key, "is 0, expected 1 or more".to_owned());
        }
    }

    pub(crate) fn share(&mut self, key: &'static str, value: f64) {
        if !(0.0..=1.0).contains(&value) {
            self.add(key, format!("is {value}, expected 0 to 1"));
        }
    }

    pub(crate) fn growth(&mut self, key: &'static str, value: f64) {
        if !(1.0..=MOST_GROWTH).contains(&value) {
            self.add(key, format!("is {value}, expected 1 to {MOST_GROWTH}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validator::HttpValidatorConfig;

    fn policy() -> RolePolicy {
        let ms = Duration::from_millis;
        RolePolicy::new(ms(1_500), ms(2_500), ms(15_000))
    }

    /// The key that `change` makes a fault of, if it does.
    fn fault(change: impl FnOnce(&mut RolePolicy)) -> Option<&'static str> {
        let mut changed = policy();
        change(&mut changed);
        changed.validate().err().map(|error| error.key)
    }

    #[test]
    fn the_defaults_are_without_fault() {
        assert_eq!(policy().validate(), Ok(()));
        assert!(BreakerPolicy::default().faults().is_empty());
        assert!(CooldownPolicy::default().faults().is_empty());
        assert!(RetryBudgetPolicy::default().faults().is_empty());
    }

    #[test]
    fn the_ends_of_a_range_belong_to_it() {
        let day = Duration::from_secs(86_400);
        assert_eq!(fault(|p| p.p99 = p.p95), None);
        assert_eq!(fault(|p| p.clocks.deadline = day), None);
        assert_eq!(fault(|p| p.clocks.deadline = day * 2), Some("deadline_ms"));
        assert_eq!(fault(|p| p.confidence = 0.0), None);
        assert_eq!(fault(|p| p.confidence = 1.0), Some("confidence"));
        assert_eq!(fault(|p| p.quality_budget = 1.0), None);
        assert_eq!(fault(|p| p.ranking.latency = 0.0), None);
        assert_eq!(fault(|p| p.min_context_window = Some(1)), None);
        assert_eq!(fault(|p| p.cost_ceiling_usd = Some(0.001)), None);
        assert_eq!(
            fault(|p| p.cost_ceiling_usd = Some(0.0)),
            Some("cost_ceiling_usd")
        );
        assert_eq!(fault(|p| p.restore.growth = 1.0), None);
        assert_eq!(fault(|p| p.restore.hold = Duration::ZERO), None);
        assert_eq!(fault(|p| p.restore.canary = Vec::new()), None);
        assert_eq!(
            fault(|p| p.restore.canary = vec![1.0]),
            Some("restore.canary")
        );
        assert_eq!(fault(|p| p.retry.transient = 20), None);
        assert_eq!(fault(|p| p.retry.transient = 21), Some("retry.transient"));
        assert_eq!(fault(|p| p.queue.max_age = day * 30), None);
        assert_eq!(
            fault(|p| p.queue.max_age = day * 31),
            Some("queue.max_age_ms")
        );
        assert_eq!(fault(|p| p.queue.max_attempts = Some(1)), None);
        assert_eq!(
            fault(|p| p.queue.max_attempts = Some(0)),
            Some("queue.max_attempts")
        );
        assert_eq!(fault(|p| p.queue.cap = day * 2), Some("queue.cap_ms"));
        assert_eq!(
            fault(|p| p.queue.base = p.queue.cap + p.queue.cap),
            Some("queue.cap_ms")
        );
    }

    #[test]
    fn what_is_no_number_is_a_fault_everywhere() {
        assert_eq!(fault(|p| p.confidence = f64::NAN), Some("confidence"));
        assert_eq!(
            fault(|p| p.quality_budget = f64::NAN),
            Some("quality_budget")
        );
        assert_eq!(
            fault(|p| p.min_tokens_per_s = f64::NAN),
            Some("min_tokens_per_s")
        );
        assert_eq!(
            fault(|p| p.cost_ceiling_usd = Some(f64::NAN)),
            Some("cost_ceiling_usd")
        );
        assert_eq!(fault(|p| p.hedge.budget = f64::NAN), Some("hedge.budget"));
        assert_eq!(
            fault(|p| p.ranking.compliance = f64::INFINITY),
            Some("ranking.compliance")
        );
        assert_eq!(
            fault(|p| p.restore.growth = f64::NAN),
            Some("restore.growth")
        );
        assert_eq!(
            fault(|p| p.restore.canary = vec![f64::NAN]),
            Some("restore.canary")
        );
        assert_eq!(
            fault(|p| p.restore.restore_below = f64::NAN),
            Some("restore.restore_below")
        );
    }

    #[test]
    fn a_service_has_some_time_and_no_more_than_every_validator() {
        let with = |timeout: u64| {
            fault(|policy| {
                let mut service = HttpValidatorConfig::new("http://h/");
                service.timeout = Some(Duration::from_millis(timeout));
                policy.validators = vec![ValidatorConfig::Http(service)];
            })
        };
        assert_eq!(with(1), None);
        assert_eq!(with(2_000), None);
        assert_eq!(with(0), Some("validators"));
        assert_eq!(with(2_001), Some("validators"));
    }

    #[test]
    fn a_contradiction_names_both_numbers() {
        let mut policy = policy();
        policy.p99 = Duration::from_secs(1);
        assert_eq!(
            policy.validate().map_err(|error| error.to_string()),
            Err("p99_threshold_ms: is 1000 ms, below p95_threshold_ms = 1500 ms".to_owned())
        );
    }
}

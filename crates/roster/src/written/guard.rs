//! The tables that roles share: `[breaker]`, `[cooldown]`, `[hold]`, `[retry_budget]`, `[limits]`.

use std::num::NonZeroU32;

use crate::faults::Fault;
use crate::guard::{BreakerPolicy, CooldownPolicy, HoldPolicy, RetryBudgetPolicy};
use crate::model::DEFAULT_CONCURRENCY;
use evenkeel_document::{Findings, Scope, TableReader, assign, locate_any};

pub(crate) fn read_breaker(table: &mut TableReader<'_, '_>, breaker: &mut BreakerPolicy) {
    assign(
        &mut breaker.failure_threshold,
        table.count("failure_threshold"),
    );
    assign(
        &mut breaker.success_threshold,
        table.count("success_threshold"),
    );
    assign(&mut breaker.open, table.ms("open_ms"));
    assign(&mut breaker.growth, table.number("growth"));
    assign(&mut breaker.open_cap, table.ms("open_cap_ms"));
    assign(&mut breaker.jitter, table.number("jitter"));
    assign(&mut breaker.reset_after, table.ms("reset_after_ms"));
    assign(
        &mut breaker.half_open_timeout,
        table.ms("half_open_timeout_ms"),
    );
    assign(&mut breaker.failure_rate, table.number("failure_rate"));
    assign(&mut breaker.min_calls, table.count("min_calls"));
    assign(&mut breaker.window, table.ms("window_ms"));
}

pub(crate) fn read_cooldown(table: &mut TableReader<'_, '_>, cooldown: &mut CooldownPolicy) {
    assign(&mut cooldown.base, table.ms("base_ms"));
    assign(&mut cooldown.growth, table.number("growth"));
    assign(&mut cooldown.cap, table.ms("cap_ms"));
}

pub(crate) fn read_hold(table: &mut TableReader<'_, '_>, hold: &mut HoldPolicy) {
    assign(&mut hold.quota, table.ms("quota_ms"));
    assign(&mut hold.credential, table.ms("credential_ms"));
    assign(&mut hold.model_gone, table.ms("model_gone_ms"));
}

pub(crate) fn read_retry_budget(table: &mut TableReader<'_, '_>, budget: &mut RetryBudgetPolicy) {
    assign(&mut budget.ratio, table.number("ratio"));
    assign(&mut budget.reserve, table.count("reserve"));
    assign(&mut budget.window, table.ms("window_ms"));
}

/// `[limits]`: what a model is sent at most.
#[derive(Clone)]
pub(crate) struct Limits {
    pub(crate) max_concurrency: usize,
    pub(crate) requests_per_minute: Option<NonZeroU32>,
    pub(crate) tokens_per_minute: Option<NonZeroU32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_concurrency: DEFAULT_CONCURRENCY,
            requests_per_minute: None,
            tokens_per_minute: None,
        }
    }
}

pub(crate) fn read_limits(table: &mut TableReader<'_, '_>, limits: &mut Limits) {
    let mut read = |key| {
        let number = table.count(key)?;
        if number == 0 {
            let at = table.place(key);
            let message = "is 0, expected 1 or more".to_owned();
            let how = "take the model out of its rosters to stop using it".to_owned();
            table.findings.error(&at, message, Some(how));
        }
        NonZeroU32::new(number)
    };
    let most = read("max_concurrency").and_then(|most| usize::try_from(most.get()).ok());
    assign(&mut limits.max_concurrency, most);
    let requests = read("requests_per_minute");
    limits.requests_per_minute = requests.or(limits.requests_per_minute);
    let tokens = read("tokens_per_minute");
    limits.tokens_per_minute = tokens.or(limits.tokens_per_minute);
}

/// Reports `faults` of the table `name`, each where its key was set last in
/// `layers` (the more general first), else where the key it contradicts was.
/// Faults of values that this level does not set are reported on the level that does.
pub(crate) fn check(
    faults: Vec<Fault>,
    name: &str,
    layers: &[&Scope<'_>],
    findings: &mut Findings,
) {
    for fault in faults {
        let keys: Vec<String> = [fault.key]
            .into_iter()
            .chain(fault.against)
            .map(|key| format!("{name}.{key}"))
            .collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        match locate_any(layers, &keys) {
            Some((at, key)) if key == keys[0] => findings.error(&at, fault.message, None),
            Some((at, _)) => {
                let message = format!("{} {}", fault.key, fault.message);
                findings.error(&at, message, None);
            }
            None => {}
        }
    }
}

//! The configuration in which one model is all that a role has.

use evenkeel_core::ModelId;
use evenkeel_roster::{
    BreakerPolicy, Config, CooldownPolicy, HedgeMode, HoldPolicy, ModelConfig, OnDegradedInput,
    OnExhausted, ProviderConfig, RetryBudgetPolicy, RetryPolicy, RoleConfig, RolePolicy,
    RungConfig, ShadowPolicy, Signal,
};
use std::time::Duration;

/// Nothing is done about a slow model: how slow it is, is what is measured.
const NO_LIMIT: Duration = Duration::from_secs(86_400);

/// `config` with `model` as the only rung of `role`, its only role. None where the
/// role is not in it.
///
/// What decides about a single answer is as in production: prompt, schema, tools,
/// parameters, clocks, validators, the repeats of a failed attempt, prices, limits of
/// the account. What moves traffic is not there: no hedge, no failover, no breaker,
/// no hold, no shadow, no end of life. A rate limit is an answer here: who asks
/// waits for it.
pub(crate) fn alone(
    config: &Config,
    role: &str,
    model: &ModelId,
    is_streamed: bool,
) -> Option<Config> {
    let role = config.roles.get(role)?;
    let known = role.rungs.iter().find(|rung| rung.model == *model);
    let capability = known.filter(|rung| rung.quality_score.is_some());
    let rung = RungConfig {
        // Decides whether it gets the simple variant of the prompt.
        capability_score: capability.map_or(1.0, |rung| rung.capability_score),
        ..RungConfig::primary(model.clone())
    };
    let mut alone = Config::default();
    let entry = config.models.get(model).cloned();
    let entry = entry.unwrap_or_else(|| ModelConfig::new(model.clone()));
    alone.models.insert(model.clone(), undisturbed(entry));
    if let Some(provider) = config.providers.get(model.provider()) {
        let provider = ProviderConfig {
            breaker: never_opens(&provider.breaker),
            // Whether a model is asked again must not hang on how often others were.
            retry_budget: RetryBudgetPolicy {
                ratio: 1.0,
                ..provider.retry_budget.clone()
            },
            ..provider.clone()
        };
        alone.providers.insert(provider.name.clone(), provider);
    }
    let role = RoleConfig {
        name: role.name.clone(),
        policy: asked_once(&role.policy, is_streamed),
        rungs: vec![rung],
    };
    alone.roles.insert(role.name.clone(), role);
    Some(alone)
}

fn asked_once(policy: &RolePolicy, is_streamed: bool) -> RolePolicy {
    let mut policy = RolePolicy {
        p95: NO_LIMIT,
        p99: NO_LIMIT,
        first_token_p95: NO_LIMIT,
        first_token_p99: NO_LIMIT,
        signal: if is_streamed {
            Signal::FirstToken
        } else {
            Signal::Total
        },
        min_capability_score: 0.0,
        cost_ceiling_usd: None,
        retry: RetryPolicy {
            rate_limited: 0,
            ..policy.retry.clone()
        },
        shadow: ShadowPolicy::default(),
        on_exhausted: OnExhausted::Error,
        ..policy.clone()
    };
    policy.hedge.mode = HedgeMode::Off;
    // They name models that are not asked.
    policy.tasks.clear();
    policy.degraded.on_input = OnDegradedInput::Proceed;
    policy
}

fn undisturbed(model: ModelConfig) -> ModelConfig {
    ModelConfig {
        breaker: never_opens(&model.breaker),
        hold: HoldPolicy {
            quota: Duration::ZERO,
            credential: Duration::ZERO,
            model_gone: Duration::ZERO,
        },
        // Where no time is stated, who asks waits by a rule of its own.
        cooldown: CooldownPolicy {
            base: Duration::from_millis(1),
            growth: 1.0,
            cap: Duration::from_millis(1),
        },
        eol_date: None,
        ..model
    }
}

/// More failures in a row, and more in its window, than any run has questions.
fn never_opens(breaker: &BreakerPolicy) -> BreakerPolicy {
    BreakerPolicy {
        failure_threshold: u32::MAX,
        min_calls: u32::MAX,
        failure_rate: 1.0,
        ..breaker.clone()
    }
}

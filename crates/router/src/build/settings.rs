//! What the settings of a configuration become.

use crate::on_behalf::acting;
use crate::surroundings::Surroundings;
use evenkeel_breaker::{Breaker, BreakerConfig, Cause, RateRule, RateWindow, Transition};
use evenkeel_core::{Event, EventKind, ModelId, Server};
use evenkeel_probe::RecoveryConfig;
use evenkeel_roster::{BreakerPolicy, Dialect, ModelConfig, ProviderConfig, RolePolicy};
use evenkeel_schema_adapter::{Dialect as SchemaDialect, ModelSupport};
use std::sync::Arc;
use std::time::Instant;

/// What the model can be asked for JSON by, as the registry says or as is usual
/// where its provider's dialect is spoken.
pub(super) fn support(model: &ModelConfig, provider: Option<&ProviderConfig>) -> ModelSupport {
    // Of OpenAI's dialect there are servers that enforce another subset.
    let server = provider.and_then(|p| p.server.and_then(SchemaDialect::named));
    let usual = server.unwrap_or_else(|| match provider.map(|p| p.dialect) {
        Some(Dialect::Anthropic) => SchemaDialect::Anthropic,
        Some(Dialect::Gemini) => SchemaDialect::Gemini,
        Some(Dialect::Mistral) => SchemaDialect::Mistral,
        _ => SchemaDialect::OpenAiStrict,
    });
    let named = model.schema_dialect.and_then(SchemaDialect::named);
    let mut support = ModelSupport::of(named.unwrap_or(usual));
    if let Some(native) = model.json_schema {
        support.json_schema = native;
    }
    if let Some(json) = model.json_object {
        support.json_object = json;
    }
    if let Some(forced) = model.forced_tool {
        support.forced_tool = forced;
    } else if model.tools == Some(false) {
        support.forced_tool = false;
    }
    support
}

pub(super) fn recovery(policy: &RolePolicy) -> RecoveryConfig {
    let restore = &policy.restore;
    RecoveryConfig {
        probe_interval: restore.probe_interval,
        restore_below: restore.restore_below,
        restore_after: restore.restore_after,
        canary: restore.canary.clone(),
        canary_samples: restore.canary_samples,
        canary_max: restore.canary_max,
        hold: restore.hold,
        growth: restore.growth,
        probe_interval_cap: restore.probe_interval_cap,
        reset_after: restore.reset_after,
        ..RecoveryConfig::default()
    }
}

pub(super) fn breaker(
    policy: &BreakerPolicy,
    seed: u64,
    now: Instant,
) -> Result<Breaker, evenkeel_breaker::ConfigError> {
    Breaker::new(
        BreakerConfig {
            failure_threshold: policy.failure_threshold,
            success_threshold: policy.success_threshold,
            open: policy.open,
            growth: policy.growth,
            open_cap: policy.open_cap,
            jitter: policy.jitter,
            reset_after: policy.reset_after,
            half_open_timeout: policy.half_open_timeout,
            rate: Some(RateRule {
                failure_rate: policy.failure_rate,
                min_calls: policy.min_calls,
                window: RateWindow::Time(policy.window),
                slow: None,
            }),
        },
        seed,
        now,
    )
}

/// Tells the observer of a breaker's transitions.
pub(super) fn listener(
    around: &Surroundings,
    server: &Server,
    model: Option<&ModelId>,
    role: Option<&Arc<str>>,
) -> impl Fn(&Transition) + Send + Sync + 'static {
    let observer = around.observer.clone();
    let (provider, system) = (server.provider.clone(), server.system.clone());
    let model = model.cloned();
    let role = role.cloned();
    move |t: &Transition| {
        let acting = acting();
        observer.on(&Event {
            at: t.at,
            call: acting.map(|(call, _)| call),
            kind: EventKind::BreakerTransition {
                provider: provider.clone(),
                system: system.clone(),
                model: model.clone(),
                role: role.clone(),
                from: t.from.as_str(),
                to: t.to.as_str(),
                retry_in: t.retry_in,
                cause: t.cause.as_str(),
                failures: failures(t.cause),
                class: acting.and_then(|(_, class)| class),
            },
        });
    }
}

/// Failures that the rule which opened a breaker has counted.
fn failures(cause: Cause) -> Option<u64> {
    match cause {
        Cause::ConsecutiveFailures { failures } => Some(failures.into()),
        Cause::FailureRate { failures, .. } => Some(failures),
        _ => None,
    }
}

//! What decides about what a run measures: with other values it is another run.
//!
//! Of a role it is how it has a question asked and an answer taken, of a model what it is
//! asked for and where. What moves traffic, and what the gate makes of the answers, is not
//! in it: a run may go on with another threshold.

use super::plan::Plan;
use crate::hashes::{ContentHasher, prompt_hash};
use evenkeel::Settings;
use evenkeel_core::ModelId;
use evenkeel_roster::{ModelConfig, ProviderConfig, RoleConfig, RolePolicy, ValidatorConfig};
use secrecy::ExposeSecret as _;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// What decides about what `plan` measures, by key.
pub(super) fn made_of(plan: &Plan, settings: &Settings) -> Map<String, Value> {
    let options = &plan.options;
    let mut made_of = Map::new();
    let mut put = |key: &str, value: Value| {
        made_of.insert(key.to_owned(), value);
    };
    put("evenkeel", json!(env!("CARGO_PKG_VERSION")));
    put("role", json!(plan.role));
    put("primary", json!(plan.primary.as_str()));
    put("dataset_sha256", json!(plan.golden.sha256()));
    put("items", json!(plan.items));
    put("tools_sha256", json!(plan.golden.tools_hash()));
    put("load", options.load.written());
    put("streamed", json!(options.is_streamed));
    put("repeat", json!(options.repeat));
    put("seed", json!(options.seed));
    put("patience_ms", json!(millis(options.patience)));
    let roles = &settings.config().roles;
    if let Some(role) = roles.get(&plan.role) {
        for (key, value) in of_policy(&role.policy) {
            put(&key, value);
        }
        for model in plan.models() {
            put(&format!("model {model}"), of_model(settings, role, model));
        }
    }
    for name in plan.golden.judges() {
        let role = roles.get(&**name);
        let judge = role.and_then(|role| Some((role, &role.rungs.first()?.model)));
        // Without one the run does not begin.
        let Some((role, model)) = judge else { continue };
        let mut asked = of_policy(&role.policy);
        asked.insert("model".to_owned(), json!(model.as_str()));
        asked.insert("asked".to_owned(), of_model(settings, role, model));
        put(&format!("judge {name}"), Value::Object(asked));
    }
    made_of
}

/// How a role has questions asked and answers taken.
fn of_policy(policy: &RolePolicy) -> Map<String, Value> {
    let (clocks, retry) = (policy.clocks, &policy.retry);
    let keys = [
        ("connect_ms", json!(millis(clocks.connect))),
        ("first_token_ms", json!(millis(clocks.first_token))),
        ("stall_ms", json!(millis(clocks.stall))),
        ("deadline_ms", json!(millis(clocks.deadline))),
        ("min_tokens_per_s", json!(policy.min_tokens_per_s)),
        (
            "retry",
            json!({
                "transient": retry.transient,
                "overloaded": retry.overloaded,
                "malformed": retry.malformed,
                "semantic": retry.semantic,
                "base_ms": millis(retry.base),
                "cap_ms": millis(retry.cap),
            }),
        ),
        (
            "validators",
            json!({
                "count": policy.validators.len(),
                "sha256": validators_hash(&policy.validators),
                "on_error": format!("{:?}", policy.on_validator_error).to_lowercase(),
                "timeout_ms": millis(policy.validator_timeout),
            }),
        ),
    ];
    let keys = keys.into_iter();
    keys.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The hash of all of them, in their order. Values of headers are credentials, and do not
/// decide about a verdict.
fn validators_hash(validators: &[ValidatorConfig]) -> String {
    let mut hasher = ContentHasher::new();
    for validator in validators {
        let text = match validator {
            ValidatorConfig::BuiltIn(rule) => format!("{rule:?}"),
            ValidatorConfig::Http(service) => format!(
                "http {:?} {:?} {:?}",
                service.url.expose_secret(),
                service.timeout,
                service.headers.keys()
            ),
        };
        hasher.update(&text.len().to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.finish()
}

/// What is known of a model that decides about its answers and their cost.
fn of_model(settings: &Settings, role: &RoleConfig, model: &ModelId) -> Value {
    let config = settings.config();
    let provider = config.providers.get(model.provider());
    let entry = config.models.get(model);
    let prompt = prompt_hash(settings.prompts(), &role.name, &role.policy, model);
    json!({
        "prompt_sha256": prompt,
        "dialect": provider.map(|provider| provider.dialect.as_str()),
        "server": provider.and_then(|provider| provider.server),
        "base_url": provider.and_then(|provider| provider.base_url.as_deref()),
        "wire": provider.map(|provider| of_wire(provider, model)),
        "capabilities": entry.map(capabilities),
        "input_usd_per_mtok": entry.and_then(|entry| entry.input_usd_per_mtok),
        "output_usd_per_mtok": entry.and_then(|entry| entry.output_usd_per_mtok),
        "max_concurrency": entry.map(|entry| entry.max_concurrency),
    })
}

/// What is said to it otherwise than to others of its provider.
fn of_wire(provider: &ProviderConfig, model: &ModelId) -> Value {
    let own = provider.models.get(model.model());
    let version = own.and_then(|own| own.api_version.as_ref());
    let reasoning = own.and_then(|own| own.reasoning);
    json!({
        "api_version": version.or(provider.api_version.as_ref()),
        "fixed_sampling": own.is_some_and(|own| own.fixed_sampling),
        "reasoning": reasoning.map(|reasoning| format!("{reasoning:?}").to_lowercase()),
    })
}

/// What it is taken to be able to do: how it is asked for a schema, tools, or a long
/// answer hangs on it.
fn capabilities(model: &ModelConfig) -> Value {
    json!({
        "context_window": model.context_window,
        "max_output_tokens": model.max_output_tokens,
        "tools": model.tools,
        "max_tools": model.max_tools,
        "parallel_tool_calls": model.parallel_tool_calls,
        "images": model.images,
        "json_schema": model.json_schema,
        "json_object": model.json_object,
        "forced_tool": model.forced_tool,
        "schema_dialect": model.schema_dialect,
    })
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

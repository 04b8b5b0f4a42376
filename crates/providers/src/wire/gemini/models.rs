//! The list of models that a provider serves.

use crate::wire::classify::{Reply, classify};
use crate::wire::json;
use evenkeel_core::{Class, Failure};
use serde_json::Value;

/// What the list says of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelLimits {
    /// Its name as requests use it, without `models/`.
    pub model: String,
    /// Most tokens it takes.
    pub input_tokens: Option<u64>,
    /// Most tokens it gives.
    pub output_tokens: Option<u64>,
}

/// Reads the body of `GET /models`.
///
/// # Errors
/// The class of an error object; [`Class::Malformed`] for what is no list.
pub fn decode_models(reply: &Reply<'_>) -> Result<Vec<ModelLimits>, Failure> {
    let value = json::parse(reply.body()).map_err(|e| {
        reply
            .failure(Class::Malformed, "the list of models is not JSON")
            .with_source(e)
    })?;
    if value.get("error").is_some() {
        return Err(classify(reply));
    }
    let Some(models) = value.get("models").and_then(Value::as_array) else {
        return Err(reply.failure(Class::Malformed, "the list of models has no `models`"));
    };
    Ok(models.iter().filter_map(limits).collect())
}

fn limits(model: &Value) -> Option<ModelLimits> {
    let name = model.get("name")?.as_str()?;
    let count = |field: &str| model.get(field).and_then(Value::as_u64);
    Some(ModelLimits {
        model: name.strip_prefix("models/").unwrap_or(name).to_owned(),
        input_tokens: count("inputTokenLimit"),
        output_tokens: count("outputTokenLimit"),
    })
}

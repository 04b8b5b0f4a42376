//! The list of models that a server of this dialect serves.

use crate::wire::classify::{Reply, classify};
use crate::wire::json;
use evenkeel_core::{Class, Failure};
use serde_json::Value;

/// What the list says of one model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelEntry {
    /// Its name.
    pub id: String,
    /// The day on which it is switched off, where one is set (`OpenAI`'s
    /// `shutdown_date`, Mistral's `deprecation`): a date, alone or with a time.
    pub shutdown_date: Option<String>,
    /// Most tokens of a request and its answer together (vLLM's `max_model_len`).
    pub max_tokens: Option<u64>,
}

/// Reads the body of `GET /models`.
///
/// # Errors
/// The class of an error object; [`Class::Malformed`] for what is no list.
pub fn decode_models(reply: &Reply<'_>) -> Result<Vec<ModelEntry>, Failure> {
    let value = json::parse(reply.body()).map_err(|e| {
        reply
            .failure(Class::Malformed, "the list of models is not JSON")
            .with_source(e)
    })?;
    if value.get("error").is_some_and(|error| !error.is_null()) {
        return Err(classify(reply));
    }
    let Some(models) = value.get("data").and_then(Value::as_array) else {
        return Err(reply.failure(Class::Malformed, "the list of models has no `data`"));
    };
    Ok(models.iter().filter_map(entry).collect())
}

fn entry(model: &Value) -> Option<ModelEntry> {
    let text = |name: &str| model.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(ModelEntry {
        id: text("id")?,
        shutdown_date: text("shutdown_date").or_else(|| text("deprecation")),
        max_tokens: model.get("max_model_len").and_then(Value::as_u64),
    })
}

//! The list of models, which says when each is retired.

use crate::wire::classify::{Reply, classify};
use crate::wire::json;
use evenkeel_core::{Class, Failure};
use serde_json::Value;

/// What the provider says of one model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelCard {
    /// Its name.
    pub id: String,
    /// `active`, `deprecated` or `retired`; this is the signal, whatever the
    /// dates say.
    pub lifecycle: Option<String>,
    /// When it was declared outdated, RFC 3339.
    pub deprecated_at: Option<String>,
    /// When it is to be switched off, RFC 3339. It may be moved.
    pub retires_at: Option<String>,
    /// Most input tokens.
    pub max_input_tokens: Option<u64>,
    /// Most output tokens.
    pub max_output_tokens: Option<u64>,
}

/// Reads the body of a reply to `GET /v1/models`.
///
/// # Errors
/// The class of an error object in the body; [`Class::Malformed`] for what is
/// no list of models.
pub fn decode_models(reply: &Reply<'_>) -> Result<Vec<ModelCard>, Failure> {
    let malformed = |what: &str| reply.failure(Class::Malformed, what);
    let list = json::parse(reply.body())
        .map_err(|e| malformed("the list of models is not valid JSON").with_source(e))?;
    if super::answer_read::is_error(&list) {
        return Err(classify(reply));
    }
    let models = list.get("data").and_then(Value::as_array);
    let models = models.ok_or_else(|| malformed("the list of models has no data"))?;
    Ok(models.iter().filter_map(card).collect())
}

fn card(model: &Value) -> Option<ModelCard> {
    let text = |name: &str| model.get(name).and_then(Value::as_str).map(str::to_owned);
    let count = |name: &str| model.get(name).and_then(Value::as_u64);
    Some(ModelCard {
        id: text("id")?,
        lifecycle: text("lifecycle"),
        deprecated_at: text("deprecated_at"),
        retires_at: text("retires_at"),
        max_input_tokens: count("max_input_tokens"),
        max_output_tokens: count("max_tokens"),
    })
}

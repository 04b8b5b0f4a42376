//! `generationConfig`: JSON to neutral form.

use super::names::camel_keys;
use super::{openapi, thinking};
use crate::wire::RequestError;
use crate::wire::fields::Fields;
use evenkeel_core::{Output, Reasoning, Sampling};
use serde_json::{Map, Value};

/// What an answer in JSON is asked for with.
pub(super) const JSON: &str = "application/json";
/// The name that a schema gets, since the format gives it none.
pub(super) const SCHEMA_NAME: &str = "response";

/// What a `generationConfig` says.
#[derive(Debug, Default)]
pub(super) struct Config {
    pub(super) output: Output,
    pub(super) sampling: Sampling,
    pub(super) max_output_tokens: Option<u64>,
    pub(super) stop: Vec<String>,
    pub(super) reasoning: Option<Reasoning>,
    /// What has no neutral place, and written forms.
    pub(super) rest: Map<String, Value>,
}

impl Config {
    pub(super) fn read(map: Map<String, Value>) -> Result<Self, RequestError> {
        let mut fields = Fields::new(camel_keys(map), "generationConfig");
        refuse_several(&mut fields)?;
        let sampling = Sampling {
            temperature: fields.number("temperature")?,
            top_p: fields.number("topP")?,
            top_k: whole(&mut fields, "topK")?,
            presence_penalty: fields.number("presencePenalty")?,
            frequency_penalty: fields.number("frequencyPenalty")?,
            seed: fields.integer("seed")?,
        };
        let max_output_tokens = whole(&mut fields, "maxOutputTokens")?;
        let stop = stop(&mut fields)?;
        let mut reasoning = None;
        if let Some(config) = fields.object("thinkingConfig")? {
            let mut config = camel_keys(config);
            reasoning = thinking::read(&mut config);
            if !config.is_empty() {
                fields.keep("thinkingConfig", config.into());
            }
        }
        Ok(Self {
            output: output(&mut fields)?,
            sampling,
            max_output_tokens,
            stop,
            reasoning,
            rest: fields.rest(),
        })
    }
}

fn refuse_several(fields: &mut Fields) -> Result<(), RequestError> {
    let param = fields.path("candidateCount");
    match whole(fields, "candidateCount")? {
        None | Some(1) => Ok(()),
        Some(0) => Err(RequestError::invalid(
            param.clone(),
            format!("`{param}` must be 1, got 0"),
        )),
        Some(n) => Err(RequestError::unsupported(
            param.clone(),
            format!("`{param}` must be 1, got {n}: one answer is given to a request"),
        )),
    }
}

/// A count; JSON from protocol buffers may write 40 as 40.0 or "40".
fn whole(fields: &mut Fields, name: &str) -> Result<Option<u64>, RequestError> {
    let exact = match fields.peek(name) {
        Some(Value::String(text)) => text.parse::<u64>().ok(),
        Some(Value::Number(number)) if number.is_f64() => format!("{number}")
            .strip_suffix(".0")
            .and_then(|digits| digits.parse().ok()),
        _ => None,
    };
    if let Some(count) = exact {
        fields.keep(name, count.into());
    }
    fields.count(name)
}

fn stop(fields: &mut Fields) -> Result<Vec<String>, RequestError> {
    let path = fields.path("stopSequences");
    let items = fields.array("stopSequences")?.unwrap_or_default();
    items
        .into_iter()
        .enumerate()
        .map(|(i, item)| match item {
            Value::String(text) => Ok(text),
            other => Err(RequestError::wrong_type(
                format!("{path}[{i}]"),
                "a string",
                &other,
            )),
        })
        .collect()
}

fn output(fields: &mut Fields) -> Result<Output, RequestError> {
    let kind = fields.string("responseMimeType")?;
    if kind.as_deref().is_some_and(|kind| kind != JSON) {
        // Another kind, such as one word of a list: the schema is its own.
        fields.keep("responseMimeType", kind.unwrap_or_default().into());
        return Ok(Output::Text);
    }
    let schema = match (
        fields.take("responseJsonSchema"),
        fields.peek("responseSchema"),
    ) {
        (Some(schema), _) => Some(schema),
        // The written form stays.
        (None, Some(openapi)) => Some(openapi::to_json_schema(openapi)),
        (None, None) => None,
    };
    Ok(match (schema, kind) {
        (Some(schema), _) => Output::JsonSchema {
            name: SCHEMA_NAME.into(),
            schema,
            strict: true,
            description: None,
        },
        (None, Some(_)) => Output::JsonObject,
        (None, None) => Output::Text,
    })
}

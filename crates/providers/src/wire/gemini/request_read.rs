//! A client's request: JSON to neutral form.

use super::config_read::Config;
use super::names::camel_keys;
use super::{contents_read, extra, tools_read};
use crate::wire::fields::Fields;
use crate::wire::{ClientRequest, RequestError, json};
use evenkeel_core::ChatRequest;
use serde_json::{Map, Value};

/// Reads a request body; `model` and `stream` are what its path says. Names
/// in `camelCase` and in `snake_case` are taken for the same.
///
/// Unknown fields are kept. Refused is a `candidateCount` above 1, which no
/// neutral form can answer faithfully.
///
/// # Errors
/// [`RequestError`], whose `param` names the field.
pub fn decode_request(
    model: &str,
    stream: bool,
    body: &[u8],
) -> Result<ClientRequest, RequestError> {
    let value = json::parse(body).map_err(|e| RequestError {
        message: format!("the request body is not valid JSON: {e}"),
        param: None,
        code: Some("invalid_json"),
    })?;
    let Value::Object(map) = value else {
        return Err(RequestError {
            message: "the request body must be a JSON object".into(),
            param: None,
            code: Some("invalid_type"),
        });
    };
    Ok(ClientRequest {
        request: read(Fields::new(camel_keys(map), ""))?,
        model: model.to_owned(),
        stream,
        // Every stream of this format tells its usage.
        include_usage: true,
    })
}

fn read(mut fields: Fields) -> Result<ChatRequest, RequestError> {
    // The path names the model; what some clients repeat here is not needed.
    fields.take("model");
    let contents = match fields.take("contents") {
        None => return Err(RequestError::missing("contents".into())),
        Some(Value::Array(contents)) => contents,
        // Google's parser takes a single content for a list of one.
        Some(content @ Value::Object(_)) => vec![content],
        Some(other) => {
            return Err(RequestError::wrong_type(
                "contents".into(),
                "an array",
                &other,
            ));
        }
    };
    let system = fields.object("systemInstruction")?.map(Value::Object);
    let messages = contents_read::messages(system, contents)?;
    let tools = tools_read::tools(fields.array("tools")?.unwrap_or_default())?;
    let mut tool_choice = None;
    if let Some(config) = fields.object("toolConfig")? {
        let rest;
        (tool_choice, rest) = tools_read::choice(config)?;
        keep(&mut fields, "toolConfig", rest);
    }
    let config = Config::read(fields.object("generationConfig")?.unwrap_or_default())?;
    keep(&mut fields, "generationConfig", config.rest);
    let user = user(&mut fields)?;
    Ok(ChatRequest {
        messages,
        tools,
        tool_choice,
        parallel_tool_calls: None,
        output: config.output,
        sampling: config.sampling,
        max_output_tokens: config.max_output_tokens,
        stop: config.stop,
        reasoning: config.reasoning,
        user,
        metadata: Map::new(),
        extra: extra(fields.rest()),
    })
}

fn keep(fields: &mut Fields, name: &str, rest: Map<String, Value>) {
    if !rest.is_empty() {
        fields.keep(name, rest.into());
    }
}

/// The label that names the user.
fn user(fields: &mut Fields) -> Result<Option<String>, RequestError> {
    let path = fields.path("labels");
    let Some(labels) = fields.object("labels")? else {
        return Ok(None);
    };
    let mut labels = Fields::new(labels, path);
    let user = labels.string("user")?;
    let rest = labels.rest();
    if !rest.is_empty() {
        fields.keep("labels", rest.into());
    }
    Ok(user)
}

//! A client's request: JSON to neutral form.

use super::{extra, messages_read, reasoning};
use crate::wire::fields::Fields;
use crate::wire::json;
use crate::wire::{ClientRequest, RequestError};
use evenkeel_core::{ChatRequest, Extra, Output, Sampling, Tool, ToolChoice};
use serde_json::{Map, Value, json};

/// The name of a schema, which this format does not name.
pub(super) const SCHEMA_NAME: &str = "output";

/// Reads a request body. Unknown fields are kept.
///
/// # Errors
/// [`RequestError`], whose `param` names the field.
pub fn decode_request(body: &[u8]) -> Result<ClientRequest, RequestError> {
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
    read(Fields::new(map, ""))
}

fn read(mut fields: Fields) -> Result<ClientRequest, RequestError> {
    let model = fields.required_string("model")?;
    if model.is_empty() {
        return Err(RequestError::invalid(
            "model",
            "`model` must not be empty".into(),
        ));
    }
    let cap = fields
        .count("max_tokens")?
        .ok_or_else(|| RequestError::missing("max_tokens".into()))?;
    let mut messages = Vec::new();
    if let Some(system) = fields.take("system") {
        messages.push(messages_read::system(system)?);
    }
    let items = fields
        .array("messages")?
        .ok_or_else(|| RequestError::missing("messages".into()))?;
    messages_read::messages(items, &mut messages)?;
    let stream = fields.boolean("stream")?.unwrap_or(false);
    let tools = tools(&mut fields)?;
    let (tool_choice, parallel_tool_calls) = tool_choice(&mut fields)?;
    let (output, effort) = output_config(&mut fields)?;
    let reasoning = reasoning::read(&mut fields, effort)?;
    let sampling = Sampling {
        temperature: fields.number("temperature")?,
        top_p: fields.number("top_p")?,
        top_k: fields.count("top_k")?,
        ..Sampling::default()
    };
    let stop = stop(&mut fields)?;
    let user = user(&mut fields)?;
    Ok(ClientRequest {
        request: ChatRequest {
            messages,
            tools,
            tool_choice,
            parallel_tool_calls,
            output,
            sampling,
            max_output_tokens: Some(cap),
            stop,
            reasoning,
            user,
            metadata: Map::new(),
            extra: extra(fields.rest()),
        },
        model,
        stream,
        include_usage: true,
    })
}

fn tools(fields: &mut Fields) -> Result<Vec<Tool>, RequestError> {
    fields
        .array("tools")?
        .unwrap_or_default()
        .into_iter()
        .enumerate()
        .map(|(i, tool)| tool_of(Fields::of(tool, format!("tools[{i}]"))?))
        .collect()
}

fn tool_of(mut fields: Fields) -> Result<Tool, RequestError> {
    let kind = fields.peek("type").and_then(Value::as_str);
    if kind.is_some_and(|kind| kind != "custom") {
        return provider_tool(fields);
    }
    let name = fields.required_string("name")?;
    let description = fields.string("description")?;
    let schema = fields
        .object("input_schema")?
        .ok_or_else(|| RequestError::missing(fields.path("input_schema")))?;
    let schema = Value::Object(schema);
    Ok(Tool {
        name,
        description,
        // How the format says that a tool has no parameters.
        parameters: (schema != no_parameters()).then_some(schema),
        strict: fields.boolean("strict")?,
        extra: extra(fields.rest()),
    })
}

/// The schema of a tool without parameters.
pub(super) fn no_parameters() -> Value {
    json!({"type": "object"})
}

/// A tool that the provider runs itself, or whose shape it alone knows.
fn provider_tool(mut fields: Fields) -> Result<Tool, RequestError> {
    let name = fields.string("name")?;
    let kind = fields.required_string("type")?;
    fields.keep("type", Value::String(kind.clone()));
    if let Some(name) = &name {
        fields.keep("name", Value::String(name.clone()));
    }
    Ok(Tool {
        name: name.unwrap_or(kind),
        description: None,
        parameters: None,
        strict: None,
        extra: extra(fields.rest()),
    })
}

/// Whether a tool is one that the provider runs itself.
pub(super) fn is_provider_tool(extra: &Extra) -> bool {
    extra
        .fields
        .get("type")
        .is_some_and(|kind| kind != "custom" && kind != "function")
}

type Choice = (Option<ToolChoice>, Option<bool>);

fn tool_choice(fields: &mut Fields) -> Result<Choice, RequestError> {
    let path = fields.path("tool_choice");
    let Some(raw) = fields.take("tool_choice") else {
        return Ok((None, None));
    };
    let mut choice = Fields::of(raw, path)?;
    let parallel = choice
        .boolean("disable_parallel_tool_use")?
        .map(|disabled| !disabled);
    let choice = match choice.required_string("type")?.as_str() {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Required,
        "none" => ToolChoice::None,
        "tool" => ToolChoice::Named(choice.required_string("name")?),
        other => {
            let param = choice.path("type");
            let message = format!("`{param}` must be auto, any, tool or none, got `{other}`");
            return Err(RequestError::invalid(param, message));
        }
    };
    Ok((Some(choice), parallel))
}

/// Takes the format and the effort; what else it says stays.
fn output_config(fields: &mut Fields) -> Result<(Output, Option<String>), RequestError> {
    let Some(config) = fields.object("output_config")? else {
        return Ok((Output::Text, None));
    };
    let mut config = Fields::new(config, "output_config");
    let effort = config.string("effort")?;
    let output = match config.object("format")? {
        None => Output::Text,
        Some(format) => output_format(format, &mut config)?,
    };
    let rest = config.rest();
    if !rest.is_empty() {
        fields.keep("output_config", rest.into());
    }
    Ok((output, effort))
}

fn output_format(format: Map<String, Value>, config: &mut Fields) -> Result<Output, RequestError> {
    let raw = Value::Object(format.clone());
    let mut format = Fields::new(format, config.path("format"));
    if format.required_string("type")? != "json_schema" {
        config.keep("format", raw);
        return Ok(Output::Text);
    }
    let schema = format
        .object("schema")?
        .ok_or_else(|| RequestError::missing(format.path("schema")))?;
    Ok(Output::JsonSchema {
        name: SCHEMA_NAME.to_owned(),
        schema: schema.into(),
        strict: true,
        description: None,
    })
}

fn stop(fields: &mut Fields) -> Result<Vec<String>, RequestError> {
    let items = fields.array("stop_sequences")?.unwrap_or_default();
    let text = |(i, item)| match item {
        Value::String(text) => Ok(text),
        other => Err(RequestError::wrong_type(
            format!("stop_sequences[{i}]"),
            "a string",
            &other,
        )),
    };
    items.into_iter().enumerate().map(text).collect()
}

/// Takes `metadata.user_id`; what else it says stays.
fn user(fields: &mut Fields) -> Result<Option<String>, RequestError> {
    let Some(metadata) = fields.object("metadata")? else {
        return Ok(None);
    };
    let mut metadata = Fields::new(metadata, "metadata");
    let user = metadata.string("user_id")?;
    let rest = metadata.rest();
    if !rest.is_empty() {
        fields.keep("metadata", rest.into());
    }
    Ok(user)
}

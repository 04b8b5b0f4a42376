//! A client's request: JSON to neutral form.

use super::style::{Cap, Style, UserField};
use super::{extra, messages_read};
use crate::wire::fields::Fields;
use crate::wire::json;
use crate::wire::{ClientRequest, RequestError};
use evenkeel_core::{ChatRequest, Effort, Output, Reasoning, Sampling, Tool, ToolChoice};
use serde_json::{Map, Value};

/// Reads a request body.
///
/// Unknown fields are kept. Refused are `n` above 1, custom tools, and the
/// `functions` of 2023, which no neutral form can answer faithfully.
///
/// # Errors
/// [`RequestError`], whose `param` names the field.
pub fn decode_request(body: &[u8]) -> Result<ClientRequest, RequestError> {
    decode(body, &Style::FAITHFUL)
}

/// Reads a request body in the words of `style`.
pub(in crate::wire) fn decode(body: &[u8], style: &Style) -> Result<ClientRequest, RequestError> {
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
    read(Fields::new(map, ""), style)
}

fn read(mut fields: Fields, style: &Style) -> Result<ClientRequest, RequestError> {
    refuse_unanswerable(&mut fields)?;
    let model = fields.required_string("model")?;
    if model.is_empty() {
        return Err(RequestError::invalid(
            "model",
            "`model` must not be empty".into(),
        ));
    }
    let messages = fields
        .array("messages")?
        .ok_or_else(|| RequestError::missing("messages".into()))?;
    let messages = messages_read::messages(messages, style)?;
    let stream = fields.boolean("stream")?.unwrap_or(false);
    let include_usage = stream_options(&mut fields)?;
    let tools = tools(&mut fields, style.dialect)?;
    let tool_choice = tool_choice(&mut fields, style)?;
    let parallel_tool_calls = fields.boolean("parallel_tool_calls")?;
    let output = output(&mut fields)?;
    let sampling = Sampling {
        temperature: fields.number("temperature")?,
        top_p: fields.number("top_p")?,
        presence_penalty: fields.number("presence_penalty")?,
        frequency_penalty: fields.number("frequency_penalty")?,
        seed: fields.integer(style.seed)?,
        top_k: top_k(&mut fields),
    };
    let max_output_tokens = max_output_tokens(&mut fields, style)?;
    let stop = stop(&mut fields)?;
    let reasoning = reasoning(&mut fields);
    let mut metadata = fields.object("metadata")?.unwrap_or_default();
    let user = user(&mut fields, style, &mut metadata)?;
    Ok(ClientRequest {
        request: ChatRequest {
            messages,
            tools,
            tool_choice,
            parallel_tool_calls,
            output,
            sampling,
            max_output_tokens,
            stop,
            reasoning,
            user,
            metadata,
            extra: extra(style.dialect, fields.rest()),
        },
        model,
        stream,
        include_usage,
    })
}

fn refuse_unanswerable(fields: &mut Fields) -> Result<(), RequestError> {
    match fields.count("n")? {
        None | Some(1) => {}
        Some(0) => return Err(RequestError::invalid("n", "`n` must be 1, got 0".into())),
        Some(n) => {
            let message = format!("`n` must be 1, got {n}: one answer is given to a request");
            return Err(RequestError::unsupported("n", message));
        }
    }
    for (old, new) in [("functions", "tools"), ("function_call", "tool_choice")] {
        if fields.peek(old).is_some() {
            let message = format!("`{old}` is not supported: use `{new}`");
            return Err(RequestError::unsupported(old, message));
        }
    }
    Ok(())
}

/// Takes `include_usage`; other stream options stay.
fn stream_options(fields: &mut Fields) -> Result<bool, RequestError> {
    let Some(options) = fields.object("stream_options")? else {
        return Ok(false);
    };
    let mut options = Fields::new(options, "stream_options");
    let include_usage = options.boolean("include_usage")?.unwrap_or(false);
    let rest = options.rest();
    if !rest.is_empty() {
        fields.keep("stream_options", Value::Object(rest));
    }
    Ok(include_usage)
}

fn tools(fields: &mut Fields, dialect: &'static str) -> Result<Vec<Tool>, RequestError> {
    fields
        .array("tools")?
        .unwrap_or_default()
        .into_iter()
        .enumerate()
        .map(|(i, tool)| tool_of(Fields::of(tool, format!("tools[{i}]"))?, dialect))
        .collect()
}

fn tool_of(mut fields: Fields, dialect: &'static str) -> Result<Tool, RequestError> {
    let kind = fields.required_string("type")?;
    match kind.as_str() {
        "function" => {}
        "custom" => {
            let param = fields.path("type");
            let message = format!("`{param}` is `custom`; only `function` tools are supported");
            return Err(RequestError::unsupported(param, message));
        }
        _ => return Ok(provider_tool(fields, kind, dialect)),
    }
    let path = fields.path("function");
    let function = fields
        .object("function")?
        .ok_or_else(|| RequestError::missing(path.clone()))?;
    let mut function = Fields::new(function, path);
    let name = function.required_string("name")?;
    let description = function.string("description")?;
    let parameters = function.object("parameters")?.map(Value::Object);
    let strict = function.boolean("strict")?;
    let inner = function.rest();
    if !inner.is_empty() {
        fields.keep("function", Value::Object(inner));
    }
    Ok(Tool {
        name,
        description,
        parameters,
        strict,
        extra: extra(dialect, fields.rest()),
    })
}

/// A tool that the provider runs itself: known by its type, otherwise opaque.
fn provider_tool(mut fields: Fields, kind: String, dialect: &'static str) -> Tool {
    fields.keep("type", Value::String(kind.clone()));
    Tool {
        name: kind,
        description: None,
        parameters: None,
        strict: None,
        extra: extra(dialect, fields.rest()),
    }
}

fn tool_choice(fields: &mut Fields, style: &Style) -> Result<Option<ToolChoice>, RequestError> {
    let Some(value) = fields.take("tool_choice") else {
        return Ok(None);
    };
    match &value {
        Value::String(choice) => match choice.as_str() {
            "auto" => Ok(Some(ToolChoice::Auto)),
            "none" => Ok(Some(ToolChoice::None)),
            "required" => Ok(Some(ToolChoice::Required)),
            other if other == style.required => Ok(Some(ToolChoice::Required)),
            other => {
                let message = format!(
                    "`tool_choice` must be `auto`, `none`, `required` or an object, got `{other}`"
                );
                Err(RequestError::invalid("tool_choice", message))
            }
        },
        Value::Object(choice) => {
            let named = named_function(choice);
            if named.is_none() {
                // Another form, such as a list of allowed tools.
                fields.keep("tool_choice", value);
            }
            Ok(named)
        }
        other => Err(RequestError::wrong_type(
            "tool_choice".into(),
            "a string or an object",
            other,
        )),
    }
}

fn named_function(choice: &Map<String, Value>) -> Option<ToolChoice> {
    let is_function = choice.get("type")?.as_str()? == "function";
    let name = choice.get("function")?.get("name")?.as_str()?;
    is_function.then(|| ToolChoice::Named(name.to_owned()))
}

fn output(fields: &mut Fields) -> Result<Output, RequestError> {
    let Some(value) = fields.take("response_format") else {
        return Ok(Output::Text);
    };
    let output = output_of(&value)?;
    if super::request_write::response_format(&output).as_ref() != Some(&value)
        && value != serde_json::json!({"type": "text"})
    {
        fields.keep("response_format", value);
    }
    Ok(output)
}

/// What a `response_format` asks for; text where its type is unknown.
pub(super) fn output_of(value: &Value) -> Result<Output, RequestError> {
    let mut format = Fields::of(value.clone(), "response_format")?;
    match format.required_string("type")?.as_str() {
        "json_object" => Ok(Output::JsonObject),
        "json_schema" => {
            let path = format.path("json_schema");
            let inner = format
                .object("json_schema")?
                .ok_or_else(|| RequestError::missing(path.clone()))?;
            let mut inner = Fields::new(inner, path);
            Ok(Output::JsonSchema {
                name: inner.required_string("name")?,
                schema: Value::Object(inner.object("schema")?.unwrap_or_default()),
                strict: inner.boolean("strict")?.unwrap_or(false),
                description: inner.string("description")?,
            })
        }
        _ => Ok(Output::Text),
    }
}

/// `max_completion_tokens`, else `max_tokens`; the older name is remembered.
fn max_output_tokens(fields: &mut Fields, style: &Style) -> Result<Option<u64>, RequestError> {
    let new = fields.count("max_completion_tokens")?;
    let old = fields.count("max_tokens")?;
    match (new, old) {
        (None, Some(old)) => {
            if matches!(style.cap, Cap::AsWritten) {
                fields.keep("max_tokens", Value::from(old));
            }
            Ok(Some(old))
        }
        (new, _) => Ok(new),
    }
}

fn stop(fields: &mut Fields) -> Result<Vec<String>, RequestError> {
    match fields.take("stop") {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![text]),
        Some(Value::Array(items)) => items
            .into_iter()
            .enumerate()
            .map(|(i, item)| match item {
                Value::String(text) => Ok(text),
                other => Err(RequestError::wrong_type(
                    format!("stop[{i}]"),
                    "a string",
                    &other,
                )),
            })
            .collect(),
        Some(other) => Err(RequestError::wrong_type(
            "stop".into(),
            "a string or an array of strings",
            &other,
        )),
    }
}

/// A `top_k` that is a count; others, such as vLLM's -1 for none, stay as they are.
fn top_k(fields: &mut Fields) -> Option<u64> {
    let count = fields.peek("top_k").and_then(Value::as_u64);
    if count.is_some() {
        fields.take("top_k");
    }
    count
}

/// `reasoning_effort` and `reasoning`. Where the neutral form does not lead to
/// the same fields again, they stay as they were written.
fn reasoning(fields: &mut Fields) -> Option<Reasoning> {
    let level = fields.peek("reasoning_effort");
    let object = fields.peek("reasoning");
    let read = reasoning_of(level, object);
    let written = read.map(super::request_write::reasoning_field);
    let same = match (level, object, &written) {
        (Some(level), None, Some((name, value))) => *name == "reasoning_effort" && level == value,
        (None, Some(object), Some((name, value))) => *name == "reasoning" && object == value,
        _ => false,
    };
    if same {
        fields.take("reasoning_effort");
        fields.take("reasoning");
    }
    read
}

/// What the two fields ask for; none where neither names a known level or a budget.
pub(super) fn reasoning_of(level: Option<&Value>, object: Option<&Value>) -> Option<Reasoning> {
    let named = |value: &Value| Effort::named(value.as_str()?);
    let read = Reasoning {
        effort: level
            .and_then(named)
            .or_else(|| named(object?.get("effort")?)),
        budget_tokens: object.and_then(|o| o.get("max_tokens")?.as_u64()),
    };
    (read != Reasoning::default()).then_some(read)
}

/// `safety_identifier`, else the older `user`, which is remembered.
fn user(
    fields: &mut Fields,
    style: &Style,
    metadata: &mut Map<String, Value>,
) -> Result<Option<String>, RequestError> {
    if style.user == UserField::Metadata {
        return Ok(match metadata.get("user_id") {
            Some(Value::String(_)) => match metadata.shift_remove("user_id") {
                Some(Value::String(user)) => Some(user),
                _ => None,
            },
            _ => None,
        });
    }
    let newer = fields.string("safety_identifier")?;
    let older = fields.string("user")?;
    if let Some(older) = &older {
        fields.keep("user", Value::from(older.as_str()));
        if let Some(newer) = &newer {
            fields.keep("safety_identifier", Value::from(newer.as_str()));
        }
    }
    Ok(newer.or(older))
}

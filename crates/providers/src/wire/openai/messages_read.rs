//! Messages: JSON to neutral form.

use super::{extra, messages_write};
use crate::wire::RequestError;
use crate::wire::fields::Fields;
use evenkeel_core::{Extra, Image, Message, Part, ReasoningPart, Role, ToolCall, ToolResult};
use serde_json::{Map, Value};

pub(super) fn messages(items: Vec<Value>) -> Result<Vec<Message>, RequestError> {
    if items.is_empty() {
        return Err(RequestError::new(
            "empty_array",
            "messages",
            "`messages` must hold at least one message".into(),
        ));
    }
    items
        .into_iter()
        .enumerate()
        .map(|(i, item)| message(Fields::of(item, format!("messages[{i}]"))?))
        .collect()
}

fn message(mut fields: Fields) -> Result<Message, RequestError> {
    let role = role(&mut fields)?;
    let name = fields.string("name")?;
    let parts = match role {
        Role::Assistant => assistant_parts(&mut fields)?,
        Role::Tool => vec![tool_result(&mut fields)?],
        Role::System | Role::Developer | Role::User => {
            content(&mut fields)?.ok_or_else(|| RequestError::missing(fields.path("content")))?
        }
    };
    Ok(Message {
        role,
        parts,
        name,
        extra: extra(fields.rest()),
    })
}

fn role(fields: &mut Fields) -> Result<Role, RequestError> {
    match fields.required_string("role")?.as_str() {
        "system" => Ok(Role::System),
        "developer" => Ok(Role::Developer),
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        "tool" => Ok(Role::Tool),
        other => {
            let param = fields.path("role");
            let message = format!(
                "`{param}` must be system, developer, user, assistant or tool, got `{other}`"
            );
            Err(RequestError::invalid(param, message))
        }
    }
}

/// The `content` field as parts; its written form is kept where the parts say
/// less than it did.
fn content(fields: &mut Fields) -> Result<Option<Vec<Part>>, RequestError> {
    let Some(raw) = fields.take("content") else {
        return Ok(None);
    };
    let parts = content_parts(&raw, &fields.path("content"))?;
    if messages_write::content(&parts) != raw {
        fields.keep("content", raw);
    }
    Ok(Some(parts))
}

/// The parts of a `content` value.
pub(super) fn content_parts(content: &Value, path: &str) -> Result<Vec<Part>, RequestError> {
    match content {
        Value::String(text) => Ok(vec![Part::Text(text.clone())]),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(i, item)| match item {
                Value::Object(part) => content_part(part, &format!("{path}[{i}]")),
                other => Err(RequestError::wrong_type(
                    format!("{path}[{i}]"),
                    "an object",
                    other,
                )),
            })
            .collect(),
        other => Err(RequestError::wrong_type(
            path.to_owned(),
            "a string or an array of parts",
            other,
        )),
    }
}

fn content_part(part: &Map<String, Value>, path: &str) -> Result<Part, RequestError> {
    let mut fields = Fields::new(part.clone(), path);
    match fields.required_string("type")?.as_str() {
        "text" => Ok(Part::Text(fields.required_string("text")?)),
        "refusal" => Ok(Part::Refusal(fields.required_string("refusal")?)),
        "image_url" => {
            let path = fields.path("image_url");
            match fields.take("image_url") {
                Some(Value::String(url)) => Ok(Part::Image(Image { url, detail: None })),
                Some(image) => {
                    let mut image = Fields::of(image, path)?;
                    Ok(Part::Image(Image {
                        url: image.required_string("url")?,
                        detail: image.string("detail")?,
                    }))
                }
                None => Err(RequestError::missing(path)),
            }
        }
        _ => Ok(Part::Other(extra(part.clone()))),
    }
}

fn assistant_parts(fields: &mut Fields) -> Result<Vec<Part>, RequestError> {
    let mut parts = Vec::new();
    if let Some(text) = reasoning(fields)? {
        parts.push(Part::Reasoning(ReasoningPart {
            text,
            ..ReasoningPart::default()
        }));
    }
    parts.extend(content(fields)?.unwrap_or_default());
    parts.extend(fields.string("refusal")?.map(Part::Refusal));
    if let Some(raw) = fields.take("tool_calls") {
        let calls = tool_calls(&raw, &fields.path("tool_calls"))?;
        if messages_write::tool_calls(calls.iter()) != raw {
            fields.keep("tool_calls", raw);
        }
        parts.extend(calls.into_iter().map(Part::ToolCall));
    }
    Ok(parts)
}

/// Reasoning under either of its two names; servers that send both send the
/// same text twice.
fn reasoning(fields: &mut Fields) -> Result<Option<String>, RequestError> {
    let content = fields.string("reasoning_content")?;
    // Some clients send an object here, which is not reasoning text.
    let other = match fields.peek("reasoning") {
        Some(Value::String(_)) => fields.string("reasoning")?,
        _ => None,
    };
    Ok(content.or(other).filter(|text| !text.is_empty()))
}

/// The calls of a `tool_calls` value.
pub(super) fn tool_calls(raw: &Value, path: &str) -> Result<Vec<ToolCall>, RequestError> {
    let Value::Array(items) = raw else {
        return Err(RequestError::wrong_type(path.to_owned(), "an array", raw));
    };
    items
        .iter()
        .enumerate()
        .map(|(i, item)| {
            let mut call = Fields::of(item.clone(), format!("{path}[{i}]"))?;
            let id = call.required_string("id")?;
            let path = call.path("function");
            let function = call
                .object("function")?
                .ok_or_else(|| RequestError::missing(path.clone()))?;
            let mut function = Fields::new(function, path);
            Ok(ToolCall {
                id,
                name: function.required_string("name")?,
                arguments: function.string("arguments")?.unwrap_or_default(),
                extra: Extra::default(),
            })
        })
        .collect()
}

fn tool_result(fields: &mut Fields) -> Result<Part, RequestError> {
    let call_id = fields.required_string("tool_call_id")?;
    let parts = content(fields)?.ok_or_else(|| RequestError::missing(fields.path("content")))?;
    Ok(Part::ToolResult(ToolResult {
        call_id,
        parts,
        is_error: false,
    }))
}

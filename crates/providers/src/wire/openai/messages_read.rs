//! Messages: JSON to neutral form.

use super::style::Style;
use super::{answer_read, call_signature, extra, messages_write, reasoning_details};
use crate::wire::RequestError;
use crate::wire::fields::Fields;
use evenkeel_core::{Image, Message, Part, Role, ToolCall, ToolResult};
use serde_json::{Map, Value};

pub(super) fn messages(items: Vec<Value>, style: &Style) -> Result<Vec<Message>, RequestError> {
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
        .map(|(i, item)| message(Fields::of(item, format!("messages[{i}]"))?, style))
        .collect()
}

fn message(mut fields: Fields, style: &Style) -> Result<Message, RequestError> {
    let role = role(&mut fields)?;
    let name = fields.string("name")?;
    let parts = match role {
        Role::Assistant => assistant_parts(&mut fields, style)?,
        Role::Tool => vec![tool_result(&mut fields, style)?],
        Role::System | Role::Developer | Role::User => content(&mut fields, style)?
            .ok_or_else(|| RequestError::missing(fields.path("content")))?,
    };
    Ok(Message {
        role,
        parts,
        name,
        extra: extra(style.dialect, fields.rest()),
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
fn content(fields: &mut Fields, style: &Style) -> Result<Option<Vec<Part>>, RequestError> {
    let Some(raw) = fields.take("content") else {
        return Ok(None);
    };
    let parts = content_parts(&raw, &fields.path("content"), style.dialect)?;
    if messages_write::content(&parts, style) != raw {
        fields.keep("content", raw);
    }
    Ok(Some(parts))
}

/// The parts of a `content` value.
pub(super) fn content_parts(
    content: &Value,
    path: &str,
    dialect: &'static str,
) -> Result<Vec<Part>, RequestError> {
    match content {
        Value::String(text) => Ok(vec![Part::Text(text.clone())]),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(i, item)| match item {
                Value::Object(part) => content_part(part, &format!("{path}[{i}]"), dialect),
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

fn content_part(
    part: &Map<String, Value>,
    path: &str,
    dialect: &'static str,
) -> Result<Part, RequestError> {
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
        // Mistral's; elsewhere such a part is opaque.
        "thinking" if dialect != super::DIALECT => Ok(answer_read::content_part(
            Value::Object(part.clone()),
            dialect,
        )),
        _ => Ok(Part::Other(extra(dialect, part.clone()))),
    }
}

fn assistant_parts(fields: &mut Fields, style: &Style) -> Result<Vec<Part>, RequestError> {
    let text = reasoning(fields)?;
    let details = fields.take("reasoning_details").filter(Value::is_array);
    let mut parts = reasoning_details::joined(text, details.as_ref());
    if let Some(details) = details
        && reasoning_details::write(&parts).as_ref() != Some(&details)
        && reasoning_details::parts(&details) == parts
    {
        fields.keep("reasoning_details", details);
    }
    parts.extend(content(fields, style)?.unwrap_or_default());
    parts.extend(fields.string("refusal")?.map(Part::Refusal));
    if let Some(raw) = fields.take("tool_calls") {
        let calls = tool_calls(&raw, &fields.path("tool_calls"))?;
        if messages_write::tool_calls(calls.iter(), style.dialect) != raw {
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
                arguments: answer_read::arguments(function.take("arguments").as_ref()),
                extra: call_signature::read(item),
            })
        })
        .collect()
}

fn tool_result(fields: &mut Fields, style: &Style) -> Result<Part, RequestError> {
    let call_id = fields.required_string("tool_call_id")?;
    let parts =
        content(fields, style)?.ok_or_else(|| RequestError::missing(fields.path("content")))?;
    Ok(Part::ToolResult(ToolResult {
        call_id,
        parts,
        is_error: false,
    }))
}

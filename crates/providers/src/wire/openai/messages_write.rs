//! Messages: neutral form to JSON.

use super::{messages_read, own_fields, written_form};
use evenkeel_core::{Extra, Message, Part, Role, ToolCall, ToolResult};
use serde_json::{Map, Value, json};

/// How a server wants a few things of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct MessageStyle {
    /// Whether it knows the role `developer`.
    pub(super) developer: bool,
    /// The field that takes earlier reasoning, if any does.
    pub(super) reasoning: Option<&'static str>,
}

/// What stands before the text of a tool's error, since the format has no flag.
const TOOL_ERROR: &str = "error: ";

/// Writes `message`: one JSON message, or several where it holds tool results
/// beside other parts.
pub(super) fn write(message: &Message, style: MessageStyle, out: &mut Vec<Value>) {
    let (results, others): (Vec<&Part>, Vec<&Part>) = message
        .parts
        .iter()
        .partition(|p| matches!(p, Part::ToolResult(_)));
    for part in &results {
        if let Part::ToolResult(result) = part {
            out.push(tool_message(message, result));
        }
    }
    if results.is_empty() || !others.is_empty() {
        out.push(spoken_message(message, &others, style));
    }
}

fn spoken_message(message: &Message, parts: &[&Part], style: MessageStyle) -> Value {
    let mut map = Map::new();
    map.insert("role".into(), role(message.role, style).into());
    let own = message
        .parts
        .iter()
        .all(|p| !matches!(p, Part::ToolResult(_)));
    let said: Vec<Part> = parts
        .iter()
        .filter(|p| is_content(p))
        .map(|p| (*p).clone())
        .collect();
    let is_assistant = message.role == Role::Assistant;
    let raw = written_form(&message.extra, "content", |raw| {
        own && messages_read::content_parts(raw, "")
            .is_ok_and(|parts| same_content(&parts, message))
    });
    let content = match raw {
        Some(raw) => raw.clone(),
        None if said.is_empty() && is_assistant => Value::Null,
        None => content(&said),
    };
    map.insert("content".into(), content);
    if is_assistant {
        assistant_fields(message, raw, style, &mut map);
    }
    finish(message, map)
}

/// Whether the parts read from a written `content` are those of the message.
fn same_content(read: &[Part], message: &Message) -> bool {
    let refusal_inside = read.iter().any(|p| matches!(p, Part::Refusal(_)));
    let now = message
        .parts
        .iter()
        .filter(|p| is_content(p) || (refusal_inside && matches!(p, Part::Refusal(_))));
    read.iter().eq(now)
}

fn is_content(part: &Part) -> bool {
    matches!(part, Part::Text(_) | Part::Image(_) | Part::Other(_))
}

fn assistant_fields(
    message: &Message,
    content: Option<&Value>,
    style: MessageStyle,
    map: &mut Map<String, Value>,
) {
    let mut refusal = String::new();
    let mut reasoning = String::new();
    for part in &message.parts {
        match part {
            Part::Refusal(text) => refusal.push_str(text),
            Part::Reasoning(part) => reasoning.push_str(&part.text),
            _ => {}
        }
    }
    let refusal_inside = content.is_some_and(|raw| {
        messages_read::content_parts(raw, "")
            .is_ok_and(|parts| parts.iter().any(|p| matches!(p, Part::Refusal(_))))
    });
    if !refusal.is_empty() && !refusal_inside {
        map.insert("refusal".into(), refusal.into());
    }
    if let Some(field) = style.reasoning
        && !reasoning.is_empty()
    {
        map.insert(field.into(), reasoning.into());
    }
    let calls: Vec<&ToolCall> = message
        .parts
        .iter()
        .filter_map(|p| match p {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
        .collect();
    if !calls.is_empty() {
        let raw = written_form(&message.extra, "tool_calls", |raw| {
            messages_read::tool_calls(raw, "")
                .is_ok_and(|read| read.iter().eq(calls.iter().copied()))
        });
        let calls = raw
            .cloned()
            .unwrap_or_else(|| tool_calls(calls.into_iter()));
        map.insert("tool_calls".into(), calls);
    }
}

fn tool_message(message: &Message, result: &ToolResult) -> Value {
    let mut map = Map::new();
    map.insert("role".into(), "tool".into());
    map.insert("tool_call_id".into(), result.call_id.as_str().into());
    let raw = written_form(&message.extra, "content", |raw| {
        messages_read::content_parts(raw, "").is_ok_and(|parts| parts == result.parts)
    });
    let content = match raw {
        Some(raw) => raw.clone(),
        None if result.is_error => {
            let mut parts = vec![Part::Text(TOOL_ERROR.to_owned())];
            parts.extend(result.parts.iter().cloned());
            content(&joined(parts))
        }
        None => content(&result.parts),
    };
    map.insert("content".into(), content);
    finish(message, map)
}

fn joined(parts: Vec<Part>) -> Vec<Part> {
    let mut out: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts {
        match (out.last_mut(), part) {
            (Some(Part::Text(last)), Part::Text(text)) => last.push_str(&text),
            (_, part) => out.push(part),
        }
    }
    out
}

fn finish(message: &Message, mut map: Map<String, Value>) -> Value {
    if let Some(name) = &message.name {
        map.insert("name".into(), name.as_str().into());
    }
    add_unknown(&message.extra, &["content", "tool_calls"], &mut map);
    Value::Object(map)
}

/// Adds the extra fields that are not there yet. Those named in `forms` are
/// written forms, never fields of their own.
pub(super) fn add_unknown(extra: &Extra, forms: &[&str], map: &mut Map<String, Value>) {
    for (name, value) in own_fields(extra) {
        if !forms.contains(&name.as_str()) && !map.contains_key(name) {
            map.insert(name.clone(), value.clone());
        }
    }
}

fn role(role: Role, style: MessageStyle) -> &'static str {
    match role {
        Role::Developer if style.developer => "developer",
        Role::System | Role::Developer => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

/// The `content` value of parts: a string for one text, else an array.
pub(super) fn content(parts: &[Part]) -> Value {
    match parts {
        [] => Value::String(String::new()),
        [Part::Text(text)] => Value::String(text.clone()),
        parts => parts.iter().filter_map(content_part).collect(),
    }
}

fn content_part(part: &Part) -> Option<Value> {
    match part {
        Part::Text(text) => Some(json!({"type": "text", "text": text})),
        Part::Refusal(text) => Some(json!({"type": "refusal", "refusal": text})),
        Part::Image(image) => {
            let mut url = Map::new();
            url.insert("url".into(), image.url.as_str().into());
            if let Some(detail) = &image.detail {
                url.insert("detail".into(), detail.as_str().into());
            }
            Some(json!({"type": "image_url", "image_url": url}))
        }
        Part::Other(extra) if extra.dialect == super::DIALECT => {
            Some(Value::Object(extra.fields.clone()))
        }
        _ => None,
    }
}

/// The `tool_calls` value.
pub(super) fn tool_calls<'a>(calls: impl Iterator<Item = &'a ToolCall>) -> Value {
    calls.map(tool_call).collect()
}

/// One entry of `tool_calls`.
pub(super) fn tool_call(call: &ToolCall) -> Value {
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    })
}

//! Whole answers and errors.

use super::DIALECT;
use crate::wire::openai;
use evenkeel_core::{ChatResponse, Finish, Part, ToolCall, Usage};
use serde_json::{Map, Value, json};

/// Writes an answer; `model` is what the caller is told.
pub fn encode_response(response: &ChatResponse, model: &str) -> Value {
    let own = response.extra.dialect == DIALECT;
    let kept = response.extra.fields.get(openai::CHOICE).filter(|_| own);
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    message.insert("content".into(), content(&response.parts));
    let calls: Vec<Value> = response
        .tool_calls()
        .enumerate()
        .map(|(index, call)| tool_call(call, index))
        .collect();
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.into());
    }
    let mut choice = Map::new();
    choice.insert("index".into(), 0.into());
    choice.insert(
        "finish_reason".into(),
        finish_reason(response.finish).into(),
    );
    for (name, value) in kept.and_then(Value::as_object).into_iter().flatten() {
        match (name.as_str(), value) {
            ("message", Value::Object(fields)) => {
                for (name, value) in fields {
                    message.entry(name.clone()).or_insert_with(|| value.clone());
                }
            }
            _ => {
                choice.insert(name.clone(), value.clone());
            }
        }
    }
    choice.insert("message".into(), message.into());
    let mut map = Map::new();
    map.insert("id".into(), response.id.as_str().into());
    map.insert("object".into(), "chat.completion".into());
    map.insert("created".into(), response.created.into());
    map.insert("model".into(), model.into());
    map.insert("choices".into(), json!([choice]));
    if let Some(counted) = response.usage {
        let raw = response.extra.fields.get("usage").filter(|_| own);
        let raw = raw.filter(|raw| openai::usage::read(raw) == Some(counted));
        map.insert(
            "usage".into(),
            raw.cloned().unwrap_or_else(|| usage(counted)),
        );
    }
    for (name, value) in response.extra.fields.iter().filter(|_| own) {
        if name != openai::CHOICE && !map.contains_key(name) {
            map.insert(name.clone(), value.clone());
        }
    }
    Value::Object(map)
}

pub(super) fn usage(counted: Usage) -> Value {
    openai::usage::write(counted)
}

/// The content: text, or chunks where there is more than text.
fn content(parts: &[Part]) -> Value {
    let only_text = parts.iter().all(|part| {
        matches!(
            part,
            Part::Text(_) | Part::Refusal(_) | Part::ToolCall(_) | Part::ToolResult(_)
        )
    });
    if only_text {
        let text: String = parts.iter().filter_map(text).collect();
        return text.into();
    }
    parts.iter().filter_map(chunk).collect()
}

fn text(part: &Part) -> Option<&str> {
    match part {
        Part::Text(text) | Part::Refusal(text) => Some(text),
        _ => None,
    }
}

/// One chunk of content; none for what this format has elsewhere or not at all.
pub(super) fn chunk(part: &Part) -> Option<Value> {
    match part {
        Part::Text(text) | Part::Refusal(text) => Some(json!({"type": "text", "text": text})),
        Part::Reasoning(part) => Some(openai::thinking(part)),
        Part::Image(image) => Some(json!({"type": "image_url", "image_url": image.url})),
        Part::Other(extra) if extra.dialect == DIALECT => Some(Value::Object(extra.fields.clone())),
        _ => None,
    }
}

/// A whole call.
pub(super) fn tool_call(call: &ToolCall, index: usize) -> Value {
    let arguments = match call.arguments.trim() {
        "" => "{}",
        _ => &call.arguments,
    };
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
        "index": index,
    })
}

/// The `finish_reason` of a finish. What this format cannot say becomes the
/// nearest that it can.
pub(super) fn finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Length => "length",
        Finish::ContextWindow => "model_length",
        Finish::ToolUse => "tool_calls",
        Finish::Unknown => "unknown",
        _ => "stop",
    }
}

/// An error body: `{"object":"error","message","type","param","code"}`.
pub fn encode_error(message: &str, kind: &str, code: Option<&str>) -> Value {
    json!({"object": "error", "message": message, "type": kind, "param": null, "code": code})
}

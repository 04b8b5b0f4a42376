//! Whole answers: neutral form to JSON.

use super::{CHOICE, DIALECT, messages_write, reasoning_details, usage, written_form};
use evenkeel_core::{ChatResponse, Finish, Image, Part, ToolCall};
use serde_json::{Map, Value, json};

/// Writes an answer; `model` is what the caller is told.
pub fn encode_response(response: &ChatResponse, model: &str) -> Value {
    let kept =
        written_form(&response.extra, DIALECT, CHOICE, Value::is_object).and_then(Value::as_object);
    let mut choice = Map::new();
    choice.insert("index".into(), 0.into());
    choice.insert("message".into(), message(response, kept));
    choice.insert(
        "finish_reason".into(),
        finish_reason(response.finish).into(),
    );
    choice.insert("logprobs".into(), Value::Null);
    for (name, value) in kept.into_iter().flatten() {
        if name != "message" {
            choice.insert(name.clone(), value.clone());
        }
    }
    let mut map = Map::new();
    map.insert("id".into(), response.id.as_str().into());
    map.insert("object".into(), "chat.completion".into());
    map.insert("created".into(), response.created.into());
    map.insert("model".into(), model.into());
    map.insert("choices".into(), json!([choice]));
    if let Some(counted) = response.usage {
        let raw = written_form(&response.extra, DIALECT, "usage", |raw| {
            usage::read(raw) == Some(counted)
        });
        let counted = raw.cloned().unwrap_or_else(|| usage::write(counted));
        map.insert("usage".into(), counted);
    }
    messages_write::add_unknown(&response.extra, DIALECT, &[CHOICE, "usage"], &mut map);
    Value::Object(map)
}

fn message(response: &ChatResponse, kept: Option<&Map<String, Value>>) -> Value {
    let mut said = String::new();
    let mut refusal = String::new();
    let mut reasoning = String::new();
    let mut calls: Vec<&ToolCall> = Vec::new();
    let mut others = Vec::new();
    let mut images = Vec::new();
    for part in &response.parts {
        match part {
            Part::Text(text) => said.push_str(text),
            Part::Refusal(text) => refusal.push_str(text),
            Part::Reasoning(part) => reasoning.push_str(&part.text),
            Part::ToolCall(call) => calls.push(call),
            Part::Image(image) => images.push(image_entry(image)),
            Part::Other(extra) if reasoning_details::is_opaque(extra) => {}
            Part::Other(extra) if extra.dialect == DIALECT => others.push(&extra.fields),
            _ => {}
        }
    }
    let or_null = |text: String| {
        if text.is_empty() {
            Value::Null
        } else {
            text.into()
        }
    };
    let mut map = Map::new();
    map.insert("role".into(), "assistant".into());
    // Entries of `tool_calls` have an id, entries of `content` have none.
    let (other_calls, other_content): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|o| o.contains_key("id"));
    let content = if !other_content.is_empty() {
        let said = (!said.is_empty()).then(|| json!({"type": "text", "text": said}));
        said.into_iter()
            .chain(other_content.into_iter().cloned().map(Value::Object))
            .collect()
    } else if calls.is_empty() && other_calls.is_empty() && refusal.is_empty() {
        // An answer that says nothing and calls nothing is an empty text.
        said.into()
    } else {
        or_null(said)
    };
    map.insert("content".into(), content);
    map.insert("refusal".into(), or_null(refusal));
    if !reasoning.is_empty() {
        map.insert("reasoning_content".into(), reasoning.into());
    }
    let kept = kept.and_then(|choice| choice.get("message")?.as_object());
    let details = kept
        .and_then(|message| message.get("reasoning_details"))
        .filter(|raw| {
            reasoning_details::parts(raw)
                .iter()
                .eq(reasoning_details::of(&response.parts))
        });
    let details = details.cloned();
    if let Some(details) = details.or_else(|| reasoning_details::write(&response.parts)) {
        map.insert("reasoning_details".into(), details);
    }
    if !images.is_empty() {
        map.insert("images".into(), images.into());
    }
    let mut calls: Vec<Value> = calls
        .into_iter()
        .map(|call| messages_write::tool_call(call, DIALECT))
        .collect();
    calls.extend(other_calls.into_iter().cloned().map(Value::Object));
    if !calls.is_empty() {
        map.insert("tool_calls".into(), calls.into());
    }
    let known = |name: &str| name == "reasoning_details";
    for (name, value) in kept.into_iter().flatten().filter(|(name, _)| !known(name)) {
        map.entry(name.clone()).or_insert_with(|| value.clone());
    }
    Value::Object(map)
}

/// An entry of `images`.
pub(super) fn image_entry(image: &Image) -> Value {
    json!({"type": "image_url", "image_url": {"url": image.url}})
}

/// The `finish_reason` of a finish. What this format cannot say becomes the
/// nearest that it can.
pub(super) fn finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop | Finish::StopSequence | Finish::Refusal | Finish::Pause => "stop",
        Finish::Length | Finish::ContextWindow => "length",
        Finish::ToolUse => "tool_calls",
        Finish::ContentFilter => "content_filter",
        _ => "unknown",
    }
}

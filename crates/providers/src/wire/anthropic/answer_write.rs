//! Whole answers: neutral form to JSON.

use super::{add_unknown, block_write, finish, kept, usage};
use evenkeel_core::{ChatResponse, Extra, Finish, Part, ToolCall};
use serde_json::{Map, Value, json};

/// Fields of an answer that stand in its `extra` in their written form.
pub(super) const FORMS: [&str; 4] = ["stop_reason", "stop_sequence", "stop_details", "usage"];

/// Writes an answer; `model` is what the caller is told.
///
/// What the format cannot say becomes the nearest that it can: a content
/// filter a refusal, words of refusal an explanation in `stop_details`.
pub fn encode_response(response: &ChatResponse, model: &str) -> Value {
    let mut blocks: Vec<Value> = Vec::with_capacity(response.parts.len());
    let mut refusal = String::new();
    for part in &response.parts {
        match part {
            Part::Text(text) => blocks.push(block_write::text(text)),
            Part::Refusal(text) => refusal.push_str(text),
            Part::Reasoning(part) => {
                let signature = block_write::own_signature(part).unwrap_or_default();
                blocks.push(json!({
                    "type": "thinking", "thinking": part.text, "signature": signature,
                }));
            }
            Part::ToolCall(call) => blocks.push(tool_use(call)),
            Part::Other(extra) if block_write::is_citations(extra) => {
                block_write::cite(extra, &mut blocks);
            }
            Part::Other(extra) if extra.dialect == super::DIALECT => {
                blocks.push(Value::Object(extra.fields.clone()));
            }
            _ => {}
        }
    }
    let mut map = Map::new();
    map.insert("id".into(), response.id.as_str().into());
    map.insert("type".into(), "message".into());
    map.insert("role".into(), "assistant".into());
    map.insert("model".into(), model.into());
    map.insert("content".into(), blocks.into());
    map.extend(stop_fields(response.finish, &refusal, &response.extra));
    let counted = usage::form(kept(&response.extra, "usage"), response.usage);
    map.insert("usage".into(), counted.into());
    add_unknown(&response.extra, &FORMS, &mut map);
    Value::Object(map)
}

/// A call in an answer. Arguments that are no JSON object go into one, as the
/// format has no other place.
fn tool_use(call: &ToolCall) -> Value {
    let mut unheard = crate::wire::adapted::Adapted::default();
    block_write::tool_use(call, &call.id, &call.name, &mut unheard)
}

/// `stop_reason`, `stop_sequence` and, where there is something to say,
/// `stop_details`.
pub(super) fn stop_fields(finish: Finish, refusal: &str, extra: &Extra) -> Map<String, Value> {
    let mut map = Map::new();
    let raw = kept(extra, "stop_reason").filter(|raw| {
        raw.as_str()
            .is_some_and(|reason| finish::read(reason) == finish)
    });
    let reason = raw.cloned().unwrap_or_else(|| finish::write(finish).into());
    map.insert("stop_reason".into(), reason);
    let matched = kept(extra, "stop_sequence").filter(|_| finish == Finish::StopSequence);
    map.insert("stop_sequence".into(), matched.cloned().unwrap_or_default());
    let details = kept(extra, "stop_details").filter(|raw| {
        let words = raw.get("explanation").and_then(Value::as_str);
        words.unwrap_or_default() == refusal
    });
    let said = (!refusal.is_empty())
        .then(|| json!({"type": "refusal", "category": null, "explanation": refusal}));
    if let Some(details) = details.cloned().or(said) {
        map.insert("stop_details".into(), details);
    }
    map
}

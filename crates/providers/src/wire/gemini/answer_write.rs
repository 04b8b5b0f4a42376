//! Whole answers: neutral form to JSON.

use super::parts_write::{self, Style};
use super::{add_unknown, contents_read, finish, ids, own_field, usage};
use crate::wire::adapted::Adapted;
use crate::wire::tool_names::ToolNames;
use evenkeel_core::{ChatResponse, Finish, Part};
use serde_json::{Map, Value, json};

/// What the format ends an answer with whose call the model could not write.
pub(super) const BROKEN_CALL: &str = "MALFORMED_FUNCTION_CALL";

/// Writes an answer; `model` is what the caller is told.
///
/// A call whose arguments are no JSON object cannot be said in this format:
/// the answer then ends, as the provider's own does, without the call and
/// with `MALFORMED_FUNCTION_CALL`.
pub fn encode_response(response: &ChatResponse, model: &str) -> Value {
    let kept = own_field(&response.extra, "candidates")
        .and_then(|candidates| candidates.get(0)?.as_object());
    let mut map = Map::new();
    if !is_blocked(response) {
        map.insert("candidates".into(), json!([candidate(response, kept)]));
    }
    if let Some(counted) = response.usage {
        let raw = own_field(&response.extra, "usageMetadata")
            .filter(|raw| usage::read(raw) == Some(counted));
        let counted = raw.cloned().unwrap_or_else(|| usage::write(counted));
        map.insert("usageMetadata".into(), counted);
    }
    map.insert("modelVersion".into(), model.into());
    map.insert("responseId".into(), response.id.as_str().into());
    add_unknown(&response.extra, &["candidates", "usageMetadata"], &mut map);
    Value::Object(map)
}

/// Whether the prompt was not answered at all.
fn is_blocked(response: &ChatResponse) -> bool {
    response.parts.is_empty()
        && response.finish == Finish::ContentFilter
        && own_field(&response.extra, "promptFeedback")
            .is_some_and(|feedback| feedback.get("blockReason").is_some())
}

fn candidate(response: &ChatResponse, kept: Option<&Map<String, Value>>) -> Map<String, Value> {
    let kept_content = kept.and_then(|kept| kept.get("content")?.as_object());
    let (whole, broken): (Vec<&Part>, Vec<&Part>) =
        response.parts.iter().partition(|part| can_be_said(part));
    let raw = kept_content
        .and_then(|content| content.get("parts")?.as_array())
        .filter(|raw| still_holds(raw, &response.parts));
    let parts = raw.cloned().unwrap_or_else(|| {
        let names = ToolNames::default();
        let whole: Vec<Part> = whole.into_iter().cloned().collect();
        Style::plain(&names).parts(&whole, &mut Adapted::default())
    });
    let mut content = Map::new();
    content.insert("parts".into(), parts.into());
    content.insert("role".into(), "model".into());
    for (name, value) in kept_content.into_iter().flatten() {
        content.entry(name.clone()).or_insert_with(|| value.clone());
    }
    let reason = kept
        .and_then(|kept| kept.get("finishReason")?.as_str())
        .filter(|reason| says(reason, response.finish))
        .unwrap_or_else(|| finish::write(response.finish));
    let mut map = Map::new();
    map.insert("content".into(), content.into());
    let reason = if broken.is_empty() {
        reason
    } else {
        BROKEN_CALL
    };
    map.insert("finishReason".into(), reason.into());
    map.insert("index".into(), 0.into());
    for (name, value) in kept.into_iter().flatten() {
        map.entry(name.clone()).or_insert_with(|| value.clone());
    }
    map
}

fn can_be_said(part: &Part) -> bool {
    match part {
        Part::ToolCall(call) => parts_write::arguments(&call.arguments).is_ok(),
        _ => true,
    }
}

fn still_holds(raw: &[Value], parts: &[Part]) -> bool {
    contents_read::of_written_form(raw).is_some_and(|read| {
        read.iter()
            .eq(parts.iter().map(ids::blanked).collect::<Vec<_>>().iter())
    })
}

/// Whether a kept reason says this finish.
pub(super) fn says(reason: &str, finish: Finish) -> bool {
    let has_calls = finish == Finish::ToolUse;
    match finish::read(reason) {
        finish::Reason::Finish(read) => finish::with_calls(read, has_calls) == finish,
        finish::Reason::Broken(_) => false,
    }
}

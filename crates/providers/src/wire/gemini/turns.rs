//! The conversation as turns that alternate, each call answered in the next.

use super::SIGNATURE;
use super::parts_write::Style;
use crate::wire::adapted::{Adapted, done, what};
use crate::wire::pairing;
use evenkeel_core::{Part, ToolResult};
use serde_json::{Map, Value, json};

/// The documented value that passes for the signature of a call which no
/// Gemini model made, `skip_thought_signature_validator` in base64.
/// Google's guide "Thought signatures", 2026.
pub(super) const PLACEHOLDER_SIGNATURE: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";

/// All that the model, or all that the other side, says at one time.
#[derive(Debug, Default)]
pub(super) struct Turn<'a> {
    pub(super) is_model: bool,
    pub(super) parts: Vec<Value>,
    /// Fields of the content beside role and parts.
    pub(super) rest: Map<String, Value>,
    /// Id and wire name of each call.
    pub(super) calls: Vec<(&'a str, &'a str)>,
    /// Results, each with the form it was written in, where that still holds.
    pub(super) results: Vec<(&'a ToolResult, Option<&'a Value>)>,
}

/// The contents of `turns`, in which no two of one side follow each other.
pub(super) fn contents(
    turns: Vec<Turn<'_>>,
    style: &Style<'_>,
    adapted: &mut Adapted,
) -> Vec<Value> {
    let mut calls = Vec::new();
    let mut out = Vec::with_capacity(turns.len());
    for mut turn in turns {
        if turn.is_model {
            if style.traits.needs_signatures {
                sign(&mut turn.parts, adapted);
            }
            calls = std::mem::take(&mut turn.calls);
        } else {
            let mut parts = answers(&std::mem::take(&mut calls), turn.results, style, adapted);
            parts.append(&mut turn.parts);
            turn.parts = parts;
        }
        let mut content = Map::new();
        let role = if turn.is_model { "model" } else { "user" };
        content.insert("role".into(), role.into());
        content.insert("parts".into(), turn.parts.into());
        content.extend(turn.rest);
        out.push(Value::Object(content));
    }
    out
}

/// Gives the first call of a step a signature where it has none: the others
/// of the same step need none.
fn sign(parts: &mut [Value], adapted: &mut Adapted) {
    let first_call = parts
        .iter_mut()
        .filter_map(Value::as_object_mut)
        .find(|part| part.contains_key("functionCall"));
    if let Some(part) = first_call
        && !part.contains_key(SIGNATURE)
    {
        adapted.note(what::CALL_EXTRA, done::PLACEHOLDER);
        part.insert(SIGNATURE.into(), PLACEHOLDER_SIGNATURE.into());
    }
}

/// As many function responses as there were calls, in the calls' order; what
/// answers none of them follows as text.
fn answers(
    calls: &[(&str, &str)],
    results: Vec<(&ToolResult, Option<&Value>)>,
    style: &Style<'_>,
    adapted: &mut Adapted,
) -> Vec<Value> {
    let called: Vec<&str> = calls.iter().map(|(id, _)| *id).collect();
    let given: Vec<&ToolResult> = results.iter().map(|(result, _)| *result).collect();
    let found = pairing::matched(&called, &given);
    let mut left: Vec<_> = results.into_iter().map(Some).collect();
    let mut parts = Vec::with_capacity(calls.len());
    let mut beside = Vec::new();
    for ((id, name), found) in calls.iter().zip(found) {
        parts.push(match found.and_then(|at| left[at].take()) {
            Some((_, Some(raw))) => written(raw, style),
            Some((result, None)) => style.result(result, name, &mut beside, adapted),
            None => {
                adapted.note(what::CALL_ALONE, done::ERROR_INSTEAD);
                style.no_result(id, name)
            }
        });
    }
    parts.append(&mut beside);
    for (result, _) in left.into_iter().flatten() {
        adapted.note(what::RESULT_ALONE, done::AS_TEXT);
        parts.extend(as_text(result, style, adapted));
    }
    parts
}

/// A written form as this place takes it.
pub(super) fn written(raw: &Value, style: &Style<'_>) -> Value {
    let mut raw = raw.clone();
    if !style.takes_ids() {
        for name in ["functionCall", "functionResponse"] {
            if let Some(inner) = raw.get_mut(name).and_then(Value::as_object_mut) {
                inner.shift_remove("id");
            }
        }
    }
    raw
}

fn as_text(result: &ToolResult, style: &Style<'_>, adapted: &mut Adapted) -> Vec<Value> {
    let lead = if result.is_error { "error: " } else { "" };
    let mut parts = vec![Part::Text(format!("Tool result: {lead}"))];
    parts.extend(result.parts.iter().cloned());
    let mut texts = Vec::new();
    for part in style.parts(&parts, adapted) {
        let both = (
            texts.last_mut().and_then(|p: &mut Value| p.get_mut("text")),
            part.get("text").and_then(Value::as_str),
        );
        if let (Some(Value::String(last)), Some(text)) = both {
            last.push_str(text);
        } else {
            texts.push(part);
        }
    }
    if texts.is_empty() {
        texts.push(json!({"text": lead}));
    }
    texts
}

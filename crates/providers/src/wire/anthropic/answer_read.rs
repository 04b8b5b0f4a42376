//! Whole answers: JSON to neutral form.

use super::{block_read, extra, finish, usage};
use crate::wire::call_ids::AnswerIds;
use crate::wire::classify::{Reply, classify};
use crate::wire::json::field;
use crate::wire::{Server, digits, excerpt, json};
use evenkeel_core::{ChatResponse, Class, Extra, Failure, Finish, Part};
use serde_json::{Map, Value};

/// Reads the body of a reply with a success status.
///
/// An empty answer is read as such: [`ChatResponse::verify`] judges it.
///
/// # Errors
/// The class of an error object in the body; [`Class::Malformed`] for what is
/// no answer in this format; [`Class::Transient`] for one that was broken off.
pub fn decode_answer(reply: &Reply<'_>) -> Result<ChatResponse, Failure> {
    let value = parse(reply)?;
    if is_error(&value) {
        return Err(classify(reply));
    }
    let mut response = answer(reply, value)?;
    digits::restore(reply.body(), &mut response.parts, |again| {
        answer(reply, again).ok().map(|response| response.parts)
    });
    Ok(response)
}

/// Reads an answer that is JSON already.
///
/// # Errors
/// As [`decode_answer`].
pub fn decode_response(answer: &Value) -> Result<ChatResponse, Failure> {
    let body = answer.to_string();
    decode_answer(&Reply::in_answer(Server::Anthropic, body.as_bytes()))
}

fn parse(reply: &Reply<'_>) -> Result<Value, Failure> {
    let body = reply.body();
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let body = body.trim_ascii();
    json::parse(body).map_err(|e| {
        let message = match body.first() {
            None => "the answer has no body".to_owned(),
            // The text may be the answer's own: it is not quoted.
            Some(b'{' | b'[') => format!("the answer is not valid JSON: {e}"),
            Some(_) => {
                let quoted = excerpt::excerpt(&String::from_utf8_lossy(body), None);
                format!("the answer is not JSON: {quoted}")
            }
        };
        reply.failure(Class::Malformed, &message).with_source(e)
    })
}

/// Whether a document is an error although the status says success.
pub(super) fn is_error(value: &Value) -> bool {
    let Some(map) = value.as_object() else {
        return false;
    };
    let truthy = match field(map, "error") {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
        Some(_) => true,
    };
    truthy || field(map, "type").and_then(Value::as_str) == Some("error")
}

fn answer(reply: &Reply<'_>, value: Value) -> Result<ChatResponse, Failure> {
    let malformed = |what: &str| Err(reply.failure(Class::Malformed, what));
    let Value::Object(mut map) = value else {
        return malformed("the answer is JSON but not an object");
    };
    let Some(Value::Array(blocks)) = map.shift_remove("content") else {
        return malformed("the answer has no content");
    };
    let Some(reason) = text(map.shift_remove("stop_reason")).filter(|r| !r.is_empty()) else {
        // As in a stream: an answer without a stop reason is not finished.
        return Err(reply.failure(
            Class::Transient,
            "the answer has no stop_reason: it was broken off",
        ));
    };
    let id = text(map.shift_remove("id")).unwrap_or_default();
    let mut ids = AnswerIds::of(&id, reply.body());
    let mut parts = Vec::with_capacity(blocks.len());
    for (at, mut block) in blocks.into_iter().enumerate() {
        settle_id(&mut block, at, &mut ids);
        parts.extend(answer_parts(block));
    }
    let finish = finish::derived(finish::read(&reason), finish::has_calls(&parts));
    if finish == Finish::Unknown {
        map.insert("stop_reason".into(), reason.into());
    }
    parts.extend(refusal(map.get("stop_details")));
    let raw_usage = map.shift_remove("usage");
    let counted = raw_usage.as_ref().and_then(usage::read);
    keep_usage(&mut map, raw_usage);
    let model = text(map.shift_remove("model")).unwrap_or_default();
    Ok(ChatResponse {
        id,
        model,
        created: 0,
        parts,
        finish,
        usage: counted,
        adapted: Vec::new(),
        rate_limits: None,
        extra: rest(map),
    })
}

/// What an answer says of itself beside its neutral fields.
pub(super) fn rest(mut map: Map<String, Value>) -> Extra {
    for name in ["type", "role"] {
        map.shift_remove(name);
    }
    map.retain(|_, value| !value.is_null());
    extra(map)
}

/// Keeps a `usage` that counts more than the neutral form.
pub(super) fn keep_usage(map: &mut Map<String, Value>, raw: Option<Value>) {
    let Some(raw) = raw else { return };
    if usage::read(&raw).is_some_and(|read| Value::Object(usage::write(read)) != raw) {
        map.insert("usage".into(), raw);
    }
}

/// The provider's words on a refusal, which stand beside the content.
pub(super) fn refusal(stop_details: Option<&Value>) -> Option<Part> {
    let words = stop_details?.get("explanation")?.as_str()?;
    (!words.is_empty()).then(|| Part::Refusal(words.to_owned()))
}

/// Gives the call at `at` an id of its own where it has none, or one that a
/// call before it has.
pub(super) fn settle_id(block: &mut Value, at: usize, ids: &mut AnswerIds) {
    if let Value::Object(fields) = block
        && field(fields, "type").and_then(Value::as_str) == Some("tool_use")
    {
        let id = field(fields, "id").and_then(Value::as_str);
        let id = ids.claim(id.unwrap_or_default(), at);
        fields.insert("id".into(), id.into());
    }
}

/// The parts of a block of an answer: none for an empty text, the block itself
/// where it cannot be read.
pub(super) fn answer_parts(block: Value) -> Vec<Part> {
    if block.get("type").and_then(Value::as_str) == Some("text")
        && block.get("text").and_then(Value::as_str) == Some("")
    {
        return Vec::new();
    }
    match (block_read::block(block.clone(), "content"), block) {
        (Ok(parts), _) => parts,
        (Err(_), Value::Object(fields)) => vec![Part::Other(extra(fields))],
        (Err(_), _) => Vec::new(),
    }
}

fn text(value: Option<Value>) -> Option<String> {
    match value {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

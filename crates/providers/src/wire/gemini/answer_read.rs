//! Whole answers: JSON to neutral form.

use super::finish::{self, Reason};
use super::ids::Ids;
use super::{StreamDecoder, contents_read, extra, parts_read, usage};
use crate::wire::classify::{Reply, classify};
use crate::wire::{EventDecoder, RequestError, Server, StreamLimits, digits, excerpt, json};
use evenkeel_core::{Accumulator, ChatResponse, Class, Failure, Finish, Part, ToolCall};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// Reads a 200 answer.
///
/// An empty answer is read as such:
/// [`ChatResponse::verify`] judges it. A prompt that was blocked is an answer
/// without parts that ends in [`Finish::ContentFilter`]; the reason is in its
/// extra fields, under `promptFeedback`.
///
/// # Errors
/// The class of an error object; [`Class::Malformed`] for what is no answer in
/// this format or holds a call that the model could not write.
pub fn decode_response(value: &Value) -> Result<ChatResponse, Failure> {
    let reply = Reply::in_answer(Server::Gemini, b"");
    if is_error(value) {
        let body = value.to_string();
        return Err(classify(&reply.with_body(body.as_bytes())));
    }
    read(&reply, value.clone())
}

/// Reads the body of a reply with a success status.
///
/// # Errors
/// As [`decode_response`].
pub fn decode_answer(reply: &Reply<'_>) -> Result<ChatResponse, Failure> {
    let value = parse(reply)?;
    if is_error(&value) {
        return Err(classify(reply));
    }
    let mut response = read(reply, value)?;
    digits::restore(reply.body(), &mut response.parts, |again| {
        read(reply, again).ok().map(|response| response.parts)
    });
    Ok(response)
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
    let value = match value {
        Value::Array(items) if items.len() == 1 => &items[0],
        other => other,
    };
    value
        .get("error")
        .is_some_and(|error| !error.is_null() && *error != json!({}) && *error != json!(false))
}

/// The reason why the prompt was not answered at all.
pub(super) fn blocked(map: &Map<String, Value>) -> Option<&str> {
    map.get("promptFeedback")?.get("blockReason")?.as_str()
}

/// The candidate that is read of several.
pub(super) fn first_candidate(candidates: Option<Value>) -> Option<Map<String, Value>> {
    let Some(Value::Array(mut candidates)) = candidates else {
        return None;
    };
    let at = candidates
        .iter()
        .position(|c| c.get("index").and_then(Value::as_u64).unwrap_or(0) == 0)?;
    match candidates.swap_remove(at) {
        Value::Object(candidate) => Some(candidate),
        _ => None,
    }
}

fn read(reply: &Reply<'_>, value: Value) -> Result<ChatResponse, Failure> {
    let malformed = |what: &str| reply.failure(Class::Malformed, what);
    if value.get(0).is_some_and(Value::is_object) {
        return added_up(&value);
    }
    let Value::Object(mut map) = value else {
        return Err(malformed("the answer is JSON but not an object"));
    };
    let id = text(map.shift_remove("responseId"));
    let model = text(map.shift_remove("modelVersion"));
    let candidate = first_candidate(map.shift_remove("candidates"));
    let (parts, finish) = match candidate {
        Some(candidate) => {
            let ids = Ids::of_answer(&id);
            let (parts, finish, kept) = read_candidate(reply, candidate, ids)?;
            if !kept.is_empty() {
                map.insert("candidates".into(), json!([kept]));
            }
            (parts, finish)
        }
        None if blocked(&map).is_some() => (Vec::new(), Finish::ContentFilter),
        None => return Err(malformed("the answer has no candidates")),
    };
    let raw_usage = map.shift_remove("usageMetadata");
    let usage = raw_usage.as_ref().and_then(usage::read);
    if let (Some(raw), Some(read)) = (raw_usage, usage)
        && raw != usage::write(read)
    {
        map.insert("usageMetadata".into(), raw);
    }
    Ok(ChatResponse {
        id,
        model,
        created: 0,
        parts,
        finish,
        usage,
        adapted: Vec::new(),
        rate_limits: None,
        extra: extra(map),
    })
}

/// The answer that an array of chunks adds up to: a stream as one document.
fn added_up(chunks: &Value) -> Result<ChatResponse, Failure> {
    let text = chunks.to_string();
    // Its size was bounded as it was read.
    let limits = StreamLimits {
        max_event_bytes: text.len(),
        max_answer_bytes: usize::MAX,
    };
    let mut decoder = StreamDecoder::with_limits(limits);
    let mut whole = Accumulator::default();
    let events = decoder.push(text.as_bytes());
    for event in events.into_iter().chain(decoder.finish()) {
        whole.push(&event?);
    }
    whole.finish()
}

/// The parts and the finish of a candidate, and what has no neutral form.
type Candidate = (Vec<Part>, Finish, Map<String, Value>);

fn read_candidate(
    reply: &Reply<'_>,
    mut candidate: Map<String, Value>,
    mut ids: Ids,
) -> Result<Candidate, Failure> {
    let mut content = match candidate.shift_remove("content") {
        Some(Value::Object(content)) => content,
        _ => Map::new(),
    };
    let raw = parts_of(&mut content);
    let mut parts = Vec::with_capacity(raw.len());
    let mut is_plain = true;
    let mut given = HashSet::new();
    for part in &raw {
        let first = parts.len();
        read_part(part, &mut ids, &mut parts)
            .map_err(|e| reply.failure(Class::Malformed, &e.message))?;
        is_plain &= contents_read::says_the_same(&parts[first..], part);
        settle_calls(&mut parts[first..], &mut ids, &mut given);
    }
    let reason = text(candidate.shift_remove("finishReason"));
    if reason.is_empty() {
        // As in a stream: an answer without a finish reason is not finished.
        return Err(reply.failure(
            Class::Transient,
            "the answer has no finishReason: it was broken off",
        ));
    }
    let finish = match finish::read(&reason) {
        Reason::Finish(finish) => finish,
        Reason::Broken(class) => return Err(finish::broken(class, &reason)),
    };
    let has_calls = parts.iter().any(|p| matches!(p, Part::ToolCall(_)));
    let finish = finish::with_calls(finish, has_calls);
    if finish::write(finish) != reason {
        candidate.insert("finishReason".into(), reason.into());
    }
    if !is_plain {
        let raw = raw.into_iter().map(Value::Object).collect::<Vec<_>>();
        content.insert("parts".into(), raw.into());
    }
    candidate.shift_remove("index");
    content.shift_remove("role");
    if !content.is_empty() {
        candidate.insert("content".into(), content.into());
    }
    Ok((parts, finish, candidate))
}

/// The arguments of the calls of one chunk with all their digits; none where
/// reading the chunk rounds none.
pub(super) fn exact_arguments(chunk: &str) -> Option<Vec<String>> {
    let Value::Object(mut chunk) = digits::marked(chunk)? else {
        return None;
    };
    let mut candidate = first_candidate(chunk.shift_remove("candidates"))?;
    let Some(Value::Object(mut content)) = candidate.shift_remove("content") else {
        return None;
    };
    let mut parts = Vec::new();
    for part in parts_of(&mut content) {
        read_part(&part, &mut Ids::default(), &mut parts).ok()?;
    }
    Some(digits::arguments(&parts).map(digits::unmarked).collect())
}

/// The parts of a content, in one spelling; what is no object is no part.
pub(super) fn parts_of(content: &mut Map<String, Value>) -> Vec<Map<String, Value>> {
    let Some(Value::Array(parts)) = content.shift_remove("parts") else {
        return Vec::new();
    };
    parts
        .into_iter()
        .filter_map(|part| match part {
            Value::Object(part) => Some(parts_read::normal(part)),
            _ => None,
        })
        .collect()
}

/// Reads one part of an answer. One that cannot be read is kept as it is.
///
/// # Errors
/// Where it is a call: the answer is of no use without it.
pub(super) fn read_part(
    part: &Map<String, Value>,
    ids: &mut Ids,
    out: &mut Vec<Part>,
) -> Result<(), RequestError> {
    match parts_read::read(part, "the answer", ids, out) {
        Err(e) if part.contains_key("functionCall") => Err(e),
        Err(_) => {
            out.push(Part::Other(extra(part.clone())));
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Settles the calls among `parts`.
pub(super) fn settle_calls(parts: &mut [Part], ids: &mut Ids, given: &mut HashSet<String>) {
    for part in parts {
        if let Part::ToolCall(call) = part {
            settle(call, ids, given);
        }
    }
}

/// Gives a call without arguments the empty object that other formats write,
/// and one whose id another call of the answer has an id of its own; `given`
/// are those that its calls have so far.
fn settle(call: &mut ToolCall, ids: &mut Ids, given: &mut HashSet<String>) {
    if call.arguments.is_empty() {
        "{}".clone_into(&mut call.arguments);
    }
    while !given.insert(call.id.clone()) {
        call.id = ids.make(&call.name, &call.arguments);
    }
}

/// A string field; empty where it is none.
pub(super) fn text(value: Option<Value>) -> String {
    match value {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

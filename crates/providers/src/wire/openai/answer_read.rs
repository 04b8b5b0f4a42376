//! Whole answers: JSON to neutral form.

use super::{CHOICE, DIALECT, call_signature, extra, reasoning_details, usage};
use crate::wire::call_ids::AnswerIds;
use crate::wire::classify::{Reply, classify};
use crate::wire::{Server, excerpt, json};
use evenkeel_core::{
    ChatResponse, Class, Extra, Failure, Finish, Image, Part, ReasoningPart, ToolCall,
};
use serde_json::{Map, Value, json};

/// Reads the body of a 200 answer.
///
/// An empty answer is read as such: [`ChatResponse::verify`] judges it.
///
/// # Errors
/// The class of an error object in the body; [`Class::Malformed`] for what is
/// no answer in this format.
pub fn decode_response(body: &[u8], server: Server) -> Result<ChatResponse, Failure> {
    decode_answer(&Reply::in_answer(server, body))
}

/// Reads the body of a reply with a success status, whose headers may say how
/// long to wait where the body is an error after all.
///
/// # Errors
/// As [`decode_response`].
pub fn decode_answer(reply: &Reply<'_>) -> Result<ChatResponse, Failure> {
    decode(reply, DIALECT)
}

/// Reads the body of a success; what has no neutral place is of `dialect`.
pub(in crate::wire) fn decode(
    reply: &Reply<'_>,
    dialect: &'static str,
) -> Result<ChatResponse, Failure> {
    let value = parse(reply)?;
    if is_error(&value) {
        return Err(classify(reply));
    }
    let malformed = |what: &str| Err(reply.failure(Class::Malformed, what));
    let Value::Object(mut map) = value else {
        return malformed("the answer is JSON but not an object");
    };
    let Some(Value::Array(choices)) = map.shift_remove("choices") else {
        return malformed("the answer has no choices");
    };
    let Some(Value::Object(choice)) = first_choice(choices) else {
        return malformed("the answer's list of choices is empty");
    };
    answer(reply, map, choice, dialect)
}

fn parse(reply: &Reply<'_>) -> Result<Value, Failure> {
    let body = reply.body();
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    // Some servers send blank lines while the request waits in their queue.
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
    let truthy = match value.get("error") {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Bool(true) | Value::Number(_)) => true,
    };
    let named = |field: &str| value.get(field).and_then(Value::as_str) == Some("error");
    truthy || named("object") || named("type")
}

fn first_choice(choices: Vec<Value>) -> Option<Value> {
    let at = choices
        .iter()
        .position(|c| c.get("index").and_then(Value::as_u64) == Some(0))
        .unwrap_or(0);
    choices.into_iter().nth(at)
}

fn answer(
    reply: &Reply<'_>,
    mut map: Map<String, Value>,
    mut choice: Map<String, Value>,
    dialect: &'static str,
) -> Result<ChatResponse, Failure> {
    if let Some(failure) = choice_error(reply, &choice) {
        return Err(failure);
    }
    let id = text(map.shift_remove("id"));
    let Some(Value::Object(mut message)) = choice.shift_remove("message") else {
        return Err(reply.failure(Class::Malformed, "the answer's choice has no message"));
    };
    let ids = AnswerIds::of(&id, reply.body());
    let mut parts = parts(&mut message, ids, dialect);
    let reason = text(choice.shift_remove("finish_reason"));
    let finish = match finish(&reason) {
        Reason::Finish(finish) => derived(finish, &parts),
        Reason::Broken(class) => return Err(broken(reply.server(), class, &reason)),
    };
    if finish == Finish::Unknown && reason.is_empty() {
        // As in a stream: an answer without a finish reason is not finished.
        return Err(reply.failure(
            Class::Transient,
            "the answer has no finish_reason: it was broken off",
        ));
    }
    if !is_cut(finish) {
        whole_arguments(&mut parts);
    }
    if finish == Finish::Unknown && reason != Finish::Unknown.as_str() {
        choice.insert("finish_reason".into(), reason.into());
    }
    let raw_usage = map.shift_remove("usage");
    let usage = raw_usage.as_ref().and_then(usage::read);
    map.shift_remove("object");
    let response = ChatResponse {
        id,
        created: map
            .shift_remove("created")
            .and_then(|v| v.as_u64())
            .unwrap_or(0),
        model: text(map.shift_remove("model")),
        parts,
        finish,
        usage,
        adapted: Vec::new(),
        rate_limits: None,
        extra: extra(dialect, Map::new()),
    };
    keep_rest(&mut map, choice, message, raw_usage, &response);
    Ok(ChatResponse {
        extra: extra(dialect, map),
        ..response
    })
}

/// Keeps what the neutral form does not hold: fields of choice and message,
/// and a `usage` that counts more.
fn keep_rest(
    map: &mut Map<String, Value>,
    mut choice: Map<String, Value>,
    mut message: Map<String, Value>,
    raw_usage: Option<Value>,
    response: &ChatResponse,
) {
    choice.shift_remove("index");
    message.shift_remove("role");
    choice.retain(|_, v| !v.is_null());
    message.retain(|_, v| !v.is_null());
    if !message.is_empty() {
        choice.insert("message".into(), message.into());
    }
    if !choice.is_empty() {
        map.insert(CHOICE.into(), choice.into());
    }
    if let (Some(raw), Some(read)) = (raw_usage, response.usage)
        && raw != usage::write(read)
    {
        map.insert("usage".into(), raw);
    }
}

/// An error that stands in a choice.
pub(super) fn choice_error(reply: &Reply<'_>, choice: &Map<String, Value>) -> Option<Failure> {
    let error = choice.get("error").filter(|e| e.is_object())?;
    let body = json!({"error": error}).to_string();
    Some(classify(&reply.with_body(body.as_bytes())))
}

fn parts(message: &mut Map<String, Value>, mut ids: AnswerIds, dialect: &'static str) -> Vec<Part> {
    let mut parts = reasoning_parts(message);
    match message.shift_remove("content") {
        Some(Value::String(text)) if !text.is_empty() => parts.push(Part::Text(text)),
        Some(Value::Array(items)) => {
            parts.extend(items.into_iter().map(|item| content_part(item, dialect)));
        }
        _ => {}
    }
    if let Some(images) = images(message.get("images")) {
        message.shift_remove("images");
        parts.extend(images.into_iter().map(Part::Image));
    }
    match message.shift_remove("refusal") {
        Some(Value::String(text)) if !text.is_empty() => parts.push(Part::Refusal(text)),
        _ => {}
    }
    if let Some(Value::Array(calls)) = message.shift_remove("tool_calls") {
        for call in calls {
            let position = parts.len();
            parts.push(call_part(call, &mut ids, position, dialect));
        }
    }
    if let Some(call) = message
        .shift_remove("function_call")
        .filter(|c| !c.is_null() && !has_calls(&parts))
    {
        let position = parts.len();
        let call = json!({"function": call});
        parts.push(call_part(call, &mut ids, position, dialect));
    }
    parts
}

fn has_calls(parts: &[Part]) -> bool {
    parts.iter().any(|p| matches!(p, Part::ToolCall(_)))
}

/// Reasoning from its text and its details. The details stay too where the
/// parts say less than they do, since their provider wants them back as they
/// were.
fn reasoning_parts(message: &mut Map<String, Value>) -> Vec<Part> {
    let text = reasoning(message);
    message.shift_remove("reasoning_content");
    if message.get("reasoning").is_some_and(Value::is_string) {
        message.shift_remove("reasoning");
    }
    let details = message.get("reasoning_details").filter(|d| d.is_array());
    let parts = reasoning_details::joined(text, details);
    if details.is_some() && reasoning_details::write(&parts).as_ref() == details {
        message.shift_remove("reasoning_details");
    }
    parts
}

/// Images beside the text, as `OpenRouter` has them; none where one is
/// something else.
pub(super) fn images(field: Option<&Value>) -> Option<Vec<Image>> {
    let url = |item: &Value| item.pointer("/image_url/url")?.as_str().map(str::to_owned);
    let image = |item| {
        Some(Image {
            url: url(item)?,
            detail: None,
        })
    };
    field?.as_array()?.iter().map(image).collect()
}

/// Reasoning text under either of its names. A server that sends both sends
/// the same text twice, so one is read.
pub(super) fn reasoning(message: &Map<String, Value>) -> Option<String> {
    ["reasoning_content", "reasoning"]
        .iter()
        .filter_map(|name| message.get(*name)?.as_str())
        .find(|text| !text.is_empty())
        .map(str::to_owned)
}

/// A part of a `content` list.
pub(super) fn content_part(item: Value, dialect: &'static str) -> Part {
    let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
    let said = |name: &str| item.get(name).and_then(Value::as_str).map(str::to_owned);
    let known = match kind {
        "text" => said("text").map(Part::Text),
        "refusal" => said("refusal").map(Part::Refusal),
        "thinking" => Some(Part::Reasoning(ReasoningPart {
            text: thinking(item.get("thinking")),
            dialect: said("signature").map_or("", |_| dialect),
            signature: said("signature"),
        })),
        _ => None,
    };
    match (known, item) {
        (Some(part), _) => part,
        (None, Value::Object(fields)) => Part::Other(extra(dialect, fields)),
        (None, other) => Part::Text(other.as_str().unwrap_or_default().to_owned()),
    }
}

fn thinking(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(chunks)) => chunks
            .iter()
            .filter_map(|c| c.get("text").and_then(Value::as_str))
            .collect(),
        _ => String::new(),
    }
}

fn call_part(call: Value, ids: &mut AnswerIds, position: usize, dialect: &'static str) -> Part {
    let Some(function) = call.get("function") else {
        return match call {
            Value::Object(fields) => Part::Other(extra(dialect, fields)),
            _ => Part::Other(extra(dialect, Map::new())),
        };
    };
    let id = call.get("id").and_then(Value::as_str).unwrap_or_default();
    Part::ToolCall(ToolCall {
        id: ids.claim(id, position),
        name: text(function.get("name").cloned()),
        arguments: arguments(function.get("arguments")),
        extra: call_extra(&call, dialect),
    })
}

/// Whether an answer ended before its own end, so that a call may lack what
/// was still to come.
pub(super) fn is_cut(finish: Finish) -> bool {
    matches!(finish, Finish::Length | Finish::ContextWindow)
}

/// Gives calls without arguments the empty object that other servers write,
/// which clients can parse.
fn whole_arguments(parts: &mut [Part]) {
    for part in parts {
        if let Part::ToolCall(call) = part
            && call.arguments.trim().is_empty()
        {
            "{}".clone_into(&mut call.arguments);
        }
    }
}

/// What an entry of `tool_calls` says beside the call: a signature, else the
/// fields that are not known.
fn call_extra(call: &Value, dialect: &'static str) -> Extra {
    let signature = call_signature::read(call);
    if !signature.fields.is_empty() {
        return signature;
    }
    let known = ["id", "type", "function", "index"];
    let fields = call.as_object().into_iter().flatten();
    let unknown: Map<String, Value> = fields
        .filter(|(name, value)| !known.contains(&name.as_str()) && !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if unknown.is_empty() {
        Extra::default()
    } else {
        extra(dialect, unknown)
    }
}

/// Arguments as the text they were sent as; an object is written out.
pub(super) fn arguments(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn text(value: Option<Value>) -> String {
    match value {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

/// What a `finish_reason` says.
pub(super) enum Reason {
    /// The answer ended.
    Finish(Finish),
    /// The server broke it off.
    Broken(Class),
}

/// Reads a `finish_reason`. An unknown value is kept as unknown, never as a stop.
pub(super) fn finish(reason: &str) -> Reason {
    Reason::Finish(match reason {
        "stop" => Finish::Stop,
        "length" => Finish::Length,
        "tool_calls" | "function_call" => Finish::ToolUse,
        "content_filter" => Finish::ContentFilter,
        // Mistral's name for a full window.
        "model_length" => Finish::ContextWindow,
        // OpenRouter and Mistral; vLLM.
        "error" | "abort" => return Reason::Broken(Class::Transient),
        // DeepSeek.
        "insufficient_system_resource" => return Reason::Broken(Class::Overloaded),
        "malformed_function_call" => return Reason::Broken(Class::Malformed),
        _ => Finish::Unknown,
    })
}

/// The failure of an answer that the server broke off.
pub(super) fn broken(server: Server, class: Class, reason: &str) -> Failure {
    Reply::in_answer(server, b"").failure(
        class,
        &format!("the server ended the answer with finish_reason `{reason}`"),
    )
}

/// The finish that the parts tell: calls mean tool use, a refusal a refusal,
/// whatever the provider said, unless the answer was cut.
pub(super) fn derived(finish: Finish, parts: &[Part]) -> Finish {
    let has = |want: fn(&Part) -> bool| parts.iter().any(want);
    match finish {
        Finish::Stop | Finish::Unknown if has_calls(parts) => Finish::ToolUse,
        Finish::Stop if has(|p| matches!(p, Part::Refusal(_))) => Finish::Refusal,
        other => other,
    }
}

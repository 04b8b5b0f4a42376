//! Streams: bytes to neutral events.

use super::answer_read::{self, Reason};
use super::stream_calls::Calls;
use super::{extra, usage};
use crate::wire::classify::{Reply, classify};
use crate::wire::json::{self, Joiner};
use crate::wire::sse::{self, Item};
use crate::wire::{Server, excerpt};
use evenkeel_core::{
    ChatResponse, Class, Delta, Failure, Finish, Part, ReasoningPart, StreamEvent,
};
use secrecy::SecretString;
use serde_json::{Map, Value};
use std::fmt;

/// Default of [`StreamLimits::max_answer_bytes`]: some eight million tokens of
/// English text, sixty times the longest output of any model known in 2026.
pub const DEFAULT_MAX_ANSWER_BYTES: usize = 32 * 1024 * 1024;
/// Default of [`StreamLimits::max_event_bytes`]: room for an inline image.
pub const DEFAULT_MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;
/// How much of a stream's beginning is kept, to tell a web page.
const BEGINNING_BYTES: usize = 512;
/// What a call's announcement is taken for when the answer's size is counted:
/// its bookkeeping, so that empty calls are bounded too.
const CALL_BYTES: usize = 128;

/// How much a stream may bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLimits {
    /// Largest single event, bytes.
    pub max_event_bytes: usize,
    /// Largest sum of all content (text, reasoning, arguments), bytes.
    pub max_answer_bytes: usize,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            max_event_bytes: DEFAULT_MAX_EVENT_BYTES,
            max_answer_bytes: DEFAULT_MAX_ANSWER_BYTES,
        }
    }
}

/// Turns the bytes of a stream into neutral events, in any split.
///
/// The answer is complete once a finish reason was seen and the stream ended,
/// with or without `[DONE]`; then the last event is [`StreamEvent::End`]. An
/// error object anywhere, `[DONE]` or the end of the bytes before a finish
/// reason, and every limit give one `Err`. After either, nothing more comes.
///
/// An event that cannot be read is skipped and told as [`StreamEvent::Skipped`].
/// Of several choices the first is read.
pub struct StreamDecoder {
    server: Server,
    limits: StreamLimits,
    key: Option<SecretString>,
    sse: sse::Decoder,
    beginning: Vec<u8>,
    saw_event: bool,
    start: Option<Start>,
    id: String,
    calls: Calls,
    text: Joiner,
    refusal: Joiner,
    reasoning: Joiner,
    refused: bool,
    finish: Option<Finish>,
    answer_bytes: usize,
    over: bool,
}

/// What is known of the answer before it is announced.
#[derive(Default)]
struct Start {
    model: String,
    created: u64,
    extra: Map<String, Value>,
}

impl fmt::Debug for StreamDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamDecoder")
            .field("server", &self.server)
            .field("finish", &self.finish)
            .field("answer_bytes", &self.answer_bytes)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

/// Fields of a chunk that are read, or that pad it.
const NOT_EXTRA: [&str; 9] = [
    "id",
    "model",
    "created",
    "object",
    "choices",
    "usage",
    "x_groq",
    "obfuscation",
    "error",
];

type Out = Vec<Result<StreamEvent, Failure>>;

impl StreamDecoder {
    /// A decoder with the default limits.
    pub fn new(server: Server) -> Self {
        Self::with_limits(server, StreamLimits::default())
    }

    /// A decoder with limits of its own.
    pub fn with_limits(server: Server, limits: StreamLimits) -> Self {
        Self {
            server,
            limits,
            key: None,
            sse: sse::Decoder::new(limits.max_event_bytes),
            beginning: Vec::new(),
            saw_event: false,
            start: Some(Start::default()),
            id: String::new(),
            calls: Calls::default(),
            text: Joiner::default(),
            refusal: Joiner::default(),
            reasoning: Joiner::default(),
            refused: false,
            finish: None,
            answer_bytes: 0,
            over: false,
        }
    }

    /// With the key that was sent, so that errors that echo it are masked.
    #[must_use]
    pub fn with_key(mut self, key: Option<SecretString>) -> Self {
        self.key = key;
        self
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Result<StreamEvent, Failure>> {
        let mut out = Out::new();
        if self.over {
            return out;
        }
        if !self.saw_event && self.beginning.len() < BEGINNING_BYTES {
            let room = BEGINNING_BYTES - self.beginning.len();
            self.beginning.extend(bytes.iter().take(room));
        }
        let mut items = Vec::new();
        let result = self.sse.push(bytes, &mut items);
        self.take_items(items, &mut out);
        if let Err(e) = result
            && !self.over
        {
            let failure = self
                .failure(Class::Malformed, &e.to_string())
                .with_source(e);
            self.fail(failure, &mut out);
        }
        out
    }

    /// Ends the stream: nothing more will come.
    pub fn finish(&mut self) -> Vec<Result<StreamEvent, Failure>> {
        let mut out = Out::new();
        if self.over {
            return out;
        }
        let mut items = Vec::new();
        self.sse.finish(&mut items);
        self.take_items(items, &mut out);
        if !self.over {
            self.end("the stream ended before the answer was complete", &mut out);
        }
        out
    }

    /// Whether the answer is complete but for its terminator.
    pub fn is_complete(&self) -> bool {
        self.finish.is_some()
    }

    /// Whether the last event was given.
    pub fn is_over(&self) -> bool {
        self.over
    }

    fn failure(&self, class: Class, message: &str) -> Failure {
        Reply::in_answer(self.server, b"")
            .with_key(self.key.as_ref())
            .failure(class, message)
    }

    fn fail(&mut self, failure: Failure, out: &mut Out) {
        self.over = true;
        out.push(Err(failure));
    }

    fn end(&mut self, if_incomplete: &str, out: &mut Out) {
        if self.finish.is_some() {
            self.over = true;
            out.push(Ok(StreamEvent::End));
            return;
        }
        let is_page = !self.saw_event && self.beginning.trim_ascii_start().starts_with(b"<");
        let failure = if is_page {
            let page = excerpt::excerpt(&String::from_utf8_lossy(&self.beginning), None);
            self.failure(Class::Malformed, &format!("the stream is not one: {page}"))
        } else {
            self.failure(Class::Transient, if_incomplete)
        };
        self.fail(failure, out);
    }

    fn take_items(&mut self, items: Vec<Item>, out: &mut Out) {
        for item in items {
            if self.over {
                return;
            }
            match item {
                Item::Comment(_) => out.push(Ok(StreamEvent::KeepAlive)),
                Item::Event(event) => self.take_event(&event, out),
            }
        }
    }

    fn take_event(&mut self, event: &sse::Event, out: &mut Out) {
        self.saw_event = true;
        let data = event.data.trim();
        if data.starts_with("[DONE]") {
            self.end(
                "the stream was declared done before the answer was complete",
                out,
            );
            return;
        }
        let named_error = event.event.as_deref() == Some("error");
        let before = out.len();
        match json::parse_event(data) {
            Err(_) if named_error => self.fail_with(data, out),
            Ok(parsed) if named_error || answer_read::is_error(&parsed.value) => {
                self.take_last_words(&parsed.value, parsed.has_halves, out);
                if !self.over {
                    self.fail_with(data, out);
                }
            }
            Ok(parsed) if event.bare && parsed.value.pointer("/choices/0/message").is_some() => {
                self.take_whole(data, out);
            }
            Ok(parsed) if parsed.value.is_object() => {
                self.take_chunk(&parsed.value, parsed.has_halves, out);
            }
            Ok(parsed) if parsed.value.is_null() => {}
            Ok(_) | Err(_) => out.push(Ok(StreamEvent::Skipped)),
        }
        if out.len() == before {
            out.push(Ok(StreamEvent::KeepAlive));
        }
    }

    /// The text of a chunk that is an error too.
    fn take_last_words(&mut self, chunk: &Value, has_halves: bool, out: &mut Out) {
        let delta = chunk.pointer("/choices/0/delta").and_then(Value::as_object);
        let says = |name: &str| {
            delta
                .and_then(|d| d.get(name)?.as_str())
                .unwrap_or_default()
        };
        if let Some(delta) = delta
            && !says("content").is_empty()
        {
            self.take_head(chunk, true, out);
            self.take_delta(delta, has_halves, out);
        }
    }

    fn fail_with(&mut self, data: &str, out: &mut Out) {
        let reply = Reply::in_answer(self.server, data.as_bytes()).with_key(self.key.as_ref());
        let failure = classify(&reply);
        self.fail(failure, out);
    }

    /// A whole answer although a stream was asked for.
    fn take_whole(&mut self, data: &str, out: &mut Out) {
        let reply = Reply::in_answer(self.server, data.as_bytes()).with_key(self.key.as_ref());
        match answer_read::decode_answer(&reply) {
            Ok(response) => {
                self.start = None;
                self.finish = Some(response.finish);
                out.extend(events_of(&response).into_iter().map(Ok));
            }
            Err(failure) => self.fail(failure, out),
        }
    }

    fn take_chunk(&mut self, chunk: &Value, has_halves: bool, out: &mut Out) {
        let choices = chunk.get("choices").and_then(Value::as_array);
        let choice = choices
            .into_iter()
            .flatten()
            .filter_map(Value::as_object)
            .find(|c| c.get("index").and_then(Value::as_u64).unwrap_or(0) == 0);
        self.take_head(chunk, choice.is_some(), out);
        if let Some(choice) = choice {
            self.take_choice(choice, has_halves, out);
        }
        if self.over {
            return;
        }
        let counted = chunk
            .get("usage")
            .and_then(usage::read)
            .or_else(|| usage::read(chunk.get("x_groq")?.get("usage")?));
        out.extend(counted.map(|usage| Ok(StreamEvent::Usage(usage))));
    }

    /// What a chunk says of the answer as a whole. Announced with the first
    /// chunk that has a choice: some servers send one with neither id nor
    /// model before it.
    fn take_head(&mut self, chunk: &Value, has_choice: bool, out: &mut Out) {
        let (Some(mut start), Some(fields)) = (self.start.take(), chunk.as_object()) else {
            return;
        };
        for (name, value) in fields {
            match (name.as_str(), value) {
                ("id", Value::String(id)) if self.id.is_empty() => self.id.clone_from(id),
                ("model", Value::String(model)) if start.model.is_empty() => {
                    start.model.clone_from(model);
                }
                ("created", Value::Number(at)) if start.created == 0 => {
                    start.created = at.as_u64().unwrap_or(0);
                }
                (name, _) if NOT_EXTRA.contains(&name) => {}
                _ => {
                    start.extra.insert(name.clone(), value.clone());
                }
            }
        }
        if !has_choice {
            self.start = Some(start);
            return;
        }
        out.push(Ok(StreamEvent::Start {
            id: self.id.clone(),
            model: start.model,
            created: start.created,
            extra: extra(start.extra),
        }));
    }

    fn take_choice(&mut self, choice: &Map<String, Value>, has_halves: bool, out: &mut Out) {
        let reply = Reply::in_answer(self.server, b"").with_key(self.key.as_ref());
        if let Some(failure) = answer_read::choice_error(&reply, choice) {
            self.fail(failure, out);
            return;
        }
        if let Some(delta) = choice.get("delta").and_then(Value::as_object) {
            self.take_delta(delta, has_halves, out);
        }
        let reason = choice.get("finish_reason").and_then(Value::as_str);
        if let Some(reason) = reason.filter(|r| !r.is_empty())
            && !self.over
            && self.finish.is_none()
        {
            self.take_finish(reason, out);
        }
    }

    fn take_delta(&mut self, delta: &Map<String, Value>, has_halves: bool, out: &mut Out) {
        let mut deltas = Vec::new();
        if let Some(text) = answer_read::reasoning(delta) {
            let text = self.reasoning.join(&text, has_halves).into_owned();
            deltas.push(Delta::Reasoning(ReasoningPart {
                text,
                signature: None,
            }));
        }
        match delta.get("content") {
            Some(Value::String(text)) => {
                let text = self.text.join(text, has_halves).into_owned();
                deltas.push(Delta::Text(text));
            }
            Some(Value::Array(items)) => {
                for item in items {
                    deltas.extend(delta_of(answer_read::content_part(item.clone())));
                }
            }
            _ => {}
        }
        if let Some(Value::String(text)) = delta.get("refusal") {
            let text = self.refusal.join(text, has_halves).into_owned();
            self.refused |= !text.is_empty();
            deltas.push(Delta::Refusal(text));
        }
        let mut events: Vec<StreamEvent> = deltas
            .into_iter()
            .filter(|d| !is_empty(d))
            .map(StreamEvent::Delta)
            .collect();
        if let Some(Value::Array(pieces)) = delta.get("tool_calls") {
            for piece in pieces {
                let taken = self.calls.take(piece, has_halves, &self.id, &mut events);
                match taken {
                    Ok(argument_bytes) => self.answer_bytes += argument_bytes,
                    Err(e) => {
                        let failure = self.failure(Class::Malformed, &e.to_string());
                        self.fail(failure, out);
                        return;
                    }
                }
            }
        }
        self.give(events, out);
    }

    fn give(&mut self, events: Vec<StreamEvent>, out: &mut Out) {
        for event in events {
            self.answer_bytes = self.answer_bytes.saturating_add(size(&event));
            out.push(Ok(event));
        }
        if self.answer_bytes > self.limits.max_answer_bytes {
            let message = format!(
                "the answer is larger than the limit of {} bytes",
                self.limits.max_answer_bytes
            );
            let failure = self.failure(Class::Malformed, &message);
            self.fail(failure, out);
        }
    }

    fn take_finish(&mut self, reason: &str, out: &mut Out) {
        let finish = match answer_read::finish(reason) {
            Reason::Finish(finish) => finish,
            Reason::Broken(class) => {
                let failure = answer_read::broken(self.server, class, reason);
                self.fail(failure, out);
                return;
            }
        };
        let mut events = Vec::new();
        let left = |c: char| c.to_string();
        events.extend(self.text.finish().map(|c| Delta::Text(left(c))));
        events.extend(self.refusal.finish().map(|c| Delta::Refusal(left(c))));
        events.extend(self.reasoning.finish().map(|c| {
            Delta::Reasoning(ReasoningPart {
                text: left(c),
                signature: None,
            })
        }));
        let mut events = events.into_iter().map(StreamEvent::Delta).collect();
        if let Err(e) = self.calls.finish(&self.id, &mut events) {
            let failure = self.failure(Class::Malformed, &e.to_string());
            self.fail(failure, out);
            return;
        }
        self.give(events, out);
        if self.over {
            return;
        }
        let finish = match finish {
            Finish::Stop | Finish::Unknown if !self.calls.is_empty() => Finish::ToolUse,
            Finish::Stop if self.refused => Finish::Refusal,
            other => other,
        };
        self.finish = Some(finish);
        out.push(Ok(StreamEvent::Finish(finish)));
    }
}

fn delta_of(part: Part) -> Option<Delta> {
    match part {
        Part::Text(text) => Some(Delta::Text(text)),
        Part::Refusal(text) => Some(Delta::Refusal(text)),
        Part::Reasoning(part) => Some(Delta::Reasoning(part)),
        _ => None,
    }
}

fn is_empty(delta: &Delta) -> bool {
    match delta {
        Delta::Text(text) | Delta::Refusal(text) => text.is_empty(),
        Delta::Reasoning(part) => part.text.is_empty() && part.signature.is_none(),
        _ => false,
    }
}

/// The content bytes of an event, as the answer's size counts them. Arguments
/// are counted as they arrive, held or not.
fn size(event: &StreamEvent) -> usize {
    match event {
        StreamEvent::Delta(Delta::Text(text) | Delta::Refusal(text)) => text.len(),
        StreamEvent::Delta(Delta::Reasoning(part)) => part.text.len(),
        StreamEvent::Delta(Delta::ToolCallStart { id, name, .. }) => {
            id.len() + name.len() + CALL_BYTES
        }
        _ => 0,
    }
}

/// A whole answer as the events of a stream, without its end.
pub(crate) fn events_of(response: &ChatResponse) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::Start {
        id: response.id.clone(),
        model: response.model.clone(),
        created: response.created,
        extra: response.extra.clone(),
    }];
    let mut calls = 0;
    for part in &response.parts {
        if let Part::ToolCall(call) = part {
            events.push(StreamEvent::Delta(Delta::ToolCallStart {
                index: calls,
                id: call.id.clone(),
                name: call.name.clone(),
            }));
            if !call.arguments.is_empty() {
                events.push(StreamEvent::Delta(Delta::ToolCallArguments {
                    index: calls,
                    fragment: call.arguments.clone(),
                }));
            }
            calls += 1;
        } else {
            events.extend(delta_of(part.clone()).map(StreamEvent::Delta));
        }
    }
    events.push(StreamEvent::Finish(response.finish));
    events.extend(response.usage.map(StreamEvent::Usage));
    events
}

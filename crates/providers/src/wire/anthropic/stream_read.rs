//! Streams: bytes to neutral events.

mod block;
mod event;

use super::answer_read;
use crate::wire::beginning::Beginning;
use crate::wire::classify::{Reply, classify};
use crate::wire::json;
use crate::wire::sse::{self, Item};
use crate::wire::{EventDecoder, Server, StreamLimits};
use block::Block;
use evenkeel_core::{Class, Failure, Finish, Part, ReasoningPart, StreamEvent, events_of};
use secrecy::SecretString;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;

/// Turns the bytes of a stream into neutral events, in any split.
///
/// The answer is complete once a stop reason was seen and the stream ended,
/// with or without `message_stop`; then the last event is [`StreamEvent::End`].
/// An error event, the end of the bytes before a stop reason, and every limit
/// give one `Err`. After either, nothing more comes.
///
/// Events of unknown types are signs of life; an event that cannot be read is
/// skipped and told as [`StreamEvent::Skipped`]. A block of an unknown type is
/// kept whole, as a part of this dialect.
pub struct StreamDecoder {
    limits: StreamLimits,
    key: Option<SecretString>,
    sse: sse::Decoder,
    beginning: Beginning,
    started: bool,
    /// The open blocks by their index on the wire.
    blocks: BTreeMap<u64, Block>,
    /// How many blocks, and how many calls, there were.
    serial: usize,
    calls: usize,
    /// What the last content was, and of which block.
    last: Option<(Kind, usize)>,
    usage: Map<String, Value>,
    finish: Option<Finish>,
    answer_bytes: usize,
    over: bool,
}

impl fmt::Debug for StreamDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamDecoder")
            .field("finish", &self.finish)
            .field("answer_bytes", &self.answer_bytes)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

/// Content whose pieces add up to one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
}

impl Kind {
    fn empty(self) -> Part {
        match self {
            Self::Text => Part::Text(String::new()),
            Self::Reasoning => Part::Reasoning(ReasoningPart::default()),
        }
    }
}

type Out = Vec<Result<StreamEvent, Failure>>;

impl Default for StreamDecoder {
    fn default() -> Self {
        Self::with_limits(StreamLimits::default())
    }
}

impl StreamDecoder {
    /// A decoder with the default limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// A decoder with limits of its own.
    pub fn with_limits(limits: StreamLimits) -> Self {
        Self {
            limits,
            key: None,
            sse: sse::Decoder::new(limits.max_event_bytes),
            beginning: Beginning::default(),
            started: false,
            blocks: BTreeMap::new(),
            serial: 0,
            calls: 0,
            last: None,
            usage: Map::new(),
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
}

impl EventDecoder for StreamDecoder {
    fn push(&mut self, bytes: &[u8]) -> Vec<Result<StreamEvent, Failure>> {
        let mut out = Out::new();
        if self.over {
            return out;
        }
        self.beginning.push(bytes);
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

    fn finish(&mut self) -> Vec<Result<StreamEvent, Failure>> {
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

    fn is_complete(&self) -> bool {
        self.finish.is_some()
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

impl StreamDecoder {
    fn failure(&self, class: Class, message: &str) -> Failure {
        Reply::in_answer(Server::Anthropic, b"")
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
        let (class, why) = self.beginning.why_incomplete(if_incomplete);
        let failure = self.failure(class, &why);
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
        self.beginning.saw_event();
        let data = event.data.trim();
        if data.starts_with("[DONE]") {
            // No part of the format; proxies add it.
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
                self.fail_with(data, out);
            }
            // Only a stream's beginning can be an answer in one piece.
            Ok(parsed) if !self.started && is_whole(&parsed.value) => self.take_whole(data, out),
            Ok(parsed) => match parsed.value {
                Value::Object(map) => self.take_typed(map, parsed.has_halves, out),
                Value::Null => {}
                _ => out.push(Ok(StreamEvent::Skipped)),
            },
            Err(_) => out.push(Ok(StreamEvent::Skipped)),
        }
        if out.len() == before {
            out.push(Ok(StreamEvent::KeepAlive));
        }
    }

    fn fail_with(&mut self, data: &str, out: &mut Out) {
        let reply =
            Reply::in_answer(Server::Anthropic, data.as_bytes()).with_key(self.key.as_ref());
        let failure = classify(&reply);
        self.fail(failure, out);
    }

    /// A whole answer although a stream was asked for.
    fn take_whole(&mut self, data: &str, out: &mut Out) {
        let reply =
            Reply::in_answer(Server::Anthropic, data.as_bytes()).with_key(self.key.as_ref());
        match answer_read::decode_answer(&reply) {
            Ok(response) => {
                self.started = true;
                self.finish = Some(response.finish);
                out.extend(events_of(&response).into_iter().map(Ok));
            }
            Err(failure) => self.fail(failure, out),
        }
    }
}

fn is_whole(value: &Value) -> bool {
    value.get("type").and_then(Value::as_str) == Some("message")
}

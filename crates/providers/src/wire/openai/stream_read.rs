//! Streams: bytes to neutral events.

mod chunk;

use super::answer_read;
use super::stream_calls::Calls;
use crate::wire::beginning::Beginning;
use crate::wire::classify::{Reply, classify};
use crate::wire::json::{self, Joiner};
use crate::wire::sse::{self, Item};
use crate::wire::{EventDecoder, Server, StreamLimits};
use evenkeel_core::{Class, Failure, Finish, StreamEvent, events_of};
use secrecy::SecretString;
use serde_json::{Map, Value};
use std::fmt;

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
    dialect: &'static str,
    server: Server,
    limits: StreamLimits,
    key: Option<SecretString>,
    sse: sse::Decoder,
    beginning: Beginning,
    start: Option<Start>,
    /// Fields of the stream as a whole that have been told.
    told: Map<String, Value>,
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

type Out = Vec<Result<StreamEvent, Failure>>;

impl StreamDecoder {
    /// A decoder with the default limits.
    pub fn new(server: Server) -> Self {
        Self::with_limits(server, StreamLimits::default())
    }

    /// A decoder with limits of its own.
    pub fn with_limits(server: Server, limits: StreamLimits) -> Self {
        Self::of_dialect(super::DIALECT, server, limits)
    }

    /// A decoder that marks what has no neutral place as of `dialect`.
    pub(in crate::wire) fn of_dialect(
        dialect: &'static str,
        server: Server,
        limits: StreamLimits,
    ) -> Self {
        Self {
            dialect,
            server,
            limits,
            key: None,
            sse: sse::Decoder::new(limits.max_event_bytes),
            beginning: Beginning::default(),
            start: Some(Start::default()),
            told: Map::new(),
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
        match answer_read::decode(&reply, self.dialect) {
            Ok(response) => {
                self.start = None;
                self.finish = Some(response.finish);
                out.extend(events_of(&response).into_iter().map(Ok));
            }
            Err(failure) => self.fail(failure, out),
        }
    }
}

//! Streams: bytes to neutral events.

mod chunk;

use super::answer_read;
use super::reasoning_details::DetailText;
use super::stream_calls::{Around, Calls};
use crate::wire::json::{self, Joiner};
use crate::wire::reading::{Out, Reading, StreamFormat};
use crate::wire::sse;
use crate::wire::{Server, StreamLimits};
use evenkeel_core::{StreamEvent, events_of};
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
    reading: Reading<sse::Decoder>,
    dialect: &'static str,
    start: Option<Start>,
    /// Fields of the stream as a whole that have been told.
    told: Map<String, Value>,
    id: String,
    calls: Calls,
    text: Joiner,
    refusal: Joiner,
    reasoning: Joiner,
    details: DetailText,
    refused: bool,
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
        // Nothing of the answer.
        f.debug_struct("StreamDecoder")
            .field("reading", &self.reading)
            .finish_non_exhaustive()
    }
}

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
        let frames = sse::Decoder::new(limits.max_event_bytes);
        Self {
            reading: Reading::new(server, limits, frames),
            dialect,
            start: Some(Start::default()),
            told: Map::new(),
            id: String::new(),
            calls: Calls::default(),
            text: Joiner::default(),
            refusal: Joiner::default(),
            reasoning: Joiner::default(),
            details: DetailText::default(),
            refused: false,
        }
    }

    /// With the key that was sent, so that errors that echo it are masked.
    #[must_use]
    pub fn with_key(mut self, key: Option<SecretString>) -> Self {
        self.reading.set_key(key);
        self
    }
}

impl StreamFormat for StreamDecoder {
    type Frames = sse::Decoder;

    fn reading(&self) -> &Reading<Self::Frames> {
        &self.reading
    }

    fn reading_mut(&mut self) -> &mut Reading<Self::Frames> {
        &mut self.reading
    }

    fn take_event(&mut self, event: &sse::Event, out: &mut Out) {
        let data = event.data.trim();
        if data.starts_with("[DONE]") {
            self.end(
                "the stream was declared done before the answer was complete",
                out,
            );
            return;
        }
        if self.id.is_empty() {
            self.calls.hear(data);
        }
        let named_error = event.event.as_deref() == Some("error");
        match json::parse_event(data) {
            Err(_) if named_error => self.reading.fail_with(data, out),
            Ok(parsed) if named_error || answer_read::is_error(&parsed.value) => {
                self.take_last_words(&parsed.value, parsed.has_halves, out);
                if !self.reading.is_over() {
                    self.reading.fail_with(data, out);
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
    }
}

impl StreamDecoder {
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
            let around = Around {
                has_halves,
                is_last: true,
            };
            self.take_delta(delta, around, out);
        }
    }

    /// A whole answer although a stream was asked for.
    fn take_whole(&mut self, data: &str, out: &mut Out) {
        let reply = self.reading.reply(data);
        match answer_read::decode(&reply, self.dialect) {
            Ok(response) => {
                self.start = None;
                self.reading.finish = Some(response.finish);
                out.extend(events_of(&response).into_iter().map(Ok));
            }
            Err(failure) => self.reading.fail(failure, out),
        }
    }
}

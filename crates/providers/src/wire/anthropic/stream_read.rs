//! Streams: bytes to neutral events.

mod block;
mod event;

use super::answer_read;
use crate::wire::call_ids::AnswerIds;
use crate::wire::json;
use crate::wire::reading::{Out, Reading, StreamFormat};
use crate::wire::sse;
use crate::wire::{Server, StreamLimits};
use block::Block;
use evenkeel_core::{Part, ReasoningPart, StreamEvent, events_of};
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
    reading: Reading<sse::Decoder>,
    started: bool,
    /// The open blocks by their index on the wire.
    blocks: BTreeMap<u64, Block>,
    /// How many blocks, and how many calls, there were.
    serial: usize,
    calls: usize,
    ids: AnswerIds,
    /// What the last content was, and of which block.
    last: Option<(Kind, usize)>,
    usage: Map<String, Value>,
}

impl fmt::Debug for StreamDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing of the answer.
        f.debug_struct("StreamDecoder")
            .field("reading", &self.reading)
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
        let frames = sse::Decoder::new(limits.max_event_bytes);
        Self {
            reading: Reading::new(Server::Anthropic, limits, frames),
            started: false,
            blocks: BTreeMap::new(),
            serial: 0,
            calls: 0,
            ids: AnswerIds::default(),
            last: None,
            usage: Map::new(),
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
        if self.calls == 0 {
            self.ids.hear(data);
        }
        if data.starts_with("[DONE]") {
            // No part of the format; proxies add it.
            self.end(
                "the stream was declared done before the answer was complete",
                out,
            );
            return;
        }
        let named_error = event.event.as_deref() == Some("error");
        match json::parse_event(data) {
            Err(_) if named_error => self.reading.fail_with(data, out),
            Ok(parsed) if named_error || answer_read::is_error(&parsed.value) => {
                self.reading.fail_with(data, out);
            }
            // Only a stream's beginning can be an answer in one piece.
            Ok(parsed) if !self.started && is_whole(&parsed.value) => self.take_whole(data, out),
            Ok(parsed) => match parsed.value {
                Value::Object(map) => self.take_typed(map, data, parsed.has_halves, out),
                Value::Null => {}
                _ => out.push(Ok(StreamEvent::Skipped)),
            },
            Err(_) => out.push(Ok(StreamEvent::Skipped)),
        }
    }
}

impl StreamDecoder {
    /// A whole answer although a stream was asked for.
    fn take_whole(&mut self, data: &str, out: &mut Out) {
        let reply = self.reading.reply(data);
        match answer_read::decode_answer(&reply) {
            Ok(response) => {
                self.started = true;
                self.reading.finish = Some(response.finish);
                out.extend(events_of(&response).into_iter().map(Ok));
            }
            Err(failure) => self.reading.fail(failure, out),
        }
    }
}

fn is_whole(value: &Value) -> bool {
    value.get("type").and_then(Value::as_str) == Some("message")
}

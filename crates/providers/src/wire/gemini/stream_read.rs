//! Streams: bytes to neutral events.

mod chunk;
mod framing;

use super::extra;
use super::ids::Ids;
use super::{answer_read, finish};
use crate::wire::json::{self, Joiner};
use crate::wire::reading::{Out, Reading, StreamFormat};
use crate::wire::sse;
use crate::wire::{Server, StreamLimits};
use evenkeel_core::{Delta, Failure, ReasoningPart, StreamEvent};
use framing::Framing;
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::fmt;

/// Turns the bytes of a stream into neutral events, in any split: server-sent
/// events, bare JSON documents among them, or one JSON array.
///
/// The answer is complete once a `finishReason` or a `blockReason` was seen and
/// the bytes ended; then come its extra fields, the finish and, last,
/// [`StreamEvent::End`]. An error object anywhere, the end of the bytes before
/// a reason, and every limit give one `Err`. After either, nothing more comes.
///
/// An event that cannot be read is skipped and told as [`StreamEvent::Skipped`].
/// Of several candidates the first is read.
pub struct StreamDecoder {
    reading: Reading<Framing>,
    started: bool,
    ids: Option<Ids>,
    /// The ids that calls have been given.
    given: HashSet<String>,
    calls: usize,
    text: Joiner,
    reasoning: Joiner,
    /// Fields of the answer, and of its candidate, without a neutral place.
    rest: Map<String, Value>,
    candidate: Map<String, Value>,
}

impl fmt::Debug for StreamDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing of the answer.
        f.debug_struct("StreamDecoder")
            .field("reading", &self.reading)
            .finish_non_exhaustive()
    }
}

impl Default for StreamDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl StreamDecoder {
    /// A decoder with the default limits.
    pub fn new() -> Self {
        Self::with_limits(StreamLimits::default())
    }

    /// A decoder with limits of its own.
    pub fn with_limits(limits: StreamLimits) -> Self {
        let frames = Framing::new(limits.max_event_bytes);
        Self {
            reading: Reading::new(Server::Gemini, limits, frames),
            started: false,
            ids: None,
            given: HashSet::new(),
            calls: 0,
            text: Joiner::default(),
            reasoning: Joiner::default(),
            rest: Map::new(),
            candidate: Map::new(),
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
    type Frames = Framing;

    fn reading(&self) -> &Reading<Self::Frames> {
        &self.reading
    }

    fn reading_mut(&mut self) -> &mut Reading<Self::Frames> {
        &mut self.reading
    }

    fn take_event(&mut self, event: &sse::Event, out: &mut Out) {
        let named_error = event.event.as_deref() == Some("error");
        self.take_document(event.data.trim(), named_error, out);
    }

    fn end(&mut self, if_incomplete: &str, out: &mut Out) {
        let Some(finish) = self.reading.finish else {
            self.reading.fail_incomplete(if_incomplete, out);
            return;
        };
        let left = self.text.finish().map(|c| Delta::Text(c.into()));
        out.extend(left.map(|delta| Ok(StreamEvent::Delta(delta))));
        let left = self.reasoning.finish().map(|c| {
            Delta::Reasoning(ReasoningPart {
                text: c.into(),
                ..ReasoningPart::default()
            })
        });
        out.extend(left.map(|delta| Ok(StreamEvent::Delta(delta))));
        let mut rest = std::mem::take(&mut self.rest);
        if !self.candidate.is_empty() {
            let candidate = std::mem::take(&mut self.candidate);
            rest.insert("candidates".into(), json!([candidate]));
        }
        if !rest.is_empty() {
            out.push(Ok(StreamEvent::Extra(extra(rest))));
        }
        let finish = finish::with_calls(finish, self.calls > 0);
        out.push(Ok(StreamEvent::Finish(finish)));
        self.reading.succeed(out);
    }
}

impl StreamDecoder {
    fn take_document(&mut self, data: &str, named_error: bool, out: &mut Out) {
        match json::parse_event(data) {
            Err(_) if named_error => self.reading.fail_with(data, out),
            Ok(parsed) if named_error || answer_read::is_error(&parsed.value) => {
                if let Value::Object(last_words) = parsed.value {
                    self.take_chunk(last_words, parsed.has_halves, out);
                }
                if !self.reading.is_over() {
                    self.reading.fail_with(data, out);
                }
            }
            Ok(parsed) => match parsed.value {
                Value::Object(chunk) => {
                    let first = out.len();
                    self.take_chunk(chunk, parsed.has_halves, out);
                    restore_digits(data, &mut out[first..]);
                }
                Value::Array(chunks) => {
                    for chunk in chunks {
                        if !self.reading.is_over() {
                            self.take_document(&chunk.to_string(), false, out);
                        }
                    }
                }
                Value::Null => {}
                _ => out.push(Ok(StreamEvent::Skipped)),
            },
            // Some proxies end every stream as OpenAI's are ended.
            Err(_) if data.starts_with("[DONE]") => {}
            Err(_) => out.push(Ok(StreamEvent::Skipped)),
        }
    }
}

/// Gives the arguments in `events`, which the chunk `data` brought, all their
/// digits.
fn restore_digits(data: &str, events: &mut [Result<StreamEvent, Failure>]) {
    let arguments = events.iter_mut().filter_map(|event| match event {
        Ok(StreamEvent::Delta(Delta::ToolCallArguments { fragment, .. })) => Some(fragment),
        _ => None,
    });
    let mut arguments: Vec<&mut String> = arguments.collect();
    if arguments.is_empty() {
        return;
    }
    let mut exact = answer_read::exact_arguments(data).unwrap_or_default();
    exact.retain(|arguments| !arguments.is_empty());
    if exact.len() == arguments.len() {
        for (rounded, exact) in arguments.iter_mut().zip(exact) {
            **rounded = exact;
        }
    }
}

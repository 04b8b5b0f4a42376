//! Streams: bytes to neutral events.

mod chunk;
mod framing;

use super::extra;
use super::ids::Ids;
use super::{answer_read, finish};
use crate::wire::beginning::Beginning;
use crate::wire::classify::{Reply, classify};
use crate::wire::json::{self, Joiner};
use crate::wire::{EventDecoder, Server, StreamLimits};
use evenkeel_core::{Class, Delta, Failure, Finish, ReasoningPart, StreamEvent};
use framing::Framing;
use secrecy::SecretString;
use serde_json::{Map, Value, json};
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
    limits: StreamLimits,
    key: Option<SecretString>,
    framing: Framing,
    beginning: Beginning,
    started: bool,
    ids: Option<Ids>,
    calls: usize,
    text: Joiner,
    reasoning: Joiner,
    finish: Option<Finish>,
    /// Fields of the answer, and of its candidate, without a neutral place.
    rest: Map<String, Value>,
    candidate: Map<String, Value>,
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

type Out = Vec<Result<StreamEvent, Failure>>;

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
        Self {
            limits,
            key: None,
            framing: Framing::new(limits.max_event_bytes),
            beginning: Beginning::default(),
            started: false,
            ids: None,
            calls: 0,
            text: Joiner::default(),
            reasoning: Joiner::default(),
            finish: None,
            rest: Map::new(),
            candidate: Map::new(),
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
        let result = self.framing.push(bytes, &mut items);
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
        self.framing.finish(&mut items);
        self.take_items(items, &mut out);
        if !self.over {
            self.end(&mut out);
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
        Reply::in_answer(Server::Gemini, b"")
            .with_key(self.key.as_ref())
            .failure(class, message)
    }

    fn fail(&mut self, failure: Failure, out: &mut Out) {
        self.over = true;
        out.push(Err(failure));
    }

    fn end(&mut self, out: &mut Out) {
        let Some(finish) = self.finish else {
            let failure = self.incomplete();
            self.fail(failure, out);
            return;
        };
        self.over = true;
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
        out.push(Ok(StreamEvent::End));
    }

    fn incomplete(&self) -> Failure {
        let (class, why) = self
            .beginning
            .why_incomplete("the stream ended before the answer was complete");
        self.failure(class, &why)
    }

    fn take_items(&mut self, items: Vec<framing::Item>, out: &mut Out) {
        for item in items {
            if self.over {
                return;
            }
            match item {
                framing::Item::Comment => out.push(Ok(StreamEvent::KeepAlive)),
                framing::Item::Document { text, is_error } => {
                    self.take_document(text.trim(), is_error, out);
                }
            }
        }
    }

    fn take_document(&mut self, data: &str, named_error: bool, out: &mut Out) {
        self.beginning.saw_event();
        let before = out.len();
        match json::parse_event(data) {
            Err(_) if named_error => self.fail_with(data, out),
            Ok(parsed) if named_error || answer_read::is_error(&parsed.value) => {
                if let Value::Object(last_words) = parsed.value {
                    self.take_chunk(last_words, parsed.has_halves, out);
                }
                if !self.over {
                    self.fail_with(data, out);
                }
            }
            Ok(parsed) => match parsed.value {
                Value::Object(chunk) => self.take_chunk(chunk, parsed.has_halves, out),
                Value::Array(chunks) => {
                    for chunk in chunks {
                        if !self.over {
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
        if out.len() == before && !self.over {
            out.push(Ok(StreamEvent::KeepAlive));
        }
    }

    fn fail_with(&mut self, data: &str, out: &mut Out) {
        let reply = Reply::in_answer(Server::Gemini, data.as_bytes()).with_key(self.key.as_ref());
        let failure = classify(&reply);
        self.fail(failure, out);
    }
}

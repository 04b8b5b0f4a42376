//! A script's acts as server-sent events, and as what a client reads from them.

use crate::answer::Answer;
use crate::document::error;
use crate::script::Act;
use evenkeel_core::{Failure, StreamEvent};
use evenkeel_providers::Server;
use evenkeel_providers::wire::EventDecoder;
use evenkeel_providers::wire::openai::{StreamDecoder, StreamEncoder};
use evenkeel_providers::wire::sse::{DONE, write_event};
use serde_json::Value;

/// An event whose JSON breaks off.
const GARBAGE: &[u8] = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"conte\n\n";

/// Writes the acts of one stream.
#[derive(Debug)]
pub(crate) struct Writer(StreamEncoder);

impl Writer {
    pub(crate) fn new(answer: &Answer, include_usage: bool) -> Self {
        Self(StreamEncoder::new(
            answer.id.as_str(),
            answer.created,
            &*answer.model,
            include_usage,
        ))
    }

    /// An act's bytes; `sent` is the number of tokens so far.
    pub(crate) fn write(&mut self, act: &Act, answer: &Answer, sent: u32) -> Vec<u8> {
        let mut out = Vec::new();
        match act {
            Act::Garbage => out.extend_from_slice(GARBAGE),
            Act::NoChoices => {
                let chunk = Value::Object(self.0.bare_chunk());
                write_event(None, &chunk.to_string(), &mut out);
            }
            Act::Error { code, message } => {
                let error = error(500, code.as_deref(), message);
                write_event(None, &error.to_string(), &mut out);
            }
            Act::Usage => {
                self.0.push(&StreamEvent::Usage(answer.usage(sent)));
                // The end writes the usage chunk; `[DONE]` is an act of its own.
                for chunk in self.0.push(&StreamEvent::End) {
                    write_event(None, &chunk.to_string(), &mut out);
                }
            }
            Act::Done | Act::FalseDone => out.extend_from_slice(DONE.as_bytes()),
            _ => {
                if let Some(event) = answer.event(act, sent) {
                    self.0.write(&event, &mut out);
                }
            }
        }
        out
    }
}

/// Reads a stream as the product's client does.
#[derive(Debug)]
pub(crate) struct Reader {
    writer: Writer,
    decoder: StreamDecoder,
}

impl Reader {
    pub(crate) fn new(answer: &Answer) -> Self {
        Self {
            writer: Writer::new(answer, true),
            decoder: StreamDecoder::new(Server::Compatible),
        }
    }

    /// What a client learns from an act.
    pub(crate) fn read(
        &mut self,
        act: &Act,
        answer: &Answer,
        sent: u32,
    ) -> Vec<Result<StreamEvent, Failure>> {
        let mut read = self.decoder.push(&self.writer.write(act, answer, sent));
        if act.ends_body() {
            read.extend(self.decoder.finish());
        }
        read
    }
}

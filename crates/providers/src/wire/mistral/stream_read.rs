//! Streams: bytes to neutral events.

use super::DIALECT;
use crate::wire::{EventDecoder, Server, StreamLimits, openai};
use evenkeel_core::{Failure, StreamEvent};
use secrecy::SecretString;

/// Turns the bytes of a stream into neutral events, in any split: `OpenAI`'s
/// stream, whose content may be text or a list of chunks from delta to delta.
#[derive(Debug)]
pub struct StreamDecoder(openai::StreamDecoder);

impl StreamDecoder {
    /// A decoder with the default limits.
    pub fn new() -> Self {
        Self::with_limits(StreamLimits::default())
    }

    /// A decoder with limits of its own.
    pub fn with_limits(limits: StreamLimits) -> Self {
        Self(openai::StreamDecoder::of_dialect(
            DIALECT,
            Server::Mistral,
            limits,
        ))
    }

    /// With the key that was sent, so that errors that echo it are masked.
    #[must_use]
    pub fn with_key(self, key: Option<SecretString>) -> Self {
        Self(self.0.with_key(key))
    }
}

impl Default for StreamDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl EventDecoder for StreamDecoder {
    fn push(&mut self, bytes: &[u8]) -> Vec<Result<StreamEvent, Failure>> {
        self.0.push(bytes)
    }

    fn finish(&mut self) -> Vec<Result<StreamEvent, Failure>> {
        self.0.finish()
    }

    fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

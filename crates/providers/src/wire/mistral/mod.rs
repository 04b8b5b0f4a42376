//! Mistral's chat format: `OpenAI`'s Chat Completions with other names in
//! places and stricter rules for the conversation.
//!
//! What agrees with [`openai`] is read and written there. Here
//! is what differs: `random_seed`, `max_tokens` alone, `tool_choice` `any`,
//! tool call ids of exactly nine letters and digits, the order of messages,
//! `prefix` on a message that is to be gone on from, thinking as a chunk of the
//! content, usage that comes by itself, and errors in a shape of their own.
//! Unknown fields are refused (422), so nothing is sent that Mistral's own
//! client (3.7, 2026) does not know, but for what a caller of this format said.

mod answer_write;
mod order;
mod request;
mod stream_read;
mod stream_write;
mod style;

pub use answer_write::{encode_error, encode_response};
pub use request::{Options, decode_request, encode_request};
pub use stream_read::StreamDecoder;
pub use stream_write::StreamEncoder;
pub(in crate::wire) use style::STYLE;

use crate::wire::classify::Reply;
use crate::wire::openai;
use evenkeel_core::{ChatResponse, Failure};

/// The name of this dialect in [`Extra::dialect`](evenkeel_core::Extra::dialect).
pub const DIALECT: &str = "mistral";

/// Reads the body of a reply with a success status.
///
/// # Errors
/// The class of an error object in the body; malformed for what is no answer
/// in this format.
pub fn decode_answer(reply: &Reply<'_>) -> Result<ChatResponse, Failure> {
    openai::decode_as(reply, DIALECT)
}

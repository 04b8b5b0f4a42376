//! Wire formats, in both directions and without I/O.

mod adapted;
pub mod anthropic;
mod beginning;
mod brackets;
mod call_ids;
pub mod classify;
mod decoder;
mod digits;
mod effort;
mod encoded;
mod excerpt;
mod fields;
pub mod gemini;
mod json;
mod limits;
pub mod mistral;
pub mod openai;
mod pairing;
mod rate_limits;
mod reading;
mod request;
mod server;
pub mod sse;
mod tool_names;

pub use crate::wire::decoder::EventDecoder;
pub use crate::wire::encoded::Encoded;
pub use crate::wire::limits::{DEFAULT_MAX_ANSWER_BYTES, DEFAULT_MAX_EVENT_BYTES, StreamLimits};
pub use crate::wire::rate_limits::rate_limits;
pub use crate::wire::request::{ClientRequest, RequestError};
pub use crate::wire::server::Server;

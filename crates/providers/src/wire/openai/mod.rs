//! `OpenAI`'s Chat Completions format: requests, answers, streams and errors,
//! each read and written.
//!
//! **What is kept.** A field that the neutral types know is read into them;
//! every other field is kept in the `extra` of its level and written back.
//! Where the neutral form says less than what was written (a text part with a
//! cache mark, a tool call with fields of its own, `max_tokens` in place of
//! `max_completion_tokens`), `extra` also keeps the written form under the
//! field's own name; it is written back as long as it still says the same as
//! the neutral value, so an edited message is never sent in its old words.
//!
//! **What is told.** A request written for a server names, in
//! [`Encoded::adapted`](crate::wire::Encoded), everything that this server has
//! no place for. Written for none, it says what the caller said.

mod answer_read;
mod answer_write;
mod call_signature;
mod error;
mod messages_read;
mod messages_write;
mod models;
mod prepare;
mod reasoning_details;
mod request_read;
mod request_write;
mod stream_calls;
mod stream_read;
mod stream_write;
pub(in crate::wire) mod style;
mod unwanted;
pub(in crate::wire) mod usage;

pub use answer_read::{decode_answer, decode_response};
pub use answer_write::encode_response;
pub use error::encode_error;
pub use models::{ModelEntry, decode_models};
pub use request_read::decode_request;
pub use request_write::encode_request;
pub use stream_read::StreamDecoder;
pub use stream_write::StreamEncoder;
pub use style::Options;
pub use unwanted::Unwanted;

// What Mistral's format shares with this one.
pub(in crate::wire) use answer_read::decode as decode_as;
pub(in crate::wire) use messages_write::thinking;
pub(in crate::wire) use request_read::decode as decode_as_request;
pub(in crate::wire) use request_write::encode as encode_as;
pub(in crate::wire) use stream_write::add_beside;

use evenkeel_core::Extra;
use serde_json::{Map, Value};

/// The name of this dialect in [`Extra::dialect`].
pub const DIALECT: &str = "openai";

/// Where a dialect keeps what a choice says beside the answer: a name that no
/// field of the answer itself has.
pub(in crate::wire) const CHOICE: &str = "choice";

/// The written form of a field kept in `extra`, if it still says what
/// `still_true` wants.
fn written_form<'a>(
    extra: &'a Extra,
    dialect: &str,
    name: &str,
    still_true: impl FnOnce(&Value) -> bool,
) -> Option<&'a Value> {
    extra
        .fields
        .get(name)
        .filter(|raw| extra.dialect == dialect && still_true(raw))
}

fn extra(dialect: &'static str, fields: Map<String, Value>) -> Extra {
    Extra { dialect, fields }
}

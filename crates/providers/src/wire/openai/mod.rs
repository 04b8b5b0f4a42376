//! `OpenAI`'s Chat Completions format: requests, answers, streams and errors,
//! each read and written.
//!
//! **What is kept.** A field that the neutral types know is read into them;
//! every other field is kept in the `extra` of its level and written back.
//! Where the neutral form says less than what was written (a text part with a
//! cache mark, a tool call with a signature, `max_tokens` in place of
//! `max_completion_tokens`), `extra` also keeps the written form under the
//! field's own name; it is written back as long as it still says the same as
//! the neutral value, so an edited message is never sent in its old words.

mod answer_read;
mod answer_write;
mod error;
mod messages_read;
mod messages_write;
mod request_read;
mod request_write;
mod stream_calls;
mod stream_read;
mod stream_write;
mod usage;

pub use answer_read::{decode_answer, decode_response};
pub use answer_write::encode_response;
pub use error::encode_error;
pub use request_read::decode_request;
pub use request_write::{encode_request, encode_request_for};
pub use stream_read::StreamDecoder;
pub use stream_write::StreamEncoder;

use evenkeel_core::Extra;
use serde_json::{Map, Value};

/// The name of this dialect in [`Extra::dialect`].
pub const DIALECT: &str = "openai";

fn extra(fields: Map<String, Value>) -> Extra {
    Extra {
        dialect: DIALECT,
        fields,
    }
}

/// The extra fields, where they are of this dialect.
fn own_fields(extra: &Extra) -> impl Iterator<Item = (&String, &Value)> {
    extra.fields.iter().filter(|_| extra.dialect == DIALECT)
}

/// The written form of a field kept in `extra`, if it still says what
/// `still_true` wants.
fn written_form<'a>(
    extra: &'a Extra,
    name: &str,
    still_true: impl FnOnce(&Value) -> bool,
) -> Option<&'a Value> {
    extra
        .fields
        .get(name)
        .filter(|raw| extra.dialect == DIALECT && still_true(raw))
}

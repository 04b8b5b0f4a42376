//! Anthropic's Messages format: requests, answers, streams and errors, each
//! read and written.
//!
//! **What is kept.** As in [`openai`](super::openai): a field that the neutral
//! types know is read into them, every other one is kept in the `extra` of its
//! level; where the neutral form says less than what was written (a text block
//! with a cache mark), `extra` also keeps the written form, which is sent back
//! as long as it still says the same.
//!
//! Blocks without a neutral form (redacted thinking, documents, the calls and
//! results of tools that the provider runs) are [`Part::Other`] of this
//! dialect; citations stand right after the text they belong to, as a part of
//! the type `citations`.
//!
//! **What is repaired on the way out**, since the API refuses it: empty text
//! blocks, turns that do not alternate, results that do not stand first in the
//! turn after their calls or have none, calls without a result, ids and names
//! with characters outside of `a-zA-Z0-9_-`, white space after a prefill.
//!
//! [`Part::Other`]: evenkeel_core::Part::Other

mod answer_read;
mod answer_write;
mod block_read;
mod block_write;
mod error;
mod finish;
mod messages_read;
mod messages_write;
mod models;
mod options;
mod pairing;
mod reasoning;
mod request_read;
mod request_write;
mod stream_calls;
mod stream_read;
mod stream_write;
mod usage;

pub use answer_read::{decode_answer, decode_response};
pub use answer_write::encode_response;
pub use error::encode_error;
pub use models::{ModelCard, decode_models};
pub use options::{DEFAULT_MAX_TOKENS, Options, Support, Thinking, Version};
pub use request_read::decode_request;
pub use request_write::encode_request;
pub use stream_read::StreamDecoder;
pub use stream_write::StreamEncoder;

use evenkeel_core::Extra;
use serde_json::{Map, Value};

/// The name of this dialect in [`Extra::dialect`].
pub const DIALECT: &str = "anthropic";

/// The type of the part that holds the citations of the text before it.
const CITATIONS: &str = "citations";

fn extra(fields: Map<String, Value>) -> Extra {
    Extra {
        dialect: DIALECT,
        fields,
    }
}

/// The fields, where they are of this dialect.
fn own(extra: &Extra) -> Option<&Map<String, Value>> {
    (extra.dialect == DIALECT).then_some(&extra.fields)
}

/// A field kept in `extra`, where it is of this dialect.
fn kept<'a>(extra: &'a Extra, name: &str) -> Option<&'a Value> {
    own(extra)?.get(name)
}

/// Adds the extra fields that are not there yet. Those named in `forms` are
/// written forms, never fields of their own.
fn add_unknown(extra: &Extra, forms: &[&str], map: &mut Map<String, Value>) {
    for (name, value) in own(extra).into_iter().flatten() {
        if !forms.contains(&name.as_str()) && !map.contains_key(name) {
            map.insert(name.clone(), value.clone());
        }
    }
}

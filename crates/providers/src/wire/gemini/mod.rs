//! Google's `generateContent` format: requests, answers, streams and errors,
//! each read and written.
//!
//! **What is kept.** A field that the neutral types know is read into them;
//! every other field is kept in the `extra` of its level and written back.
//! Where the neutral form says less than what was written (a part with a
//! resolution, an `OpenAPI` schema in place of a JSON Schema), `extra` also
//! keeps the written form under the field's own name; it is written back as
//! long as it still says the same as the neutral value.
//!
//! **Signatures.** A `thoughtSignature` on a function call is kept in
//! [`ToolCall::extra`](evenkeel_core::ToolCall::extra). On any other part it
//! becomes a [`ReasoningPart`](evenkeel_core::ReasoningPart) without text
//! right behind that part, also where the part is an empty text. Both are
//! written back on the part they came from, unchanged, and to this format only.
//!
//! **Ids.** A call that comes without an id gets one of our own making; such an
//! id is never sent back, and results go by the order of the calls.

mod answer_read;
mod answer_write;
mod array;
mod config_read;
mod config_write;
mod contents_read;
mod contents_write;
mod error;
mod finish;
mod ids;
mod models;
mod names;
mod openapi;
mod options;
mod parts_read;
mod parts_write;
mod path;
mod request_read;
mod request_write;
mod stream_read;
mod stream_write;
mod thinking;
mod tools_read;
mod tools_write;
mod turns;
mod usage;

pub use answer_read::{decode_answer, decode_response};
pub use answer_write::encode_response;
pub use error::{encode_error, status_name};
pub use models::{ModelLimits, decode_models};
pub use options::{Options, Platform, Thinking};
pub use path::path;
pub use request_read::decode_request;
pub use request_write::encode_request;
pub use stream_read::StreamDecoder;
pub use stream_write::StreamEncoder;

use evenkeel_core::Extra;
use serde_json::{Map, Value};

/// The name of this dialect in [`Extra::dialect`].
pub const DIALECT: &str = "gemini";

/// The field of a part, and of a call's extra fields, that holds its signature.
pub const SIGNATURE: &str = "thoughtSignature";

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

/// An extra field, where it is of this dialect.
fn own_field<'a>(extra: &'a Extra, name: &str) -> Option<&'a Value> {
    extra.fields.get(name).filter(|_| extra.dialect == DIALECT)
}

/// Adds the extra fields that are not there yet, except those in `forms`,
/// which are written forms and no fields of their own.
fn add_unknown(extra: &Extra, forms: &[&str], map: &mut Map<String, Value>) {
    for (name, value) in own_fields(extra) {
        if !forms.contains(&name.as_str()) && !map.contains_key(name) {
            map.insert(name.clone(), value.clone());
        }
    }
}

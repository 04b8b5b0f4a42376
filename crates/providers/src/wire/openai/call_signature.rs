//! The signature of a tool call where Google's layer for `OpenAI`'s clients
//! has it: `tool_calls[].extra_content.google.thought_signature`.

use evenkeel_core::Extra;
use serde_json::{Map, Value, json};

/// The dialect the signature belongs to, and its name there.
const DIALECT: &str = "gemini";
const NAME: &str = "thoughtSignature";

/// The `extra_content` of a call; none where it has no signature.
pub(super) fn write(extra: &Extra) -> Option<Value> {
    let signature = extra
        .fields
        .get(NAME)
        .filter(|_| extra.dialect == DIALECT)?;
    Some(json!({"google": {"thought_signature": signature}}))
}

/// What an entry of `tool_calls` says beside the call.
pub(super) fn read(call: &Value) -> Extra {
    match call.pointer("/extra_content/google/thought_signature") {
        Some(Value::String(signature)) => {
            let mut fields = Map::new();
            fields.insert(NAME.into(), signature.as_str().into());
            Extra {
                dialect: DIALECT,
                fields,
            }
        }
        _ => Extra::default(),
    }
}

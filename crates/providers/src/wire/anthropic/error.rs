//! Errors in Anthropic's shape.

use serde_json::{Map, Value, json};

/// An error body, also the data of the event `error` of a stream:
/// `{"type":"error","error":{"type","message","details"?},"request_id"?}`.
/// `code` is the machine code `details.error_code`.
pub fn encode_error(
    message: &str,
    kind: &str,
    code: Option<&str>,
    request_id: Option<&str>,
) -> Value {
    let mut error = Map::new();
    error.insert("type".into(), kind.into());
    error.insert("message".into(), message.into());
    if let Some(code) = code {
        error.insert("details".into(), json!({"error_code": code}));
    }
    let mut map = Map::new();
    map.insert("type".into(), "error".into());
    map.insert("error".into(), error.into());
    if let Some(id) = request_id {
        map.insert("request_id".into(), id.into());
    }
    Value::Object(map)
}

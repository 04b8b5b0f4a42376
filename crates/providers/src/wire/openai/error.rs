//! Errors in `OpenAI`'s shape.

use serde_json::{Value, json};

/// An error body: `{"error":{"message","type","param","code"}}`.
pub fn encode_error(message: &str, kind: &str, param: Option<&str>, code: Option<&str>) -> Value {
    json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
}

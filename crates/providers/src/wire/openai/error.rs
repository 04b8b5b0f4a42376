//! Errors in `OpenAI`'s shape.

use serde_json::{Value, json};

/// Why a client's request cannot be taken; an HTTP 400 in `OpenAI`'s terms.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RequestError {
    /// What was seen and what was expected, in one line.
    pub message: String,
    /// The field, as a path: `messages[0].content`.
    pub param: Option<String>,
    /// Machine code.
    pub code: Option<&'static str>,
}

impl RequestError {
    pub(super) fn new(code: &'static str, param: impl Into<String>, message: String) -> Self {
        Self {
            message,
            param: Some(param.into()),
            code: Some(code),
        }
    }

    pub(super) fn missing(param: String) -> Self {
        let message = format!("missing required parameter `{param}`");
        Self::new("missing_required_parameter", param, message)
    }

    pub(super) fn wrong_type(param: String, expected: &str, seen: &Value) -> Self {
        let message = format!("`{param}` must be {expected}, got {}", kind(seen));
        Self::new("invalid_type", param, message)
    }

    pub(super) fn unsupported(param: impl Into<String>, message: String) -> Self {
        Self::new("unsupported_parameter", param, message)
    }

    pub(super) fn invalid(param: impl Into<String>, message: String) -> Self {
        Self::new("invalid_value", param, message)
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// An error body: `{"error":{"message","type","param","code"}}`.
pub fn encode_error(message: &str, kind: &str, param: Option<&str>, code: Option<&str>) -> Value {
    json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
}

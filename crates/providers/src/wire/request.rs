//! What reading a client's request gives.

use evenkeel_core::ChatRequest;
use serde_json::Value;

/// Why a client's request cannot be taken; an HTTP 400.
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
    pub(crate) fn new(code: &'static str, param: impl Into<String>, message: String) -> Self {
        Self {
            message,
            param: Some(param.into()),
            code: Some(code),
        }
    }

    pub(crate) fn missing(param: String) -> Self {
        let message = format!("missing required parameter `{param}`");
        Self::new("missing_required_parameter", param, message)
    }

    pub(crate) fn wrong_type(param: String, expected: &str, seen: &Value) -> Self {
        let message = format!("`{param}` must be {expected}, got {}", kind(seen));
        Self::new("invalid_type", param, message)
    }

    pub(crate) fn unsupported(param: impl Into<String>, message: String) -> Self {
        Self::new("unsupported_parameter", param, message)
    }

    pub(crate) fn invalid(param: impl Into<String>, message: String) -> Self {
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

/// A client's request and what it says beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientRequest {
    /// The request itself.
    pub request: ChatRequest,
    /// The `model` field: at the gateway, a role.
    pub model: String,
    /// Whether a stream is asked for.
    pub stream: bool,
    /// Whether the stream is to end with a usage chunk.
    pub include_usage: bool,
}

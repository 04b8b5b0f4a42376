//! Errors in Google's shape.

use serde_json::{Value, json};

/// An error body: `{"error":{"code","message","status","details"}}`, where
/// `code` is an HTTP status and `details` are entries with an `@type`.
pub fn encode_error(code: u16, message: &str, details: &[Value]) -> Value {
    let mut error = json!({"code": code, "message": message, "status": status_name(code)});
    if !details.is_empty() {
        error["details"] = details.into();
    }
    json!({"error": error})
}

/// Google's name of an HTTP status. From `google/rpc/code.proto`.
pub const fn status_name(code: u16) -> &'static str {
    match code {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        402 | 429 => "RESOURCE_EXHAUSTED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "ABORTED",
        499 => "CANCELLED",
        500 => "INTERNAL",
        501 => "UNIMPLEMENTED",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "UNKNOWN",
    }
}

//! The JSON object an operator sends, field by field.

use crate::app::App;
use crate::body;
use crate::error::ApiError;
use axum::extract::Request;
use serde_json::{Map, Value};

/// Longest body of an operator's request, bytes.
const LONGEST: usize = 64 * 1024;

/// The fields of a body that are not read yet.
#[derive(Debug)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// Reads a request's body.
    ///
    /// # Errors
    /// A body that is too long, too slow, or no JSON object.
    pub(super) async fn read(app: &App, request: Request) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = body::read(body, &parts.headers, LONGEST, &app.limits).await?;
        if bytes.trim_ascii().is_empty() {
            return Ok(Self(Map::new()));
        }
        match serde_json::from_slice(&bytes) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            Ok(_) => Err(ApiError::bad_request(
                "invalid_type",
                "the body must be a JSON object",
                None,
            )),
            Err(error) => Err(ApiError::bad_request(
                "invalid_json",
                format!("the body is not valid JSON: {error}"),
                None,
            )),
        }
    }

    /// Whether the field is there, be it null.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A string.
    pub(super) fn text(&mut self, name: &'static str) -> Result<Option<String>, ApiError> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong(name, "a string")),
        }
    }

    /// A string that must be there.
    pub(super) fn required_text(&mut self, name: &'static str) -> Result<String, ApiError> {
        self.text(name)?.ok_or_else(|| missing(name))
    }

    /// A whole number, not negative.
    pub(super) fn count(&mut self, name: &'static str) -> Result<Option<u64>, ApiError> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value
                .as_u64()
                .map(Some)
                .ok_or_else(|| wrong(name, "a whole number, 0 or more")),
        }
    }

    /// A whole number that must be there.
    pub(super) fn required_count(&mut self, name: &'static str) -> Result<u64, ApiError> {
        self.count(name)?.ok_or_else(|| missing(name))
    }

    /// Nothing else is expected.
    ///
    /// # Errors
    /// A field that was not read: a misspelt one would be passed over else.
    pub(super) fn finish(self) -> Result<(), ApiError> {
        match self.0.into_iter().next() {
            None => Ok(()),
            Some((name, _)) => Err(ApiError::bad_request(
                "unknown_parameter",
                format!("there is no field `{name}` here"),
                Some(name),
            )),
        }
    }
}

fn missing(name: &str) -> ApiError {
    let message = format!("`{name}` is missing");
    ApiError::bad_request("missing_required_parameter", message, Some(name.to_owned()))
}

fn wrong(name: &str, expected: &str) -> ApiError {
    let message = format!("`{name}` must be {expected}");
    ApiError::bad_request("invalid_type", message, Some(name.to_owned()))
}

//! Replies in one piece: answers, errors, pages and other oddities.

use crate::Fault;
use evenkeel_core::{ChatResponse, Failure};
use evenkeel_providers::Server;
use evenkeel_providers::wire::classify::{Reply, classify};
use evenkeel_providers::wire::openai::{decode_answer, encode_error, encode_response};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) const JSON: &str = "application/json";
/// A proxy's error page.
const PAGE: &str = "<html><head><title>Bad gateway</title></head>\
    <body><center><h1>Bad gateway</h1></center><hr><center>edge</center></body></html>";

/// A whole reply.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl Document {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::new(status, JSON, body.to_string().into_bytes())
    }

    /// An error in OpenAI's shape.
    pub(crate) fn error(status: u16, code: Option<&str>, message: &str) -> Self {
        Self::json(status, &error(status, code, message))
    }

    /// A success with this body.
    pub(crate) fn answer(body: Vec<u8>) -> Self {
        Self::new(200, JSON, body)
    }

    fn new(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        Self {
            status,
            content_type: content_type.to_owned(),
            headers: Vec::new(),
            body,
        }
    }

    /// The reply that a fault gives instead of an answer; none where it does
    /// something else.
    pub(crate) fn of(fault: &Fault) -> Option<Self> {
        Some(match fault {
            Fault::Status {
                status,
                code,
                message,
                retry_after,
            } => {
                let mut error = Self::error(*status, code.as_deref(), message);
                error.headers = retry_after.map(retry_after_headers).unwrap_or_default();
                error
            }
            Fault::Html { status } => Self::new(*status, "text/html", PAGE.into()),
            Fault::Raw {
                status,
                content_type,
                body,
            } => Self::new(*status, content_type, body.clone()),
            Fault::ErrorIn200 => {
                let message = "the upstream provider failed";
                Self::json(200, &json!({"error": {"message": message, "code": 502}}))
            }
            _ => return None,
        })
    }

    /// What the product's client makes of it.
    pub(crate) fn read(&self) -> Result<ChatResponse, Failure> {
        let headers: HeaderMap = self
            .headers
            .iter()
            .filter_map(|(name, value)| {
                let value = HeaderValue::from_str(value).ok()?;
                Some((HeaderName::from_static(name), value))
            })
            .collect();
        let reply = Reply::new(Server::Compatible, self.status, &self.body).with_headers(&headers);
        if (200..300).contains(&self.status) {
            decode_answer(&reply)
        } else {
            Err(classify(&reply))
        }
    }
}

/// The body of a whole answer as a fault makes it. `response` has the tokens
/// that come before the fault.
pub(crate) fn answer_body(response: &ChatResponse, fault: Option<&Fault>) -> Vec<u8> {
    let mut body = encode_response(response, &response.model);
    match fault {
        Some(Fault::EndAfter(_) | Fault::FalseDoneAfter(_)) => {
            body["choices"][0]["finish_reason"] = Value::Null;
        }
        Some(Fault::ErrorInStream { code, message, .. }) => {
            body["choices"][0]["finish_reason"] = Value::Null;
            body["error"] = error(500, code.as_deref(), message)["error"].take();
        }
        Some(Fault::NoChoices) => body["choices"] = json!([]),
        _ => {}
    }
    let mut bytes = body.to_string().into_bytes();
    if fault == Some(&Fault::TruncatedJson) {
        bytes.truncate(bytes.len() / 2);
    }
    bytes
}

/// An error object with the type OpenAI uses for the status and code.
pub(crate) fn error(status: u16, code: Option<&str>, message: &str) -> Value {
    let kind = match (status, code) {
        (_, Some("insufficient_quota")) => "insufficient_quota",
        (_, Some("overloaded")) => "overloaded_error",
        (429, _) | (_, Some("rate_limit_exceeded")) => "requests",
        (500.., _) => "server_error",
        _ => "invalid_request_error",
    };
    encode_error(message, kind, None, code)
}

/// Whole seconds, rounded up, and milliseconds, as large providers send them.
fn retry_after_headers(wait: Duration) -> Vec<(&'static str, String)> {
    let millis = wait.as_millis();
    vec![
        ("retry-after", millis.div_ceil(1_000).to_string()),
        ("retry-after-ms", millis.to_string()),
    ]
}

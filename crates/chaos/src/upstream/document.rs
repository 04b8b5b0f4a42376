//! Answers with a body of their own: errors, pages and other oddities.

use super::{bomb, openai};
use crate::Fault;
use crate::fault::PROVIDER_FAILED;
use serde_json::{Value, json};
use std::time::Duration;

pub(super) const JSON: &str = "application/json";
/// A proxy's error page.
const PAGE: &str = "<html><head><title>Bad gateway</title></head>\
    <body><center><h1>Bad gateway</h1></center><hr><center>edge</center></body></html>";

/// A whole reply.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

impl Document {
    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self::new(status, JSON, body.to_string().into_bytes())
    }

    /// An error in OpenAI's shape.
    pub(super) fn error(status: u16, code: Option<&str>, message: &str) -> Self {
        Self::json(status, &openai::error(status, code, message))
    }

    /// A success with this JSON text.
    pub(super) fn answer(json: Vec<u8>) -> Self {
        Self::new(200, JSON, json)
    }

    fn new(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        Self {
            status,
            content_type: content_type.to_owned(),
            headers: Vec::new(),
            body,
        }
    }

    /// The reply that a fault sends instead of an answer; none where it does
    /// something else.
    pub(super) fn of(fault: &Fault) -> Option<Self> {
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
            Fault::ErrorIn200 => Self::json(
                200,
                &json!({"error": {"message": PROVIDER_FAILED, "code": 502}}),
            ),
            Fault::GzipBomb => {
                let mut bomb = Self::answer(bomb::gzip());
                bomb.headers.push(("content-encoding", "gzip".to_owned()));
                bomb
            }
            _ => return None,
        })
    }
}

/// Whole seconds, rounded up, and milliseconds, as large providers send them.
fn retry_after_headers(wait: Duration) -> Vec<(&'static str, String)> {
    let millis = wait.as_millis();
    vec![
        ("retry-after", millis.div_ceil(1_000).to_string()),
        ("retry-after-ms", millis.to_string()),
    ]
}

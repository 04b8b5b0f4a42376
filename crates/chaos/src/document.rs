//! Replies in one piece: answers, errors, pages and other oddities.

use crate::Fault;
use crate::dialect::{Dialect, JSON, Trouble};
use evenkeel_core::{ChatResponse, Failure, Finish};
use evenkeel_providers::wire::RequestError;
use evenkeel_providers::wire::classify::{Reply, classify};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

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

    /// An error in the dialect's shape.
    pub(crate) fn error(dialect: Dialect, trouble: &Trouble<'_>) -> Self {
        let format = dialect.format();
        let mut error = Self::json(format.status(trouble), &format.error(trouble));
        if let Some(wait) = trouble.wait {
            error.headers = format.wait_headers(wait);
        }
        error
    }

    /// The answer to a request that cannot be read.
    pub(crate) fn refusal(dialect: Dialect, error: &RequestError) -> Self {
        let (status, body) = dialect.format().refusal(error);
        Self::json(status, &body)
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
    pub(crate) fn of(fault: &Fault, dialect: Dialect) -> Option<Self> {
        Some(match fault {
            Fault::Status {
                status,
                code,
                message,
                retry_after,
            } => {
                let trouble = Trouble {
                    wait: *retry_after,
                    ..Trouble::new(*status, code.as_deref(), message)
                };
                Self::error(dialect, &trouble)
            }
            Fault::Html { status } => Self::new(*status, "text/html", PAGE.into()),
            Fault::Raw {
                status,
                content_type,
                body,
            } => Self::new(*status, content_type, body.clone()),
            Fault::ErrorIn200 => {
                let trouble = Trouble::new(502, None, "the upstream provider failed");
                Self::json(200, &dialect.format().error_in_success(&trouble))
            }
            _ => return None,
        })
    }

    /// What the product's client of the dialect makes of it.
    pub(crate) fn read(&self, dialect: Dialect) -> Result<ChatResponse, Failure> {
        let headers = header_map(&self.headers);
        let format = dialect.format();
        let reply = Reply::new(format.server(), self.status, &self.body).with_headers(&headers);
        if (200..300).contains(&self.status) {
            format.decode_answer(&reply)
        } else {
            Err(classify(&reply))
        }
    }
}

/// Headers as a client reads them.
pub(crate) fn header_map(headers: &[(&'static str, String)]) -> HeaderMap {
    let named = headers.iter().filter_map(|(name, value)| {
        let value = HeaderValue::from_str(value).ok()?;
        Some((HeaderName::from_static(name), value))
    });
    named.collect()
}

/// The body of a whole answer as a fault makes it. `response` has the tokens
/// that come before the fault.
pub(crate) fn answer_body(
    response: &ChatResponse,
    fault: Option<&Fault>,
    dialect: Dialect,
) -> Vec<u8> {
    let format = dialect.format();
    let mut body = match fault {
        Some(Fault::FilteredAfter(_)) => format.answer(&ChatResponse {
            finish: Finish::ContentFilter,
            ..response.clone()
        }),
        _ => format.answer(response),
    };
    match fault {
        Some(Fault::EndAfter(_) | Fault::FalseDoneAfter(_)) => format.break_off(&mut body),
        Some(Fault::ErrorInStream { code, message, .. }) => {
            format.break_off(&mut body);
            let trouble = Trouble::in_answer(code.as_deref(), message);
            if let (Value::Object(body), Value::Object(error)) = (&mut body, format.error(&trouble))
            {
                body.extend(error);
            }
        }
        Some(Fault::NoChoices) => format.empty(&mut body),
        _ => {}
    }
    let mut bytes = body.to_string().into_bytes();
    if fault == Some(&Fault::TruncatedJson) {
        bytes.truncate(bytes.len() / 2);
    }
    bytes
}

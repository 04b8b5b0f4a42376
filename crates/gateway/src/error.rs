//! Errors as a caller of the OpenAI API reads them.

mod call;
mod client;

use crate::tickets::address::{address, put_location};
use axum::body::Body;
use bytes::Bytes;
use evenkeel_core::TicketId;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri, header};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::time::Duration;

/// Tells OpenAI's clients whether to try again by themselves.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Longest wait that is asked of a client. Official clients sleep as long as
/// `retry-after` says, whatever their own time-out (measured with the OpenAI
/// and Anthropic clients for Python, 2026-11); the true time is in the body.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(10);

/// An error answer.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: Cow<'static, str>,
    param: Option<Box<str>>,
    message: Box<str>,
    retry_after: Option<Duration>,
    /// What `x-should-retry` says, where it says anything.
    should_retry: Option<bool>,
    /// Where an upstream is behind it: the class or refusal that caused it.
    cause: Option<&'static str>,
    /// Of an exhausted roster: how each rung ended.
    rungs: Box<[Value]>,
    /// The ticket that the call became.
    ticket: Option<Box<TicketId>>,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code: Cow::Borrowed(code),
            param: None,
            message: message.into().into_boxed_str(),
            retry_after: None,
            should_retry: None,
            cause: None,
            rungs: Box::default(),
            ticket: None,
        }
    }

    /// Asks the client to wait, but never for long.
    fn set_retry_after(&mut self, wait: Duration) {
        if wait > LONGEST_RETRY_AFTER {
            self.should_retry = Some(false);
        }
        self.retry_after = Some(wait);
    }

    /// OpenAI's `type`.
    fn kind(&self) -> &'static str {
        match (self.status, &*self.code) {
            (_, "role_not_found") => "model_not_found",
            (_, "insufficient_quota") => "insufficient_quota",
            (StatusCode::UNAUTHORIZED, _) => "authentication_error",
            (StatusCode::TOO_MANY_REQUESTS, _) => "rate_limit_error",
            (status, _) if status.is_client_error() => "invalid_request_error",
            _ => "server_error",
        }
    }

    /// The body: OpenAI's error object.
    pub(crate) fn body(&self) -> Value {
        let mut error = Map::new();
        error.insert("message".to_owned(), (*self.message).into());
        error.insert("type".to_owned(), self.kind().into());
        error.insert("param".to_owned(), json!(self.param));
        error.insert("code".to_owned(), (*self.code).into());
        if let Some(wait) = self.retry_after {
            error.insert("retry_after_ms".to_owned(), whole_ms(wait).into());
        }
        if let Some(cause) = self.cause {
            error.insert("cause".to_owned(), cause.into());
        }
        if !self.rungs.is_empty() {
            error.insert("rungs".to_owned(), self.rungs.to_vec().into());
        }
        if let Some(ticket) = &self.ticket {
            let url = address(ticket);
            error.insert(
                "ticket".to_owned(),
                json!({ "id": ticket.as_str(), "url": url }),
            );
        }
        json!({ "error": error })
    }

    /// The code, as logs name it.
    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// The answer's status.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        if let Some(wait) = self.retry_after {
            let seconds = wait.min(LONGEST_RETRY_AFTER).as_secs_f64().ceil().max(1.0);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between 1 and 10"
            )]
            let seconds = seconds as u64;
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(ticket) = &self.ticket {
            put_location(&mut headers, ticket);
        }
        if let Some(retry) = self.should_retry {
            let value = if retry { "true" } else { "false" };
            headers.insert(SHOULD_RETRY, HeaderValue::from_static(value));
        }
        headers
    }

    /// The answer.
    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body().to_string()));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers();
        response
    }

    /// The answer in wire form, after which the connection closes.
    pub(crate) fn to_http(&self) -> Bytes {
        let body = self.body().to_string();
        let head: String = self
            .headers()
            .iter()
            .filter_map(|(name, value)| Some(format!("{name}: {}\r\n", value.to_str().ok()?)))
            .collect();
        Bytes::from(format!(
            "HTTP/1.1 {}\r\nconnection: close\r\n{head}content-length: {}\r\n\r\n{body}",
            self.status,
            body.len()
        ))
    }
}

/// Whole milliseconds.
fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The answer to a path that nothing is at.
pub(crate) async fn no_such_path(uri: Uri) -> Response<Body> {
    ApiError::no_such_path(uri.path()).into_response()
}

/// The answer to a method that a path does not take.
pub(crate) async fn method_not_allowed(method: Method, uri: Uri) -> Response<Body> {
    ApiError::method_not_allowed(method.as_str(), uri.path()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{Class, Failure};

    #[test]
    fn a_wait_is_told_in_whole_seconds_and_never_a_long_one() {
        for (wait_ms, header, retry) in [
            (1, "1", None),
            (1_200, "2", None),
            (10_000, "10", None),
            (10_001, "10", Some("false")),
        ] {
            let wait = Duration::from_millis(wait_ms);
            let failure = Failure::new(Class::RateLimited, "m").with_retry_after(wait);
            let response = ApiError::from_failure(&failure).into_response();
            assert_eq!(response.headers()[header::RETRY_AFTER], header);
            let told = response.headers().get(SHOULD_RETRY);
            assert_eq!(told.map(HeaderValue::as_bytes), retry.map(str::as_bytes));
        }
    }
}

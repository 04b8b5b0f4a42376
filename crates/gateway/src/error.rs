//! Errors as a caller of the OpenAI API reads them.

use axum::body::Body;
use bytes::Bytes;
use evenkeel_core::{Class, Failure};
use evenkeel_router::{CallError, CallErrorKind, RungEnd, RungEndKind};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
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
        }
    }

    /// The request itself; `param` names the field.
    pub(crate) fn bad_request(
        code: &'static str,
        message: impl Into<String>,
        param: Option<String>,
    ) -> Self {
        Self {
            param: param.map(String::into_boxed_str),
            ..Self::new(StatusCode::BAD_REQUEST, code, message)
        }
    }

    /// A header that cannot be read.
    pub(crate) fn bad_header(name: &str, message: impl Into<String>) -> Self {
        Self::bad_request("invalid_header", message, Some(name.to_owned()))
    }

    /// No key, or a wrong one.
    pub(crate) fn invalid_client_key() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "invalid_client_key",
            "no valid key: send one of `server.client_keys` as `Authorization: Bearer …` or `x-api-key`",
        )
    }

    /// No such address.
    pub(crate) fn no_such_path(path: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "unknown_path",
            format!("no such path: {}", shortened(path)),
        )
    }

    /// The address takes other methods.
    pub(crate) fn method_not_allowed(method: &str, path: &str) -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            format!("{} does not take {}", shortened(path), shortened(method)),
        )
    }

    /// The request names a role that is not configured.
    pub(crate) fn unknown_role<'a>(asked: &str, roles: impl Iterator<Item = &'a str>) -> Self {
        let close = close_names(asked, roles);
        let hint = if close.is_empty() {
            "GET /v1/models lists the roles".to_owned()
        } else {
            format!("did you mean {}?", close.join(", "))
        };
        Self {
            param: Some(Box::from("model")),
            ..Self::new(
                StatusCode::NOT_FOUND,
                "role_not_found",
                format!(
                    "`model` must name a role; there is none called `{}`; {hint}",
                    shortened(asked)
                ),
            )
        }
    }

    /// The body is larger than it may be.
    pub(crate) fn body_too_large(limit: usize) -> Self {
        Self {
            should_retry: Some(false),
            ..Self::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "body_too_large",
                format!("the request body is larger than {limit} bytes (server.max_body_bytes)"),
            )
        }
    }

    /// The body did not come in time.
    pub(crate) fn slow_body(limit: Duration) -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "request_timeout",
            format!(
                "the request body was not complete after {} ms",
                limit.as_millis()
            ),
        )
    }

    /// The head did not come in time.
    pub(crate) fn slow_head(limit: Duration) -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "request_timeout",
            format!(
                "the request head was not complete after {} ms",
                limit.as_millis()
            ),
        )
    }

    /// The connection broke within the body.
    pub(crate) fn broken_body() -> Self {
        Self::bad_request("incomplete_body", "the request body ended early", None)
    }

    /// A head that hyper refused with `status`.
    pub(crate) fn unreadable_head(status: u16, limit: usize) -> Self {
        match status {
            414 => Self::new(
                StatusCode::URI_TOO_LONG,
                "uri_too_long",
                "the request's address is too long",
            ),
            431 => Self::new(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "headers_too_large",
                format!("the request head has more than 100 fields or {limit} bytes"),
            ),
            _ => Self::bad_request("invalid_http", "the request is not valid HTTP/1.1", None),
        }
    }

    /// Work of ours ended without a result.
    pub(crate) fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal_error",
            "evenkeel could not finish this request",
        )
    }

    /// The server is shutting down.
    pub(crate) fn draining() -> Self {
        Self {
            retry_after: Some(Duration::from_secs(1)),
            ..Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "shutting_down",
                "this server is shutting down",
            )
        }
    }

    /// What a call of a role failed with.
    pub(crate) fn from_call(error: &CallError) -> Self {
        let mut answer = match &error.kind {
            CallErrorKind::Failed(failure) => Self::from_failure(failure),
            CallErrorKind::Exhausted(rungs) => Self::exhausted(error.to_string(), rungs),
            _ => Self::internal(),
        };
        if let Some(wait) = error.retry_after {
            answer.set_retry_after(wait);
        }
        answer
    }

    /// Why no answer was given, in one word: `roster_exhausted`, or the class
    /// of the failure.
    pub(crate) fn reason(&self) -> &'static str {
        match self.cause {
            Some(class) if self.rungs.is_empty() => class,
            _ => "roster_exhausted",
        }
    }

    fn exhausted(message: String, rungs: &[RungEnd]) -> Self {
        let mut answer = Self::new(StatusCode::SERVICE_UNAVAILABLE, "roster_exhausted", message);
        answer.should_retry = Some(false);
        answer.cause = rungs.first().map(|rung| rung.end.as_str());
        answer.rungs = rungs.iter().map(rung).collect();
        answer
    }

    /// What the only attempt, or a class that stops, failed with. The table is
    /// in the README.
    pub(crate) fn from_failure(failure: &Failure) -> Self {
        let (status, code) = status_and_code(failure.class);
        let mut answer = Self::new(status, code, failure.message.clone());
        answer.cause = Some(failure.class.as_str());
        match failure.class {
            Class::BadRequest => {
                if let Some(code) = &failure.code {
                    answer.code = Cow::Owned(code.clone());
                }
            }
            Class::QuotaExhausted | Class::Auth => answer.should_retry = Some(false),
            _ => {}
        }
        if let Some(wait) = failure.retry_after {
            answer.set_retry_after(wait);
        }
        answer
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

/// Status and code of a failure class.
fn status_and_code(class: Class) -> (StatusCode, &'static str) {
    match class {
        Class::Transient => (StatusCode::BAD_GATEWAY, "upstream_error"),
        Class::RateLimited => (StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded"),
        Class::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
        Class::QuotaExhausted => (StatusCode::TOO_MANY_REQUESTS, "insufficient_quota"),
        Class::Unreachable => (StatusCode::BAD_GATEWAY, "upstream_unreachable"),
        Class::Timeout => (StatusCode::GATEWAY_TIMEOUT, "upstream_timeout"),
        Class::ContextWindow => (StatusCode::BAD_REQUEST, "context_length_exceeded"),
        Class::ContentFilter => (StatusCode::BAD_REQUEST, "content_filter"),
        Class::Auth => (StatusCode::BAD_GATEWAY, "upstream_auth"),
        Class::ModelGone => (StatusCode::NOT_FOUND, "model_not_found"),
        Class::BadRequest => (StatusCode::BAD_REQUEST, "invalid_request"),
        Class::Malformed => (StatusCode::BAD_GATEWAY, "upstream_malformed"),
        Class::Semantic => (StatusCode::BAD_GATEWAY, "upstream_empty"),
        // Only a call whose caller has left ends so; the status is nginx's for it.
        Class::Cancelled => (client_closed_request(), "cancelled"),
    }
}

fn client_closed_request() -> StatusCode {
    StatusCode::from_u16(499).expect("499 is between 100 and 999")
}

/// One rung of an exhausted roster: its model and how it ended, no internals.
fn rung(rung: &RungEnd) -> Value {
    let model = rung.model.as_str();
    match &rung.end {
        RungEndKind::Failed(class) => json!({ "model": model, "class": class.as_str() }),
        RungEndKind::Refused(refusal) => {
            let mut said = json!({ "model": model, "refused": refusal.as_str() });
            if let Some(wait) = refusal.retry_in() {
                said["retry_in_ms"] = whole_ms(wait).into();
            }
            said
        }
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Least similarity (Jaro-Winkler, 0..1) for a name to be suggested.
const CLOSE: f64 = 0.8;

/// The up to three names most like `asked`, best first, quoted.
fn close_names<'a>(asked: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut close: Vec<(f64, &str)> = names
        .map(|name| (strsim::jaro_winkler(asked, name), name))
        .filter(|(likeness, _)| *likeness >= CLOSE)
        .collect();
    close.sort_by(|a, b| b.0.total_cmp(&a.0));
    close.truncate(3);
    close
        .into_iter()
        .map(|(_, name)| format!("`{name}`"))
        .collect()
}

/// Longest piece of a client's own text that is repeated to it, in characters.
const LONGEST_ECHO: usize = 120;

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(LONGEST_ECHO).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

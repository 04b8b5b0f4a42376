//! What can go wrong with a call.

use evenkeel_core::{Class, Failure, Phase};
use std::time::Duration;

/// A fault of a model or its server.
///
/// Each says what a client of the [`Upstream`](crate::Upstream) sees; the
/// in-process [`Simulated`](crate::Simulated) gives the failure that a client
/// of that socket would report. Positions count tokens.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// An HTTP error in OpenAI's shape.
    Status {
        /// HTTP status.
        status: u16,
        /// Machine code in the body.
        code: Option<String>,
        /// Text in the body.
        message: String,
        /// `Retry-After` (whole seconds, rounded up) and `retry-after-ms`.
        retry_after: Option<Duration>,
    },
    /// The request is read and nothing is ever answered.
    Hang,
    /// The port is closed and every open connection cut. Where only some
    /// models or calls of a server are to be refused, theirs is a reset.
    Refuse,
    /// The connection is reset (RST) before any byte of an answer.
    Reset,
    /// The connection is closed (FIN) before any byte of an answer.
    Close,
    /// So many tokens, then silence on an open connection. A whole answer
    /// sends its headers and no more.
    StallAfter(u32),
    /// So many tokens, then the connection is closed in the middle of the
    /// body. A whole answer's body is shorter than its `content-length`.
    CutAfter(u32),
    /// As [`Self::CutAfter`], with a reset.
    ResetAfter(u32),
    /// So many tokens, then the body ends in good order without a finish
    /// reason and without `[DONE]`. A whole answer has finish `null`.
    EndAfter(u32),
    /// So many tokens, then `[DONE]` without a finish reason. A whole answer
    /// has finish `null`.
    FalseDoneAfter(u32),
    /// The answer is complete, with its finish reason, and `[DONE]` is
    /// missing; most clients take it. Whole answers are not touched.
    NoDone,
    /// Comments of a stream (blank lines before a whole answer) and never any content.
    KeepAlivesOnly {
        /// Time between two of them.
        every: Duration,
    },
    /// So many tokens, then an error object as an event, then the end of the
    /// body. A whole answer has the error object beside its choices.
    ErrorInStream {
        /// Tokens before it.
        after: u32,
        /// Machine code.
        code: Option<String>,
        /// Text.
        message: String,
    },
    /// A page of a proxy.
    Html {
        /// HTTP status.
        status: u16,
    },
    /// Status 200 and an error object as the whole body, also where a stream
    /// was asked for.
    ErrorIn200,
    /// An answer with an empty list of choices.
    NoChoices,
    /// A complete answer without any content.
    Empty,
    /// A whole answer whose JSON breaks off, framed correctly. A stream has
    /// one such event between its first two tokens and is complete otherwise.
    TruncatedJson,
    /// A gzip body of about 260 kB that unpacks to 256 MiB of blanks.
    GzipBomb,
    /// An answer that never ends: tokens `inter_token` apart (zero: as fast as
    /// they are read). A whole answer is an endless body.
    Endless,
    /// These bytes as the body.
    Raw {
        /// HTTP status.
        status: u16,
        /// `content-type` header.
        content_type: String,
        /// The body.
        body: Vec<u8>,
    },
}

/// Message of the error objects that need one and have none of their own.
pub(crate) const PROVIDER_FAILED: &str = "the upstream provider failed";

impl Fault {
    /// An error status with OpenAI's usual code and wording for it.
    pub fn status(status: u16) -> Self {
        let (code, message) = match status {
            401 => (Some("invalid_api_key"), "incorrect API key provided"),
            402 => (Some("insufficient_quota"), "insufficient balance"),
            404 => (Some("model_not_found"), "the model does not exist"),
            408 | 504 => (None, "the request timed out"),
            429 => (Some("rate_limit_exceeded"), "rate limit reached"),
            503 | 529 => (None, "the engine is currently overloaded"),
            500.. => (None, "the server had an error"),
            _ => (None, "the request is not valid"),
        };
        Self::Status {
            status,
            code: code.map(str::to_owned),
            message: message.to_owned(),
            retry_after: None,
        }
    }

    /// 429 that asks for this wait.
    pub fn rate_limited(wait: Duration) -> Self {
        Self::Status {
            status: 429,
            code: Some("rate_limit_exceeded".to_owned()),
            message: "rate limit reached".to_owned(),
            retry_after: Some(wait),
        }
    }

    /// 400 because the input is longer than the context window.
    pub fn context_window() -> Self {
        Self::Status {
            status: 400,
            code: Some("context_length_exceeded".to_owned()),
            message: "this model's maximum context length is exceeded".to_owned(),
            retry_after: None,
        }
    }

    /// How a call that has this fault begins, as an in-process caller sees it.
    pub(crate) fn opening(&self, stream: bool) -> Opening {
        let fail = |class, message: &str| Opening::Fail(Failure::new(class, message));
        match self {
            Self::Status {
                status,
                code,
                message,
                retry_after,
            } => {
                let mut failure = classified(*status, code.as_deref(), message);
                failure.retry_after = *retry_after;
                Opening::Fail(failure)
            }
            Self::Hang => Opening::Never,
            Self::Refuse => fail(Class::Unreachable, "connection refused"),
            Self::Reset => fail(Class::Transient, "connection reset before an answer"),
            Self::Close => fail(Class::Transient, "connection closed before an answer"),
            Self::Html { status } => Opening::Fail(page(*status)),
            Self::Raw { status, .. } if *status >= 300 => Opening::Fail(page(*status)),
            Self::Raw { .. } => fail(Class::Malformed, "the body is no chat completion"),
            Self::ErrorIn200 => Opening::Fail(classified(502, None, PROVIDER_FAILED)),
            Self::NoChoices => fail(Class::Malformed, "the answer has no choices"),
            Self::GzipBomb => fail(Class::Malformed, "the unpacked body is too long"),
            Self::StallAfter(_) | Self::KeepAlivesOnly { .. } | Self::Endless if !stream => {
                Opening::Never
            }
            Self::TruncatedJson if !stream => fail(Class::Malformed, "the body is cut JSON"),
            Self::StallAfter(_)
            | Self::CutAfter(_)
            | Self::ResetAfter(_)
            | Self::EndAfter(_)
            | Self::FalseDoneAfter(_)
            | Self::NoDone
            | Self::KeepAlivesOnly { .. }
            | Self::ErrorInStream { .. }
            | Self::Empty
            | Self::TruncatedJson
            | Self::Endless => Opening::Accept,
        }
    }
}

/// How a call begins.
#[derive(Debug)]
pub(crate) enum Opening {
    /// The request is accepted; its script says what follows.
    Accept,
    /// It fails before anything of an answer.
    Fail(Failure),
    /// Nothing ever comes.
    Never,
}

/// The failure of an error page.
fn page(status: u16) -> Failure {
    if status < 300 {
        return Failure::new(Class::Malformed, "the body is a page, not JSON").with_status(status);
    }
    classified(status, None, "the server answered with a page")
}

/// The failure that a client reports for an error status in OpenAI's shape.
pub(crate) fn classified(status: u16, code: Option<&str>, message: &str) -> Failure {
    let class = match (status, code) {
        (_, Some("insufficient_quota")) | (402, _) => Class::QuotaExhausted,
        (_, Some("content_filter" | "content_policy_violation")) => Class::ContentFilter,
        (_, Some("context_length_exceeded")) | (413, _) => Class::ContextWindow,
        (_, Some("model_not_found")) | (410, _) => Class::ModelGone,
        (401 | 403, _) => Class::Auth,
        (_, Some("overloaded")) | (503 | 529, _) => Class::Overloaded,
        (408 | 504, _) => Class::Timeout,
        (429, _) => Class::RateLimited,
        (409, _) => Class::Transient,
        (s, _) if s >= 500 => Class::Transient,
        _ => Class::BadRequest,
    };
    let mut failure = Failure::new(class, message).with_status(status);
    failure.code = code.map(str::to_owned);
    if class == Class::Timeout {
        failure.phase = Some(Phase::Upstream);
    }
    failure
}

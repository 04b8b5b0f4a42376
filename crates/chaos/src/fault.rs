//! What can go wrong with a call.

use std::time::Duration;

/// A fault of a model or its server.
///
/// Each says what a client of the [`Upstream`](crate::Upstream) sees, in
/// `OpenAI`'s words; the other dialects have the same in theirs. `[DONE]` is
/// Anthropic's `message_stop`, and nothing in Gemini's format, which ends with
/// the body. The in-process [`Simulated`](crate::Simulated) gives what the
/// product's client of the dialect makes of it. Positions count tokens.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// An HTTP error in the dialect's shape.
    Status {
        /// HTTP status.
        status: u16,
        /// Machine code. Those of [`Fault::status`] and its neighbours are
        /// `OpenAI`'s, and become the type, code or wording that another
        /// dialect has for the same; any other is passed on.
        code: Option<String>,
        /// Text in the body. Where a dialect tells a full window by its
        /// wording alone, that stands instead.
        message: String,
        /// `Retry-After` in whole seconds, rounded up, beside it
        /// `retry-after-ms` from `OpenAI`; Gemini has a `RetryInfo` instead.
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
    /// Signs of life of a stream (comments, pings, with Gemini blank lines;
    /// before a whole answer blank lines) and never any content.
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
    /// So many tokens, then the provider's content filter ends the answer: a
    /// finish reason of its own, Anthropic's `refusal`. Mistral has none and
    /// says `stop`.
    FilteredAfter(u32),
    /// A page of a proxy.
    Html {
        /// HTTP status.
        status: u16,
    },
    /// Status 200 and an error object as the whole body, also where a stream
    /// was asked for.
    ErrorIn200,
    /// An answer with an empty list of choices or candidates; Anthropic's
    /// without content.
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
    /// These bytes as the body. In process, where a stream was asked for,
    /// a body that is a sound whole answer is [`Class::Malformed`].
    ///
    /// [`Class::Malformed`]: evenkeel_core::Class::Malformed
    Raw {
        /// HTTP status.
        status: u16,
        /// `content-type` header.
        content_type: String,
        /// The body.
        body: Vec<u8>,
    },
}

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

    /// 429 because the account's or the day's quota is used up; Mistral says 402.
    pub fn quota_exhausted() -> Self {
        Self::Status {
            status: 429,
            code: Some("insufficient_quota".to_owned()),
            message: "you exceeded your current quota".to_owned(),
            retry_after: None,
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
}

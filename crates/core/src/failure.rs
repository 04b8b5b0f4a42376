//! What can go wrong with an attempt, and what the class of it means.

use crate::RateLimits;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A boxed error that can be shared between trail and caller.
pub type BoxError = Arc<dyn std::error::Error + Send + Sync>;

/// Failure classes. The class decides what happens next, never the bare status.
///
/// Outside Rust they are written in `snake_case` ([`Class::as_str`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// 500, 502, 409, other 5xx, a reset or an early end.
    Transient,
    /// 429: this key's rate limit.
    RateLimited,
    /// 503, 529: the provider lacks capacity.
    Overloaded,
    /// 402, quota and billing codes: waiting does not help before a reset.
    QuotaExhausted,
    /// DNS, refused connection, TLS, no route.
    Unreachable,
    /// One of our own clocks, 408 or 504.
    Timeout,
    /// The input does not fit the model's context window.
    ContextWindow,
    /// The provider refused the content.
    ContentFilter,
    /// 401, 403: the credential is bad or not allowed.
    Auth,
    /// The model does not exist (any more).
    ModelGone,
    /// 400, 422: the request itself.
    BadRequest,
    /// The answer is not the wire format.
    Malformed,
    /// Valid wire format, useless answer: empty, or fails a schema or validator.
    Semantic,
    /// The caller left, or a hedge lost.
    Cancelled,
}

/// Which health counts a failure class moves (breakers and the semantic count).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountsOn {
    /// No count: the permit is given back unused.
    Nothing,
    /// The model's breaker.
    Model,
    /// The breakers of model and provider.
    ModelAndProvider,
    /// The semantic count of role and model.
    Semantic,
}

impl Class {
    /// Every class, in the order of the documentation.
    pub const ALL: [Self; 14] = [
        Self::Transient,
        Self::RateLimited,
        Self::Overloaded,
        Self::QuotaExhausted,
        Self::Unreachable,
        Self::Timeout,
        Self::ContextWindow,
        Self::ContentFilter,
        Self::Auth,
        Self::ModelGone,
        Self::BadRequest,
        Self::Malformed,
        Self::Semantic,
        Self::Cancelled,
    ];

    /// The name used in config, headers, events and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::QuotaExhausted => "quota_exhausted",
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::ContextWindow => "context_window",
            Self::ContentFilter => "content_filter",
            Self::Auth => "auth",
            Self::ModelGone => "model_gone",
            Self::BadRequest => "bad_request",
            Self::Malformed => "malformed",
            Self::Semantic => "semantic",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether it is the models' failure and not the request's: another time, or
    /// another model, the same request may be answered.
    pub const fn is_of_models(self) -> bool {
        match self {
            Self::Transient
            | Self::RateLimited
            | Self::Overloaded
            | Self::QuotaExhausted
            | Self::Unreachable
            | Self::Timeout
            | Self::Auth
            | Self::ModelGone
            | Self::Malformed
            | Self::Semantic => true,
            Self::ContextWindow | Self::ContentFilter | Self::BadRequest | Self::Cancelled => false,
        }
    }

    /// Which health counts this class moves. Rate limits, quota, credentials,
    /// bad requests, overflow and filters say nothing about health; a missing
    /// model is a hold, not a failure of its health.
    pub const fn counts_on(self) -> CountsOn {
        match self {
            Self::Transient | Self::Overloaded | Self::Timeout | Self::Malformed => CountsOn::Model,
            Self::Unreachable => CountsOn::ModelAndProvider,
            Self::Semantic => CountsOn::Semantic,
            Self::RateLimited
            | Self::QuotaExhausted
            | Self::ContextWindow
            | Self::ContentFilter
            | Self::Auth
            | Self::ModelGone
            | Self::BadRequest
            | Self::Cancelled => CountsOn::Nothing,
        }
    }

    /// How far a failure of this class reaches when nothing says otherwise.
    pub const fn usual_scope(self) -> Scope {
        match self {
            Self::Unreachable | Self::Auth => Scope::Provider,
            Self::Transient
            | Self::RateLimited
            | Self::Overloaded
            | Self::QuotaExhausted
            | Self::Timeout
            | Self::ModelGone
            | Self::Malformed => Scope::Model,
            Self::ContextWindow
            | Self::ContentFilter
            | Self::BadRequest
            | Self::Semantic
            | Self::Cancelled => Scope::Request,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How far a failure reaches: a provider-scope failure skips the provider's other rungs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Only this request.
    Request,
    /// Every request to this model.
    Model,
    /// Every model of this provider.
    Provider,
}

/// Which clock ended an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// `connect_ms`.
    Connect,
    /// `first_token_ms`.
    FirstToken,
    /// `stall_ms` (also `min_tokens_per_s`).
    Stall,
    /// `deadline_ms`.
    Deadline,
    /// The provider's own time-out (408, 504).
    Upstream,
}

impl Phase {
    /// The name used outside Rust.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::FirstToken => "first_token",
            Self::Stall => "stall",
            Self::Deadline => "deadline",
            Self::Upstream => "upstream",
        }
    }
}

/// One attempt's failure: its class, how far it reaches, and what is known about it.
///
/// `message` is short, one line, free of keys and of markup; it never holds
/// prompt text of ours, but a provider may quote some of it, so it is for the
/// caller and not for telemetry.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{class}: {message}")]
#[non_exhaustive]
pub struct Failure {
    /// What kind of failure it is.
    pub class: Class,
    /// How far it reaches.
    pub scope: Scope,
    /// Which clock, for [`Class::Timeout`].
    pub phase: Option<Phase>,
    /// The wait the provider asked for; for a quota, the time until its reset.
    pub retry_after: Option<Duration>,
    /// HTTP status, where one was received.
    pub status: Option<u16>,
    /// The provider's machine code, where one was received.
    pub code: Option<String>,
    /// The field of the request that the provider names as the cause.
    pub param: Option<Box<str>>,
    /// One line for the caller.
    pub message: String,
    /// False where the provider forbids asking the same model again
    /// (`x-should-retry: false`).
    pub same_model_may_help: bool,
    /// True where a [`Class::BadRequest`] says that this model lacks what the
    /// request needs (tools, images, schema, a parameter): another may have it.
    pub capability_gap: bool,
    /// True where a [`Class::BadRequest`] refuses what this side wrote and the
    /// caller did not say so, and the provider has learned to write it otherwise:
    /// the same model may be asked once more.
    pub own_words: bool,
    /// The rate limits that came with it, where any were reported.
    pub rate_limits: Option<Box<RateLimits>>,
    /// The error below, where there is one.
    #[source]
    pub source: Option<BoxError>,
}

impl Failure {
    /// A failure of `class` with its usual scope.
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        Self {
            class,
            scope: class.usual_scope(),
            phase: None,
            retry_after: None,
            status: None,
            code: None,
            param: None,
            message: message.into(),
            same_model_may_help: true,
            capability_gap: false,
            own_words: false,
            rate_limits: None,
            source: None,
        }
    }

    /// A time-out of our own clock `phase`.
    pub fn timeout(phase: Phase, message: impl Into<String>) -> Self {
        let mut failure = Self::new(Class::Timeout, message);
        failure.phase = Some(phase);
        failure
    }

    /// With the error below as source.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// With the HTTP status it came with.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// With another scope than its class usually has.
    #[must_use]
    pub fn with_scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// With the wait the provider asked for.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the README, row by row (case C194).
    #[test]
    fn each_class_counts_where_the_table_says() {
        let expected = [
            (Class::Transient, CountsOn::Model),
            (Class::RateLimited, CountsOn::Nothing),
            (Class::Overloaded, CountsOn::Model),
            (Class::QuotaExhausted, CountsOn::Nothing),
            (Class::Unreachable, CountsOn::ModelAndProvider),
            (Class::Timeout, CountsOn::Model),
            (Class::ContextWindow, CountsOn::Nothing),
            (Class::ContentFilter, CountsOn::Nothing),
            (Class::Auth, CountsOn::Nothing),
            (Class::ModelGone, CountsOn::Nothing),
            (Class::BadRequest, CountsOn::Nothing),
            (Class::Malformed, CountsOn::Model),
            (Class::Semantic, CountsOn::Semantic),
            (Class::Cancelled, CountsOn::Nothing),
        ];
        for (class, counts) in expected {
            assert_eq!(class.counts_on(), counts, "{class}");
        }
        assert_eq!(expected.len(), Class::ALL.len());
    }

    #[test]
    fn only_unreachable_and_auth_reach_the_whole_provider() {
        let wide: Vec<Class> = Class::ALL
            .into_iter()
            .filter(|c| c.usual_scope() == Scope::Provider)
            .collect();
        assert_eq!(wide, [Class::Unreachable, Class::Auth]);
    }
}

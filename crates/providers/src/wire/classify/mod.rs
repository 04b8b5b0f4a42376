//! Tells the class of a failure from what a provider sent.
//!
//! One ordered list of rules for every provider; the first that matches wins.
//! The order of trust is numeric status and machine code, then the error's
//! type, then structured details, then headers; wording is used only where no
//! machine marker exists.

mod credit;
mod detail;
mod overflow;
mod rules;
mod wait;
mod wording;

use crate::wire::{Server, excerpt, rate_limits};
use detail::Detail;
use evenkeel_core::{Class, Failure, Phase, RateLimits, Scope};
use http::HeaderMap;
use secrecy::SecretString;
use std::time::{Duration, SystemTime};

pub(in crate::wire) use wait::{reset, until};

/// Above this wait a rate limit is a used-up quota: no caller waits that long.
const MAX_RATE_LIMIT_WAIT: Duration = Duration::from_secs(300);

/// What a provider sent instead of an answer.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    server: Server,
    status: u16,
    headers: Option<&'a HeaderMap>,
    body: &'a [u8],
    now: Option<SystemTime>,
    key: Option<&'a SecretString>,
}

impl<'a> Reply<'a> {
    /// A reply with this HTTP status and body.
    pub fn new(server: Server, status: u16, body: &'a [u8]) -> Self {
        Self {
            server,
            status,
            headers: None,
            body,
            now: None,
            key: None,
        }
    }

    /// An error inside an answer that began as a success: an event of a
    /// stream, or the body of a 200.
    pub fn in_answer(server: Server, body: &'a [u8]) -> Self {
        Self::new(server, 200, body)
    }

    /// With the response's headers.
    #[must_use]
    pub fn with_headers(mut self, headers: &'a HeaderMap) -> Self {
        self.headers = Some(headers);
        self
    }

    /// With the time of day, which waits given as a date are counted from.
    /// Without it they are not read.
    #[must_use]
    pub fn at(mut self, now: SystemTime) -> Self {
        self.now = Some(now);
        self
    }

    /// With the key that was sent, so that it is masked where it is echoed.
    #[must_use]
    pub fn with_key(mut self, key: Option<&'a SecretString>) -> Self {
        self.key = key;
        self
    }

    pub(crate) fn server(&self) -> Server {
        self.server
    }

    pub(crate) fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The same reply around another body.
    pub(crate) fn with_body(mut self, body: &'a [u8]) -> Self {
        self.body = body;
        self
    }

    /// A failure of `class` of this reply that no rule decided.
    pub(crate) fn failure(&self, class: Class, message: &str) -> Failure {
        Failure::new(class, excerpt::excerpt(message, self.key)).with_status(self.status)
    }

    fn rate_limits(&self) -> Option<RateLimits> {
        rate_limits(self.headers?, self.now?)
    }

    fn header(&self, name: &str) -> Option<&'a str> {
        self.headers?.get(name)?.to_str().ok().map(str::trim)
    }
}

/// Classifies a reply that is a failure.
pub fn classify(reply: &Reply<'_>) -> Failure {
    let detail = Detail::read(reply);
    let wait = wait::asked(reply, &detail);
    let class = rules::class(reply.server, &detail, wait);
    let wait = wait.or_else(|| {
        (class == Class::RateLimited)
            .then(|| wait::until_reset(reply))
            .flatten()
    });
    let mut failure = Failure::new(class, message(reply, &detail));
    failure.scope = rules::scope(reply.server, class, &detail);
    failure.phase = (class == Class::Timeout).then_some(Phase::Upstream);
    failure.retry_after = wait;
    failure.status = Some(detail.status.unwrap_or(reply.status));
    let status = failure.status.map(|s| s.to_string());
    failure.code = [&detail.code, &detail.error_code, &detail.kind]
        .into_iter()
        // A code that repeats the status says nothing.
        .filter(|code| Some(*code) != status.as_ref())
        .find_map(|code| excerpt::code(code));
    failure.param = excerpt::path(&detail.param).map(String::into_boxed_str);
    failure.same_model_may_help = reply.header("x-should-retry") != Some("false");
    failure.rate_limits = reply.rate_limits().map(Box::new);
    failure.capability_gap = class == Class::BadRequest && rules::lacks_something(&detail);
    failure
}

fn message(reply: &Reply<'_>, detail: &Detail) -> String {
    let said = excerpt::excerpt(&detail.message, reply.key);
    match (said.is_empty(), detail.is_json) {
        (true, _) => format!("HTTP {} without an explanation", reply.status),
        (false, true) => said,
        (false, false) => format!("HTTP {}: {said}", reply.status),
    }
}

/// How far a quota reaches: to the whole account unless a per-model counter
/// is named.
fn quota_scope(detail: &Detail) -> Scope {
    if rules::is_account_quota(detail) {
        Scope::Provider
    } else {
        Scope::Model
    }
}

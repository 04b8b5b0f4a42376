//! Calls that got no answer.

use super::{ApiError, whole_ms};
use crate::demand::header_of;
use evenkeel_core::{Class, Failure, Refusal, TicketError, TicketId};
use evenkeel_router::{CallError, CallErrorKind, RungEnd, RungEndKind};
use http::StatusCode;
use serde_json::{Value, json};
use std::borrow::Cow;

impl ApiError {
    /// What a call of a role failed with.
    pub(crate) fn from_call(error: &CallError) -> Self {
        let mut answer = match &error.kind {
            CallErrorKind::Failed(failure) => Self::from_failure(failure),
            CallErrorKind::Exhausted(rungs) => Self::exhausted(error.to_string(), rungs),
            CallErrorKind::DegradedInput { .. } => Self::degraded_input(error.to_string()),
            CallErrorKind::Queued { ticket, cause, .. } => Self::queued(ticket, cause),
            CallErrorKind::NotKept { error, cause } => Self::not_kept(error, cause),
            _ => Self::internal(),
        };
        if let Some(wait) = error.retry_after {
            answer.set_retry_after(wait);
        }
        answer
    }

    fn exhausted(message: String, rungs: &[RungEnd]) -> Self {
        let mut answer = Self::new(StatusCode::SERVICE_UNAVAILABLE, "roster_exhausted", message);
        answer.should_retry = Some(false);
        answer.cause = rungs.first().map(|rung| rung.end.told());
        answer.rungs = rungs.iter().map(rung).collect();
        answer
    }

    /// The role does not build on what the call rests on. Not 409, which official
    /// clients send again by themselves.
    fn degraded_input(message: String) -> Self {
        Self {
            should_retry: Some(false),
            cause: Some("degraded_input"),
            ..Self::new(StatusCode::FAILED_DEPENDENCY, "degraded_input", message)
        }
    }

    /// Kept, for a client that has not said that it knows tickets: not an answer,
    /// and nothing that it should send again by itself.
    fn queued(ticket: &TicketId, cause: &CallErrorKind) -> Self {
        let message = format!("{cause}; kept as ticket {ticket}, which is asked again");
        let mut answer = Self::new(StatusCode::SERVICE_UNAVAILABLE, "queued", message);
        answer.should_retry = Some(false);
        answer.cause = Some(cause_of(cause));
        answer.ticket = Some(Box::new(ticket.clone()));
        answer
    }

    /// The ticket of the request's idempotency key has no answer yet.
    pub(crate) fn still_queued(ticket: &TicketId) -> Self {
        let message = format!("ticket {ticket} of this idempotency key has no answer yet");
        let mut answer = Self::new(StatusCode::SERVICE_UNAVAILABLE, "queued", message);
        answer.should_retry = Some(false);
        answer.ticket = Some(Box::new(ticket.clone()));
        answer
    }

    fn not_kept(error: &TicketError, cause: &CallErrorKind) -> Self {
        if let TicketError::KeyReused { .. } = error {
            return Self::key_reused(error);
        }
        // What the disk says is for the log.
        let message = format!("{cause}; it was not kept: {error}");
        let mut answer = Self::new(StatusCode::SERVICE_UNAVAILABLE, "ticket_not_kept", message);
        answer.cause = Some(cause_of(cause));
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
                let param = failure.param.as_deref();
                answer.param = param.map(|name| Box::from(header_of(name)));
            }
            Class::QuotaExhausted | Class::Auth => answer.should_retry = Some(false),
            _ => {}
        }
        if let Some(wait) = failure.retry_after {
            answer.set_retry_after(wait);
        }
        answer
    }
}

/// The class or refusal that caused the end of a call, in one word.
fn cause_of(kind: &CallErrorKind) -> &'static str {
    match kind {
        CallErrorKind::Failed(failure) => failure.class.as_str(),
        CallErrorKind::Exhausted(rungs) => {
            rungs.first().map_or("roster_exhausted", |r| r.end.told())
        }
        _ => "internal",
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
        Class::Semantic => (StatusCode::BAD_GATEWAY, "upstream_invalid"),
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
            if let Refusal::BelowCapability { capability, least } = refusal {
                said["capability_score"] = (*capability).into();
                said["least_capability"] = (*least).into();
            }
            if let Some(wait) = refusal.retry_in() {
                said["retry_in_ms"] = whole_ms(wait).into();
            }
            said
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the README is the one users program against.
    #[test]
    fn the_readme_tells_status_and_code_of_every_class() {
        let readme = include_str!("../../README.md");
        for class in Class::ALL.into_iter().filter(|c| *c != Class::Cancelled) {
            let error = ApiError::from_failure(&Failure::new(class, "m"));
            let row = format!("{}", error.status.as_u16());
            let told = readme.lines().any(|line| {
                line.contains(&format!("| {row} |")) && line.contains(&format!("`{}`", error.code))
            });
            assert!(told, "{class}: {row} {}", error.code);
            assert_eq!(error.body()["error"]["cause"], class.as_str());
        }
    }
}

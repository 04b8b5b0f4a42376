//! The ordered rules. The numbers in the comments are the order.

use super::{Detail, MAX_RATE_LIMIT_WAIT, credit, overflow, quota_scope, wording};
use crate::wire::Server;
use evenkeel_core::{Class, Scope};
use std::time::Duration;

/// The class; the first rule that matches decides.
pub(super) fn class(server: Server, d: &Detail, wait: Option<Duration>) -> Class {
    let message = d.message.to_lowercase();
    settled_by_marker(server, d, wait)
        .or_else(|| quota(d, &message, wait))
        .or_else(|| content(server, d, &message))
        .or_else(|| identity(d, &message))
        .or_else(|| capacity(server, d, &message))
        .unwrap_or_else(|| by_status(d, &message))
}

/// 1, 2: encryption keys, payment.
fn settled_by_marker(server: Server, d: &Detail, wait: Option<Duration>) -> Option<Class> {
    if d.error_code.starts_with("cmek_") {
        return Some(match d.status {
            Some(400) => Class::Auth,
            _ => Class::Transient,
        });
    }
    let in_flight = d.limit_source == "openrouter_in_flight_budget"
        && server == Server::OpenRouter
        && wait.is_some_and(|w| !w.is_zero());
    match d.status {
        Some(402) if in_flight => Some(Class::RateLimited),
        Some(402) => Some(Class::QuotaExhausted),
        _ => None,
    }
}

/// 3, 4: used-up quota.
fn quota(d: &Detail, message: &str, wait: Option<Duration>) -> Option<Class> {
    let per_day = d.status == Some(429)
        && (wording::names_a_day(message)
            || d.quotas
                .iter()
                .any(|q| wording::names_a_day(&q.to_lowercase()))
            || wait.is_some_and(|w| w > MAX_RATE_LIMIT_WAIT));
    (per_day || is_account_quota(d)).then_some(Class::QuotaExhausted)
}

/// Rule 3, and payment: the account as a whole is out of credit.
pub(super) fn is_account_quota(d: &Detail) -> bool {
    d.status == Some(402)
        || credit::is_used_up(d)
        || d.code.starts_with("billing_")
        || d.kind == "billing_error"
        || matches!(
            d.error_code.as_str(),
            "enforced_spend_limit_reached" | "contract_spend_limit_reached"
        )
        || wording::says_no_credit(&d.message.to_lowercase())
        || credit::says_used_up(&d.message.to_lowercase())
}

/// 5, 6, 7: content filters, overflow, output the provider itself found broken.
fn content(server: Server, d: &Detail, message: &str) -> Option<Class> {
    let filtered = matches!(
        d.code.as_str(),
        "content_filter" | "content_policy_violation" | "invalid_prompt"
    ) || d.inner_code == "ResponsibleAIPolicyViolation"
        || (server == Server::OpenRouter && d.status == Some(403) && d.moderated);
    // Before the status rules: llama.cpp sends an overflow as 500.
    let overflow = overflow::is_overflow(d, message);
    if filtered {
        Some(Class::ContentFilter)
    } else if overflow {
        Some(Class::ContextWindow)
    } else {
        matches!(d.code.as_str(), "tool_use_failed" | "json_validate_failed")
            .then_some(Class::Malformed)
    }
}

/// 8, 9: the model is gone, the credential is refused.
fn identity(d: &Detail, message: &str) -> Option<Class> {
    let gone = matches!(
        d.code.as_str(),
        "model_not_found" | "model_decommissioned" | "DeploymentNotFound" | "unknown_model"
    ) || d.kind == "invalid_model"
        || d.status == Some(410)
        || wording::says_no_such_model(message)
        || (d.status == Some(404)
            && (wording::starts_with_model(message) || wording::says_model_is_missing(message)));
    if gone {
        return Some(Class::ModelGone);
    }
    let refused = matches!(d.status, Some(401 | 403))
        || matches!(d.kind.as_str(), "authentication_error" | "permission_error")
        || d.reasons.iter().any(|r| r == "API_KEY_INVALID")
        || matches!(d.grpc.as_str(), "UNAUTHENTICATED" | "PERMISSION_DENIED")
        || (d.grpc == "FAILED_PRECONDITION" && message.contains("location"))
        || d.error_code == "organization_on_hold";
    refused.then_some(Class::Auth)
}

/// 10 to 13: nobody home, overload, time-outs, rate limits.
fn capacity(server: Server, d: &Detail, message: &str) -> Option<Class> {
    let unreachable = matches!(
        (server, d.status),
        (Server::OpenRouter, Some(503)) | (Server::Ollama, Some(502))
    ) || message.starts_with("enginecore");
    let overloaded = matches!(d.status, Some(498 | 503 | 529))
        || matches!(
            d.kind.as_str(),
            "overloaded_error"
                | "service_tier_capacity_exceeded"
                | "unavailable_error"
                | "engine_overloaded_error"
                | "service_unavailable_error"
        )
        || matches!(
            d.code.as_str(),
            "engine_overloaded" | "server_is_overloaded" | "server_overloaded"
        )
        || message.contains("engine is currently overloaded")
        || d.grpc == "UNAVAILABLE";
    let timed_out = matches!(d.status, Some(408 | 504))
        || matches!(d.kind.as_str(), "timeout_error" | "timeout")
        || d.grpc == "DEADLINE_EXCEEDED";
    if unreachable {
        Some(Class::Unreachable)
    } else if overloaded {
        Some(Class::Overloaded)
    } else if timed_out {
        Some(Class::Timeout)
    } else {
        (d.status == Some(429)).then_some(Class::RateLimited)
    }
}

/// 14 to 16: what is left. Inside an answer an error without any known marker
/// is the provider's trouble, not the request's, and so is what stands between
/// it and us: a connection that led astray (421), a dependency that failed
/// (424), a replay that was feared (425), a request that somebody there gave up
/// (499), which is not our caller's leaving. A redirect is no wire format.
fn by_status(d: &Detail, message: &str) -> Class {
    match d.status {
        Some(501) => Class::BadRequest,
        Some(500) if message.contains("jinja exception") => Class::BadRequest,
        Some(409 | 421 | 424 | 425 | 499 | 500..) | None => Class::Transient,
        Some(400..) => Class::BadRequest,
        Some(_) => Class::Malformed,
    }
}

/// How far a failure reaches.
pub(super) fn scope(server: Server, class: Class, d: &Detail) -> Scope {
    match class {
        Class::QuotaExhausted => quota_scope(d),
        // A router of models lacks a backend for this one, not for all.
        Class::Unreachable if matches!(server, Server::OpenRouter | Server::Ollama) => Scope::Model,
        _ => class.usual_scope(),
    }
}

/// Whether a refused request may suit another model: a parameter, a tool, an
/// image, a schema, a chat template; or a path that only this server lacks.
pub(super) fn lacks_something(d: &Detail) -> bool {
    matches!(
        d.code.as_str(),
        "unsupported_parameter" | "unsupported_value" | "unknown_parameter"
    ) || d.kind == "not_supported_error"
        || matches!(d.status, Some(404 | 405 | 501))
        || wording::says_unsupported(&d.message.to_lowercase())
}

//! What an answer says of itself beside its text: headers and the meta object.

use crate::clock::unix_seconds;
use evenkeel_core::{ChatResponse, Meta, Trail, TrailStep};
use evenkeel_providers::wire::openai::encode_response;
use evenkeel_router::CallError;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use std::time::Duration;

const MODEL: HeaderName = HeaderName::from_static("x-evenkeel-model");
const ROLE: HeaderName = HeaderName::from_static("x-evenkeel-role");
const RUNG: HeaderName = HeaderName::from_static("x-evenkeel-rung");
const ROUTE: HeaderName = HeaderName::from_static("x-evenkeel-route");
const DEGRADED: HeaderName = HeaderName::from_static("x-evenkeel-degraded");
const REASON: HeaderName = HeaderName::from_static("x-evenkeel-reason");
const ATTEMPTS: HeaderName = HeaderName::from_static("x-evenkeel-attempts");
const LATENCY_ADDED: HeaderName = HeaderName::from_static("x-evenkeel-latency-added-ms");
const COST: HeaderName = HeaderName::from_static("x-evenkeel-cost-usd");
const OVERHEAD: HeaderName = HeaderName::from_static("x-evenkeel-overhead-ms");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-evenkeel-request-id");
/// The name under which OpenAI's clients look for a request's id.
const OPENAI_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Milliseconds with microseconds behind the point.
pub(crate) fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// US dollars, to a billionth: what a token of the cheapest model costs is more.
pub(crate) fn usd(dollars: f64) -> f64 {
    (dollars * 1e9).round() / 1e9
}

/// The object under `server.meta_key`.
pub(crate) fn meta_object(meta: &Meta) -> Value {
    json!({
        "provider": meta.provider(),
        "model_id": meta.model_id.as_str(),
        "rung": meta.rung,
        "route": meta.route.as_str(),
        "capability_score": meta.capability_score,
        "degraded": meta.degraded,
        "fallback_reason": meta.fallback_reason,
        "notice": meta.notice,
        "attempts": meta.attempts,
        "latency_added_ms": ms(meta.latency_added),
        "adapted": meta.adapted,
        "cost_usd": meta.cost_usd.map(usd),
        "added_cost_usd": meta.added_cost_usd.map(usd),
        "cost_is_estimate": meta.cost_is_estimate,
    })
}

/// A whole answer in the client's wire format, with its meta object. `id` names
/// it where the provider did not.
pub(crate) fn completion(
    mut response: ChatResponse,
    meta: &Meta,
    meta_key: &str,
    id: &str,
) -> Value {
    if response.id.is_empty() {
        response.id = format!("chatcmpl-{id}");
    }
    if response.created == 0 {
        response.created = unix_seconds();
    }
    let mut body = encode_response(&response, meta.model_id.as_str());
    body[meta_key] = meta_object(meta);
    body
}

/// Writes who answered, and how that came about.
pub(crate) fn put_meta(headers: &mut HeaderMap, meta: &Meta, overhead: Duration) {
    put(headers, MODEL, meta.model_id.as_str());
    put(headers, ROLE, &meta.role);
    headers.insert(RUNG, HeaderValue::from(meta.rung));
    headers.insert(ROUTE, HeaderValue::from_static(meta.route.as_str()));
    let degraded = if meta.degraded { "true" } else { "false" };
    headers.insert(DEGRADED, HeaderValue::from_static(degraded));
    if let Some(reason) = meta.fallback_reason {
        headers.insert(REASON, HeaderValue::from_static(reason));
    }
    headers.insert(ATTEMPTS, HeaderValue::from(meta.attempts));
    put(headers, LATENCY_ADDED, &ms(meta.latency_added).to_string());
    put(headers, OVERHEAD, &ms(overhead).to_string());
    // Of a stream it is known at its end, and stands in the last chunk.
    if let Some(cost) = meta.cost_usd {
        put(headers, COST, &usd(cost).to_string());
    }
}

/// Writes what a call without an answer took.
pub(crate) fn put_failure(headers: &mut HeaderMap, role: &str, error: &CallError) {
    put(headers, ROLE, role);
    headers.insert(ROUTE, HeaderValue::from_static(error.route.as_str()));
    if let Some(reason) = error.reason {
        headers.insert(REASON, HeaderValue::from_static(reason));
    }
    let attempts = error.trail.attempts().count();
    headers.insert(ATTEMPTS, HeaderValue::from(attempts));
}

/// Writes the role that was asked, of an answer of which nothing else is known.
pub(crate) fn put_role(headers: &mut HeaderMap, role: &str) {
    put(headers, ROLE, role);
}

/// Writes the request's id, which every answer carries.
pub(crate) fn put_request_id(headers: &mut HeaderMap, id: &str) {
    put(headers, REQUEST_ID, id);
    put(headers, OPENAI_REQUEST_ID, id);
}

/// A header whose value comes from outside; one that cannot be a header value
/// (a role or model named in another script) is left out.
fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// Of a call that has run for `elapsed`: the part in which an attempt ran or
/// the call waited on purpose. The rest is the gateway's own.
pub(crate) fn spent_upstream(trail: &Trail, elapsed: Duration) -> Duration {
    let mut spans: Vec<(Duration, Duration)> = trail
        .steps
        .iter()
        .filter_map(|step| match step {
            TrailStep::Attempt(a) => Some((a.started, a.ended.unwrap_or(elapsed))),
            TrailStep::Waited { wait, at, .. } => Some((*at, *at + *wait)),
            _ => None,
        })
        .collect();
    spans.sort();
    let mut spent = Duration::ZERO;
    let mut covered = Duration::ZERO;
    for (from, to) in spans {
        let (from, to) = (from.max(covered), to.min(elapsed));
        spent += to.saturating_sub(from);
        covered = covered.max(to);
    }
    spent
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{AttemptKind, AttemptOutcome, AttemptRecord, ModelId};

    fn attempt(started: u64, ended: Option<u64>) -> TrailStep {
        TrailStep::Attempt(AttemptRecord {
            index: 0,
            rung: 0,
            model: ModelId::new("a/b").unwrap(),
            kind: AttemptKind::First,
            started: Duration::from_millis(started),
            first_token: None,
            ended: ended.map(Duration::from_millis),
            outcome: AttemptOutcome::Running,
            rejected: false,
            usage: None,
            usage_estimated: false,
            cost: None,
        })
    }

    #[test]
    fn overlapping_attempts_and_waits_count_once() {
        let trail = Trail {
            steps: vec![
                attempt(1, Some(100)),
                attempt(60, None),
                TrailStep::Waited {
                    rung: 0,
                    wait: Duration::from_millis(10),
                    reason: "rate_limited",
                    at: Duration::from_millis(95),
                },
            ],
        };
        let elapsed = Duration::from_millis(120);
        assert_eq!(spent_upstream(&trail, elapsed), Duration::from_millis(119));
        assert_eq!(spent_upstream(&Trail::default(), elapsed), Duration::ZERO);
    }
}

//! What of the router's values a record takes, and in which words.

use super::hash::Hash;
use super::id::{AuditId, Text64};
use super::record::{AuditAttempt, AuditLatency, AuditModel, AuditPolicy, AuditUsage, Record};
use super::time::{ExactMs, WholeMs};
use evenkeel_core::{
    AttemptOutcome, AttemptRecord, CallId, Latency, ModelId, PolicyStamp, TicketState,
    TraceContext, Trail, Usage,
};
use std::sync::Arc;
use std::time::Duration;

/// Of a configuration that was made in code: the hash of no files.
pub(super) fn stamped(stamp: Option<&PolicyStamp>) -> AuditPolicy {
    let hash = stamp.and_then(|stamp| stamp.sha256.parse().ok());
    let version = stamp.and_then(|stamp| stamp.version.as_deref());
    AuditPolicy::new(version, hash.unwrap_or_else(|| Hash::of(b"")))
}

/// A call without an id of its caller's is known by its own.
pub(super) fn request(id: Option<&Arc<str>>, call: Option<CallId>) -> Text64 {
    match (id, call) {
        (Some(id), _) => Text64::shared(id),
        (None, Some(call)) => Text64::new(&format!("call-{call}")),
        (None, None) => Text64::new("call"),
    }
}

pub(super) fn put_call(
    record: &mut Record,
    request_id: Option<&Arc<str>>,
    call: Option<CallId>,
    role: &Arc<str>,
    task: Option<&Arc<str>>,
) {
    record.request_id = Some(request(request_id, call));
    put_role(record, role, task);
}

pub(super) fn put_role(record: &mut Record, role: &Arc<str>, task: Option<&Arc<str>>) {
    record.role = AuditId::shared(role);
    record.task_type = task.and_then(AuditId::shared);
}

/// Trace and span of a context: `00-TRACE-SPAN-FLAGS`.
pub(super) fn ids(context: &TraceContext) -> Option<(&str, &str)> {
    let mut parts = context.traceparent.split('-').skip(1);
    let mut hex = |length| {
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        let part = parts.next()?;
        (part.len() == length && part.bytes().all(is_hex)).then_some(part)
    };
    Some((hex(32)?, hex(16)?))
}

pub(super) fn put_span(record: &mut Record, context: &TraceContext) {
    if let Some((trace, span)) = ids(context) {
        record.trace_id = Some(trace.into());
        record.span_id = Some(span.into());
    }
}

pub(super) fn model(id: &ModelId) -> Option<AuditId> {
    AuditId::new(id.as_str())
}

pub(super) fn provider(of: &ModelId) -> Option<AuditId> {
    AuditId::new(of.provider())
}

pub(super) fn pair(primary: &ModelId, fallback: &ModelId) -> AuditModel {
    AuditModel {
        primary: model(primary),
        fallback: model(fallback),
        ..AuditModel::default()
    }
}

pub(super) fn window(latency: &Latency) -> AuditLatency {
    // Where there is no sample yet both are 0, and `samples` says so.
    let exact = |value: Option<Duration>| Some(ExactMs(value.unwrap_or_default()));
    AuditLatency {
        p95_ms: exact(latency.p95),
        p99_ms: exact(latency.p99),
        slo_p95_ms: Some(ExactMs(latency.slo_p95)),
        slo_p99_ms: Some(ExactMs(latency.slo_p99)),
        samples: Some(latency.samples),
        measure: Some(latency.measure),
        ..AuditLatency::default()
    }
}

/// What was tried, of a call that took so long.
pub(super) fn attempts(trail: &Trail, duration: Duration) -> Vec<AuditAttempt> {
    let attempts = trail.attempts();
    attempts
        .filter_map(|record| attempt(record, duration))
        .collect()
}

fn attempt(record: &AttemptRecord, duration: Duration) -> Option<AuditAttempt> {
    let failure = match &record.outcome {
        AttemptOutcome::Failed(failure) => Some(failure),
        _ => None,
    };
    let ended = record.ended.unwrap_or(duration);
    let status = failure.and_then(|failure| failure.status);
    Some(AuditAttempt {
        provider: provider(&record.model)?,
        model: model(&record.model)?,
        start_ms: WholeMs(record.started),
        duration_ms: WholeMs(ended.saturating_sub(record.started)),
        ttft_ms: record
            .first_token
            .map(|at| WholeMs(at.saturating_sub(record.started))),
        outcome: record.outcome.word(record.rejected),
        error_type: failure.map(|failure| failure.class.as_str()),
        http_status: status.filter(|status| (100..600).contains(status)),
    })
}

/// Tokens of the attempt that answered, and what the others cost beside it.
pub(super) fn usage(trail: &Trail) -> Option<AuditUsage> {
    let mut all = AuditUsage::default();
    for record in trail.attempts() {
        let Some(usage) = record.usage.map(Usage::believed) else {
            continue;
        };
        if matches!(record.outcome, AttemptOutcome::Won) {
            all.input_tokens = Some(usage.input);
            all.output_tokens = Some(usage.output);
        } else {
            let wasted = all.wasted_output_tokens.get_or_insert(0);
            *wasted = wasted.saturating_add(usage.output);
        }
    }
    (all != AuditUsage::default()).then_some(all)
}

/// The schema's word for what an operator did.
pub(super) fn operator_action(action: &str) -> &'static str {
    match action {
        "force" => "force_rung",
        "force_open" => "open_breaker",
        // Disabled, it lets every call pass.
        "disable" | "reset" => "close_breaker",
        "start_drill" | "end_drill" => "drill",
        "reload" => "reload",
        "retry_ticket" | "drop_ticket" | "answer_ticket" => "ticket",
        // Of a role that was forced, or of a model that was set aside.
        _ => "release",
    }
}

/// `planner to rung 1` is the role's first rung, `kill_switch of a/b` the drill's model.
pub(super) fn target_id(target: &str) -> String {
    [(" to rung ", ":"), (" of ", ":"), (" for ", ":")]
        .iter()
        .fold(target.to_owned(), |text, (words, sign)| {
            text.replace(words, sign)
        })
}

pub(super) fn ticket_state(state: TicketState) -> &'static str {
    match state {
        TicketState::Queued => "queued",
        TicketState::Escalated => "escalated",
        TicketState::Answered => "answered",
        // Given up by the gateway or taken back: nobody answers it any more.
        TicketState::Failed | TicketState::Dropped => "dropped",
    }
}

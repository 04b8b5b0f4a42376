//! The span of a call.

use crate::value::{foreign, int, model, ms, text};
use crate::{names, semconv};
use evenkeel_core::{AttemptRecord, EventKind, Meta, PolicyStamp, Trail};
use opentelemetry::KeyValue;
use opentelemetry::trace::{Span, SpanBuilder, SpanKind, Status, Tracer};
use std::time::Duration;

/// Hexadecimal digits of a configuration's hash that tell it from others.
const HASH_DIGITS: usize = 12;

/// The span of a call that begins.
pub(super) fn builder<T: Tracer>(tracer: &T, kind: &EventKind) -> SpanBuilder {
    let builder = tracer
        .span_builder(names::REQUEST)
        .with_kind(SpanKind::Internal);
    let EventKind::CallStarted {
        role,
        task,
        request_id,
        workflow,
        primary,
        deadline,
        policy,
        ..
    } = kind
    else {
        return builder;
    };
    let mut attributes = Vec::with_capacity(20);
    attributes.push(foreign(names::AGENT_ROLE, role));
    attributes.push(model(names::MODEL_PRIMARY, primary));
    attributes.push(KeyValue::new(names::DEADLINE_MS, ms(*deadline)));
    attributes.extend(task.as_ref().map(|task| foreign(names::TASK_TYPE, task)));
    attributes.extend(workflow.as_ref().map(|id| foreign(names::WORKFLOW, id)));
    attributes.extend(request_id.as_ref().map(|id| foreign(names::REQUEST_ID, id)));
    attributes.extend(policy.iter().flat_map(|policy| stamp(policy)));
    builder.with_attributes(attributes)
}

fn stamp(policy: &PolicyStamp) -> impl Iterator<Item = KeyValue> {
    let digits = policy.sha256.get(..HASH_DIGITS).unwrap_or(&policy.sha256);
    let hash = KeyValue::new(names::POLICY_SHA256, digits.to_owned());
    let version = policy.version.clone();
    let version = version.map(|version| text(names::POLICY_VERSION, version));
    version.into_iter().chain([hash])
}

/// How long the caller of a stream waited for its first content, whoever was asked before:
/// that of the attempt whose answer it began with. What an attempt took of its own is on
/// its span.
fn first_token(trail: &Trail, meta: &Meta) -> Option<Duration> {
    let committed = |attempt: &&AttemptRecord| {
        attempt.started == meta.latency_added && attempt.first_token.is_some()
    };
    trail.attempts().filter(committed).last()?.first_token
}

/// What is known of a call when it has ended; `streams`: its caller wanted a stream.
pub(super) fn finish(span: &mut impl Span, streams: bool, kind: &EventKind) {
    let EventKind::CallEnded {
        outcome,
        meta,
        route,
        reason,
        error,
        prompt_variant,
        depth,
        trail,
        ..
    } = kind
    else {
        return;
    };
    let mut attributes = vec![
        text(names::OUTCOME, *outcome),
        text(names::ROUTE, route.as_str()),
        KeyValue::new(names::ATTEMPTS, int(trail.attempts().count())),
        KeyValue::new(names::DEGRADATION_DEPTH, i64::from(*depth)),
    ];
    if let Some(meta) = meta {
        let first = first_token(trail, meta).filter(|_| streams);
        attributes.extend(first.map(|after| KeyValue::new(names::FIRST_TOKEN_MS, ms(after))));
        attributes.push(model(names::MODEL_ANSWERED, &meta.model_id));
        attributes.push(KeyValue::new(names::FALLBACK_DEPTH, int(meta.rung)));
    }
    attributes.extend(reason.map(|word| text(names::REASON, word)));
    let variant = prompt_variant.clone();
    attributes.extend(variant.map(|variant| text(names::PROMPT_VARIANT, variant)));
    attributes.extend(error.map(|word| text(semconv::ERROR_TYPE, word)));
    span.set_attributes(attributes);
    if let Some(error) = error {
        span.set_status(Status::error(*error));
    }
}

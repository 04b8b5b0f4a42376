//! Spans that belong to no call, or to a moment of one: probes, decisions, gates.

use super::held::locked;
use crate::value::{foreign, int, model, text};
use crate::{names, semconv};
use evenkeel_core::{Class, EventKind, Route};
use opentelemetry::KeyValue;
use opentelemetry::trace::{Link, Span, SpanBuilder, SpanContext, SpanKind, Status, Tracer};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// The last call of each role that its primary did not answer, or that moved the role:
/// what happens in the background is because of it.
#[derive(Debug, Default)]
pub(super) struct Affected(Mutex<HashMap<Arc<str>, SpanContext>>);

impl Affected {
    /// A call has ended.
    pub(super) fn note_end(&self, kind: &EventKind, context: &SpanContext) {
        if let EventKind::CallEnded { role, route, .. } = kind
            && *route != Route::Primary
        {
            self.note(role, context);
        }
    }

    /// A call has moved its role.
    pub(super) fn note_move(&self, kind: &EventKind, context: &SpanContext) {
        if let EventKind::ModelSubstitution { role, .. } = kind {
            self.note(role, context);
        }
    }

    fn note(&self, role: &Arc<str>, context: &SpanContext) {
        let mut affected = locked(&self.0);
        match affected.get_mut(role) {
            Some(last) => last.clone_from(context),
            None => drop(affected.insert(role.clone(), context.clone())),
        }
    }

    /// A link to the last affected call of the role that an event is about, or of each
    /// role that judged a probe.
    pub(super) fn links(&self, kind: &EventKind) -> Option<Vec<Link>> {
        let affected = locked(&self.0);
        let link = |role: &Arc<str>| {
            let context = affected.get(role)?.clone();
            Some(Link::new(context, Vec::new(), 0))
        };
        let links: Vec<Link> = match kind {
            EventKind::Probed { verdicts, .. } => {
                verdicts.iter().filter_map(|v| link(&v.role)).collect()
            }
            kind => role_of(kind).and_then(link).into_iter().collect(),
        };
        (!links.is_empty()).then_some(links)
    }
}

/// The role that an event without a call is about.
fn role_of(kind: &EventKind) -> Option<&Arc<str>> {
    match kind {
        EventKind::LatencyBreach { role, .. }
        | EventKind::ModelSubstitution { role, .. }
        | EventKind::ModelRestoration { role, .. } => Some(role),
        EventKind::BreakerTransition { role, .. } => role.as_ref(),
        _ => None,
    }
}

/// The span that gives an event without a call a home.
pub(super) fn span_of(kind: &EventKind) -> Option<&'static str> {
    match kind {
        EventKind::ModelRestoration { away: None, .. } => Some(names::RESTORE),
        // Back at a better fallback is told as a substitution.
        EventKind::ModelRestoration { .. } | EventKind::ModelSubstitution { .. } => {
            Some(names::SUBSTITUTE)
        }
        // Found by an attempt that was kept to be measured, or by an operator's act.
        EventKind::LatencyBreach { .. } | EventKind::BreakerTransition { .. } => Some(names::PROBE),
        _ => None,
    }
}

/// A short span for a decision without a call.
pub(super) fn builder<T: Tracer>(tracer: &T, name: &'static str, kind: &EventKind) -> SpanBuilder {
    let role = role_of(kind).map(|role| foreign(names::AGENT_ROLE, role));
    tracer
        .span_builder(name)
        .with_kind(SpanKind::Internal)
        .with_attributes(role)
}

/// The span of a probe that ended at `ended`.
pub(super) fn probe<T: Tracer>(tracer: &T, kind: &EventKind, ended: SystemTime) -> SpanBuilder {
    let builder = tracer
        .span_builder(names::PROBE)
        .with_kind(SpanKind::Internal);
    let EventKind::Probed {
        model: probed,
        duration,
        booked_on,
        verdicts,
        ..
    } = kind
    else {
        return builder;
    };
    let role = verdicts.first().map_or(booked_on, |verdict| &verdict.role);
    builder.with_start_time(ended - *duration).with_attributes([
        foreign(names::AGENT_ROLE, role),
        model(names::MODEL_PRIMARY, probed),
    ])
}

/// What came of a probe: one that was too slow is no failure.
pub(super) fn finish_probe(span: &mut impl Span, kind: &EventKind) {
    let EventKind::Probed {
        class, verdicts, ..
    } = kind
    else {
        return;
    };
    if let Some(verdict) = verdicts.first() {
        span.set_attribute(text(names::PROBE_RESULT, verdict.result));
    }
    if let Some(class) = class.filter(|class| *class != Class::Timeout) {
        span.set_attribute(text(semconv::ERROR_TYPE, class.as_str()));
        span.set_status(Status::error(class.as_str()));
    }
}

/// The span of validators that were done at `ended`.
pub(super) fn gate<T: Tracer>(tracer: &T, kind: &EventKind, ended: SystemTime) -> SpanBuilder {
    let builder = tracer
        .span_builder(names::QUALITY_GATE_SPAN)
        .with_kind(SpanKind::Internal);
    let EventKind::AnswerJudged {
        role,
        attempt,
        duration,
        verdict,
        gate,
        ..
    } = kind
    else {
        return builder;
    };
    let mut attributes = vec![
        foreign(names::AGENT_ROLE, role),
        KeyValue::new(names::ATTEMPT_INDEX, int(*attempt)),
        text(names::QUALITY_VERDICT, *verdict),
    ];
    attributes.extend(gate.clone().map(|gate| text(names::QUALITY_GATE, gate)));
    builder
        .with_start_time(ended - *duration)
        .with_attributes(attributes)
}

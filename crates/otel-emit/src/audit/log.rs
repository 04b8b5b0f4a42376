//! From events to records.

use super::calls::{Calls, OpenCall};
use super::chain::Hash;
use super::id::{AuditId, Text64, Text128};
use super::kind::RecordKind;
use super::record::{
    AuditAttempt, AuditBreaker, AuditDegradation, AuditDrill, AuditHedge, AuditLatency, AuditModel,
    AuditOperator, AuditPolicy, AuditQuality, AuditTicket, AuditUsage, Record,
};
use super::sink::AuditSink;
use super::time::{ExactMs, WallTime, WholeMs};
use crate::reason::told;
use evenkeel_core::{
    AttemptOutcome, AttemptRecord, CallId, Class, Clock, Event, EventKind, HedgeResult, Latency,
    Meta, ModelId, Observer, PolicyStamp, Route, SystemClock, TicketState, TraceContext, Trail,
};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Makes a record of each event that is to be kept, and gives it to a sink.
///
/// Every logical request leaves one record, every decision one of its own, sampled or not.
/// No record holds what was asked or answered, a provider's words, or a key.
#[derive(Debug)]
pub struct AuditLog {
    sink: Arc<dyn AuditSink>,
    /// Who knows the traces of calls.
    traces: Option<Arc<dyn Observer>>,
    clock: Arc<dyn Clock>,
    calls: Calls,
    /// The configuration in force, for what no call decides.
    policy: RwLock<AuditPolicy>,
}

impl AuditLog {
    /// Gives its records to `sink`. `policy` is the configuration that the router begins
    /// with; of one that was made in code there is none.
    pub fn new(sink: Arc<dyn AuditSink>, policy: Option<&PolicyStamp>) -> Self {
        Self {
            sink,
            traces: None,
            clock: Arc::new(SystemClock),
            calls: Calls::default(),
            policy: RwLock::new(stamped(policy)),
        }
    }

    /// Takes the traces of calls from the observer that makes their spans, which must hear
    /// of events before this one.
    #[must_use]
    pub fn with_traces(mut self, traces: Arc<dyn Observer>) -> Self {
        self.traces = Some(traces);
        self
    }

    /// Goes by another clock than the system's.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Calls of which an end is still to come.
    pub fn open_calls(&self) -> usize {
        self.calls.count()
    }

    fn append(&self, record: Record) {
        self.sink.append(Box::new(record));
    }

    /// The configuration in force.
    fn in_force(&self) -> AuditPolicy {
        let policy = self.policy.read().unwrap_or_else(PoisonError::into_inner);
        policy.clone()
    }

    /// A record of that kind, with what is known of the call it belongs to.
    fn record(&self, kind: RecordKind, call: Option<CallId>) -> Record {
        let mut record = Record::new(kind, WallTime(self.clock.now()), self.in_force());
        if let Some(call) = call {
            let open = self.calls.get(call);
            self.put_trace(&mut record, call, open.as_ref());
            record.request_id = open.map(|open| open.request_id);
        }
        record
    }

    /// The trace of a call: its span where it has one, else the trace it came in on.
    fn put_trace(&self, record: &mut Record, call: CallId, open: Option<&OpenCall>) {
        let spans = self.traces.as_ref();
        if let Some(own) = spans.and_then(|spans| spans.call_context(call)) {
            put_span(record, &own);
        } else {
            record.trace_id = open.and_then(|open| open.trace_id.clone());
        }
    }

    fn call_ended(&self, call: Option<CallId>, ended: &EventKind) {
        let EventKind::CallEnded {
            role,
            task,
            request_id,
            workflow,
            caller,
            primary,
            policy,
            outcome,
            meta,
            route,
            reason: why,
            class,
            error,
            prompt_variant,
            reported,
            depth,
            duration,
            trail,
            trace,
        } = ended
        else {
            return;
        };
        let open = call.and_then(|call| self.calls.remove(call));
        let time = WallTime(self.clock.now());
        let policy = match policy {
            Some(stamp) => stamped(Some(stamp)),
            None => self.in_force(),
        };
        let mut record = Record::new(RecordKind::Answer, time, policy);
        record.request_id = Some(request(request_id.as_ref(), call));
        match trace {
            Some(trace) => put_span(&mut record, trace),
            None => record.trace_id = open.and_then(|open| open.trace_id),
        }
        record.role = AuditId::shared(role);
        record.task_type = task.as_ref().and_then(AuditId::shared);
        record.workflow = workflow.as_ref().and_then(AuditId::shared);
        record.tenant = caller.as_ref().and_then(AuditId::shared);
        let answered = meta.as_ref().map(|meta| &meta.model_id);
        record.model = Some(AuditModel {
            requested: Text128::shared(role),
            primary: model(primary),
            answered: answered.and_then(model),
            provider: answered.and_then(provider),
            response_model: reported.model.as_ref().and_then(Text128::shared),
            response_id: reported.id.as_ref().and_then(Text128::shared),
            prompt_variant: prompt_variant.as_ref().and_then(AuditId::shared),
            fallback: None,
        });
        record.route = Some(route.as_str());
        record.outcome = Some(outcome);
        // Whatever is not the primary's answer has a reason.
        let last = class.map_or(Class::Cancelled.as_str(), Class::as_str);
        let why = why.or(*error).unwrap_or(last);
        record.reason = (*route != Route::Primary).then(|| told(why));
        record.set_attempts(attempts(trail, *duration));
        record.latency = Some(AuditLatency {
            total_ms: Some(WholeMs(*duration)),
            added_ms: meta.as_ref().map(|meta| WholeMs(meta.latency_added)),
            ..AuditLatency::default()
        });
        record.usage = usage(trail);
        record.degradation = Some(AuditDegradation {
            depth: Some(u64::from(*depth)),
            fallback_depth: meta.as_ref().map(|meta: &Meta| meta.rung as u64),
        });
        self.append(record);
    }

    /// What concerns one call beside its end.
    fn call_event(&self, call: Option<CallId>, event: &EventKind) {
        let mut record;
        match event {
            EventKind::HedgeEnded {
                result: HedgeResult::Refused,
                ..
            } => return,
            EventKind::HedgeEnded {
                role,
                task,
                request_id,
                from_model,
                to_model,
                result,
                reason: why,
                patience,
                ..
            } => {
                record = self.record(RecordKind::Hedge, call);
                put_call(&mut record, request_id.as_ref(), call, role, task.as_ref());
                record.model = Some(pair(from_model, to_model));
                record.reason = Some(told(why));
                record.hedge = Some(AuditHedge {
                    result: result.as_str(),
                    patience_ms: Some(WholeMs(*patience)),
                });
            }
            EventKind::ModelFallback {
                role,
                task,
                request_id,
                primary,
                fallback,
                rung,
                reason: why,
                latency_added,
                ..
            } => {
                record = self.record(RecordKind::Fallback, call);
                put_call(&mut record, request_id.as_ref(), call, role, task.as_ref());
                record.model = Some(pair(primary, fallback));
                record.reason = Some(told(why));
                record.latency = Some(AuditLatency {
                    added_ms: Some(WholeMs(*latency_added)),
                    ..AuditLatency::default()
                });
                record.degradation = Some(AuditDegradation {
                    depth: None,
                    fallback_depth: Some(*rung as u64),
                });
            }
            _ => return,
        }
        self.append(record);
    }

    /// What moves a role, or shows that it is to move.
    fn role_event(&self, call: Option<CallId>, event: &EventKind) {
        let mut record;
        match event {
            EventKind::LatencyBreach {
                role,
                task,
                model: of,
                detector,
                measure,
                p95,
                p99,
                slo,
                samples,
                ..
            } => {
                record = self.record(RecordKind::LatencyBreach, call);
                put_role(&mut record, role, task.as_ref());
                record.model = Some(AuditModel {
                    primary: model(of),
                    provider: provider(of),
                    ..AuditModel::default()
                });
                let is_p99 = *detector == "p99";
                record.latency = Some(AuditLatency {
                    p95_ms: p95.map(ExactMs),
                    p99_ms: p99.map(ExactMs),
                    slo_p95_ms: (!is_p99).then_some(ExactMs(*slo)),
                    slo_p99_ms: is_p99.then_some(ExactMs(*slo)),
                    samples: Some(*samples),
                    detector: Some(detector),
                    measure: Some(measure),
                    ..AuditLatency::default()
                });
            }
            EventKind::ModelSubstitution {
                role,
                task,
                from_model,
                to,
                to_model,
                reason: why,
                latency,
                ..
            } => {
                record = self.record(RecordKind::Substitution, call);
                put_role(&mut record, role, task.as_ref());
                record.model = Some(pair(from_model, to_model));
                record.reason = Some(why.as_str());
                record.latency = Some(window(latency));
                record.degradation = Some(AuditDegradation {
                    depth: None,
                    fallback_depth: Some(*to as u64),
                });
            }
            EventKind::ModelRestoration {
                role,
                task,
                from_model,
                to_model,
                duration,
                reason: why,
                latency,
                ..
            } => {
                record = self.record(RecordKind::Restoration, call);
                put_role(&mut record, role, task.as_ref());
                record.model = Some(pair(to_model, from_model));
                record.reason = Some(why.as_str());
                record.latency = Some(AuditLatency {
                    degraded_for_ms: Some(WholeMs(*duration)),
                    ..window(latency)
                });
            }
            _ => return,
        }
        self.append(record);
    }

    /// What concerns the whole: breakers, workflows, configurations, tickets.
    fn state_event(&self, call: Option<CallId>, event: &EventKind) {
        let mut record;
        match event {
            EventKind::BreakerTransition {
                provider: of,
                model: name,
                role,
                from,
                to,
                failures,
                class,
                ..
            } => {
                record = self.record(RecordKind::Breaker, call);
                record.role = role.as_ref().and_then(AuditId::shared);
                record.model = Some(AuditModel {
                    primary: name.as_ref().and_then(model),
                    provider: AuditId::shared(of),
                    ..AuditModel::default()
                });
                record.reason = class.map(Class::as_str);
                record.breaker = Some(AuditBreaker {
                    from,
                    to,
                    failures: *failures,
                });
            }
            EventKind::WorkflowDegraded {
                workflow,
                depth,
                expected_quality,
                ..
            } => {
                record = self.record(RecordKind::DegradedWorkflow, call);
                record.workflow = AuditId::shared(workflow);
                let score = *expected_quality;
                record.quality = score.is_finite().then_some(AuditQuality {
                    score: score.clamp(0.0, 1.0),
                });
                record.degradation = Some(AuditDegradation {
                    depth: Some(u64::from(*depth)),
                    fallback_depth: None,
                });
            }
            EventKind::PolicyChanged { policy, .. } => {
                let policy = stamped(policy.as_deref());
                *self.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
                record = self.record(RecordKind::PolicyChange, call);
            }
            EventKind::TicketChanged {
                ticket,
                role,
                state,
                request_id,
                ..
            } => {
                let Some(id) = AuditId::new(ticket.as_str()) else {
                    return;
                };
                record = self.record(RecordKind::Ticket, None);
                // One that was made without an id is known by its own.
                let request = request_id.as_ref().map(Text64::shared);
                record.request_id = request.or(Some(Text64::new(ticket.as_str())));
                record.role = AuditId::shared(role);
                record.ticket = Some(AuditTicket {
                    id,
                    state: ticket_state(*state),
                });
            }
            _ => return,
        }
        self.append(record);
    }

    /// What people do.
    fn operator_event(&self, event: &EventKind) {
        let mut record;
        match event {
            EventKind::OperatorActed {
                operator,
                action,
                target,
            } => {
                record = self.record(RecordKind::Operator, None);
                record.operator = Some(AuditOperator {
                    action: operator_action(action),
                    actor: AuditId::shared(operator),
                    target: AuditId::new(&target_id(target)),
                });
            }
            EventKind::DrillStarted {
                kind, model: of, ..
            } => {
                record = self.record(RecordKind::Drill, None);
                record.drill = Some(AuditDrill {
                    name: kind.as_str(),
                    phase: "begin",
                    target: model(of),
                });
            }
            EventKind::DrillEnded {
                kind, model: of, ..
            } => {
                record = self.record(RecordKind::Drill, None);
                record.drill = Some(AuditDrill {
                    name: kind.as_str(),
                    phase: "end",
                    target: model(of),
                });
            }
            _ => return,
        }
        self.append(record);
    }
}

impl Observer for AuditLog {
    fn on(&self, event: &Event) {
        let call = event.call;
        match &event.kind {
            EventKind::CallStarted {
                request_id, trace, ..
            } => {
                if let Some(call) = call {
                    let open = OpenCall {
                        request_id: request(request_id.as_ref(), Some(call)),
                        trace_id: trace.as_ref().and_then(|t| Some(ids(t)?.0.into())),
                    };
                    self.calls.insert(call, open);
                }
            }
            kind @ EventKind::CallEnded { .. } => self.call_ended(call, kind),
            kind @ (EventKind::HedgeEnded { .. } | EventKind::ModelFallback { .. }) => {
                self.call_event(call, kind);
            }
            kind @ (EventKind::LatencyBreach { .. }
            | EventKind::ModelSubstitution { .. }
            | EventKind::ModelRestoration { .. }) => self.role_event(call, kind),
            kind @ (EventKind::BreakerTransition { .. }
            | EventKind::WorkflowDegraded { .. }
            | EventKind::PolicyChanged { .. }
            | EventKind::TicketChanged { .. }) => self.state_event(call, kind),
            kind @ (EventKind::OperatorActed { .. }
            | EventKind::DrillStarted { .. }
            | EventKind::DrillEnded { .. }) => self.operator_event(kind),
            _ => {}
        }
    }
}

/// Of a configuration that was made in code: the hash of no files.
fn stamped(stamp: Option<&PolicyStamp>) -> AuditPolicy {
    let hash = stamp.and_then(|stamp| stamp.sha256.parse().ok());
    let version = stamp.and_then(|stamp| stamp.version.as_deref());
    AuditPolicy::new(version, hash.unwrap_or_else(|| Hash::of(b"")))
}

/// A call without an id of its caller's is known by its own.
fn request(id: Option<&Arc<str>>, call: Option<CallId>) -> Text64 {
    match (id, call) {
        (Some(id), _) => Text64::shared(id),
        (None, Some(call)) => Text64::new(&format!("call-{call}")),
        (None, None) => Text64::new("call"),
    }
}

fn put_call(
    record: &mut Record,
    request_id: Option<&Arc<str>>,
    call: Option<CallId>,
    role: &Arc<str>,
    task: Option<&Arc<str>>,
) {
    record.request_id = Some(request(request_id, call));
    put_role(record, role, task);
}

fn put_role(record: &mut Record, role: &Arc<str>, task: Option<&Arc<str>>) {
    record.role = AuditId::shared(role);
    record.task_type = task.and_then(AuditId::shared);
}

/// Trace and span of a context: `00-TRACE-SPAN-FLAGS`.
fn ids(context: &TraceContext) -> Option<(&str, &str)> {
    let mut parts = context.traceparent.split('-').skip(1);
    let mut hex = |length| {
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        let part = parts.next()?;
        (part.len() == length && part.bytes().all(is_hex)).then_some(part)
    };
    Some((hex(32)?, hex(16)?))
}

fn put_span(record: &mut Record, context: &TraceContext) {
    if let Some((trace, span)) = ids(context) {
        record.trace_id = Some(trace.into());
        record.span_id = Some(span.into());
    }
}

fn model(id: &ModelId) -> Option<AuditId> {
    AuditId::new(id.as_str())
}

fn provider(of: &ModelId) -> Option<AuditId> {
    AuditId::new(of.provider())
}

fn pair(primary: &ModelId, fallback: &ModelId) -> AuditModel {
    AuditModel {
        primary: model(primary),
        fallback: model(fallback),
        ..AuditModel::default()
    }
}

fn window(latency: &Latency) -> AuditLatency {
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
fn attempts(trail: &Trail, duration: Duration) -> Vec<AuditAttempt> {
    let attempts = trail.attempts();
    attempts
        .filter_map(|record| attempt(record, duration))
        .collect()
}

fn attempt(record: &AttemptRecord, duration: Duration) -> Option<AuditAttempt> {
    let (outcome, failure) = match &record.outcome {
        AttemptOutcome::Won => ("ok", None),
        AttemptOutcome::Cancelled => ("cancelled", None),
        AttemptOutcome::Failed(failure) if failure.class == Class::Semantic => {
            ("rejected_quality", Some(failure))
        }
        AttemptOutcome::Failed(failure) => ("error", Some(failure)),
        // One that still runs is kept to be measured, and gives no answer any more.
        _ => ("abandoned", None),
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
        outcome,
        error_type: failure.map(|failure| failure.class.as_str()),
        http_status: status.filter(|status| (100..600).contains(status)),
    })
}

/// Tokens of the attempt that answered, and what the others cost beside it.
fn usage(trail: &Trail) -> Option<AuditUsage> {
    let mut all = AuditUsage::default();
    for record in trail.attempts() {
        let Some(usage) = record.usage else {
            continue;
        };
        if matches!(record.outcome, AttemptOutcome::Won) {
            all.input_tokens = Some(usage.input);
            all.output_tokens = Some(usage.output);
        } else {
            *all.wasted_output_tokens.get_or_insert(0) += usage.output;
        }
    }
    (all != AuditUsage::default()).then_some(all)
}

/// The schema's word for what an operator did.
fn operator_action(action: &str) -> &'static str {
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
fn target_id(target: &str) -> String {
    [(" to rung ", ":"), (" of ", ":"), (" for ", ":")]
        .iter()
        .fold(target.to_owned(), |text, (words, sign)| {
            text.replace(words, sign)
        })
}

fn ticket_state(state: TicketState) -> &'static str {
    match state {
        TicketState::Queued => "queued",
        TicketState::Escalated => "escalated",
        TicketState::Answered => "answered",
        // Given up by the gateway or taken back: nobody answers it any more.
        TicketState::Failed | TicketState::Dropped => "dropped",
    }
}

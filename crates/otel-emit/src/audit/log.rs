//! From events to records.

use super::calls::{Calls, OpenCall};
use super::content::ContentKey;
use super::excerpt::{
    attempts, ids, model, operator_action, pair, provider, put_call, put_role, put_span, request,
    stamped, target_id, ticket_state, usage, window,
};
use super::id::{AuditId, Text64, Text128};
use super::kind::RecordKind;
use super::record::{
    AuditBreaker, AuditDegradation, AuditDrill, AuditHedge, AuditLatency, AuditModel,
    AuditOperator, AuditPolicy, AuditQuality, AuditTicket, Record,
};
use super::sink::AuditSink;
use super::time::{ExactMs, WallTime, WholeMs};
use evenkeel_core::{
    CallId, Class, Clock, Event, EventKind, HedgeResult, Meta, Observer, PolicyStamp, Route,
    SystemClock,
};
use std::sync::{Arc, PoisonError, RwLock};

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
    /// None: what was said is not asked for.
    content_key: Option<ContentKey>,
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
            content_key: None,
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

    /// Puts a keyed hash of request and answer into each answer's record, and asks the
    /// router for both. It is computed where the call ends, in time that grows with the text.
    #[must_use]
    pub fn with_content_key(mut self, key: ContentKey) -> Self {
        self.content_key = Some(key);
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
            content,
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
        // Whatever is not the primary's answer has a reason; what it refused, too.
        let last = class.map_or(Class::Cancelled.as_str(), Class::as_str);
        let why = why.or(*error).unwrap_or(last);
        let has_reason = *route != Route::Primary || *outcome == "error";
        record.reason = has_reason.then_some(why);
        record.set_attempts(attempts(trail, *duration));
        record.latency = Some(AuditLatency {
            total_ms: Some(WholeMs(*duration)),
            added_ms: meta.as_ref().map(|meta| WholeMs(meta.latency_added)),
            ..AuditLatency::default()
        });
        record.usage = usage(trail);
        let key = self.content_key.as_ref().zip(content.as_ref());
        record.content_hmac = key.and_then(|(key, exchange)| key.hash(exchange));
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
                record.reason = Some(*why);
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
                record.reason = Some(*why);
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
                primary,
                to,
                to_model,
                reason: why,
                latency,
                ..
            } => {
                record = self.record(RecordKind::Substitution, call);
                put_role(&mut record, role, task.as_ref());
                record.model = Some(pair(primary, to_model));
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
        match &*event.kind.told() {
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

    fn wants_content(&self) -> bool {
        self.content_key.is_some()
    }
}

//! What happens to calls and roles, as structured log lines.

mod calls;
#[cfg(test)]
mod every_line;

use crate::answer::{ms, usd};
use calls::{call_event, shadowed};
use evenkeel_core::{
    CallId, Class, Event, EventKind, HedgeResult, Observer, TicketState, TraceContext,
};
use evenkeel_otel_emit::breached_percentile;
use std::sync::Arc;
use tracing::field::display;

/// Writes every notable event as one `tracing` event: the field `event` names
/// it, the others say what is known. No prompt, no answer, no provider's
/// message text, no key.
///
/// Levels: `ERROR` for what needs a person (quota, credential, missing model),
/// `WARN` for what takes a model out of use, `INFO` for what puts it back and
/// for calls answered by another model or not at all, `DEBUG` for every call,
/// attempt, hedge and probe.
#[derive(Debug, Default)]
pub struct LogObserver {
    /// Who knows the traces of calls.
    tracing: Option<Arc<dyn Observer>>,
}

/// What a line names of the call that it is about.
#[derive(Debug, Default)]
struct Ids {
    call: Option<u64>,
    context: Option<TraceContext>,
}

impl Ids {
    /// The trace id and the span id, in hexadecimal.
    fn of_trace(&self) -> (Option<&str>, Option<&str>) {
        let mut fields = self.context.iter().flat_map(|c| c.traceparent.split('-'));
        (fields.nth(1), fields.next())
    }
}

impl LogObserver {
    /// An observer that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With the trace of each call, as `tracing` knows it: that has to hear of everything
    /// before this one does.
    #[must_use]
    pub fn with_traces_of(mut self, tracing: Arc<dyn Observer>) -> Self {
        self.tracing = Some(tracing);
        self
    }

    fn ids(&self, event: &Event) -> Ids {
        let context = match &event.kind {
            // Its span has ended.
            EventKind::CallEnded { trace, .. } => trace.clone(),
            _ => event
                .call
                .and_then(|id| self.tracing.as_ref()?.call_context(id)),
        };
        Ids {
            call: event.call.map(CallId::get),
            context,
        }
    }
}

/// Whether a call in perfect order makes this event too: it is logged at `DEBUG` only.
fn is_routine(kind: &EventKind) -> bool {
    match kind {
        EventKind::CallEnded { outcome, .. } => *outcome != "error",
        EventKind::HedgeEnded { result, .. } => *result != HedgeResult::Won,
        kind => matches!(
            kind,
            EventKind::CallStarted { .. }
                | EventKind::AttemptStarted { .. }
                | EventKind::AttemptEnded { .. }
                | EventKind::LoserClosed { .. }
                | EventKind::AnswerJudged { .. }
                | EventKind::HedgeStarted { .. }
                | EventKind::Probed { .. }
                | EventKind::Shadowed(_)
        ),
    }
}

impl Observer for LogObserver {
    fn on(&self, event: &Event) {
        if is_routine(&event.kind) && !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let ids = &self.ids(event);
        let (trace_id, span_id) = ids.of_trace();
        let call = ids.call;
        match &*event.kind.told() {
            kind @ (EventKind::LatencyBreach { .. }
            | EventKind::LatencyBreachEnded { .. }
            | EventKind::ModelSubstitution { .. }
            | EventKind::ModelRestoration { .. }
            | EventKind::CanaryStarted { .. }
            | EventKind::CanaryFailed { .. }) => role_event(kind, ids),
            kind @ (EventKind::BreakerTransition { .. }
            | EventKind::CooldownStarted { .. }
            | EventKind::HoldStarted { .. }
            | EventKind::ModelDrift { .. }
            | EventKind::Probed { .. }) => health_event(kind, ids),
            EventKind::ModelStatus {
                model,
                stage,
                last_day,
            } => tracing::warn!(
                event = "model_status",
                call,
                trace_id,
                span_id,
                model.primary = %model,
                stage = stage.as_deref(),
                last_day = last_day.as_deref(),
            ),
            kind @ (EventKind::OperatorActed { .. }
            | EventKind::PolicyChanged { .. }
            | EventKind::DrillStarted { .. }
            | EventKind::DrillEnded { .. }) => operator_event(kind),
            EventKind::Shadowed(pair) => shadowed(ids, pair),
            EventKind::WorkflowDegraded {
                workflow,
                level,
                depth,
                roles,
                expected_quality,
            } => tracing::warn!(
                event = "workflow_degraded",
                call,
                trace_id,
                span_id,
                workflow = %workflow,
                degradation.level = level.as_str(),
                evenkeel.degradation_depth = depth,
                degradation.roles = roles.join(","),
                quality.expected_ratio = expected_quality,
            ),
            kind @ (EventKind::TicketChanged { .. } | EventKind::TicketStoreFailed { .. }) => {
                ticket_event(kind, ids);
            }
            _ => call_event(event, ids),
        }
    }
}

/// What moves a role, or nearly.
fn role_event(kind: &EventKind, ids: &Ids) {
    let (trace_id, span_id) = ids.of_trace();
    match kind {
        EventKind::LatencyBreach {
            role,
            task,
            rung,
            model,
            detector,
            measure,
            p95,
            p99,
            slo,
            samples,
            window,
        } => tracing::warn!(
            event = "latency_breach",
            call = ids.call,
            trace_id,
            span_id,
            agent.role = %role,
            evenkeel.task_type = task.as_ref().map(display),
            evenkeel.rung = rung,
            model.primary = %model,
            breach.detector = detector,
            breach.percentile = breached_percentile(detector),
            breach.measure = measure,
            breach.window_s = window.as_secs_f64(),
            latency.p95_ms = p95.map_or(0.0, ms),
            latency.p99_ms = p99.map_or(0.0, ms),
            latency.slo_ms = ms(*slo),
            latency.samples = samples,
        ),
        EventKind::LatencyBreachEnded {
            role,
            task,
            rung,
            model,
            measure,
        } => tracing::info!(
            event = "latency_breach_ended",
            agent.role = %role,
            evenkeel.task_type = task.as_ref().map(display),
            evenkeel.rung = rung,
            model.primary = %model,
            breach.measure = measure,
        ),
        EventKind::ModelSubstitution {
            role,
            task,
            epoch,
            primary,
            to,
            to_model,
            reason,
            latency,
            ..
        } => tracing::warn!(
            event = "model_substitution",
            call = ids.call,
            trace_id,
            span_id,
            agent.role = %role,
            evenkeel.task_type = task.as_ref().map(display),
            model.primary = %primary,
            model.fallback = %to_model,
            substitution.reason = reason.as_str(),
            substitution.scope = "role",
            latency.p95_ms = latency.p95.map_or(0.0, ms),
            latency.p99_ms = latency.p99.map_or(0.0, ms),
            latency.slo_p95_ms = ms(latency.slo_p95),
            latency.slo_p99_ms = ms(latency.slo_p99),
            latency.samples = latency.samples,
            evenkeel.fallback_depth = to,
            evenkeel.epoch = epoch,
        ),
        EventKind::ModelRestoration {
            role,
            task,
            epoch,
            from_model,
            to_model,
            duration,
            reason,
            latency,
            ..
        } => tracing::info!(
            event = "model_restoration",
            agent.role = %role,
            evenkeel.task_type = task.as_ref().map(display),
            model.primary = %to_model,
            model.fallback = %from_model,
            restoration.reason = reason.as_str(),
            restoration.duration_ms = ms(*duration),
            latency.p95_ms = latency.p95.map_or(0.0, ms),
            latency.p99_ms = latency.p99.map_or(0.0, ms),
            latency.samples = latency.samples,
            evenkeel.epoch = epoch,
        ),
        _ => canary_event(kind),
    }
}

/// What a rung on its way back does.
fn canary_event(kind: &EventKind) {
    match kind {
        EventKind::CanaryStarted {
            role,
            task,
            model,
            share,
            ..
        } => tracing::info!(
            event = "canary_started",
            agent.role = %role,
            evenkeel.task_type = task.as_ref().map(display),
            model.primary = %model,
            restoration.share = share,
        ),
        EventKind::CanaryFailed {
            role,
            task,
            model,
            interval,
            ..
        } => tracing::warn!(
            event = "canary_failed",
            agent.role = %role,
            evenkeel.task_type = task.as_ref().map(display),
            model.primary = %model,
            restoration.probe_interval_ms = ms(*interval),
        ),
        _ => {}
    }
}

/// What says how a model or provider is.
fn health_event(kind: &EventKind, ids: &Ids) {
    let (trace_id, span_id) = ids.of_trace();
    match kind {
        EventKind::BreakerTransition {
            provider: _,
            system,
            model,
            role,
            from,
            to,
            retry_in,
            cause,
            failures,
            class,
        } => {
            let (model, role) = (model.as_ref().map(display), role.as_ref().map(display));
            let wait = retry_in.map(ms);
            macro_rules! transition {
                ($level:ident) => {
                    tracing::$level!(
                        event = "breaker_transition",
                        call = ids.call,
                        trace_id,
                        span_id,
                        gen_ai.provider.name = %system,
                        model.primary = model,
                        agent.role = role,
                        breaker.from = from,
                        breaker.to = to,
                        breaker.retry_after_ms = wait,
                        breaker.cause = cause,
                        breaker.failures = failures,
                        error.type = class.map(Class::as_str),
                    )
                };
            }
            if *to == "open" {
                transition!(warn);
            } else {
                transition!(info);
            }
        }
        EventKind::CooldownStarted { model, duration } => tracing::warn!(
            event = "cooldown_started",
            call = ids.call,
            trace_id,
            span_id,
            model.primary = %model,
            cooldown_ms = ms(*duration),
        ),
        EventKind::HoldStarted {
            provider: _,
            system,
            model,
            class,
            duration,
        } => tracing::error!(
            event = "hold_started",
            call = ids.call,
            trace_id,
            span_id,
            gen_ai.provider.name = %system,
            model.primary = model.as_ref().map(display),
            error.type = class.as_str(),
            hold_ms = ms(*duration),
        ),
        EventKind::ModelDrift {
            role,
            model,
            reported,
            expected,
        } => tracing::warn!(
            event = "model_drift",
            call = ids.call,
            trace_id,
            span_id,
            agent.role = %role,
            gen_ai.request.model = model.model(),
            gen_ai.response.model = %reported,
            drift.expected = %expected,
        ),
        EventKind::Probed {
            model,
            latency,
            class,
            cost,
            ..
        } => tracing::debug!(
            event = "probed",
            model.primary = %model,
            latency_ms = latency.map(ms),
            error.type = class.map(Class::as_str),
            cost_usd = cost.map(|cost| usd(cost.usd)),
        ),
        _ => {}
    }
}

/// What operators do, and their drills.
fn operator_event(kind: &EventKind) {
    match kind {
        EventKind::OperatorActed {
            operator,
            action,
            target,
        } => tracing::warn!(
            event = "operator_acted",
            operator.name = %operator,
            operator.action = action,
            operator.target = target.as_str(),
        ),
        EventKind::PolicyChanged {
            policy,
            added,
            removed,
            changed,
        } => tracing::info!(
            event = "policy_change",
            evenkeel.policy.version = policy
                .as_ref()
                .and_then(|p| p.version.as_ref())
                .map(display),
            evenkeel.policy.sha256 = policy.as_ref().map(|p| display(&p.sha256)),
            roles.added = added.join(","),
            roles.removed = removed.join(","),
            roles.changed = changed.join(","),
        ),
        EventKind::DrillStarted {
            drill,
            kind,
            model,
            duration,
        } => tracing::warn!(
            event = "drill_started",
            drill,
            kind = kind.as_str(),
            model.primary = %model,
            duration_ms = ms(*duration),
        ),
        EventKind::DrillEnded {
            drill,
            kind,
            model,
            duration,
            first_fallback,
            answered,
            failed,
        } => tracing::info!(
            event = "drill_ended",
            drill,
            kind = kind.as_str(),
            model.primary = %model,
            duration_ms = ms(*duration),
            first_fallback_ms = first_fallback.map(ms),
            answered,
            failed,
        ),
        _ => {}
    }
}

/// What becomes of kept calls.
fn ticket_event(kind: &EventKind, ids: &Ids) {
    let (trace_id, span_id) = ids.of_trace();
    let call = ids.call;
    match kind {
        EventKind::TicketChanged {
            ticket,
            role,
            state,
            request_id,
            attempts,
            why,
        } => {
            let request_id = request_id.as_ref().map(display);
            macro_rules! changed {
                ($level:ident) => {
                    tracing::$level!(
                        event = "ticket_changed",
                        call,
                        trace_id,
                        span_id,
                        agent.role = %role,
                        ticket = %ticket,
                        ticket.state = state.as_str(),
                        ticket.attempts = attempts,
                        request_id,
                        ticket.why = why,
                    )
                };
            }
            match state {
                TicketState::Failed | TicketState::Escalated => changed!(warn),
                _ => changed!(info),
            }
        }
        EventKind::TicketStoreFailed { role, doing, error } => tracing::error!(
            event = "ticket_store_failed",
            call,
            trace_id,
            span_id,
            agent.role = %role,
            doing,
            error,
        ),
        _ => {}
    }
}

#[cfg(test)]
mod tests;

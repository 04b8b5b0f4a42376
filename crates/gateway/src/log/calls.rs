//! Log lines of one call: who answered, after what, and what it cost.

use super::Ids;
use crate::answer::{ms, usd};
use evenkeel_core::{AttemptOutcome, Class, Event, EventKind, HedgeResult, ShadowPair};

/// What happens to one call.
pub(super) fn call_event(event: &Event, ids: &Ids) {
    let (trace_id, span_id) = ids.of_trace();
    let call = ids.call;
    match &event.kind {
        EventKind::CallStarted {
            role,
            task,
            request_id,
            ..
        } => tracing::debug!(
            event = "call_started",
            call,
            trace_id,
            span_id,
            agent.role = %role,
            evenkeel.task_type = task.as_ref().map(display),
            request_id = request_id.as_ref().map(display),
        ),
        EventKind::AttemptStarted {
            attempt,
            rung,
            model,
            kind,
            ..
        } => tracing::debug!(
            event = "attempt_started",
            call,
            trace_id,
            span_id,
            attempt,
            evenkeel.rung = rung,
            gen_ai.request.model = %model,
            kind = kind.as_str(),
        ),
        EventKind::AttemptEnded {
            attempt,
            model,
            duration,
            first_token,
            usage,
            usage_estimated,
            cost,
            outcome,
            class,
            status,
            ..
        } => tracing::debug!(
            event = "attempt_ended",
            call,
            trace_id,
            span_id,
            attempt,
            gen_ai.request.model = %model,
            duration_ms = ms(*duration),
            first_token_ms = first_token.map(ms),
            gen_ai.usage.input_tokens = usage.map(|u| u.believed().input),
            gen_ai.usage.output_tokens = usage.map(|u| u.believed().output),
            usage.estimated = usage_estimated,
            cost_usd = cost.map(|cost| usd(cost.usd)),
            cost.kind = cost.map(|cost| cost.spent_on.as_str()),
            outcome,
            error.type = class.map(Class::as_str),
            http.response.status_code = status,
        ),
        EventKind::StreamInterrupted { .. } => stream_interrupted(event, ids),
        EventKind::ModelFallback {
            role,
            task,
            primary,
            fallback,
            rung,
            reason,
            class,
            status,
            latency_added,
            ..
        } => tracing::info!(
            event = "model_fallback_activated",
            call,
            trace_id,
            span_id,
            agent.role = %role,
            task_type = task.as_deref().unwrap_or_default(),
            primary_model = %primary,
            fallback_model = %fallback,
            reason,
            evenkeel.fallback_depth = rung,
            latency_added_ms = ms(*latency_added),
            error.type = class.map(Class::as_str),
            http.response.status_code = status,
        ),
        EventKind::HedgeStarted { .. } | EventKind::HedgeEnded { .. } => hedge_event(event, ids),
        EventKind::RosterExhausted { .. } => exhausted(event, ids),
        EventKind::CallEnded { .. } => call_ended(event, ids),
        _ => quality_event(event, ids),
    }
}

/// Attempts beside others.
fn hedge_event(event: &Event, ids: &Ids) {
    let (trace_id, span_id) = ids.of_trace();
    let call = ids.call;
    match &event.kind {
        EventKind::HedgeStarted {
            role,
            from,
            to,
            budgeted,
        } => tracing::debug!(
            event = "hedge_started",
            call,
            trace_id,
            span_id,
            agent.role = %role,
            from,
            to,
            budgeted,
        ),
        EventKind::HedgeEnded {
            role,
            from_model,
            to,
            to_model,
            reason,
            result: HedgeResult::Won,
            latency,
            ..
        } => tracing::info!(
            event = "model_substitution",
            call,
            trace_id,
            span_id,
            agent.role = %role,
            model.primary = %from_model,
            model.fallback = %to_model,
            substitution.reason = reason,
            substitution.scope = "request",
            substitution.mid_flight = true,
            latency.p95_ms = latency.p95.map_or(0.0, ms),
            latency.p99_ms = latency.p99.map_or(0.0, ms),
            latency.slo_p95_ms = ms(latency.slo_p95),
            latency.slo_p99_ms = ms(latency.slo_p99),
            latency.samples = latency.samples,
            evenkeel.fallback_depth = to,
        ),
        EventKind::HedgeEnded {
            role,
            from_model,
            to_model,
            result,
            ..
        } => tracing::debug!(
            event = "hedge_ended",
            call,
            trace_id,
            span_id,
            agent.role = %role,
            model.primary = %from_model,
            model.fallback = %to_model,
            result = result.as_str(),
        ),
        _ => {}
    }
}

/// What was made of an answer of one call.
fn quality_event(event: &Event, ids: &Ids) {
    let (trace_id, span_id) = ids.of_trace();
    let call = ids.call;
    match &event.kind {
        EventKind::QualityRejected {
            role,
            task,
            attempt,
            rung,
            model,
            gate,
        } => tracing::info!(
            event = "quality_rejected",
            call,
            trace_id,
            span_id,
            attempt,
            agent.role = %role,
            task_type = task.as_ref().map(display),
            model.primary = (*rung == 0).then(|| display(model)),
            model.fallback = (*rung > 0).then(|| display(model)),
            quality.score = 0.0,
            quality.gate = %gate,
        ),
        EventKind::ValidatorFailed {
            role,
            attempt,
            model,
            validator,
            why,
            passed,
        } => tracing::warn!(
            event = "validator_failed",
            call,
            trace_id,
            span_id,
            attempt,
            agent.role = %role,
            model.primary = %model,
            quality.gate = %validator,
            why,
            passed,
        ),
        _ => {}
    }
}

fn stream_interrupted(event: &Event, ids: &Ids) {
    let (trace_id, span_id) = ids.of_trace();
    let call = ids.call;
    let EventKind::StreamInterrupted {
        role,
        from_model,
        class,
        sent_tokens,
        resumed,
        ..
    } = &event.kind
    else {
        return;
    };
    tracing::warn!(
        event = "stream_interrupted",
        call,
        trace_id,
        span_id,
        agent.role = %role,
        model.primary = %from_model,
        model.fallback = resumed.as_ref().map(|(_, model)| display(model)),
        resumed = resumed.is_some(),
        sent_tokens,
        error.type = class.as_str(),
    );
}

pub(super) fn shadowed(ids: &Ids, pair: &ShadowPair) {
    let (trace_id, span_id) = ids.of_trace();
    tracing::debug!(
        event = "shadowed",
        call = ids.call,
        trace_id,
        span_id,
        agent.role = %pair.role,
        live_model = %pair.live.model,
        shadow_model = %pair.shadow.model,
        latency_ms = ms(pair.shadow.latency),
        cost_usd = pair.shadow.cost.map(|cost| usd(cost.usd)),
        error.type = pair.shadow.failure.map(Class::as_str),
    );
}

/// Nobody could answer. The router tells of the first call of an episode alone.
fn exhausted(event: &Event, ids: &Ids) {
    let (trace_id, span_id) = ids.of_trace();
    let EventKind::RosterExhausted {
        role,
        primary,
        tried,
        refused,
        last,
        ..
    } = &event.kind
    else {
        return;
    };
    let tried: Vec<&str> = tried.iter().map(|(model, _)| model.as_str()).collect();
    let refused: Vec<String> = refused
        .iter()
        .map(|(model, refusal)| format!("{model}:{}", refusal.told()))
        .collect();
    tracing::warn!(
        event = "roster_exhausted",
        call = ids.call,
        trace_id,
        span_id,
        agent.role = %role,
        model.primary = %primary,
        exhausted.tried = tried.join(","),
        exhausted.refused = refused.join(","),
        error.type = last.map(Class::as_str),
    );
}

fn call_ended(event: &Event, ids: &Ids) {
    let (trace_id, span_id) = ids.of_trace();
    let call = ids.call;
    let EventKind::CallEnded {
        role,
        outcome,
        meta,
        class,
        duration,
        trail,
        reported,
        ..
    } = &event.kind
    else {
        return;
    };
    // Its provider's word, and not all of a long one.
    let reported = reported.model.as_ref().map(|name| format!("{name:.256}"));
    let answering = trail
        .attempts()
        .filter(|a| matches!(a.outcome, AttemptOutcome::Won));
    let first_token = answering.last().and_then(|a| a.first_token);
    macro_rules! ended {
        ($level:ident) => {
            tracing::$level!(
                event = "call_ended",
                call,
                trace_id,
                span_id,
                agent.role = %role,
                outcome,
                duration_ms = ms(*duration),
                first_token_ms = first_token.map(ms),
                model.answered = meta.as_ref().map(|m| display(&m.model_id)),
                gen_ai.response.model = reported,
                evenkeel.route = meta.as_ref().map(|m| m.route.as_str()),
                evenkeel.attempts = meta.as_ref().map(|m| m.attempts),
                cost_usd = meta.as_ref().and_then(|m| m.cost_usd).map(usd),
                added_cost_usd = meta.as_ref().and_then(|m| m.added_cost_usd).map(usd),
                spent.input_tokens = trail.spent().usage.input,
                spent.output_tokens = trail.spent().usage.output,
                spent.at_least = trail.spent().at_least,
                error.type = class.map(Class::as_str),
            )
        };
    }
    if *outcome == "error" {
        ended!(info);
    } else {
        ended!(debug);
    }
}

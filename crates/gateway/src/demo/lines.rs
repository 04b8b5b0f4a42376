//! What happened, as JSON for a program: one object a line.

use super::load::Answer;
use super::words::Line;
use evenkeel_core::{Class, Event, EventKind, HedgeResult, ModelId};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// Seconds since `start`, to the millisecond.
pub(super) fn since(start: Instant, at: Instant) -> f64 {
    (at.saturating_duration_since(start).as_secs_f64() * 1_000.0).round() / 1_000.0
}

/// Milliseconds with one decimal.
pub(super) fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}

/// The run enters a phase.
pub(super) fn phase(name: &str, at: Instant, start: Instant) -> Value {
    json!({"at_s": since(start, at), "event": "phase", "phase": name})
}

/// A request that was not answered rightly.
pub(super) fn trouble(what: &Line, answer: &Answer, start: Instant) -> Value {
    json!({"at_s": since(start, answer.ended), "event": "request_failed",
        "what": format!("{}: {}", what.label, what.text), "total_ms": millis(answer.total())})
}

/// An event as one JSON object, none for what every call has; `at_s` counts from `start`.
pub(super) fn event(event: &Event, start: Instant) -> Option<Value> {
    let (name, fields) = role(&event.kind).or_else(|| call(&event.kind))?;
    let mut object = Map::new();
    object.insert("at_s".to_owned(), json!(since(start, event.at)));
    object.insert("event".to_owned(), json!(name));
    if let Some(call) = event.call {
        object.insert("call".to_owned(), json!(call.get()));
    }
    if let Value::Object(fields) = fields {
        object.extend(fields);
    }
    Some(Value::Object(object))
}

/// A role is on its way from one model to another.
fn role(kind: &EventKind) -> Option<(&'static str, Value)> {
    use EventKind as K;
    let ms = |duration: &Option<Duration>| duration.map(millis);
    Some(match kind {
        K::LatencyBreach {
            role,
            model,
            detector,
            measure,
            p95,
            p99,
            slo,
            samples,
            ..
        } => (
            "latency_breach",
            json!({"role": &**role, "model": model.as_str(), "detector": detector,
                "measure": measure, "p95_ms": ms(p95), "p99_ms": ms(p99),
                "slo_ms": millis(*slo), "samples": samples}),
        ),
        K::LatencyBreachEnded {
            role,
            model,
            measure,
            ..
        } => (
            "latency_breach_ended",
            json!({"role": &**role, "model": model.as_str(), "measure": measure}),
        ),
        K::ModelSubstitution {
            role,
            epoch,
            from_model,
            to_model,
            reason,
            latency,
            ..
        } => (
            "model_substitution",
            json!({"role": &**role, "epoch": epoch, "from": from_model.as_str(),
                "to": to_model.as_str(), "reason": reason.as_str(),
                "p95_ms": ms(&latency.p95), "p99_ms": ms(&latency.p99)}),
        ),
        K::CanaryStarted {
            role, model, share, ..
        } => (
            "canary_started",
            json!({"role": &**role, "model": model.as_str(), "share": share}),
        ),
        K::CanaryFailed {
            role,
            model,
            interval,
            ..
        } => (
            "canary_failed",
            json!({"role": &**role, "model": model.as_str(),
                "next_probe_ms": millis(*interval)}),
        ),
        K::ModelRestoration {
            role,
            epoch,
            from_model,
            to_model,
            duration,
            ..
        } => (
            "model_restoration",
            json!({"role": &**role, "epoch": epoch, "from": from_model.as_str(),
                "to": to_model.as_str(), "duration_ms": millis(*duration)}),
        ),
        _ => return None,
    })
}

/// One call's affairs, and what they do to breakers and cooldowns.
fn call(kind: &EventKind) -> Option<(&'static str, Value)> {
    use EventKind as K;
    Some(match kind {
        K::Probed {
            model,
            latency,
            class,
            ..
        } => (
            "probed",
            json!({"model": model.as_str(), "latency_ms": latency.map(millis),
                "class": class.map(Class::as_str)}),
        ),
        K::ModelFallback {
            role,
            primary,
            fallback,
            reason,
            latency_added,
            ..
        } => (
            "model_fallback",
            json!({"role": &**role, "primary": primary.as_str(),
                "fallback": fallback.as_str(), "reason": reason,
                "latency_added_ms": millis(*latency_added)}),
        ),
        K::HedgeStarted {
            role,
            from,
            to,
            budgeted,
        } => (
            "hedge_started",
            json!({"role": &**role, "from_rung": from, "to_rung": to, "budgeted": budgeted}),
        ),
        K::HedgeEnded {
            role,
            from_model,
            to_model,
            reason,
            result: HedgeResult::Won,
            ..
        } => (
            "hedge_won",
            json!({"role": &**role, "from": from_model.as_str(),
                "to": to_model.as_str(), "reason": reason}),
        ),
        K::BreakerTransition {
            provider,
            model,
            from,
            to,
            retry_in,
            ..
        } => (
            "breaker_transition",
            json!({"provider": &**provider, "model": model.as_ref().map(ModelId::as_str),
                "from": from, "to": to, "retry_in_ms": retry_in.map(millis)}),
        ),
        K::CooldownStarted { model, duration } => (
            "cooldown_started",
            json!({"model": model.as_str(), "duration_ms": millis(*duration)}),
        ),
        K::HoldStarted {
            provider,
            model,
            class,
            duration,
            ..
        } => (
            "hold_started",
            json!({"provider": &**provider, "model": model.as_ref().map(ModelId::as_str),
                "class": class.as_str(), "duration_ms": millis(*duration)}),
        ),
        K::RosterExhausted {
            role,
            tried,
            refused,
            ..
        } => (
            "roster_exhausted",
            json!({"role": &**role,
                "tried": tried.iter().map(|(m, c)| format!("{m}:{c}")).collect::<Vec<_>>(),
                "refused": refused.iter().map(|(m, r)| format!("{m}:{}", r.told()))
                    .collect::<Vec<_>>()}),
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::Refusal;

    #[test]
    fn an_event_is_one_object_with_its_time_first() {
        let start = tokio::time::Instant::now().into_std();
        let model = ModelId::new("a/x").unwrap();
        let probed = Event {
            at: start + Duration::from_millis(12_345),
            call: None,
            kind: EventKind::Probed {
                model,
                duration: Duration::from_micros(207_040),
                latency: Some(Duration::from_micros(207_040)),
                class: None,
                cost: None,
                booked_on: "agent".into(),
                verdicts: Vec::new(),
            },
        };
        assert_eq!(
            event(&probed, start).unwrap().to_string(),
            r#"{"at_s":12.345,"event":"probed","model":"a/x","latency_ms":207.0,"class":null}"#
        );
    }

    #[test]
    fn a_call_without_an_answer_names_every_model_and_why() {
        let start = tokio::time::Instant::now().into_std();
        let exhausted = Event {
            at: start,
            call: None,
            kind: EventKind::RosterExhausted {
                role: "agent".into(),
                task: None,
                primary: ModelId::new("a/x").unwrap(),
                last: Some(Class::Transient),
                tried: vec![(ModelId::new("a/x").unwrap(), Class::Transient)],
                refused: vec![(
                    ModelId::new("b/y").unwrap(),
                    Refusal::BreakerOpen(Duration::from_secs(1)),
                )],
            },
        };
        let value = event(&exhausted, start).unwrap();
        assert_eq!(value["tried"], json!(["a/x:transient"]));
        assert_eq!(value["refused"], json!(["b/y:breaker_open"]));
    }
}

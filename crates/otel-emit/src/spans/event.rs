//! The events of the contract, with exactly its attributes.

use crate::breached_percentile;
use crate::value::{foreign, int, model, ms, short, text, texts};
use crate::{names, semconv};
use evenkeel_core::{Class, EventKind, HedgeResult, Latency, ModelId, Refusal};
use opentelemetry::KeyValue;
use std::time::Duration;

/// An event to be put on a span, or into a log record.
#[derive(Debug)]
pub(super) struct SpanEvent {
    /// Its name on a span.
    pub(super) name: &'static str,
    /// Its name in a log record.
    pub(super) log_name: &'static str,
    pub(super) attributes: Vec<KeyValue>,
}

/// An event whose names are `name` and `evenkeel.name`.
macro_rules! named {
    ($name:literal, $attributes:expr) => {
        SpanEvent {
            name: $name,
            log_name: concat!("evenkeel.", $name),
            attributes: $attributes,
        }
    };
}

/// The contract's event for what happened, where it has one.
pub(super) fn of(kind: &EventKind) -> Option<SpanEvent> {
    let kind = &*kind.told();
    Some(match kind {
        EventKind::ModelSubstitution { .. } | EventKind::HedgeEnded { .. } => {
            named!("model_substitution", substitution(kind)?)
        }
        EventKind::ModelRestoration { .. } => {
            named!("model_restoration", restoration(kind)?)
        }
        EventKind::LatencyBreach { .. } => named!("latency_breach", breach(kind)?),
        EventKind::ModelFallback { .. } => SpanEvent {
            name: "model_fallback",
            log_name: "evenkeel.model_fallback_activated",
            attributes: fallback(kind)?,
        },
        EventKind::BreakerTransition { .. } => {
            named!("breaker_transition", transition(kind)?)
        }
        EventKind::WorkflowDegraded { .. } => {
            named!("workflow_degraded", workflow(kind)?)
        }
        EventKind::QualityRejected { .. } => named!("quality_rejected", rejected(kind)?),
        EventKind::RosterExhausted { .. } => named!("roster_exhausted", exhausted(kind)?),
        EventKind::ModelDrift { .. } => named!("model_drift", drift(kind)?),
        _ => return None,
    })
}

/// Both percentiles; without a sample they are 0, and it is said that there is none.
fn percentiles(attributes: &mut Vec<KeyValue>, p95: Option<Duration>, p99: Option<Duration>) {
    let told = |p: Option<Duration>| p.map_or(0.0, ms);
    attributes.push(KeyValue::new(names::LATENCY_P95_MS, told(p95)));
    attributes.push(KeyValue::new(names::LATENCY_P99_MS, told(p99)));
}

fn latency(attributes: &mut Vec<KeyValue>, latency: &Latency) {
    percentiles(attributes, latency.p95, latency.p99);
    attributes.push(KeyValue::new(names::LATENCY_SAMPLES, int(latency.samples)));
}

fn limits(attributes: &mut Vec<KeyValue>, latency: &Latency) {
    attributes.push(KeyValue::new(
        names::LATENCY_SLO_P95_MS,
        ms(latency.slo_p95),
    ));
    attributes.push(KeyValue::new(
        names::LATENCY_SLO_P99_MS,
        ms(latency.slo_p99),
    ));
}

/// A move of a role's word, or a hedge whose answer was taken.
fn substitution(kind: &EventKind) -> Option<Vec<KeyValue>> {
    let (role, from, to, rung, reason, seen, scope) = match kind {
        EventKind::ModelSubstitution {
            role,
            primary,
            to_model,
            to,
            reason,
            latency,
            ..
        } => (
            role,
            primary,
            to_model,
            to,
            reason.as_str(),
            latency,
            "role",
        ),
        EventKind::HedgeEnded {
            role,
            from_model,
            to_model,
            to,
            result: HedgeResult::Won,
            reason,
            latency,
            ..
        } => (role, from_model, to_model, to, *reason, latency, "request"),
        _ => return None,
    };
    let mut attributes = vec![
        foreign(names::AGENT_ROLE, role),
        model(names::MODEL_PRIMARY, from),
        model(names::MODEL_FALLBACK_ATTRIBUTE, to),
        text(names::SUBSTITUTION_REASON, reason),
    ];
    latency(&mut attributes, seen);
    limits(&mut attributes, seen);
    attributes.push(text(names::SUBSTITUTION_SCOPE, scope));
    if scope == "request" {
        attributes.push(KeyValue::new(names::SUBSTITUTION_MID_FLIGHT, true));
    }
    attributes.push(KeyValue::new(names::FALLBACK_DEPTH, int(*rung)));
    Some(attributes)
}

fn restoration(kind: &EventKind) -> Option<Vec<KeyValue>> {
    let EventKind::ModelRestoration {
        role,
        from_model,
        to_model,
        duration,
        reason,
        latency: seen,
        ..
    } = kind
    else {
        return None;
    };
    let mut attributes = vec![
        foreign(names::AGENT_ROLE, role),
        model(names::MODEL_PRIMARY, to_model),
        model(names::MODEL_FALLBACK_ATTRIBUTE, from_model),
        text(names::RESTORATION_REASON, reason.as_str()),
        KeyValue::new(names::RESTORATION_DURATION_MS, ms(*duration)),
    ];
    if seen.samples == 0 {
        latency(&mut attributes, seen);
    } else {
        percentiles(&mut attributes, seen.p95, seen.p99);
    }
    Some(attributes)
}

fn breach(kind: &EventKind) -> Option<Vec<KeyValue>> {
    let EventKind::LatencyBreach {
        role,
        model: breached,
        detector,
        measure,
        p95,
        p99,
        slo,
        samples,
        window,
        ..
    } = kind
    else {
        return None;
    };
    let percentile = breached_percentile(detector);
    let mut attributes = vec![
        foreign(names::AGENT_ROLE, role),
        model(names::MODEL_PRIMARY, breached),
        text(names::BREACH_DETECTOR, *detector),
        text(names::BREACH_PERCENTILE, percentile),
    ];
    percentiles(&mut attributes, *p95, *p99);
    attributes.push(KeyValue::new(names::LATENCY_SLO_MS, ms(*slo)));
    attributes.push(text(names::BREACH_MEASURE, *measure));
    attributes.push(KeyValue::new(names::LATENCY_SAMPLES, int(*samples)));
    attributes.push(KeyValue::new(names::BREACH_WINDOW_S, window.as_secs_f64()));
    Some(attributes)
}

fn fallback(kind: &EventKind) -> Option<Vec<KeyValue>> {
    let EventKind::ModelFallback {
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
    } = kind
    else {
        return None;
    };
    let task = task.clone().unwrap_or_default();
    let mut attributes = vec![
        foreign(names::AGENT_ROLE, role),
        foreign(names::BARE_TASK_TYPE, &task),
        model(names::BARE_PRIMARY_MODEL, primary),
        model(names::BARE_FALLBACK_MODEL, fallback),
        text(names::BARE_REASON, *reason),
        KeyValue::new(names::BARE_LATENCY_ADDED_MS, ms(*latency_added)),
        KeyValue::new(names::FALLBACK_DEPTH, int(*rung)),
    ];
    error(&mut attributes, *class);
    let status = status.map(i64::from);
    attributes.extend(status.map(|s| KeyValue::new(semconv::HTTP_RESPONSE_STATUS_CODE, s)));
    Some(attributes)
}

fn error(attributes: &mut Vec<KeyValue>, class: Option<Class>) {
    attributes.extend(class.map(|class| text(semconv::ERROR_TYPE, class.as_str())));
}

fn transition(kind: &EventKind) -> Option<Vec<KeyValue>> {
    let EventKind::BreakerTransition {
        system,
        model: of,
        role,
        from,
        to,
        retry_in,
        failures,
        class,
        ..
    } = kind
    else {
        return None;
    };
    let mut attributes = vec![text(semconv::PROVIDER_NAME, system.clone())];
    attributes.extend(of.as_ref().map(|of| model(names::MODEL_PRIMARY, of)));
    // The count of a model's useless answers to one role is a breaker of its own.
    attributes.extend(role.as_ref().map(|role| foreign(names::AGENT_ROLE, role)));
    attributes.push(text(names::BREAKER_FROM, *from));
    attributes.push(text(names::BREAKER_TO, *to));
    attributes.extend(failures.map(|count| KeyValue::new(names::BREAKER_FAILURES, int(count))));
    attributes.extend(retry_in.map(|wait| KeyValue::new(names::BREAKER_RETRY_AFTER_MS, ms(wait))));
    error(&mut attributes, *class);
    Some(attributes)
}

fn workflow(kind: &EventKind) -> Option<Vec<KeyValue>> {
    let EventKind::WorkflowDegraded {
        workflow,
        level,
        depth,
        roles,
        expected_quality,
    } = kind
    else {
        return None;
    };
    let roles = roles.iter().map(|role| role.clone().into()).collect();
    Some(vec![
        foreign(names::BARE_WORKFLOW, workflow),
        text(names::DEGRADATION_LEVEL, level.as_str()),
        KeyValue::new(names::DEGRADATION_DEPTH, i64::from(*depth)),
        texts(names::DEGRADATION_ROLES, roles),
        KeyValue::new(names::QUALITY_EXPECTED_RATIO, *expected_quality),
    ])
}

/// A fallback's answer that was refused; of the primary's, its attempt tells.
fn rejected(kind: &EventKind) -> Option<Vec<KeyValue>> {
    let EventKind::QualityRejected {
        role,
        task,
        rung: 1..,
        model: refused,
        gate,
        ..
    } = kind
    else {
        return None;
    };
    let mut attributes = vec![
        foreign(names::AGENT_ROLE, role),
        model(names::MODEL_FALLBACK_ATTRIBUTE, refused),
        // A gate says yes or no: what it refuses has no part of the score.
        KeyValue::new(names::QUALITY_SCORE, 0.0),
        text(names::QUALITY_GATE, gate.clone()),
    ];
    let task = task.as_ref();
    attributes.extend(task.map(|task| foreign(names::BARE_TASK_TYPE, task)));
    Some(attributes)
}

fn exhausted(kind: &EventKind) -> Option<Vec<KeyValue>> {
    let EventKind::RosterExhausted {
        role,
        primary,
        tried,
        refused,
        last,
        ..
    } = kind
    else {
        return None;
    };
    let tried = tried
        .iter()
        .map(|(id, _)| short(id.as_str()).to_owned().into());
    let refusal = |(id, refusal): &(ModelId, Refusal)| {
        format!("{}:{}", short(id.as_str()), refusal.told()).into()
    };
    let mut attributes = vec![
        foreign(names::AGENT_ROLE, role),
        model(names::MODEL_PRIMARY, primary),
        texts(names::EXHAUSTED_TRIED, tried.collect()),
        texts(
            names::EXHAUSTED_REFUSED,
            refused.iter().map(refusal).collect(),
        ),
    ];
    error(&mut attributes, *last);
    Some(attributes)
}

fn drift(kind: &EventKind) -> Option<Vec<KeyValue>> {
    let EventKind::ModelDrift {
        role,
        model: drifted,
        reported,
        expected,
    } = kind
    else {
        return None;
    };
    Some(vec![
        foreign(names::AGENT_ROLE, role),
        text(semconv::REQUEST_MODEL, drifted.model().to_owned()),
        foreign(semconv::RESPONSE_MODEL, &reported.to_string().into()),
        foreign(names::DRIFT_EXPECTED, &expected.to_string().into()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{Away, RestorationReason, SubstitutionReason};

    fn told(kind: &EventKind, key: &str) -> Option<String> {
        let told = of(kind)?.attributes.into_iter();
        let mut told = told.filter(|kv| kv.key.as_str() == key);
        told.next().map(|kv| kv.value.to_string())
    }

    #[test]
    fn a_breaker_names_its_provider_as_attempts_do() {
        let opened = EventKind::BreakerTransition {
            provider: "ours".into(),
            system: "gcp.gemini".into(),
            model: None,
            role: None,
            from: "closed",
            to: "open",
            retry_in: None,
            cause: "consecutive_failures",
            failures: Some(5),
            class: None,
        };
        let name = told(&opened, semconv::PROVIDER_NAME);
        assert_eq!(name.as_deref(), Some("gcp.gemini"));
    }
    fn id(text: &str) -> ModelId {
        ModelId::new(text).expect("two parts")
    }

    /// From the second rung of three to the third, and half of the way back.
    fn cascade() -> [EventKind; 2] {
        let latency = Latency {
            measure: "total",
            p95: Some(Duration::from_secs(6)),
            p99: Some(Duration::from_secs(9)),
            slo_p95: Duration::from_secs(5),
            slo_p99: Duration::from_secs(8),
            samples: 20,
        };
        let on = EventKind::ModelSubstitution {
            role: "planner".into(),
            task: None,
            epoch: 2,
            primary: id("a/x"),
            from: 1,
            from_model: id("b/y"),
            to: 2,
            to_model: id("c/z"),
            reason: SubstitutionReason::LatencySpike,
            latency,
        };
        let back = EventKind::ModelRestoration {
            role: "planner".into(),
            task: None,
            epoch: 3,
            from: 2,
            from_model: id("c/z"),
            to: 1,
            to_model: id("b/y"),
            duration: Duration::from_secs(1),
            reason: RestorationReason::Recovered,
            latency,
            away: Some(Away {
                primary: id("a/x"),
                reason: SubstitutionReason::LatencyP95Breach,
            }),
        };
        [on, back]
    }

    #[test]
    fn the_primary_of_a_cascade_is_the_role_s_until_it_is_back() {
        let steps = [
            ("z", "latency_spike", "20"),
            ("y", "latency_p95_breach", "0"),
        ];
        for (kind, (fallback, reason, samples)) in cascade().iter().zip(steps) {
            assert_eq!(of(kind).map(|told| told.name), Some("model_substitution"));
            for (key, expected) in [
                (names::MODEL_PRIMARY, "x"),
                (names::MODEL_FALLBACK_ATTRIBUTE, fallback),
                (names::SUBSTITUTION_REASON, reason),
                (names::LATENCY_SAMPLES, samples),
            ] {
                let said = told(kind, key).unwrap_or_default();
                assert!(said.ends_with(expected), "{key}: {said}");
            }
        }
    }
}

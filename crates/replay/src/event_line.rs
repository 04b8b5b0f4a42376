//! Events as lines, for expectations and reports.

use evenkeel_core::{EventKind, HedgeResult};
use std::fmt;
use std::sync::Arc;

/// What an event tells, in one line that begins with what happened and to whom:
/// `substitution agent 0 -> 1 latency_spike`, `breaker acme/big closed -> open`. A task
/// that is judged apart is told by its own name: `breach agent.review 0 …`.
/// None for the events that each call and attempt has: its trail tells of them.
pub fn event_line(event: &EventKind) -> Option<String> {
    of_traffic(event)
        .or_else(|| of_call(event))
        .or_else(|| of_model(event))
}

/// Of where a role sends its traffic, and why.
fn of_traffic(event: &EventKind) -> Option<String> {
    Some(match event {
        EventKind::LatencyBreach {
            role,
            task,
            rung,
            detector,
            measure,
            ..
        } => format!("breach {} {rung} {detector} {measure}", Unit(role, task)),
        EventKind::LatencyBreachEnded {
            role,
            task,
            rung,
            measure,
            ..
        } => format!("breach_ended {} {rung} {measure}", Unit(role, task)),
        EventKind::ModelSubstitution {
            role,
            task,
            from,
            to,
            reason,
            ..
        } => format!(
            "substitution {} {from} -> {to} {}",
            Unit(role, task),
            reason.as_str()
        ),
        EventKind::CanaryStarted {
            role,
            task,
            rung,
            share,
            ..
        } => format!("canary {} {rung} {share}", Unit(role, task)),
        EventKind::CanaryFailed {
            role, task, rung, ..
        } => format!("canary_failed {} {rung}", Unit(role, task)),
        EventKind::ModelRestoration {
            role,
            task,
            from,
            to,
            ..
        } => format!("restoration {} {from} -> {to}", Unit(role, task)),
        EventKind::Probed {
            model,
            latency,
            class,
            ..
        } => match (class, latency) {
            (Some(class), _) => format!("probed {model} {class}"),
            (None, Some(_)) => format!("probed {model} ok"),
            (None, None) => format!("probed {model} nothing"),
        },
        _ => return None,
    })
}

/// Of one call.
fn of_call(event: &EventKind) -> Option<String> {
    Some(match event {
        EventKind::ModelFallback {
            role,
            primary,
            fallback,
            reason,
            ..
        } => format!("fallback {role} {primary} -> {fallback} {reason}"),
        EventKind::StreamInterrupted {
            role,
            from,
            class,
            resumed,
            ..
        } => match resumed {
            Some((rung, _)) => format!("interrupted {role} {from} -> {rung} {class}"),
            None => format!("interrupted {role} {from} {class}"),
        },
        EventKind::QualityRejected {
            role, model, gate, ..
        } => format!("rejected {role} {model} {gate}"),
        EventKind::ValidatorFailed {
            role,
            validator,
            why,
            ..
        } => format!("validator_failed {role} {validator} {why}"),
        EventKind::HedgeStarted {
            role,
            from,
            to,
            budgeted,
        } => {
            let why = if *budgeted { "budgeted" } else { "in_breach" };
            format!("hedge {role} {from} -> {to} {why}")
        }
        EventKind::HedgeEnded {
            role,
            from,
            to,
            reason,
            result: HedgeResult::Won,
            ..
        } => format!("hedge_won {role} {from} -> {to} {reason}"),
        EventKind::Shadowed(pair) => format!("shadowed {} {}", pair.role, pair.shadow.model),
        EventKind::TicketChanged {
            role,
            state,
            attempts,
            ..
        } => format!("ticket {role} {state} {attempts}"),
        EventKind::RosterExhausted { role, .. } => format!("exhausted {role}"),
        _ => return None,
    })
}

/// Of what keeps a model away from every role.
fn of_model(event: &EventKind) -> Option<String> {
    Some(match event {
        EventKind::BreakerTransition {
            provider,
            model,
            role,
            from,
            to,
            ..
        } => match (model, role) {
            (None, _) => format!("breaker {provider} {from} -> {to}"),
            (Some(model), None) => format!("breaker {model} {from} -> {to}"),
            (Some(model), Some(role)) => format!("quality_gate {role} {model} {from} -> {to}"),
        },
        EventKind::CooldownStarted { model, .. } => format!("cooldown {model}"),
        EventKind::HoldStarted {
            provider,
            model,
            class,
            ..
        } => match model {
            Some(model) => format!("hold {model} {class}"),
            None => format!("hold {provider} {class}"),
        },
        EventKind::ModelDrift {
            role,
            model,
            reported,
            ..
        } => format!("drift {role} {model} {reported}"),
        EventKind::ModelStatus {
            model,
            stage,
            last_day,
        } => {
            let words = [stage, last_day].map(|word| word.as_deref().unwrap_or("-"));
            format!("status {model} {}", words.join(" "))
        }
        EventKind::DrillStarted { kind, model, .. } => {
            format!("drill {} {model}", kind.as_str())
        }
        EventKind::DrillEnded { kind, model, .. } => {
            format!("drill_ended {} {model}", kind.as_str())
        }
        _ => return None,
    })
}

/// A role, or a task of it that is judged apart.
struct Unit<'a>(&'a str, &'a Option<Arc<str>>);

impl fmt::Display for Unit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(role, None) => f.write_str(role),
            Self(role, Some(task)) => write!(f, "{role}.{task}"),
        }
    }
}

//! Events as lines, for expectations and reports.

use evenkeel_core::EventKind;

/// What an event tells, in one line that begins with what happened and to whom:
/// `substitution agent 0 -> 1 latency_spike`, `breaker acme/big closed -> open`.
/// None for the events that each call and attempt has: its trail tells of them.
pub fn event_line(event: &EventKind) -> Option<String> {
    Some(match event {
        EventKind::LatencyBreach {
            role,
            rung,
            detector,
            measure,
            ..
        } => format!("breach {role} {rung} {detector} {measure}"),
        EventKind::LatencyBreachEnded {
            role,
            rung,
            measure,
            ..
        } => format!("breach_ended {role} {rung} {measure}"),
        EventKind::ModelSubstitution {
            role,
            from,
            to,
            reason,
            ..
        } => format!("substitution {role} {from} -> {to} {}", reason.as_str()),
        EventKind::CanaryStarted {
            role, rung, share, ..
        } => format!("canary {role} {rung} {share}"),
        EventKind::CanaryFailed { role, rung, .. } => format!("canary_failed {role} {rung}"),
        EventKind::ModelRestoration { role, from, to, .. } => {
            format!("restoration {role} {from} -> {to}")
        }
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
        EventKind::ModelFallback {
            role,
            primary,
            fallback,
            reason,
            ..
        } => format!("fallback {role} {primary} -> {fallback} {reason}"),
        EventKind::HedgeStarted {
            role,
            from,
            to,
            budgeted,
        } => {
            let why = if *budgeted { "budgeted" } else { "in_breach" };
            format!("hedge {role} {from} -> {to} {why}")
        }
        EventKind::HedgeWon {
            role,
            from,
            to,
            reason,
            ..
        } => format!("hedge_won {role} {from} -> {to} {reason}"),
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
        EventKind::RosterExhausted { role, .. } => format!("exhausted {role}"),
        _ => return None,
    })
}

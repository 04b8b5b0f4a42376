//! What happened, in words for a person.

use super::load::Outcome;
use evenkeel_core::{EventKind, HedgeResult, ModelId};
use std::time::Duration;

/// One event for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// What happened, in a word or two.
    pub(super) label: &'static str,
    /// The details.
    pub(super) text: String,
    /// How much it matters.
    pub(super) weight: Weight,
}

/// How much an event matters to somebody who watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// One call's affair; many of a kind are shown as one line with a count.
    Call,
    /// A step on the way.
    Step,
    /// The role moved, or a breaker or cooldown changed where calls go.
    Turn,
}

/// A duration for a person: `480 ms`, `1.18 s`.
pub(super) fn human(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{:.0} ms", duration.as_secs_f64() * 1_000.0)
    } else {
        format!("{:.2} s", duration.as_secs_f64())
    }
}

impl Line {
    fn new(weight: Weight, label: &'static str, text: impl Into<String>) -> Self {
        Self {
            label,
            text: text.into(),
            weight,
        }
    }
}

/// An event in words. None for what every call has, and for the end of a
/// breach: that the primary is well again is told by probes, canary and
/// restoration.
pub(super) fn event(kind: &EventKind) -> Option<Line> {
    role(kind).or_else(|| call(kind))
}

/// A role is on its way from one model to another.
fn role(kind: &EventKind) -> Option<Line> {
    use EventKind as K;
    Some(match kind {
        K::LatencyBreach {
            model,
            detector,
            slo,
            ..
        } => Line::new(
            Weight::Step,
            "breach",
            format!(
                "{model} is too slow ({detector} detector, limit {})",
                human(*slo)
            ),
        ),
        K::ModelSubstitution {
            role,
            from_model,
            to_model,
            reason,
            ..
        } => Line::new(
            Weight::Turn,
            "substitution",
            format!("{role}: {from_model} → {to_model} ({})", reason.as_str()),
        ),
        K::CanaryStarted { model, share, .. } => Line::new(
            Weight::Step,
            "canary",
            format!("{:.0}% of the sessions go to {model} again", share * 100.0),
        ),
        K::CanaryFailed {
            model, interval, ..
        } => Line::new(
            Weight::Step,
            "canary failed",
            format!(
                "{model} is not well yet; next probe in {}",
                human(*interval)
            ),
        ),
        K::ModelRestoration {
            role,
            from_model,
            to_model,
            duration,
            ..
        } => Line::new(
            Weight::Turn,
            "restoration",
            format!(
                "{role}: {from_model} → {to_model} after {}",
                human(*duration)
            ),
        ),
        _ => return None,
    })
}

/// One call's affairs, and what they do to breakers and cooldowns.
fn call(kind: &EventKind) -> Option<Line> {
    use EventKind as K;
    Some(match kind {
        K::Probed {
            model,
            latency,
            class,
            ..
        } => Line::new(Weight::Call, "probe", probe(model, *latency, *class)),
        K::ModelFallback {
            primary,
            fallback,
            reason,
            ..
        } => Line::new(
            Weight::Call,
            "failover",
            format!("{primary} → {fallback} ({reason})"),
        ),
        K::HedgeStarted { .. } => Line::new(
            Weight::Call,
            "hedge",
            "patience ended: a second attempt runs too".to_owned(),
        ),
        K::HedgeEnded {
            from_model,
            to_model,
            result: HedgeResult::Won,
            ..
        } => Line::new(
            Weight::Call,
            "hedge won",
            format!("{to_model} answered before {from_model}"),
        ),
        K::BreakerTransition {
            provider,
            model,
            to,
            retry_in,
            ..
        } => breaker(provider, model.as_ref(), to, *retry_in),
        K::CooldownStarted { model, duration } => Line::new(
            Weight::Turn,
            "cooldown",
            format!("{model} is left alone for {}", human(*duration)),
        ),
        K::HoldStarted {
            provider,
            model,
            class,
            duration,
            ..
        } => Line::new(
            Weight::Turn,
            "hold",
            format!(
                "{} is set aside for {} ({class})",
                model.as_ref().map_or(&**provider, ModelId::as_str),
                human(*duration)
            ),
        ),
        K::RosterExhausted { .. } => Line::new(
            Weight::Call,
            "exhausted",
            "no model is left: 503 `roster_exhausted`".to_owned(),
        ),
        _ => return None,
    })
}

/// What a caller got instead of its answer; nothing where it got its answer.
pub(super) fn trouble(outcome: &Outcome) -> Option<Line> {
    let (label, text) = match outcome {
        Outcome::Answered { .. } => return None,
        Outcome::Wrong { model, what } => ("WRONG ANSWER", format!("from {model}: {what}")),
        Outcome::Refused { status, code } => ("refused", format!("{status} {code}")),
        Outcome::Broken { what } => ("FAILED", what.clone()),
    };
    Some(Line::new(Weight::Call, label, text))
}

fn probe(
    model: &ModelId,
    latency: Option<Duration>,
    class: Option<evenkeel_core::Class>,
) -> String {
    match (latency, class) {
        (Some(latency), _) => format!("{model} answered in {}", human(latency)),
        (None, Some(class)) => format!("{model}: {class}"),
        (None, None) => format!("{model}: no answer in time"),
    }
}

fn breaker(
    provider: &str,
    model: Option<&ModelId>,
    to: &'static str,
    retry_in: Option<Duration>,
) -> Line {
    let whose = model.map_or(provider, ModelId::as_str);
    match to {
        "open" => {
            let wait = retry_in.map_or_else(String::new, |d| format!(" for {}", human(d)));
            Line::new(
                Weight::Turn,
                "breaker open",
                format!("{whose} is not asked{wait}"),
            )
        }
        "closed" => Line::new(
            Weight::Turn,
            "breaker closed",
            format!("{whose} is asked again"),
        ),
        "half_open" => Line::new(
            Weight::Step,
            "half open",
            format!("a few calls try {whose}"),
        ),
        _ => Line::new(Weight::Step, "breaker", format!("{whose}: {to}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_reads_as_a_sentence() {
        let probed = EventKind::Probed {
            model: ModelId::new("a/x").unwrap(),
            duration: Duration::from_micros(207_040),
            latency: Some(Duration::from_micros(207_040)),
            class: None,
            cost: None,
            booked_on: "agent".into(),
            verdicts: Vec::new(),
        };
        assert_eq!(event(&probed).unwrap().text, "a/x answered in 207 ms");
        let opened = EventKind::BreakerTransition {
            provider: "a".into(),
            system: "openai".into(),
            model: None,
            role: None,
            from: "closed",
            to: "open",
            retry_in: Some(Duration::from_secs(2)),
            cause: "consecutive_failures",
            failures: Some(5),
            class: None,
        };
        let line = event(&opened).unwrap();
        assert_eq!(
            (line.label, &*line.text),
            ("breaker open", "a is not asked for 2.00 s")
        );
        assert_eq!(line.weight, Weight::Turn);
    }

    #[test]
    fn durations_read_as_a_person_says_them() {
        assert_eq!(human(Duration::from_millis(480)), "480 ms");
        assert_eq!(human(Duration::from_millis(1_184)), "1.18 s");
    }
}

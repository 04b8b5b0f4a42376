//! What the router tells while the demo runs: an observer that passes on what
//! is worth showing, and the counts the report needs.

use evenkeel_core::{Event, EventKind, HedgeResult, Observer};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// Passes the router's events on, without those that every call has.
///
/// The channel is not bounded, so that the router is never held up; the run
/// reads it all the time, and a call in trouble makes a handful of events.
#[derive(Debug)]
pub(super) struct Forward(UnboundedSender<Event>);

impl Observer for Forward {
    fn on(&self, event: &Event) {
        if !every_call_has(&event.kind) {
            // The reader is gone only when the run is over.
            let _ = self.0.send(event.clone());
        }
    }
}

/// An observer and the events it passes on.
pub(super) fn channel() -> (Forward, UnboundedReceiver<Event>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Forward(sender), receiver)
}

/// Whether a call in perfect order makes this event too.
fn every_call_has(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::CallStarted { .. }
            | EventKind::AttemptStarted { .. }
            | EventKind::AttemptEnded { .. }
            | EventKind::AnswerJudged { .. }
            | EventKind::LoserClosed { .. }
            | EventKind::CallEnded { .. }
    )
}

/// Counts of what happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Moves of the role away from a slow model.
    pub(super) activations: usize,
    /// Moves back.
    pub(super) restorations: usize,
    /// Hedges started.
    pub(super) hedges: usize,
    /// Hedges whose answer was taken.
    pub(super) hedges_won: usize,
    /// Breakers of a model that opened.
    pub(super) breakers_opened: usize,
    /// Breakers of a model that closed again.
    pub(super) breakers_closed: usize,
    /// Cooldowns after a rate limit.
    pub(super) cooldowns: usize,
    /// Calls no model could answer.
    pub(super) exhausted: usize,
    /// When the role first moved.
    pub(super) activated: Option<Instant>,
    /// When it last moved back.
    pub(super) restored: Option<Instant>,
}

impl Tally {
    /// Counts one event.
    pub(super) fn count(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ModelSubstitution { .. } => {
                self.activations += 1;
                self.activated.get_or_insert(event.at);
            }
            EventKind::ModelRestoration { .. } => {
                self.restorations += 1;
                self.restored = Some(event.at);
            }
            EventKind::HedgeStarted { .. } => self.hedges += 1,
            EventKind::HedgeEnded {
                result: HedgeResult::Won,
                ..
            } => self.hedges_won += 1,
            // The breaker that answers to errors; the one for useless answers has a role.
            EventKind::BreakerTransition {
                model: Some(_),
                role: None,
                to,
                ..
            } => match *to {
                "open" => self.breakers_opened += 1,
                "closed" => self.breakers_closed += 1,
                _ => {}
            },
            EventKind::CooldownStarted { .. } => self.cooldowns += 1,
            EventKind::RosterExhausted { .. } => self.exhausted += 1,
            _ => {}
        }
    }

    /// From the onset of the fault to the role's first move.
    pub(super) fn time_to_substitution(&self, onset: Option<Instant>) -> Option<Duration> {
        Some(self.activated?.saturating_duration_since(onset?))
    }

    /// From the role's first move to its last move back.
    pub(super) fn time_to_restoration(&self) -> Option<Duration> {
        Some(self.restored?.saturating_duration_since(self.activated?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{CallId, Latency, ModelId, SubstitutionReason};

    fn model(name: &str) -> ModelId {
        ModelId::new(name).unwrap()
    }

    const LATENCY: Latency = Latency {
        measure: "total",
        p95: None,
        p99: None,
        slo_p95: Duration::from_secs(1),
        slo_p99: Duration::from_secs(2),
        samples: 0,
    };

    fn substitution(at: Instant) -> Event {
        Event {
            at,
            call: Some(CallId::next()),
            kind: EventKind::ModelSubstitution {
                role: "agent".into(),
                task: None,
                epoch: 1,
                primary: model("a/x"),
                from: 0,
                from_model: model("a/x"),
                to: 1,
                to_model: model("b/y"),
                reason: SubstitutionReason::LatencySpike,
                latency: LATENCY,
            },
        }
    }

    fn restoration(at: Instant) -> Event {
        Event {
            at,
            call: None,
            kind: EventKind::ModelRestoration {
                role: "agent".into(),
                task: None,
                epoch: 2,
                from: 1,
                from_model: model("b/y"),
                to: 0,
                to_model: model("a/x"),
                duration: Duration::from_secs(15),
                reason: evenkeel_core::RestorationReason::Recovered,
                latency: LATENCY,
                away: None,
            },
        }
    }

    #[test]
    fn times_run_from_onset_to_move_and_from_move_to_return() {
        let onset = tokio::time::Instant::now().into_std();
        let mut tally = Tally::default();
        assert_eq!(tally.time_to_substitution(Some(onset)), None);
        tally.count(&substitution(onset + Duration::from_millis(870)));
        tally.count(&restoration(onset + Duration::from_millis(15_870)));
        assert_eq!(
            tally.time_to_substitution(Some(onset)),
            Some(Duration::from_millis(870))
        );
        assert_eq!(tally.time_to_restoration(), Some(Duration::from_secs(15)));
        assert_eq!((tally.activations, tally.restorations), (1, 1));
    }

    #[test]
    fn a_providers_own_breaker_is_not_counted_beside_its_models() {
        let at = tokio::time::Instant::now().into_std();
        let mut tally = Tally::default();
        for model in [Some(model("a/x")), None] {
            tally.count(&Event {
                at,
                call: None,
                kind: EventKind::BreakerTransition {
                    provider: "a".into(),
                    system: "openai".into(),
                    model,
                    role: None,
                    from: "closed",
                    to: "open",
                    retry_in: Some(Duration::from_secs(2)),
                    cause: "consecutive_failures",
                    failures: Some(5),
                    class: None,
                },
            });
        }
        assert_eq!(tally.breakers_opened, 1);
    }

    #[test]
    fn what_every_call_has_is_not_passed_on() {
        let at = tokio::time::Instant::now().into_std();
        let (observer, mut events) = channel();
        observer.on(&Event {
            at,
            call: Some(CallId::next()),
            kind: EventKind::CallStarted {
                role: "agent".into(),
                task: None,
                request_id: None,
                workflow: None,
                session: None,
                caller: None,
                primary: model("a/x"),
                deadline: Duration::from_secs(60),
                streams: false,
                policy: None,
                trace: None,
            },
        });
        observer.on(&substitution(at));
        let passed = events.try_recv().unwrap();
        assert!(matches!(passed.kind, EventKind::ModelSubstitution { .. }));
        assert!(events.try_recv().is_err());
    }
}

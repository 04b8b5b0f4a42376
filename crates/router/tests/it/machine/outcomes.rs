//! Rules of a call's end: one outcome, which its trail explains.

use super::history::{Call, End, History, Told, between};
use super::roster::RUNGS;
use super::subject::Saw;
use super::{Machine, Rule, config};
use evenkeel_core::{AttemptKind, AttemptOutcome, AttemptRecord, Class, TrailStep};
use proptest_state_machine::prop_state_machine;
use std::time::Duration;

/// Every call has one end, the one its caller saw.
struct Outcomes;

impl Rule for Outcomes {
    fn check(history: &History) {
        for call in &history.calls {
            let [end] = call.ends.as_slice() else {
                panic!("{} ends of {call:?}", call.ends.len());
            };
            let rung = end.meta.as_ref().map(|meta| meta.rung);
            match call.saw {
                Saw::AnswerOf(by) => assert_eq!((end.outcome, rung), ("ok", Some(by)), "{call:?}"),
                Saw::Error => assert_eq!(end.outcome, "error", "{call:?}"),
                Saw::Nothing => assert_eq!(end.outcome, "cancelled", "{call:?}"),
            }
            if history.safe && end.outcome == "error" {
                excused(call, end);
            }
        }
        for attempt in &history.attempts {
            assert!(attempt.ended.is_some(), "it outlives its call: {attempt:?}");
        }
    }
}

/// A rung was well, and the call failed all the same: its stream broke in the caller's hands, or two others
/// were silent until the deadline and its hedge was spent.
fn excused(call: &Call, end: &End) {
    let broke = end.meta.is_some() && call.goes.streams;
    let spent = end.trail.steps.iter().any(|step| {
        let reason = match step {
            TrailStep::HedgeRefused { reason, .. } => *reason,
            _ => return false,
        };
        matches!(reason, "one_per_call" | "budget")
    });
    let late = end.class == Some(Class::Timeout) && end.duration >= Duration::from_secs(60);
    assert!(broke || (spent && late), "{call:?}");
}

/// The trail tells how it came to that.
struct Trails;

impl Rule for Trails {
    fn check(history: &History) {
        for call in &history.calls {
            for end in &call.ends {
                agrees(history, call, end);
                follows(call, end);
                explains(call, end);
            }
        }
    }
}

fn started(step: &TrailStep) -> Duration {
    match step {
        TrailStep::Attempt(record) => record.started,
        TrailStep::Skipped { at, .. }
        | TrailStep::Waited { at, .. }
        | TrailStep::HedgeRefused { at, .. }
        | TrailStep::RetryRefused { at, .. } => *at,
        _ => Duration::ZERO,
    }
}

/// It lists the attempts that were told of, in order, and none that is still running.
fn agrees(history: &History, call: &Call, end: &End) {
    let told = call.attempts.iter().map(|a| {
        let a = &history.attempts[*a];
        (
            a.rung,
            a.kind,
            between(call.began, a.began),
            a.ended.map(|at| between(call.began, at)),
        )
    });
    let records = end
        .trail
        .attempts()
        .map(|r| (r.rung, r.kind, r.started, r.ended));
    assert!(told.eq(records), "{call:?}");
    for record in end.trail.attempts() {
        assert!(
            record
                .ended
                .is_some_and(|ended| record.started <= ended && ended <= end.duration)
        );
        assert!(
            !matches!(record.outcome, AttemptOutcome::Running),
            "{call:?}"
        );
    }
    assert!(end.trail.steps.is_sorted_by_key(started), "{call:?}");
}

/// Each attempt follows from what came before it.
fn follows(call: &Call, end: &End) {
    let steps = &end.trail.steps;
    for (place, step) in steps.iter().enumerate() {
        let TrailStep::Attempt(record) = step else {
            continue;
        };
        let before = || steps[..place].iter();
        let attempts = || {
            before().filter_map(|step| match step {
                TrailStep::Attempt(record) => Some(record),
                _ => None,
            })
        };
        let failed = |r: &AttemptRecord| matches!(r.outcome, AttemptOutcome::Failed(_));
        let ended = |r: &AttemptRecord| r.ended.is_some_and(|at| at <= record.started);
        let skipped = || before().any(|step| matches!(step, TrailStep::Skipped { .. }));
        let runs = || attempts().any(|r| r.ended.is_none_or(|at| at >= record.started));
        let ok = match record.kind {
            AttemptKind::First => place == 0,
            AttemptKind::Retry => {
                attempts().any(|r| r.rung == record.rung && failed(r) && ended(r))
            }
            AttemptKind::Resume => attempts().any(|r| failed(r) && ended(r)),
            AttemptKind::Failover => attempts().any(|r| failed(r) && ended(r)) || skipped(),
            AttemptKind::Hedge => runs(),
            AttemptKind::LastResort => {
                runs() || attempts().any(|r| failed(r) && ended(r)) || skipped()
            }
            _ => false,
        };
        assert!(ok, "step {place} of {call:?}");
    }
}

/// The end is that of an attempt, or no rung was left.
fn explains(call: &Call, end: &End) {
    let won: Vec<_> = end
        .trail
        .attempts()
        .filter(|r| matches!(r.outcome, AttemptOutcome::Won))
        .collect();
    if end.outcome == "ok" {
        let meta = end.meta.as_ref().unwrap();
        let [winner] = won.as_slice() else {
            panic!("{} winners of {call:?}", won.len());
        };
        assert_eq!(
            (winner.rung, &winner.model),
            (meta.rung, &meta.model_id),
            "{call:?}"
        );
        assert_eq!(meta.attempts, end.trail.attempts().count(), "{call:?}");
        assert_eq!(meta.latency_added, winner.started, "{call:?}");
        assert_eq!(meta.degraded, meta.rung > 0);
        assert_eq!(meta.fallback_reason.is_some(), meta.rung > 0, "{call:?}");
        return;
    }
    assert!(won.is_empty(), "{call:?}");
    if end.outcome == "cancelled" || end.class == Some(Class::Timeout) {
        return;
    }
    let failed_with = |class| {
        let mut attempts = end.trail.attempts();
        attempts.any(|r| matches!(&r.outcome, AttemptOutcome::Failed(f) if Some(f.class) == class))
    };
    assert!(end.class.is_none() || failed_with(end.class), "{call:?}");
    if end.meta.is_some() {
        return; // it broke in the caller's hands: nothing else was to be asked
    }
    for rung in 0..RUNGS {
        let named = end.trail.steps.iter().any(|step| match step {
            TrailStep::Attempt(record) => record.rung == rung,
            TrailStep::Skipped { rung: r, .. } => *r == rung,
            _ => false,
        });
        assert!(named, "nothing is said of rung {rung}: {call:?}");
    }
}

/// An episode in which no rung is left is told once.
struct Episodes;

impl Rule for Episodes {
    fn check(history: &History) {
        let mut lasts = false;
        let mut exhausted = 0;
        for (_, told) in &history.told {
            match told {
                Told::Exhausted => {
                    assert!(!lasts, "told twice without an answer between");
                    (lasts, exhausted) = (true, exhausted + 1);
                }
                Told::AttemptEnded(index) => {
                    let attempt = &history.attempts[*index];
                    lasts &= attempt.outcome != "ok" && attempt.measured.is_none();
                }
                _ => {}
            }
        }
        assert!(!history.safe || exhausted == 0);
    }
}

prop_state_machine! {
    #![proptest_config(config(43))]

    #[test]
    fn inv43_and_45_a_call_has_exactly_one_outcome_and_no_attempt_outlives_it(
        sequential 1..24 => Machine<Outcomes>
    );
}

prop_state_machine! {
    #![proptest_config(config(430))]

    #[test]
    fn a_trail_explains_its_calls_outcome(
        sequential 1..24 => Machine<Trails>
    );
}

prop_state_machine! {
    #![proptest_config(config(42))]

    #[test]
    fn inv42_an_episode_of_exhaustion_is_told_once(
        sequential 1..24 => Machine<Episodes>
    );
}

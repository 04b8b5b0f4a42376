//! Invariant 16: what an operator decides stays.

use evenkeel_breaker::{Breaker, BreakerConfig, Cause, State};
use proptest::prelude::*;

use crate::trace::{Answer, Op, calls, config, ms, origin, run};

proptest! {
    #[test]
    fn inv16_forced_open_admits_nothing_and_disabled_everything(
        config in config(),
        before in calls(40),
        during in calls(60),
        force: bool,
    ) {
        let (order, state) = if force { (Op::ForceOpen, State::ForcedOpen) } else { (Op::Disable, State::Disabled) };
        let begun = before.len();
        let mut ops = before;
        ops.push(order);
        ops.extend(during);
        ops.extend([Op::Reset, Op::Admit]);
        let steps = run(config, &ops);
        let (closing, last) = (&steps[steps.len() - 2], &steps[steps.len() - 1]);
        for step in &steps[begun..steps.len() - 2] {
            prop_assert_eq!(step.after.state, state);
            prop_assert_eq!(step.after.generation, steps[begun].after.generation);
            match step.answer {
                Answer::Admitted { .. } => prop_assert!(!force),
                Answer::Refused(refused) => {
                    prop_assert!(force && refused.state == State::ForcedOpen && !refused.retry_in.is_zero());
                }
                _ => {}
            }
        }
        let fresh = closing.after;
        prop_assert_eq!((closing.events[0].from, closing.events[0].to), (state, State::Closed));
        prop_assert_eq!(closing.events[0].cause, Cause::Reset);
        prop_assert_eq!((fresh.failures_in_a_row, fresh.window_calls, fresh.openings_in_a_row), (0, 0, 0));
        let admitted = matches!(last.answer, Answer::Admitted { .. });
        prop_assert!(admitted);
    }
}

#[test]
fn orders_that_change_nothing_are_no_transition() {
    let now = origin();
    let breaker = Breaker::new(BreakerConfig::default(), 0, now).unwrap();
    assert_eq!(breaker.reset(now), None);
    assert!(breaker.force_open(now).is_some());
    assert_eq!(breaker.force_open(now), None);
    assert_eq!(breaker.trip(now), None);
    assert!(breaker.disable(now).is_some());
    assert_eq!(breaker.disable(now), None);
    assert_eq!(breaker.trip(now), None);
    assert!(breaker.reset(now).is_some());
    assert!(breaker.trip(now).is_some());
    assert_eq!(breaker.trip(now), None);
    assert_eq!(breaker.tick(now), None);
    assert_eq!(breaker.generation(), 4);
}

#[test]
fn a_reset_while_closed_forgets_what_was_counted() {
    let now = origin();
    let breaker = Breaker::new(BreakerConfig::default(), 0, now).unwrap();
    for _ in 0..4 {
        breaker.admit(now).unwrap().failure(now, None);
    }
    assert_eq!(breaker.reset(now), None);
    let seen = breaker.snapshot(now);
    assert_eq!(
        (
            seen.failures_in_a_row,
            seen.window_calls,
            seen.window_failures
        ),
        (0, 0, 0)
    );
    for _ in 0..4 {
        assert_eq!(
            breaker.admit(now).unwrap().failure(now, None).transition,
            None
        );
    }
}

#[test]
fn a_verdict_under_a_disabled_breaker_is_heard_and_counts_nothing() {
    let now = origin();
    let breaker = Breaker::new(BreakerConfig::default(), 0, now).unwrap();
    breaker.disable(now);
    for _ in 0..50 {
        let recorded = breaker.admit(now).unwrap().failure(now, Some(ms(1)));
        assert!(!recorded.stale && recorded.transition.is_none());
    }
    let permit = breaker.admit(now).unwrap();
    breaker.reset(now);
    assert!(permit.failure(now, None).stale);
}

#[test]
fn a_permit_and_a_refusal_say_to_people_what_they_are() {
    let now = origin();
    let breaker = Breaker::new(BreakerConfig::default(), 0, now).unwrap();
    let permit = breaker.admit(now).unwrap();
    assert_eq!(
        format!("{permit:?}"),
        "Permit { admitted_in: Closed, generation: 0, .. }"
    );
    breaker.force_open(now);
    assert_eq!(
        breaker.admit(now).unwrap_err().to_string(),
        "breaker is forced_open, retry in 60s"
    );
}

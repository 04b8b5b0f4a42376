//! Faults that users of other breakers have met, as short timelines; the names are those of the project's list of cases.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use evenkeel_breaker::{Breaker, BreakerConfig, Cause, RateRule, RateWindow, State};

use crate::trace::{ms, origin};

fn one_trial() -> BreakerConfig {
    BreakerConfig {
        open: ms(1000),
        success_threshold: 1,
        jitter: 0.0,
        ..BreakerConfig::default()
    }
}

#[test]
fn c053_outcomes_leave_the_window_before_the_decision() {
    let start = origin();
    for window in [1000, 1001] {
        let config = BreakerConfig {
            rate: Some(RateRule {
                failure_rate: 0.5,
                min_calls: 4,
                window: RateWindow::Time(ms(window)),
                slow: None,
            }),
            ..BreakerConfig::default()
        };
        let breaker = Breaker::new(config, 0, start).unwrap();
        for at in [0, 0, 0, 1001] {
            let now = start + ms(at);
            breaker.admit(now).unwrap().failure(now, None);
        }
        let now = start + ms(1002);
        assert_eq!(breaker.state(now), State::Closed);
        assert_eq!(breaker.snapshot(now).window_failures, 1);
    }
}

#[test]
fn c059_and_c061_a_trial_that_is_cancelled_or_ignored_gives_its_permit_back() {
    let start = origin();
    let breaker = Breaker::new(one_trial(), 0, start).unwrap();
    breaker.trip(start);
    drop(breaker.admit(start + ms(1001)).unwrap());
    breaker.admit(start + ms(1002)).unwrap().ignore();
    let closed = breaker
        .admit(start + ms(1003))
        .unwrap()
        .success(start + ms(1004));
    assert_eq!(closed.transition.unwrap().cause, Cause::TrialsSucceeded);
    assert_eq!(breaker.state(start + ms(1004)), State::Closed);
}

#[test]
fn c065_a_panic_in_the_call_gives_the_permit_back() {
    let start = origin();
    let breaker = Arc::new(Breaker::new(one_trial(), 0, start).unwrap());
    breaker.trip(start);
    let permit = breaker.admit_owned(start + ms(1001)).unwrap();
    let call = AssertUnwindSafe(move || {
        let _permit = permit;
        std::panic::resume_unwind(Box::new("the call fell over"));
    });
    assert!(catch_unwind(call).is_err());
    assert_eq!(breaker.snapshot(start + ms(1001)).trials_out, 0);
    assert!(breaker.admit(start + ms(1002)).is_ok());
}

#[test]
fn c191_callers_who_hang_up_leave_no_trace() {
    let start = origin();
    let breaker = Breaker::new(
        BreakerConfig {
            failure_threshold: 3,
            ..one_trial()
        },
        0,
        start,
    )
    .unwrap();
    let streams: Vec<_> = (0..10).map(|_| breaker.admit(start).unwrap()).collect();
    drop(streams);
    let seen = breaker.snapshot(start + ms(1000));
    assert_eq!(
        (seen.state, seen.failures_in_a_row, seen.window_calls),
        (State::Closed, 0, 0)
    );
}

#[test]
fn c199_a_late_success_of_a_failed_trial_neither_closes_nor_shortens() {
    let start = origin();
    let at = |millis| start + ms(millis);
    let config = BreakerConfig {
        open_cap: ms(8000),
        success_threshold: 2,
        ..one_trial()
    };
    let breaker = Breaker::new(config, 0, start).unwrap();
    breaker.trip(start);
    let (a, b) = (
        breaker.admit(at(1001)).unwrap(),
        breaker.admit(at(1001)).unwrap(),
    );
    a.failure(at(1100), None);
    assert_eq!(breaker.state(at(1101)), State::Open);
    assert!(b.success(at(1200)).stale);
    assert_eq!(breaker.state(at(1201)), State::Open);
    assert!(breaker.admit(at(3099)).is_err());
    assert!(breaker.admit(at(3101)).is_ok());
}

#[test]
fn c200_a_listener_that_panics_harms_nobody_and_one_that_calls_back_does_not_deadlock() {
    let start = origin();
    let breaker = Arc::new_cyclic(|weak: &std::sync::Weak<Breaker>| {
        let weak = weak.clone();
        Breaker::new(
            BreakerConfig {
                failure_threshold: 3,
                ..one_trial()
            },
            0,
            start,
        )
        .unwrap()
        .with_listener(|_| std::panic::resume_unwind(Box::new("listener fell over")))
        .with_listener(move |change| {
            let breaker = weak.upgrade().unwrap();
            assert_eq!(breaker.snapshot(change.at).generation, change.generation);
            assert!(change.to != State::Open || breaker.admit(change.at).is_err());
        })
    });
    for _ in 0..3 {
        breaker.admit(start).unwrap().failure(start, None);
    }
    assert_eq!(breaker.snapshot(start).listener_panics, 1);
    assert!(breaker.admit(start + ms(999)).is_err());
    assert!(breaker.admit(start + ms(1000)).is_ok());
    assert_eq!(breaker.snapshot(start).listener_panics, 2);
}

#[test]
fn c211_one_failure_never_takes_the_only_model_away_and_thirty_say_when_it_is_back() {
    let start = origin();
    let breaker = Breaker::new(BreakerConfig::default(), 0, start).unwrap();
    let healthy = Breaker::new(BreakerConfig::default(), 1, start).unwrap();
    breaker.admit(start).unwrap().failure(start, None);
    assert!(breaker.admit(start + ms(10)).is_ok());
    let calls: Vec<_> = (0..30)
        .map(|_| breaker.admit(start + ms(1000)).unwrap())
        .collect();
    let told = calls
        .into_iter()
        .map(|call| call.failure(start + ms(1000), None));
    assert_eq!(
        told.filter(|recorded| recorded.transition.is_some())
            .count(),
        1
    );
    let refused = breaker.admit(start + ms(2000)).unwrap_err();
    assert!(
        (ms(53_000)..=ms(65_000)).contains(&refused.retry_in),
        "{refused}"
    );
    assert!(healthy.admit(start + ms(2001)).is_ok());
}

#[test]
fn c212_each_breaker_has_its_own_settings() {
    let start = origin();
    let strict = Breaker::new(
        BreakerConfig {
            failure_threshold: 1,
            ..one_trial()
        },
        0,
        start,
    )
    .unwrap();
    let lenient = Breaker::new(
        BreakerConfig {
            failure_threshold: 5,
            ..one_trial()
        },
        0,
        start,
    )
    .unwrap();
    for breaker in [&strict, &lenient] {
        for _ in 0..2 {
            if let Ok(permit) = breaker.admit(start) {
                permit.failure(start, None);
            }
        }
    }
    assert_eq!(
        (strict.state(start), lenient.state(start)),
        (State::Open, State::Closed)
    );
}

//! Invariants 6 to 9 and 12: permits of a half-open breaker.

use std::mem;

use evenkeel_breaker::{Breaker, BreakerConfig, Cause, State};
use proptest::prelude::*;

use crate::trace::{Answer, config, everything, ms, origin, run};

fn trials(success_threshold: u32) -> BreakerConfig {
    BreakerConfig {
        success_threshold,
        open: ms(100),
        half_open_timeout: ms(1000),
        jitter: 0.0,
        ..BreakerConfig::default()
    }
}

proptest! {
    #[test]
    fn inv06_permits_out_and_outcomes_counted_never_exceed_the_trials(config in config(), ops in everything(100)) {
        for step in run(config, &ops) {
            let seen = step.after;
            prop_assert!(seen.trials_out + seen.trials_succeeded <= config.success_threshold, "{step:?}");
        }
    }

    #[test]
    fn inv07_a_dropped_permit_returns_its_place_once_and_only_to_its_own_generation(
        config in config(),
        ops in everything(100),
    ) {
        for step in run(config, &ops) {
            if let Answer::GivenBack { admitted, trial } = step.answer {
                let own = trial && admitted == step.before.generation;
                prop_assert_eq!(step.after.trials_out + u32::from(own), step.before.trials_out, "{:?}", step);
                prop_assert_eq!(step.after.generation, step.before.generation);
            }
        }
    }

    #[test]
    fn inv08_the_last_success_closes_and_the_first_failure_opens(
        trials_wanted in 1_u32..=6,
        failure_at in 0_u32..=8,
    ) {
        let now = origin();
        let breaker = Breaker::new(trials(trials_wanted), 0, now).unwrap();
        breaker.trip(now);
        let later = now + ms(100);
        for nth in 0..trials_wanted {
            let permit = breaker.admit(later).unwrap();
            prop_assert_eq!(breaker.state(later), State::HalfOpen);
            if nth == failure_at {
                let opened = permit.failure(later, None).transition.unwrap();
                prop_assert_eq!((opened.to, opened.cause), (State::Open, Cause::TrialFailed));
                return Ok(());
            }
            let recorded = permit.success(later);
            prop_assert_eq!(recorded.transition.is_some(), nth + 1 == trials_wanted);
        }
        prop_assert_eq!(breaker.state(later), State::Closed);
    }

    #[test]
    fn inv09_leaked_permits_never_wedge_the_breaker(
        trials_wanted in 1_u32..=4,
        succeed_first in 0_u32..=3,
        by_tick: bool,
        idle in 0_u64..=2000,
    ) {
        let now = origin();
        let breaker = Breaker::new(trials(trials_wanted), 0, now).unwrap();
        breaker.trip(now);
        let later = now + ms(100);
        for nth in 0..trials_wanted {
            let permit = breaker.admit(later).unwrap();
            if nth < succeed_first.min(trials_wanted - 1) {
                permit.success(later);
            } else {
                mem::forget(permit);
            }
        }
        let then = later + ms(idle);
        let generation = breaker.generation();
        if by_tick {
            prop_assert_eq!(breaker.tick(then).is_some(), idle >= 1000);
        } else {
            let refused = breaker.admit(then).unwrap_err();
            prop_assert_eq!(refused.state == State::Open, idle >= 1000);
            prop_assert!(!refused.retry_in.is_zero());
        }
        prop_assert_eq!(breaker.generation() > generation, idle >= 1000);
        // Twice as long: it is the second opening in a row; then it tries again.
        if idle >= 1000 {
            prop_assert_eq!(breaker.snapshot(then).cause, Some(Cause::TrialsTimedOut));
            prop_assert_eq!(breaker.snapshot(then).retry_in, Some(ms(200)));
            prop_assert!(breaker.admit(then + ms(200)).is_ok());
        }
    }

    #[test]
    fn inv12_an_ignored_call_leaves_everything_as_it_was(config in config(), ops in everything(100)) {
        for step in run(config, &ops) {
            if let Answer::GivenBack { .. } = step.answer {
                prop_assert!(step.events.is_empty());
                let (before, after) = (step.before, step.after);
                prop_assert_eq!(before.failures_in_a_row, after.failures_in_a_row);
                prop_assert_eq!(before.openings_in_a_row, after.openings_in_a_row);
                prop_assert_eq!(before.trials_succeeded, after.trials_succeeded);
                prop_assert_eq!(
                    (before.window_calls, before.window_failures, before.window_slow),
                    (after.window_calls, after.window_failures, after.window_slow)
                );
                prop_assert_eq!(before.since, after.since);
            }
        }
    }
}

#[test]
fn a_refusal_while_all_trials_are_out_asks_again_within_a_second() {
    let now = origin();
    let config = BreakerConfig {
        half_open_timeout: ms(30_000),
        ..trials(1)
    };
    let breaker = Breaker::new(config, 0, now).unwrap();
    breaker.trip(now);
    let later = now + ms(100);
    let _trial = breaker.admit(later).unwrap();
    assert_eq!(breaker.admit(later).unwrap_err().retry_in, ms(1000));
    let nearly = later + ms(29_900);
    assert_eq!(breaker.admit(nearly).unwrap_err().retry_in, ms(100));
    assert_eq!(breaker.would_refuse(nearly).unwrap().state, State::HalfOpen);
}

#[test]
fn what_would_be_refused_is_told_without_changing_anything() {
    let now = origin();
    let config = BreakerConfig {
        jitter: 0.5,
        ..trials(1)
    };
    for seed in 0..20 {
        let breaker = Breaker::new(config, seed, now).unwrap();
        assert_eq!(breaker.would_refuse(now), None);
        let lasts = breaker.trip(now).unwrap().retry_in.unwrap();
        assert_eq!(breaker.would_refuse(now).unwrap().retry_in, lasts);
        let later = now + lasts;
        assert_eq!(breaker.would_refuse(later), None);
        assert_eq!(breaker.state(later), State::HalfOpen);
        mem::forget(breaker.admit(later).unwrap());
        let much_later = later + ms(1000);
        let generation = breaker.generation();
        let foretold = breaker.would_refuse(much_later).unwrap();
        assert_eq!(breaker.state(much_later), State::Open);
        assert_eq!(breaker.generation(), generation);
        // To the nanosecond, jitter and growth included.
        assert_eq!(breaker.admit(much_later).unwrap_err(), foretold);
        assert_eq!(
            breaker.snapshot(much_later).retry_in,
            Some(foretold.retry_in)
        );
    }
}

#[test]
fn the_time_out_runs_from_the_last_permit_or_outcome_by_the_latest_reading() {
    let start = origin();
    let at = |millis| start + ms(millis);
    let breaker = Breaker::new(trials(3), 0, start).unwrap();
    breaker.trip(start);
    // Trials begin at 100, 400 and, by a reading that runs behind, 300 ms.
    let first = breaker.admit(at(100)).unwrap();
    let _second = breaker.admit(at(400)).unwrap();
    let _third = breaker.admit(at(300)).unwrap();
    assert_eq!(breaker.tick(at(1399)), None);
    // From a reading before the last permit the wait is the longer; it is told up to a second.
    assert_eq!(breaker.would_refuse(at(401)).unwrap().retry_in, ms(999));
    assert_eq!(breaker.would_refuse(at(390)).unwrap().retry_in, ms(1000));
    // An outcome starts it anew.
    first.success(at(1000));
    assert_eq!(breaker.tick(at(1999)), None);
    assert_eq!(breaker.tick(at(2000)).unwrap().cause, Cause::TrialsTimedOut);
}

#[test]
fn a_reading_from_before_the_last_permit_waits_the_longer_for_the_time_out() {
    let start = origin();
    let config = BreakerConfig {
        half_open_timeout: ms(500),
        ..trials(1)
    };
    let breaker = Breaker::new(config, 0, start).unwrap();
    breaker.trip(start);
    let _trial = breaker.admit(start + ms(300)).unwrap();
    assert_eq!(
        breaker.admit(start + ms(200)).unwrap_err().retry_in,
        ms(600)
    );
}

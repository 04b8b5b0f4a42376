//! Invariants 13 to 15 and 17: how long an opening lasts.

use std::time::Duration;

use evenkeel_breaker::{Breaker, BreakerConfig, Cause, State};
use proptest::prelude::*;

use crate::trace::{Op, config, everything, ms, origin, run};

/// Rounding of one nanosecond, up or down.
const ROUNDING: Duration = Duration::from_nanos(2);

proptest! {
    #[test]
    fn inv13_nothing_brings_the_end_of_an_opening_forward(config in config(), ops in everything(100)) {
        let mut end = None;
        for step in run(config, &ops) {
            if let Some(event) = step.events.last() {
                end = event.retry_in.map(|wait| event.at + wait);
            }
            // Stale verdicts, earlier readings and anything else in between leave it where it is.
            if let (Some(end), State::Open) = (end, step.after.state) {
                prop_assert_eq!(step.now + step.after.retry_in.unwrap(), end, "{:?}", step);
            }
        }
    }

    #[test]
    fn inv14_the_nth_opening_in_a_row_lasts_its_grown_time_within_the_jitter(
        config in config(),
        ops in everything(150),
    ) {
        let mut nth = 0;
        let mut closed_since = None;
        for step in run(config, &ops) {
            // An operator's reset, with a change of state or without, makes the next opening the first.
            if matches!(step.op, Op::ForceOpen | Op::Disable | Op::Reset) {
                nth = 0;
            }
            for event in &step.events {
                if event.to == State::Open {
                    let calm = closed_since.is_some_and(|since| {
                        step.now.saturating_duration_since(since) >= config.reset_after
                    });
                    nth = if calm || nth == 0 { 1 } else { nth + 1 };
                    let whole = config.open.as_secs_f64() * config.growth.powi(nth - 1);
                    let whole = whole.min(config.open_cap.as_secs_f64());
                    let asked = match step.op {
                        Op::Failure(_, Some(asked)) => asked.min(config.open_cap),
                        _ => Duration::ZERO,
                    };
                    let least = Duration::from_secs_f64(whole * (1.0 - config.jitter)).max(asked);
                    let most = Duration::from_secs_f64(whole * (1.0 + config.jitter)).max(asked);
                    let lasts = event.retry_in.unwrap();
                    prop_assert!(lasts + ROUNDING >= least && lasts <= most + ROUNDING, "{nth}: {event}");
                }
                closed_since = (event.to == State::Closed).then_some(event.at);
            }
        }
    }

    #[test]
    fn inv17_a_refusal_says_when_to_ask_again_and_means_it(config in config(), ops in everything(60)) {
        let mut machine = crate::trace::Machine::new(config);
        for op in ops {
            let step = machine.apply(op);
            let Some(refused) = machine.breaker.would_refuse(step.now) else { continue };
            prop_assert!(!refused.retry_in.is_zero());
            if refused.state == State::Open && step.after.generation == machine.breaker.generation() {
                let then = step.now + refused.retry_in;
                let after = machine.breaker.would_refuse(then);
                prop_assert!(after.is_none_or(|after| after.state != State::Open) || is_timing_out(&step));
            }
        }
    }
}

/// Whether "open" is what timed-out trials will lead to: then the open time starts with the admission.
fn is_timing_out(step: &crate::trace::Step) -> bool {
    step.after.trials_out > 0
}

#[test]
fn inv14_openings_count_as_in_a_row_until_closed_has_lasted_reset_after() {
    let start = origin();
    let config = BreakerConfig {
        failure_threshold: 1,
        success_threshold: 1,
        jitter: 0.0,
        reset_after: ms(1000),
        ..BreakerConfig::default()
    };
    for (calm, lasts) in [(ms(999), 120), (ms(1000), 60)] {
        let breaker = Breaker::new(config, 0, start).unwrap();
        let first = breaker
            .admit(start)
            .unwrap()
            .failure(start, None)
            .transition;
        let closed = start + first.unwrap().retry_in.unwrap();
        breaker.admit(closed).unwrap().success(closed);
        let then = closed + calm;
        let second = breaker.admit(then).unwrap().failure(then, None).transition;
        assert_eq!(second.unwrap().retry_in, Some(Duration::from_secs(lasts)));
    }
}

#[test]
fn inv14_a_trial_that_takes_long_to_fail_still_makes_the_next_opening_longer() {
    let start = origin();
    let config = BreakerConfig {
        failure_threshold: 1,
        jitter: 0.0,
        reset_after: Duration::ZERO,
        ..BreakerConfig::default()
    };
    let breaker = Breaker::new(config, 0, start).unwrap();
    let mut now = start;
    for lasts in [60, 120, 240, 480, 600, 600] {
        let opened = breaker
            .admit(now)
            .unwrap()
            .failure(now + ms(1000), None)
            .transition;
        assert_eq!(opened.unwrap().retry_in, Some(Duration::from_secs(lasts)));
        now += ms(1000) + Duration::from_secs(lasts);
    }
}

#[test]
fn the_shortest_opening_is_never_nothing() {
    let now = origin();
    let config = BreakerConfig {
        open: Duration::from_nanos(1),
        jitter: 0.99,
        ..BreakerConfig::default()
    };
    for seed in 0..200 {
        let breaker = Breaker::new(config, seed, now).unwrap();
        let opened = breaker.trip(now).unwrap();
        assert!(opened.retry_in.unwrap() >= Duration::from_nanos(1));
        assert!(breaker.admit(now).is_err());
    }
}

#[test]
fn jitter_uses_its_whole_range() {
    let now = origin();
    let lasts: Vec<f64> = (0..500)
        .map(|seed| {
            let breaker = Breaker::new(BreakerConfig::default(), seed, now).unwrap();
            breaker.trip(now).unwrap().retry_in.unwrap().as_secs_f64()
        })
        .collect();
    let (least, most) = lasts.iter().fold((f64::MAX, 0.0_f64), |(low, high), x| {
        (low.min(*x), high.max(*x))
    });
    assert!(
        (54.0..54.3).contains(&least) && (65.7..=66.0).contains(&most),
        "{least} to {most}"
    );
    let mean = lasts.iter().sum::<f64>() / 500.0;
    assert!(
        (mean - 60.0).abs() < 0.7,
        "{mean}: four standard errors are 0.62"
    );
}

#[test]
fn inv15_retry_after_extends_the_opening_up_to_the_cap() {
    let now = origin();
    for (asked, lasts) in [
        (None, 60),
        (Some(Duration::ZERO), 60),
        (Some(ms(59_000)), 60),
        (Some(ms(120_000)), 120),
        (Some(Duration::MAX), 600),
    ] {
        let config = BreakerConfig {
            failure_threshold: 1,
            jitter: 0.0,
            ..BreakerConfig::default()
        };
        let breaker = Breaker::new(config, 0, now).unwrap();
        let opened = breaker
            .admit(now)
            .unwrap()
            .failure(now, asked)
            .transition
            .unwrap();
        assert_eq!(opened.retry_in, Some(Duration::from_secs(lasts)));
        assert_eq!(
            breaker.admit(now).unwrap_err().retry_in,
            Duration::from_secs(lasts)
        );
        // The same for a trial: twice 60 s unless more was asked for.
        let later = now + Duration::from_secs(lasts);
        let opened = breaker
            .admit(later)
            .unwrap()
            .failure(later, asked)
            .transition
            .unwrap();
        assert_eq!(opened.cause, Cause::TrialFailed);
        assert_eq!(opened.retry_in, Some(Duration::from_secs(lasts.max(120))));
    }
}

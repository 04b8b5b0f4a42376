//! Invariants 10 and 11: what opens a closed breaker.

use evenkeel_breaker::{Breaker, BreakerConfig, Cause, RateRule, RateWindow, SlowRule, State};
use proptest::prelude::*;

use crate::trace::{SLOW, ms, origin};

/// A share rule alone.
fn by_rate(rule: RateRule) -> BreakerConfig {
    BreakerConfig {
        failure_threshold: u32::MAX,
        rate: Some(rule),
        ..BreakerConfig::default()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a thousand"
)]
fn per_mille(share: f64) -> u64 {
    (share * 1000.0).round() as u64
}

proptest! {
    /// Outcomes on the borders of slices, so that "inside the window" leaves no room for a slice's width.
    #[test]
    fn inv10_the_rate_trips_exactly_when_enough_calls_reach_the_share(
        failure_rate in 0.001..=1.0_f64,
        min_calls in 1_u32..=12,
        outcomes in prop::collection::vec((0_u64..=12, any::<bool>()), 1..60),
        counted: bool,
    ) {
        let window = if counted { RateWindow::Calls(14) } else { RateWindow::Time(ms(160)) };
        let start = origin();
        let rule = RateRule { failure_rate, min_calls, window, slow: None };
        let breaker = Breaker::new(by_rate(rule), 0, start).unwrap();
        let mut seen: Vec<(u64, bool)> = Vec::new();
        let mut slice = 0;
        for (pass, failed) in outcomes {
            slice += pass;
            let now = start + ms(slice * 10);
            let permit = breaker.admit(now).unwrap();
            let recorded = if failed { permit.failure(now, None) } else { permit.success(now) };
            seen.push((slice, failed));
            let inside: Vec<bool> = if counted {
                seen.iter().rev().take(14).map(|(_, failed)| *failed).collect()
            } else {
                seen.iter().filter(|(at, _)| at + 16 > slice).map(|(_, failed)| *failed).collect()
            };
            let (total, failures) = (inside.len() as u64, inside.iter().filter(|failed| **failed).count() as u64);
            let holds = total >= min_calls.into() && failures * 1000 >= per_mille(failure_rate) * total;
            prop_assert_eq!(recorded.transition.is_some(), holds, "{:?}", seen);
            if holds {
                let expected = Cause::FailureRate { failures, calls: total };
                prop_assert_eq!(recorded.transition.unwrap().cause, expected);
                return Ok(());
            }
        }
    }

    #[test]
    fn inv11_exactly_the_kth_failure_in_a_row_trips(
        threshold in 1_u32..=8,
        outcomes in prop::collection::vec(any::<bool>(), 1..60),
    ) {
        let now = origin();
        let config = BreakerConfig { failure_threshold: threshold, rate: None, ..BreakerConfig::default() };
        let breaker = Breaker::new(config, 0, now).unwrap();
        let mut run = 0;
        for failed in outcomes {
            let permit = breaker.admit(now).unwrap();
            let recorded = if failed { permit.failure(now, None) } else { permit.success(now) };
            run = if failed { run + 1 } else { 0 };
            prop_assert_eq!(breaker.state(now) == State::Open, run == threshold);
            if let Some(opened) = recorded.transition {
                prop_assert_eq!(opened.cause, Cause::ConsecutiveFailures { failures: threshold });
                return Ok(());
            }
        }
    }
}

#[test]
fn slow_calls_open_the_breaker_and_a_slow_trial_reopens_it() {
    let now = origin();
    for window in [RateWindow::Time(ms(10_000)), RateWindow::Calls(10)] {
        let slow = Some(SlowRule {
            longer_than: SLOW,
            rate: 0.5,
        });
        let rule = RateRule {
            failure_rate: 1.0,
            min_calls: 4,
            window,
            slow,
        };
        let breaker = Breaker::new(by_rate(rule), 0, now).unwrap();
        for took in [SLOW, SLOW * 2, SLOW] {
            assert_eq!(
                breaker.admit(now).unwrap().success_in(now, took).transition,
                None
            );
        }
        let opened = breaker
            .admit(now)
            .unwrap()
            .success_in(now, SLOW * 2)
            .transition
            .unwrap();
        assert_eq!(opened.cause, Cause::SlowRate { slow: 2, calls: 4 });
        let later = now + opened.retry_in.unwrap();
        let reopened = breaker
            .admit(later)
            .unwrap()
            .success_in(later, SLOW * 2)
            .transition
            .unwrap();
        assert_eq!(
            (reopened.to, reopened.cause),
            (State::Open, Cause::TrialSlow)
        );
    }
}

#[test]
fn a_failure_beside_a_slow_call_opens_and_so_does_the_only_call() {
    let now = origin();
    for window in [RateWindow::Time(ms(10_000)), RateWindow::Calls(10)] {
        let both = RateRule {
            failure_rate: 0.5,
            min_calls: 2,
            window,
            slow: Some(SlowRule {
                longer_than: SLOW,
                rate: 0.5,
            }),
        };
        let breaker = Breaker::new(by_rate(both), 0, now).unwrap();
        let slow = breaker.admit(now).unwrap().success_in(now, SLOW * 2);
        assert_eq!(slow.transition, None);
        let opened = breaker.admit(now).unwrap().failure(now, None).transition;
        let cause = Cause::FailureRate {
            failures: 1,
            calls: 2,
        };
        assert_eq!(opened.unwrap().cause, cause);

        let one = RateRule {
            failure_rate: 1.0,
            min_calls: 1,
            window,
            slow: None,
        };
        let breaker = Breaker::new(by_rate(one), 0, now).unwrap();
        let opened = breaker.admit(now).unwrap().failure(now, None).transition;
        let cause = Cause::FailureRate {
            failures: 1,
            calls: 1,
        };
        assert_eq!(opened.unwrap().cause, cause);
    }
}

#[test]
fn without_a_slow_call_rule_a_duration_is_not_looked_at() {
    let now = origin();
    let breaker = Breaker::new(BreakerConfig::default(), 0, now).unwrap();
    for _ in 0..100 {
        let recorded = breaker.admit(now).unwrap().success_in(now, ms(u64::MAX));
        assert_eq!(recorded.transition, None);
    }
}

#[test]
fn a_success_can_bring_the_fewest_calls_that_are_judged() {
    let now = origin();
    let rule = RateRule {
        failure_rate: 0.5,
        min_calls: 4,
        window: RateWindow::Time(ms(1000)),
        slow: None,
    };
    let breaker = Breaker::new(by_rate(rule), 0, now).unwrap();
    for _ in 0..3 {
        assert_eq!(
            breaker.admit(now).unwrap().failure(now, None).transition,
            None
        );
    }
    let opened = breaker.admit(now).unwrap().success(now).transition.unwrap();
    assert_eq!(
        opened.cause,
        Cause::FailureRate {
            failures: 3,
            calls: 4
        }
    );
}

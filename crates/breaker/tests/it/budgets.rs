//! Invariants 49 to 56: retries, hedges, delays, cooldowns.

use std::time::Duration;

use evenkeel_breaker::{Backoff, Breaker, BreakerConfig, Cooldown, HedgeBudget, RetryBudget};
use proptest::prelude::*;

use crate::trace::{ms, origin};

/// Shares are kept to one in a million.
const GRAIN: f64 = 1e-6;

#[derive(Clone, Copy, Debug)]
enum Use {
    Deposit,
    Withdraw,
    Pass(u64),
}

fn uses() -> impl Strategy<Value = Vec<Use>> {
    let one = prop_oneof![
        4 => Just(Use::Deposit),
        3 => Just(Use::Withdraw),
        1 => (0_u64..=2500).prop_map(Use::Pass),
    ];
    prop::collection::vec(one, 0..300)
}

proptest! {
    #[test]
    fn inv49_and_51_retries_stay_within_the_reserve_and_the_share(
        ratio in 0.0..=1.0_f64,
        reserve in 0_u32..=5,
        uses in uses(),
    ) {
        let mut now = origin();
        let start = now;
        let budget = RetryBudget::new(ratio, reserve, ms(1000), now).unwrap();
        let window = |at| now_window(start, at);
        let (mut first, mut retries) = (0_u32, 0_u32);
        let mut deposits: Vec<u128> = Vec::new();
        for one in uses {
            match one {
                Use::Deposit => {
                    budget.deposit(now);
                    first += 1;
                    deposits.push(window(now));
                }
                Use::Withdraw => {
                    let before = budget.balance(now);
                    let granted = budget.try_withdraw(now);
                    prop_assert_eq!(granted, before >= 1.0);
                    let after = before - f64::from(u8::from(granted));
                    prop_assert!((budget.balance(now) - after).abs() < GRAIN / 2.0, "a refusal takes nothing");
                    retries += u32::from(granted);
                }
                Use::Pass(span) => now += ms(span),
            }
            let allowed = f64::from(reserve) + ratio * f64::from(first);
            prop_assert!(f64::from(retries) <= allowed + GRAIN * f64::from(first));
            // No more in hand than the reserve and what this window and the one before it added.
            let recent = deposits.iter().filter(|at| **at + 1 >= window(now)).count();
            let most = f64::from(reserve) + (ratio + GRAIN) * f64::from(u32::try_from(recent).unwrap());
            let balance = budget.balance(now);
            prop_assert!((0.0..=most + GRAIN).contains(&balance), "{balance} of {most}");
        }
    }

    #[test]
    fn inv49_and_51_hedges_stay_within_the_burst_and_the_share(
        share in 0.0..=1.0_f64,
        burst in 0_u32..=5,
        uses in uses(),
        cost in prop_oneof![Just(1.0), Just(0.0), Just(f64::NAN), 1.0..3.0_f64],
    ) {
        let budget = HedgeBudget::new(share, burst).unwrap();
        let (mut calls, mut spent) = (0.0, 0.0);
        for one in uses {
            if let Use::Withdraw = one {
                let before = budget.balance();
                let granted = budget.try_withdraw(cost);
                let cost = cost.max(1.0);
                prop_assert!(granted == (before >= cost) || (before - cost).abs() < GRAIN);
                spent += if granted { cost } else { 0.0 };
            } else {
                budget.deposit();
                calls += 1.0;
            }
            prop_assert!(spent <= f64::from(burst) + (share + GRAIN) * calls + GRAIN);
            prop_assert!((0.0..=f64::from(burst)).contains(&budget.balance()));
        }
    }

    #[test]
    fn a_call_always_earns_its_share_of_a_hedge_up_to_the_burst(
        share in 0.0..=1.0_f64,
        burst in 1_u32..=20,
        calls in 0_u32..=100,
    ) {
        let budget = HedgeBudget::new(share, burst).unwrap();
        (0..burst).for_each(|_| assert!(budget.try_withdraw(1.0)));
        (0..calls).for_each(|_| budget.deposit());
        let expected = (share * f64::from(calls)).min(f64::from(burst));
        prop_assert!((budget.balance() - expected).abs() <= GRAIN * f64::from(calls.max(1)));
    }

    #[test]
    fn inv52_a_first_attempt_always_deposits_its_share_once(ratio in 0.0..=1.0_f64, first in 0_u32..=200) {
        let now = origin();
        let budget = RetryBudget::new(ratio, 0, ms(1000), now).unwrap();
        (0..first).for_each(|_| budget.deposit(now));
        let expected = ratio * f64::from(first);
        prop_assert!((budget.balance(now) - expected).abs() <= GRAIN * f64::from(first));
    }

    #[test]
    fn inv53_when_every_attempt_fails_calls_stay_within_their_retries_and_then_stop(
        rungs in 1_usize..=4,
        retries in 0_u32..=3,
        threshold in 1_u32..=6,
        calls in 1_usize..=30,
    ) {
        let now = origin();
        let config = BreakerConfig { failure_threshold: threshold, rate: None, ..BreakerConfig::default() };
        let breakers: Vec<_> = (0..rungs).map(|seed| Breaker::new(config, seed as u64, now).unwrap()).collect();
        let budget = RetryBudget::new(0.2, 10, ms(10_000), now).unwrap();
        let mut attempts_in_all = 0;
        for _ in 0..calls {
            let all_open = breakers.iter().all(|breaker| breaker.would_refuse(now).is_some());
            let mut attempts = 0;
            for breaker in &breakers {
                for nth in 0..=retries {
                    if nth > 0 && !budget.try_withdraw(now) {
                        break;
                    }
                    let Ok(permit) = breaker.admit(now) else { break };
                    if nth == 0 {
                        budget.deposit(now);
                    }
                    attempts += 1;
                    permit.failure(now, None);
                }
            }
            prop_assert!(attempts <= u32::try_from(rungs).unwrap() * (1 + retries));
            prop_assert!(!all_open || attempts == 0);
            attempts_in_all += attempts;
        }
        prop_assert!(attempts_in_all <= u32::try_from(rungs).unwrap() * threshold);
    }

    #[test]
    fn inv56_the_nth_delay_lies_under_its_ceiling(
        base in 0_u64..=10_000,
        cap in 0_u64..=100_000,
        nth in 1_u32..=70,
        unit in 0.0..=1.0_f64,
        retry_after in prop::option::of(0_u64..=200_000),
        left in 0_u64..=200_000,
    ) {
        let backoff = Backoff { base: ms(base), cap: ms(cap) };
        let ceiling = u128::from(base) << (nth - 1).min(64);
        let ceiling = ms(u64::try_from(ceiling.min(cap.into())).unwrap());
        let delay = backoff.delay(nth, unit);
        prop_assert!(delay <= ceiling);
        prop_assert_eq!(backoff.delay(nth, 1.0), ceiling);
        let wait = delay.max(ms(retry_after.unwrap_or(0)));
        let expected = (wait < ms(left)).then_some(wait);
        prop_assert_eq!(backoff.wait(nth, unit, retry_after.map(ms), ms(left)), expected);
    }

    #[test]
    fn a_cooldown_is_never_shortened(
        limits in prop::collection::vec((0_u64..=3000, prop::option::of(0_u64..=5000)), 1..40),
    ) {
        let mut now = origin();
        let cooldown = Cooldown::new(ms(1000), 2.0, ms(8000)).unwrap();
        let mut end = now;
        for (pass, retry_after) in limits {
            now += ms(pass);
            let lasts = cooldown.start(now, retry_after.map(ms));
            prop_assert!(now + lasts >= end);
            prop_assert!(lasts >= ms(retry_after.unwrap_or(1000)));
            prop_assert_eq!(cooldown.remaining(now).unwrap_or_default(), lasts);
            end = now + lasts;
            prop_assert_eq!(cooldown.remaining(end), None);
        }
    }
}

fn now_window(start: std::time::Instant, at: std::time::Instant) -> u128 {
    (at - start).as_millis() / 1000
}

#[test]
fn inv56_a_wait_that_ends_with_the_deadline_is_refused() {
    let backoff = Backoff::default();
    assert_eq!(backoff.wait(1, 1.0, None, ms(201)), Some(ms(200)));
    assert_eq!(backoff.wait(1, 1.0, None, ms(200)), None);
    assert_eq!(backoff.wait(1, 0.0, Some(ms(500)), ms(501)), Some(ms(500)));
    assert_eq!(backoff.wait(1, 0.0, Some(ms(500)), ms(500)), None);
}

#[test]
fn inv54_an_empty_budget_refuses_at_once() {
    let now = origin();
    let budget = RetryBudget::new(0.2, 2, ms(10_000), now).unwrap();
    assert!(budget.try_withdraw(now) && budget.try_withdraw(now));
    assert!(!budget.try_withdraw(now));
    // Time alone fills nothing; first attempts do.
    assert!(!budget.try_withdraw(now + Duration::from_secs(3600)));
    (0..5).for_each(|_| budget.deposit(now));
    assert!(budget.try_withdraw(now));
    assert!(!budget.try_withdraw(now));
}

#[test]
fn inv55_only_retries_withdraw_from_the_retry_budget() {
    let now = origin();
    let budget = RetryBudget::new(0.2, 10, ms(10_000), now).unwrap();
    let breaker = Breaker::new(BreakerConfig::default(), 0, now).unwrap();
    let hedges = HedgeBudget::new(0.05, 10).unwrap();
    // First attempts however they end, and hedges: the balance only grows, by the ratio.
    for nth in 0..4_u32 {
        budget.deposit(now);
        let permit = breaker.admit(now).unwrap();
        if nth % 2 == 0 {
            permit.ignore();
        } else {
            permit.failure(now, None);
        }
        assert!(hedges.try_withdraw(1.0));
        assert!((budget.balance(now) - (10.0 + 0.2 * f64::from(nth + 1))).abs() < GRAIN);
    }
}

#[test]
fn savings_lapse_with_the_windows_and_the_reserve_does_not() {
    let start = origin();
    let at = |seconds| start + Duration::from_secs(seconds);
    let budget = RetryBudget::new(0.2, 10, Duration::from_secs(10), start).unwrap();
    (0..500).for_each(|_| budget.deposit(at(1)));
    assert!((budget.balance(at(9)) - 110.0).abs() < GRAIN);
    assert!(
        (budget.balance(at(10)) - 110.0).abs() < GRAIN,
        "what the last window added stays"
    );
    (0..5).for_each(|_| budget.deposit(at(11)));
    assert!((budget.balance(at(20)) - 11.0).abs() < GRAIN);
    assert!((budget.balance(at(500)) - 10.0).abs() < GRAIN);
    assert!(
        (budget.balance(at(1)) - 10.0).abs() < GRAIN,
        "an earlier reading brings nothing back"
    );
    // Nor does one take anything away.
    (0..5).for_each(|_| budget.deposit(at(505)));
    assert!((budget.balance(at(495)) - 11.0).abs() < GRAIN);
    assert!((budget.balance(at(515)) - 11.0).abs() < GRAIN);
}

#[test]
fn a_cooldown_tells_for_how_long_it_has_run() {
    let now = origin();
    let cooldown = Cooldown::new(ms(1000), 2.0, ms(5000)).unwrap();
    assert_eq!(cooldown.running_for(now), None);
    cooldown.start(now, None);
    // One more, within it, begins nothing new.
    cooldown.start(now + ms(400), Some(ms(900)));
    assert_eq!(cooldown.running_for(now + ms(1000)), Some(ms(1000)));
    assert_eq!(cooldown.running_for(now + ms(1300)), None);
    cooldown.start(now + ms(2000), None);
    assert_eq!(cooldown.running_for(now + ms(2100)), Some(ms(100)));
}

#[test]
fn rate_limits_in_a_row_lengthen_the_cooldown_and_a_success_after_it_shortens_the_next() {
    let start = origin();
    let cooldown = Cooldown::new(ms(1000), 2.0, ms(5000)).unwrap();
    let mut now = start;
    assert_eq!(cooldown.remaining(now), None);
    for lasts in [1000, 2000, 4000, 5000, 5000] {
        assert_eq!(cooldown.start(now, None), ms(lasts));
        // A second one of the same crowd neither grows nor shortens it.
        assert_eq!(cooldown.start(now, None), ms(lasts));
        // A success of a call begun before it does not end it, nor the run.
        cooldown.succeeded(now);
        assert_eq!(cooldown.remaining(now), Some(ms(lasts)));
        now += ms(lasts);
        assert_eq!(cooldown.remaining(now), None);
    }
    cooldown.succeeded(now);
    assert_eq!(cooldown.start(now, None), ms(1000));
    cooldown.clear();
    assert_eq!(cooldown.remaining(now), None);
    assert_eq!(cooldown.remaining(start.checked_sub(ms(1)).unwrap()), None);
    assert_eq!(cooldown.start(now, None), ms(1000));
}

#[test]
fn c007_a_second_rate_limit_never_leaves_the_shorter_deadline_in_place() {
    let start = origin();
    let cooldown = Cooldown::new(ms(60_000), 1.0, ms(60_000)).unwrap();
    assert_eq!(cooldown.start(start + ms(10), Some(ms(1000))), ms(1000));
    assert_eq!(cooldown.start(start + ms(250), None), ms(60_000));
    assert_eq!(
        cooldown.remaining(start + ms(1100)),
        Some(ms(60_250 - 1100))
    );
}

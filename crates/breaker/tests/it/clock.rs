//! Invariant 18, and clocks that stand, leap or run back.

use std::time::Duration;

use evenkeel_breaker::{
    Backoff, Breaker, BreakerConfig, Cooldown, RateRule, RateWindow, RetryBudget, State,
};
use proptest::prelude::*;

use crate::trace::{ms, origin};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn window_of(window: RateWindow) -> BreakerConfig {
    BreakerConfig {
        failure_threshold: u32::MAX,
        rate: Some(RateRule {
            failure_rate: 1.0,
            min_calls: 20,
            window,
            slow: None,
        }),
        jitter: 0.0,
        ..BreakerConfig::default()
    }
}

proptest! {
    #[test]
    fn inv18_an_earlier_reading_ends_nothing_early_and_revives_nothing(
        leap in 0_u64..=100_000,
        back in 0_u64..=200_000,
    ) {
        let start = origin();
        // An outcome read earlier than the newest slice counts as of the newest slice.
        let breaker = Breaker::new(window_of(RateWindow::Time(ms(1600))), 0, start).unwrap();
        let newest = start + ms(leap);
        let earlier = newest.checked_sub(ms(back)).unwrap();
        breaker.admit(newest).unwrap().failure(newest, None);
        breaker.admit(earlier).unwrap().failure(earlier, None);
        prop_assert_eq!(breaker.snapshot(earlier).window_failures, 2);
        prop_assert_eq!(breaker.snapshot(newest).window_failures, 2);
        prop_assert_eq!(breaker.snapshot(newest + ms(1600)).window_failures, 0);
        // An opening read earlier than the change before it begins with that change.
        breaker.reset(newest);
        breaker.force_open(newest);
        breaker.reset(newest);
        let opened = breaker.trip(earlier).unwrap();
        prop_assert_eq!(opened.at, newest);
        let refused = breaker.admit(earlier).unwrap_err();
        prop_assert_eq!(earlier + refused.retry_in, newest + Duration::from_secs(60));
        prop_assert!(breaker.admit(newest + ms(59_999)).is_err());
        prop_assert_eq!(breaker.state(newest + ms(60_000)), State::HalfOpen);
    }
}

#[test]
fn inv18_a_breaker_that_is_emptied_again_and_again_does_not_run_ahead_of_time() {
    let start = origin();
    let breaker = Breaker::new(window_of(RateWindow::Time(ms(1600))), 0, start).unwrap();
    for round in 0..50 {
        breaker.admit(start).unwrap().success(start);
        breaker.admit(start).unwrap().failure(start, None);
        breaker.reset(start);
        assert_eq!(breaker.snapshot(start).window_calls, 0, "{round}");
        breaker.admit(start).unwrap().success(start);
        breaker.force_open(start);
        breaker.reset(start);
        assert_eq!(breaker.snapshot(start).window_calls, 0, "{round}");
    }
    breaker.admit(start).unwrap().success(start);
    breaker.admit(start).unwrap().failure(start, None);
    let last = start + ms(1599);
    breaker.admit(last).unwrap().success(last);
    let seen = breaker.snapshot(last);
    assert_eq!((seen.window_calls, seen.window_failures), (3, 1));
    let over = start + ms(1600);
    breaker.admit(over).unwrap().success(over);
    let seen = breaker.snapshot(over);
    assert_eq!((seen.window_calls, seen.window_failures), (2, 0));
}

#[test]
fn inv18_a_slice_ends_at_its_end_and_no_sooner() {
    let start = origin();
    let breaker = Breaker::new(window_of(RateWindow::Time(ms(1600))), 0, start).unwrap();
    for millis in [0, 50, 99, 100, 150, 199, 200, 300, 399] {
        let now = start + ms(millis);
        breaker.admit(now).unwrap().success(now);
    }
    let left = [0, 1599, 1600, 1699, 1700, 1799, 1800, 1899, 1900]
        .map(|millis| breaker.snapshot(start + ms(millis)).window_calls);
    assert_eq!(left, [9, 9, 6, 6, 3, 3, 2, 2, 0]);
}

#[test]
fn inv18_a_thread_that_uses_many_breakers_keeps_their_slices_apart() {
    let start = origin();
    // Twice as many as a thread remembers the time of, with slices of 100, 101, .. ms.
    let breakers: Vec<_> = (0..128)
        .map(|nth| {
            let window = RateWindow::Time(ms(1600 + 16 * nth));
            Breaker::new(window_of(window), 0, start).unwrap()
        })
        .collect();
    for call in 0..100 {
        let now = start + ms(37 * call);
        for (nth, breaker) in (0..).zip(&breakers) {
            breaker.admit(now).unwrap().success(now);
            let (slice, newest) = (100 + nth, 37 * call / (100 + nth));
            let inside = (0..=call).filter(|call| 37 * call / slice + 16 > newest);
            assert_eq!(breaker.snapshot(now).window_calls, inside.count() as u64);
        }
    }
}

#[test]
fn a_clock_that_stands_still_still_counts() {
    let now = origin();
    let breaker = Breaker::new(window_of(RateWindow::Time(ms(1000))), 0, now).unwrap();
    for nth in 1..=20 {
        let recorded = breaker.admit(now).unwrap().failure(now, None);
        assert_eq!(recorded.transition.is_some(), nth == 20);
    }
}

#[test]
fn leaps_of_years_and_centuries_do_no_harm() {
    let start = origin();
    let breaker = Breaker::new(window_of(RateWindow::Time(ms(10))), 0, start).unwrap();
    for years in [0, 1, 30, 600, 2000, 600, 0] {
        let now = start + YEAR * years;
        for _ in 0..3 {
            assert!(!breaker.admit(now).unwrap().failure(now, None).stale);
        }
    }
    let far = start + YEAR * 600;
    // Time stands still for the window by now; it can be emptied still.
    for _ in 0..3 {
        breaker.reset(far);
        assert_eq!(breaker.snapshot(far).window_calls, 0);
        breaker.admit(far).unwrap().failure(far, None);
        breaker.admit(far).unwrap().success(far);
        assert_eq!(breaker.snapshot(far).window_calls, 2);
    }
    breaker.trip(far);
    // Past the end of the timeline an opening is over at once, and nothing panics.
    assert_eq!(breaker.state(far + YEAR), State::HalfOpen);
    let budget = RetryBudget::new(0.5, 1, ms(1), start).unwrap();
    budget.deposit(far);
    assert!(budget.try_withdraw(start));
}

#[test]
fn readings_before_the_beginning_count_as_the_beginning() {
    let start = origin();
    let before = start.checked_sub(Duration::from_secs(3600)).unwrap();
    let breaker = Breaker::new(window_of(RateWindow::Time(ms(1000))), 0, start).unwrap();
    breaker.admit(before).unwrap().failure(before, None);
    assert_eq!(breaker.snapshot(start).window_failures, 1);
    let opened = breaker.trip(before).unwrap();
    assert_eq!(opened.at, start);
    let refused = breaker.admit(before).unwrap_err();
    assert_eq!(before + refused.retry_in, start + Duration::from_secs(60));
    assert!(breaker.admit(before + refused.retry_in).is_ok());
}

#[test]
fn the_longest_settings_do_not_overflow() {
    let now = origin();
    let config = BreakerConfig {
        failure_threshold: 1,
        open: YEAR,
        open_cap: YEAR,
        growth: 1000.0,
        jitter: 0.999,
        reset_after: YEAR,
        half_open_timeout: YEAR,
        rate: Some(RateRule {
            window: RateWindow::Time(YEAR),
            ..RateRule::default()
        }),
        ..BreakerConfig::default()
    };
    let breaker = Breaker::new(config, 3, now).unwrap();
    let mut at = now;
    for _ in 0..50 {
        let opened = breaker
            .admit(at)
            .unwrap()
            .failure(at, Some(Duration::MAX))
            .transition
            .unwrap();
        assert!(opened.retry_in.unwrap() >= YEAR);
        at += opened.retry_in.unwrap();
    }
}

#[test]
fn the_shortest_window_keeps_its_length() {
    let start = origin();
    let breaker = Breaker::new(window_of(RateWindow::Time(ms(10))), 0, start).unwrap();
    breaker.admit(start).unwrap().failure(start, None);
    let inside = start + Duration::from_micros(9_374);
    assert_eq!(breaker.snapshot(inside).window_failures, 1);
    assert_eq!(breaker.snapshot(start + ms(10)).window_failures, 0);
}

#[test]
fn extreme_durations_give_a_documented_delay() {
    let endless = Backoff {
        base: Duration::MAX,
        cap: Duration::MAX,
    };
    assert_eq!(endless.delay(u32::MAX, 1.0), Duration::MAX);
    // A double can't hold it, and rounds up.
    let odd = Duration::MAX.saturating_sub(Duration::from_nanos(1));
    assert_eq!(
        Backoff {
            base: odd,
            cap: odd
        }
        .delay(1, 1.0),
        odd
    );
    assert_eq!(endless.delay(1, f64::NAN), Duration::MAX);
    assert_eq!(endless.delay(1, -1.0), Duration::ZERO);
    let none = Backoff {
        base: Duration::ZERO,
        cap: Duration::MAX,
    };
    assert_eq!(none.delay(u32::MAX, 1.0), Duration::ZERO);
    let start = origin();
    let cooldown = Cooldown::new(ms(1), 2.0, ms(10)).unwrap();
    assert_eq!(
        cooldown.start(start, Some(Duration::MAX)),
        Duration::from_secs(24 * 3600)
    );
    assert_eq!(
        cooldown.start(start, Some(Duration::ZERO)),
        Duration::from_secs(24 * 3600)
    );
}

//! Invariants 5 to 7, 18, 49 and 50 on real threads; loom goes through the orders they may run in.

use std::{
    cell::RefCell,
    sync::{
        Arc, Barrier,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use evenkeel_breaker::{
    Breaker, BreakerConfig, HedgeBudget, RateRule, RateWindow, RetryBudget, State,
};

use crate::trace::{ms, origin};

const THREADS: usize = 8;

/// More than own a cell of a time window at a time.
const CROWD: usize = 48;

/// Runs `act` on all threads at the same moment and gathers what they return.
fn together<T: Send>(act: impl Fn(usize) -> T + Sync) -> Vec<T> {
    crowd(THREADS, act)
}

/// The same on so many threads, all of which are alive until the last has come.
fn crowd<T: Send>(threads: usize, act: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(threads);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|nth| {
                let (act, barrier) = (&act, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    act(nth)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no assertion failed on it"))
            .collect()
    })
}

#[test]
fn inv05_of_many_failures_that_trip_one_is_told_and_one_event_is_heard() {
    let now = origin();
    for round in 0..200 {
        let heard = Arc::new(AtomicU32::new(0));
        let ear = Arc::clone(&heard);
        let config = BreakerConfig {
            failure_threshold: 1,
            ..BreakerConfig::default()
        };
        let breaker = Breaker::new(config, round, now)
            .unwrap()
            .with_listener(move |_| {
                ear.fetch_add(1, Ordering::Relaxed);
            });
        let permits: Vec<_> = (0..THREADS).map(|_| breaker.admit(now).unwrap()).collect();
        let permits = std::sync::Mutex::new(permits);
        let told = together(|_| {
            let permit = permits.lock().unwrap().pop().unwrap();
            permit.failure(now, None).transition
        });
        assert_eq!(told.iter().flatten().count(), 1);
        assert_eq!(heard.load(Ordering::Relaxed), 1);
        assert_eq!(breaker.generation(), 1);
    }
}

#[test]
fn inv06_a_crowd_gets_no_more_permits_than_there_are_trials() {
    // C198: 64 callers at once, one permit, 1000 times.
    let now = origin();
    let config = BreakerConfig {
        success_threshold: 1,
        ..BreakerConfig::default()
    };
    for round in 0..1000 {
        let breaker = Breaker::new(config, round, now).unwrap();
        let later = now + breaker.trip(now).unwrap().retry_in.unwrap();
        let permits = together(|_| (0..8).map(|_| breaker.admit(later)).collect::<Vec<_>>());
        let admitted = permits
            .iter()
            .flatten()
            .filter(|permit| permit.is_ok())
            .count();
        assert_eq!(admitted, 1);
        assert_eq!(breaker.generation(), 2);
    }
}

#[test]
fn inv07_permits_dropped_by_many_threads_all_come_back() {
    let now = origin();
    let config = BreakerConfig {
        success_threshold: 3,
        ..BreakerConfig::default()
    };
    let breaker = Breaker::new(config, 0, now).unwrap();
    let later = now + breaker.trip(now).unwrap().retry_in.unwrap();
    let most = AtomicU32::new(0);
    let out = AtomicU32::new(0);
    together(|_| {
        for _ in 0..2000 {
            if let Ok(permit) = breaker.admit(later) {
                most.fetch_max(out.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                out.fetch_sub(1, Ordering::SeqCst);
                drop(permit);
            }
        }
    });
    assert!((1..=3).contains(&most.load(Ordering::SeqCst)));
    assert_eq!(breaker.snapshot(later).trials_out, 0);
    assert_eq!(breaker.state(later), State::HalfOpen);
}

#[test]
fn no_outcome_is_lost_or_counted_twice() {
    let now = origin();
    for window in [RateWindow::Time(ms(1000)), RateWindow::Calls(50_000)] {
        let config = BreakerConfig {
            failure_threshold: u32::MAX,
            rate: Some(RateRule {
                failure_rate: 1.0,
                min_calls: 1,
                window,
                slow: None,
            }),
            ..BreakerConfig::default()
        };
        let breaker = Breaker::new(config, 0, now).unwrap();
        breaker.admit(now).unwrap().success(now);
        together(|nth| {
            for call in 0..2000 {
                let permit = breaker.admit(now).unwrap();
                let recorded = if (call + nth) % 4 == 0 {
                    permit.failure(now, None)
                } else {
                    permit.success(now)
                };
                assert!(!recorded.stale);
            }
        });
        let seen = breaker.snapshot(now);
        assert_eq!((seen.window_calls, seen.window_failures), (16_001, 4_000));
    }
}

/// Counts in a window of time and never opens.
fn counting() -> Breaker {
    let config = BreakerConfig {
        failure_threshold: u32::MAX,
        rate: Some(RateRule {
            failure_rate: 1.0,
            min_calls: u32::MAX,
            window: RateWindow::Time(ms(1600)),
            slow: None,
        }),
        ..BreakerConfig::default()
    };
    Breaker::new(config, 0, origin()).expect("valid settings")
}

#[test]
fn inv18_successes_of_more_threads_than_own_a_cell_all_count_once() {
    let breaker = counting();
    let all_count = Barrier::new(CROWD);
    crowd(CROWD, |nth| {
        for call in 0..500 {
            let now = origin() + ms(call % 10);
            breaker.admit(now).unwrap().success(now);
            if call == 0 {
                // Each has asked for a cell by now, and those that own one keep it while the rest count on.
                all_count.wait();
            }
            if call % 100 == 0 && nth == 0 {
                breaker.admit(now).unwrap().failure(now, None);
            }
        }
    });
    let seen = breaker.snapshot(origin());
    assert_eq!((seen.window_calls, seen.window_failures), (24_005, 5));
    assert_eq!(breaker.snapshot(origin() + ms(1600)).window_calls, 0);
}

#[test]
fn inv18_successes_of_threads_that_come_and_go_all_count_once() {
    let breaker = counting();
    for round in 0..100 {
        let now = origin() + ms(round);
        crowd(3, |_| {
            breaker.admit(now).unwrap().success(now);
            breaker.admit(now).unwrap().success(now);
        });
        assert_eq!(breaker.snapshot(now).window_calls, 6 * (round + 1));
    }
}

#[test]
fn a_permit_that_ends_on_another_thread_counts_once_and_only_in_its_generation() {
    let now = origin();
    let breaker = Arc::new(counting());
    breaker.admit(now).unwrap().success(now);
    let (kept, late) = (
        breaker.admit_owned(now).unwrap(),
        breaker.admit_owned(now).unwrap(),
    );
    let recorded = thread::spawn(move || kept.success(now)).join().unwrap();
    assert!(!recorded.stale);
    assert_eq!(breaker.snapshot(now).window_calls, 2);
    breaker.force_open(now);
    breaker.reset(now);
    let recorded = thread::spawn(move || late.success(now)).join().unwrap();
    assert!(recorded.stale);
    assert_eq!(breaker.snapshot(now).window_calls, 0);
}

#[test]
fn a_success_that_a_thread_records_as_its_last_act_counts_too() {
    struct Last(Arc<Breaker>);
    impl Drop for Last {
        fn drop(&mut self) {
            self.0.admit(origin()).unwrap().success(origin());
        }
    }
    thread_local! {
        static BEFORE: RefCell<Option<Last>> = const { RefCell::new(None) };
        static AFTER: RefCell<Option<Last>> = const { RefCell::new(None) };
    }
    let now = origin();
    let breaker = Arc::new(counting());
    for round in 1..=3 {
        let breaker_of_thread = Arc::clone(&breaker);
        // Whichever order the thread's own things end in, one of them ends after its cell.
        thread::spawn(move || {
            BEFORE.set(Some(Last(Arc::clone(&breaker_of_thread))));
            breaker_of_thread.admit(now).unwrap().success(now);
            AFTER.set(Some(Last(breaker_of_thread)));
        })
        .join()
        .unwrap();
        assert_eq!(breaker.snapshot(now).window_calls, 3 * round);
    }
}

#[test]
fn a_counted_window_that_overflows_under_many_threads_ends_up_exact() {
    let now = origin();
    let config = BreakerConfig {
        failure_threshold: u32::MAX,
        rate: Some(RateRule {
            failure_rate: 1.0,
            min_calls: 7,
            window: RateWindow::Calls(7),
            slow: None,
        }),
        ..BreakerConfig::default()
    };
    let breaker = Breaker::new(config, 0, now).unwrap();
    together(|nth| {
        for call in 0..5000 {
            // Never seven failures in a row on any interleaving of few threads is not promised: reset when open.
            match breaker.admit(now) {
                Ok(permit) if (call + nth) % 2 == 0 => permit.failure(now, None),
                Ok(permit) => permit.success(now),
                Err(_) => {
                    breaker.reset(now);
                    continue;
                }
            };
        }
    });
    breaker.reset(now);
    for _ in 0..6 {
        breaker.admit(now).unwrap().failure(now, None);
    }
    assert_eq!(breaker.snapshot(now).window_failures, 6);
    for _ in 0..7 {
        breaker.admit(now).unwrap().success(now);
    }
    let seen = breaker.snapshot(now);
    assert_eq!((seen.window_calls, seen.window_failures), (7, 0));
}

#[test]
fn inv50_of_many_that_ask_for_the_last_token_one_gets_it() {
    let now = origin();
    for _ in 0..500 {
        let retries = RetryBudget::new(0.2, 1, ms(1000), now).unwrap();
        let hedges = HedgeBudget::new(0.05, 1).unwrap();
        let got = together(|_| (retries.try_withdraw(now), hedges.try_withdraw(1.0)));
        assert_eq!(got.iter().filter(|(retry, _)| *retry).count(), 1);
        assert_eq!(got.iter().filter(|(_, hedge)| *hedge).count(), 1);
    }
}

#[test]
fn inv49_deposits_and_withdrawals_of_many_threads_add_up() {
    let now = origin();
    let budget = RetryBudget::new(0.5, 10, ms(1000), now).unwrap();
    let withdrawn: u32 = together(|_| {
        (0..1000)
            .map(|_| {
                budget.deposit(now);
                u32::from(budget.try_withdraw(now))
            })
            .sum::<u32>()
    })
    .iter()
    .sum();
    let expected = 10.0 + 0.5 * 8000.0 - f64::from(withdrawn);
    assert!((budget.balance(now) - expected).abs() < 1e-6);
    assert!(withdrawn <= 4010);
}

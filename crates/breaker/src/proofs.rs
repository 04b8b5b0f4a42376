//! Loom models: every interleaving of two or three threads on the lock-free paths.
//!
//! `RUSTFLAGS="--cfg evenkeel_loom" cargo test --release -p evenkeel-breaker --lib proofs`
//!
//! Under that cfg a time window has two slices instead of 16, the fewest that can pass each other, and two
//! threads at a time own a cell of it.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64 as Tally, Ordering},
    },
    time::{Duration, Instant},
};

use loom::thread;

use crate::{
    Breaker, BreakerConfig, Cooldown, HedgeBudget, OwnedPermit, RateRule, RateWindow, Recorded,
    RetryBudget, State,
};

/// The same in every execution of a model, which must repeat itself.
fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "a test needs some origin")]
    *ORIGIN.get_or_init(Instant::now)
}

fn at(millis: u64) -> Instant {
    origin() + Duration::from_millis(millis)
}

/// Opens for 100 ms, then 200 ms, on the first failure.
fn touchy() -> BreakerConfig {
    BreakerConfig {
        failure_threshold: 1,
        success_threshold: 1,
        open: Duration::from_millis(100),
        half_open_timeout: Duration::from_millis(100),
        jitter: 0.0,
        rate: None,
        ..BreakerConfig::default()
    }
}

/// Counts in a window and never opens.
fn counting(window: RateWindow) -> BreakerConfig {
    BreakerConfig {
        failure_threshold: u32::MAX,
        rate: Some(RateRule {
            failure_rate: 1.0,
            min_calls: match window {
                RateWindow::Calls(calls) => calls,
                RateWindow::Time(_) => 1000,
            },
            window,
            slow: None,
        }),
        ..touchy()
    }
}

const TIMED: RateWindow = RateWindow::Time(Duration::from_millis(20));

fn breaker(config: BreakerConfig) -> (Arc<Breaker>, Arc<Tally>) {
    let heard = Arc::new(Tally::new(0));
    let ear = Arc::clone(&heard);
    let breaker = Breaker::new(config, 0, origin())
        .expect("valid settings")
        .with_listener(move |_| {
            ear.fetch_add(1, Ordering::Relaxed);
        });
    (Arc::new(breaker), heard)
}

fn admit(breaker: &Arc<Breaker>, now: Instant) -> OwnedPermit {
    breaker.admit_owned(now).expect("admitted")
}

/// Runs the first in a thread of its own beside the second.
fn race<A: Send + 'static, B>(
    one: impl FnOnce() -> A + Send + 'static,
    other: impl FnOnce() -> B,
) -> (A, B) {
    let thread = thread::spawn(one);
    let mine = other();
    (thread.join().expect("no thread panics"), mine)
}

/// Every interleaving in which threads are interrupted at most three times: of three threads, or of long
/// ones, all of them take minutes.
fn bounded(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// A breaker that opened at the origin, with the reading at which it tries again.
fn opened(config: BreakerConfig) -> (Arc<Breaker>, Instant) {
    let (breaker, _) = breaker(config);
    breaker.trip(origin()).expect("was closed");
    (breaker, at(100))
}

#[test]
fn inv02_and_05_one_of_three_failures_that_trip_is_told_and_one_event_is_heard() {
    bounded(|| {
        let (breaker, heard) = breaker(touchy());
        let permits = [
            admit(&breaker, at(0)),
            admit(&breaker, at(0)),
            admit(&breaker, at(0)),
        ];
        let threads = permits.map(|permit| thread::spawn(move || permit.failure(at(0), None)));
        let told = threads.map(|thread| thread.join().expect("no thread panics"));
        assert_eq!(
            told.iter()
                .filter(|recorded| recorded.transition.is_some())
                .count(),
            1
        );
        assert_eq!(
            (heard.load(Ordering::Relaxed), breaker.generation()),
            (1, 1)
        );
    });
}

#[test]
fn inv02_an_order_and_a_failure_make_one_event_each_or_the_failure_none() {
    loom::model(|| {
        let (breaker, heard) = breaker(touchy());
        let (permit, operator) = (admit(&breaker, at(0)), Arc::clone(&breaker));
        let (forced, recorded) = race(
            move || operator.force_open(at(0)),
            || permit.failure(at(0), None),
        );
        assert!(forced.is_some());
        assert!(!(recorded.stale && recorded.transition.is_some()));
        let changes = 1 + u64::from(recorded.transition.is_some());
        assert_eq!(
            (heard.load(Ordering::Relaxed), breaker.generation()),
            (changes, changes)
        );
        assert_eq!(breaker.state(at(0)), State::ForcedOpen);
    });
}

/// An outcome of the first generation races with an operator who opens and closes the breaker.
fn late_outcome(window: RateWindow, end: fn(OwnedPermit) -> Recorded) {
    let (breaker, _) = breaker(counting(window));
    let (permit, operator) = (admit(&breaker, at(0)), Arc::clone(&breaker));
    race(
        move || {
            operator.force_open(at(0));
            operator.reset(at(0));
        },
        || end(permit),
    );
    let seen = breaker.snapshot(at(0));
    assert_eq!(seen.generation, 2);
    assert_eq!(
        (
            seen.failures_in_a_row,
            seen.window_calls,
            seen.window_failures
        ),
        (0, 0, 0)
    );
    // Nor does what it left behind disturb the new generation's counts.
    admit(&breaker, at(0)).failure(at(0), None);
    let seen = breaker.snapshot(at(0));
    assert_eq!(
        (
            seen.failures_in_a_row,
            seen.window_calls,
            seen.window_failures
        ),
        (1, 1, 1)
    );
}

#[test]
fn inv04_a_late_outcome_reaches_no_count_of_a_later_generation_in_a_time_window() {
    loom::model(|| late_outcome(TIMED, |permit| permit.failure(at(0), None)));
    loom::model(|| late_outcome(TIMED, |permit| permit.success(at(0))));
}

#[test]
fn inv04_a_late_outcome_reaches_no_count_of_a_later_generation_in_a_count_window() {
    loom::model(|| late_outcome(RateWindow::Calls(2), |permit| permit.failure(at(0), None)));
}

#[test]
fn inv04_a_late_success_does_not_end_the_run_of_a_later_generation() {
    loom::model(|| {
        let config = BreakerConfig {
            failure_threshold: 2,
            ..touchy()
        };
        let (breaker, _) = breaker(config);
        let late = admit(&breaker, at(0));
        let other = Arc::clone(&breaker);
        let (second, _) = race(
            move || {
                other.force_open(at(0));
                other.reset(at(0));
                admit(&other, at(0)).failure(at(0), None);
                admit(&other, at(0)).failure(at(0), None)
            },
            || late.success(at(0)),
        );
        assert!(second.transition.is_some());
    });
}

#[test]
fn inv06_two_threads_share_one_trial() {
    loom::model(|| {
        let (breaker, again) = opened(touchy());
        let other = Arc::clone(&breaker);
        let (one, two) = race(
            move || other.admit_owned(again),
            || breaker.admit_owned(again),
        );
        assert_eq!(u32::from(one.is_ok()) + u32::from(two.is_ok()), 1);
        assert_eq!(breaker.generation(), 2);
    });
}

#[test]
fn inv06_permits_and_outcomes_of_three_threads_stay_within_two_trials() {
    bounded(|| {
        let config = BreakerConfig {
            success_threshold: 2,
            ..touchy()
        };
        let (breaker, again) = opened(config);
        let attempt = |breaker: Arc<Breaker>| {
            move || {
                breaker
                    .admit_owned(again)
                    .map(|permit| permit.success(again))
            }
        };
        let threads = [(); 2].map(|()| thread::spawn(attempt(Arc::clone(&breaker))));
        let mine = attempt(Arc::clone(&breaker))();
        let others = threads.map(|thread| thread.join().expect("no thread panics"));
        let admitted: Vec<Recorded> = others.into_iter().chain([mine]).flatten().collect();
        // Two trials close it; only then may the third call be admitted, and it is none.
        let closed = admitted
            .iter()
            .filter(|recorded| recorded.transition.is_some())
            .count();
        assert!(admitted.len() >= 2 && closed == 1, "{admitted:?}");
        assert_eq!(breaker.state(again), State::Closed);
    });
}

#[test]
fn inv07_a_dropped_permit_comes_back_once_and_never_to_a_later_generation() {
    loom::model(|| {
        let config = BreakerConfig {
            success_threshold: 2,
            ..touchy()
        };
        let (breaker, again) = opened(config);
        let (dropped, failed) = (admit(&breaker, again), admit(&breaker, again));
        let other = Arc::clone(&breaker);
        let later = again + Duration::from_millis(200);
        let (third, ()) = race(
            move || {
                failed.failure(again, None);
                admit(&other, later)
            },
            || drop(dropped),
        );
        assert_eq!(breaker.snapshot(later).trials_out, 1);
        drop(third);
        assert_eq!(breaker.snapshot(later).trials_out, 0);
    });
}

#[test]
fn inv08_a_success_that_races_with_a_failure_counts_before_it_or_not_at_all() {
    loom::model(|| {
        let config = BreakerConfig {
            success_threshold: 2,
            ..touchy()
        };
        let (breaker, again) = opened(config);
        let (good, bad) = (admit(&breaker, again), admit(&breaker, again));
        let (_, failed) = race(move || good.success(again), || bad.failure(again, None));
        assert_eq!(
            failed.transition.map(|transition| transition.to),
            Some(State::Open)
        );
        let seen = breaker.snapshot(again);
        assert_eq!((seen.trials_out, seen.trials_succeeded), (0, 0));
    });
}

#[test]
fn inv09_trials_that_time_out_reopen_once() {
    loom::model(|| {
        let (breaker, again) = opened(touchy());
        std::mem::forget(admit(&breaker, again));
        let late = again + Duration::from_millis(100);
        let other = Arc::clone(&breaker);
        let (ticked, refused) = race(move || other.tick(late), || breaker.admit_owned(late).err());
        assert_eq!(breaker.generation(), 3);
        assert_eq!(refused.expect("refused").state, State::Open);
        assert!(ticked.is_none_or(|transition| transition.to == State::Open));
    });
}

#[test]
fn inv13_a_reader_never_sees_the_deadline_of_another_opening() {
    loom::model(|| {
        let (breaker, again) = opened(touchy());
        let other = Arc::clone(&breaker);
        let (_, refused) = race(
            move || admit(&other, again).failure(again, None),
            || breaker.would_refuse(at(50)),
        );
        // 50 ms are left of the first opening; the second ends 200 ms after `again`. In between all trials are out.
        let refused = refused.expect("not admitted at this reading");
        match refused.state {
            State::Open => assert!(
                [50, 250]
                    .map(Duration::from_millis)
                    .contains(&refused.retry_in),
                "{refused}"
            ),
            state => assert_eq!(state, State::HalfOpen),
        }
    });
}

#[test]
fn inv13_a_late_failure_with_a_retry_after_leaves_the_deadline_alone() {
    loom::model(|| {
        let (breaker, _) = breaker(touchy());
        let (first, second) = (admit(&breaker, at(0)), admit(&breaker, at(0)));
        let long = Some(Duration::from_millis(400));
        let (one, two) = race(
            move || first.failure(at(0), long),
            || second.failure(at(0), None),
        );
        let asked = one
            .transition
            .or(two.transition)
            .expect("one of them opened it")
            .retry_in;
        assert_eq!(
            breaker.would_refuse(at(0)).map(|refused| refused.retry_in),
            asked
        );
        assert_eq!(
            asked,
            Some(Duration::from_millis(if one.transition.is_some() {
                400
            } else {
                100
            }))
        );
    });
}

#[test]
fn inv18_outcomes_of_two_slices_are_neither_lost_nor_counted_twice() {
    loom::model(|| {
        let (breaker, _) = breaker(counting(TIMED));
        let (first, second) = (admit(&breaker, at(0)), admit(&breaker, at(0)));
        race(
            move || first.failure(at(0), None),
            || second.failure(at(10), None),
        );
        assert_eq!(breaker.snapshot(at(10)).window_failures, 2);
    });
}

#[test]
fn inv18_an_outcome_that_races_with_the_end_of_its_slice_counts_now_or_is_gone() {
    loom::model(|| {
        let (breaker, _) = breaker(counting(TIMED));
        let (first, second) = (admit(&breaker, at(0)), admit(&breaker, at(0)));
        race(
            move || first.failure(at(0), None),
            || second.failure(at(20), None),
        );
        // Slice 2 takes the slot of slice 0: the first outcome is in neither or in the newest.
        assert!((1..=2).contains(&breaker.snapshot(at(20)).window_failures));
        assert_eq!(breaker.snapshot(at(40)).window_failures, 0);
    });
}

/// Outcomes in the window, and failures among them.
fn window(breaker: &Breaker, millis: u64) -> (u64, u64) {
    let seen = breaker.snapshot(at(millis));
    (seen.window_calls, seen.window_failures)
}

#[test]
fn inv18_successes_of_two_owners_beside_a_failure_that_judges_all_count_once() {
    bounded(|| {
        let mut config = counting(TIMED);
        if let Some(rule) = &mut config.rate {
            rule.min_calls = 1;
        }
        let (breaker, heard) = breaker(config);
        let permits = [(); 4].map(|()| admit(&breaker, at(0)));
        let [first, one, other, bad] = permits;
        // The failure comes after this success, and so is never all there is.
        first.success(at(0));
        let threads = [thread::spawn(move || one.success(at(0))), {
            thread::spawn(move || other.success(at(0)))
        }];
        bad.failure(at(0), None);
        for thread in threads {
            assert!(!thread.join().expect("no thread panics").stale);
        }
        assert_eq!(window(&breaker, 0), (4, 1));
        assert_eq!(heard.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn inv18_a_success_beside_a_turn_of_the_window_counts_once_or_is_gone() {
    loom::model(|| {
        let (breaker, _) = breaker(counting(TIMED));
        let permits = [(); 4].map(|()| admit(&breaker, at(0)));
        let [before, late, next, last] = permits;
        before.success(at(0));
        // Slices 0, 1 and 2: the last takes the slots of the first.
        race(
            move || {
                next.success(at(10));
                last.success(at(20));
            },
            || late.success(at(0)),
        );
        // The late one counts in the slice that was the newest when it came.
        assert!((2..=3).contains(&window(&breaker, 20).0));
        assert!((1..=2).contains(&window(&breaker, 30).0));
        assert_eq!(window(&breaker, 40), (0, 0));
    });
}

#[test]
fn inv04_a_success_beside_a_reset_of_a_closed_breaker_is_forgotten_or_counts_once() {
    loom::model(|| {
        let (breaker, _) = breaker(counting(TIMED));
        admit(&breaker, at(0)).success(at(0));
        admit(&breaker, at(0)).failure(at(0), None);
        let (permit, operator) = (admit(&breaker, at(0)), Arc::clone(&breaker));
        let (_, recorded) = race(move || operator.reset(at(0)), || permit.success(at(0)));
        assert!(!recorded.stale);
        let (calls, failures) = window(&breaker, 0);
        assert!(calls <= 1 && failures == 0, "{calls} {failures}");
        admit(&breaker, at(0)).success(at(0));
        admit(&breaker, at(0)).failure(at(0), None);
        assert_eq!(window(&breaker, 0), (calls + 2, 1));
    });
}

#[test]
fn inv10_a_failure_after_a_reset_is_not_overlooked_by_a_success_after_it() {
    bounded(|| {
        let mut config = counting(TIMED);
        if let Some(rule) = &mut config.rate {
            (rule.failure_rate, rule.min_calls) = (0.5, 2);
        }
        let (breaker, heard) = breaker(config);
        let permits = [(); 3].map(|()| admit(&breaker, at(0)));
        let ([late, bad, good], operator) = (permits, Arc::clone(&breaker));
        // Whether the late failure comes before the reset or after it, these are half of what follows it.
        race(
            move || {
                operator.reset(at(0));
                bad.failure(at(0), None);
                good.success(at(0));
            },
            || late.failure(at(0), None),
        );
        assert_eq!(heard.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn inv18_a_cell_that_passes_from_thread_to_thread_loses_nothing() {
    bounded(|| {
        let (breaker, _) = breaker(counting(TIMED));
        // This thread owns one of the two cells; the others get the second in turn, or one of them is a guest.
        admit(&breaker, at(0)).success(at(0));
        let permits = [admit(&breaker, at(0)), admit(&breaker, at(0))];
        let threads = permits.map(|permit| thread::spawn(move || permit.success(at(0))));
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        assert_eq!(window(&breaker, 0), (3, 0));
    });
}

#[test]
fn inv18_guests_beside_owners_lose_nothing() {
    bounded(|| {
        let (breaker, _) = breaker(counting(TIMED));
        admit(&breaker, at(0)).success(at(0));
        // Four threads, two cells to own: two of the threads may be guests at once.
        let permits = [(); 3].map(|()| admit(&breaker, at(0)));
        let threads = permits.map(|permit| thread::spawn(move || permit.success(at(0))));
        admit(&breaker, at(0)).success(at(0));
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        assert_eq!(window(&breaker, 0), (5, 0));
    });
}

/// One success, then two failures at once: two of three fail, whoever looks when.
fn two_of_three(window: RateWindow, second: Instant) {
    let mut config = counting(window);
    if let Some(rule) = &mut config.rate {
        rule.min_calls = 2;
    }
    let (breaker, heard) = breaker(config);
    let permits = [(); 3].map(|()| admit(&breaker, at(0)));
    let [good, one, other] = permits;
    good.success(at(0));
    race(
        move || one.failure(second, None),
        || other.failure(second, None),
    );
    assert_eq!(heard.load(Ordering::Relaxed), 0);
}

#[test]
fn inv10_threads_that_look_while_others_count_see_no_share_that_never_was() {
    loom::model(|| two_of_three(TIMED, at(0)));
    loom::model(|| two_of_three(RateWindow::Calls(3), at(0)));
}

#[test]
fn inv10_a_thread_that_looks_while_a_slice_is_reused_sees_no_share_that_never_was() {
    loom::model(|| {
        let mut config = counting(TIMED);
        if let Some(rule) = &mut config.rate {
            rule.min_calls = 2;
        }
        let (breaker, heard) = breaker(config);
        let permits = [(); 4].map(|()| admit(&breaker, at(0)));
        let [good, bad, one, other] = permits;
        good.success(at(0));
        bad.failure(at(0), None);
        // Two of three fail, or one of two once the first slice has gone.
        race(move || one.failure(at(10), None), || other.success(at(20)));
        assert_eq!(heard.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn a_count_window_ends_up_as_what_its_ring_holds() {
    loom::model(|| {
        let (breaker, _) = breaker(counting(RateWindow::Calls(2)));
        let permits = [(); 3].map(|()| admit(&breaker, at(0)));
        let [failed, first, second] = permits;
        // A ring of two: the failure may be replaced before it is written, or while its sum still lacks it.
        race(
            move || failed.failure(at(0), None),
            || [first.success(at(0)), second.success(at(0))],
        );
        for _ in 0..2 {
            admit(&breaker, at(0)).success(at(0));
        }
        let seen = breaker.snapshot(at(0));
        assert_eq!((seen.window_calls, seen.window_failures), (2, 0));
    });
}

#[test]
fn inv49_deposits_and_withdrawals_add_up_over_the_end_of_a_window() {
    loom::model(|| {
        let window = Duration::from_millis(10);
        let budget = Arc::new(RetryBudget::new(1.0, 1, window, origin()).expect("valid settings"));
        budget.deposit(at(0));
        let other = Arc::clone(&budget);
        let (granted, ()) = race(
            move || other.try_withdraw(at(10)),
            || budget.deposit(at(10)),
        );
        assert!(granted);
        // Reserve and two deposits less one; the first deposit lapses if the window turns late.
        let balance = budget.balance(at(10));
        assert!((1.0..=2.0).contains(&balance), "{balance}");
    });
}

#[test]
fn inv50_of_two_that_ask_for_the_last_token_one_gets_it() {
    loom::model(|| {
        let window = Duration::from_millis(10);
        let retries = Arc::new(RetryBudget::new(0.5, 1, window, origin()).expect("valid settings"));
        let hedges = Arc::new(HedgeBudget::new(0.5, 1).expect("valid settings"));
        let (others, theirs) = (Arc::clone(&retries), Arc::clone(&hedges));
        let (one, two) = race(
            move || (others.try_withdraw(at(10)), theirs.try_withdraw(1.0)),
            || (retries.try_withdraw(at(10)), hedges.try_withdraw(1.0)),
        );
        assert!(one.0 ^ two.0);
        assert!(one.1 ^ two.1);
    });
}

#[test]
fn inv49_a_hedge_bucket_never_overflows() {
    loom::model(|| {
        let budget = Arc::new(HedgeBudget::new(0.75, 1).expect("valid settings"));
        assert!(budget.try_withdraw(1.0));
        let other = Arc::clone(&budget);
        race(move || other.deposit(), || budget.deposit());
        assert!((budget.balance() - 1.0).abs() < 1e-9);
    });
}

#[test]
fn rate_limits_of_a_crowd_count_once() {
    loom::model(|| {
        let base = Duration::from_millis(100);
        let cooldown = Arc::new(Cooldown::new(base, 2.0, base * 8).expect("valid settings"));
        let other = Arc::clone(&cooldown);
        let (one, two) = race(
            move || other.start(at(0), None),
            || cooldown.start(at(0), None),
        );
        assert_eq!((one, two), (base, base));
        assert_eq!(cooldown.start(at(100), None), base * 2);
    });
}

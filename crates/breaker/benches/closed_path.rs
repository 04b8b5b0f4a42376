//! What a call through a closed breaker costs, beside the floor of an uncontended lock in the same run.

use std::{
    hint::black_box,
    sync::{Arc, Barrier, Mutex},
    thread,
    time::{Duration, Instant},
};

use criterion::{Criterion, criterion_group, criterion_main};
use evenkeel_breaker::{Breaker, BreakerConfig, HedgeBudget, RateRule, RateWindow, RetryBudget};

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn now() -> Instant {
    Instant::now()
}

fn breaker(window: RateWindow) -> Breaker {
    let rate = Some(RateRule {
        window,
        ..RateRule::default()
    });
    let config = BreakerConfig {
        rate,
        ..BreakerConfig::default()
    };
    Breaker::new(config, 1, now()).expect("valid settings")
}

/// Time that `threads` take for `calls` calls each, all at once.
fn together(threads: usize, calls: u64, call: impl Fn(u64) + Sync) -> Duration {
    let barrier = Barrier::new(threads + 1);
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    (0..calls).for_each(&call);
                })
            })
            .collect();
        barrier.wait();
        let start = now();
        for thread in running {
            thread.join().expect("no call panics");
        }
        start.elapsed()
    })
}

fn one_thread(c: &mut Criterion) {
    let mut group = c.benchmark_group("one thread");
    let at = now();
    let mutex = Mutex::new(0_u64);
    group.bench_function("floor: std mutex lock and unlock", |b| {
        b.iter(|| *black_box(&mutex).lock().expect("not poisoned") += 1);
    });
    let timed = breaker(RateWindow::Time(Duration::from_secs(60)));
    group.bench_function("admit and success, time window", |b| {
        b.iter(|| black_box(&timed).admit(at).map(|permit| permit.success(at)));
    });
    let counted = breaker(RateWindow::Calls(100));
    group.bench_function("admit and success, count window", |b| {
        b.iter(|| {
            black_box(&counted)
                .admit(at)
                .map(|permit| permit.success(at))
        });
    });
    let mixed = breaker(RateWindow::Time(Duration::from_secs(60)));
    mixed.admit(at).expect("closed").failure(at, None);
    group.bench_function("admit and success, failures in the window", |b| {
        b.iter(|| black_box(&mixed).admit(at).map(|permit| permit.success(at)));
    });
    group.bench_function("admit and drop", |b| {
        b.iter(|| black_box(black_box(&timed).admit(at)).is_ok());
    });
    let shared = Arc::new(breaker(RateWindow::Time(Duration::from_secs(60))));
    group.bench_function("admit_owned and success", |b| {
        b.iter(|| {
            black_box(&shared)
                .admit_owned(at)
                .map(|permit| permit.success(at))
        });
    });
    let open = breaker(RateWindow::Time(Duration::from_secs(60)));
    open.force_open(at);
    open.reset(at);
    open.trip(at);
    group.bench_function("refused while open", |b| {
        b.iter(|| black_box(&open).admit(at).is_err());
    });
    let retries = RetryBudget::new(0.2, 10, Duration::from_secs(10), at).expect("valid settings");
    group.bench_function("retry budget: deposit", |b| {
        b.iter(|| black_box(&retries).deposit(at));
    });
    let hedges = HedgeBudget::new(0.05, 10).expect("valid settings");
    group.bench_function("hedge budget: deposit", |b| {
        b.iter(|| black_box(&hedges).deposit());
    });
    group.finish();
}

fn two_threads(c: &mut Criterion) {
    let mut group = c.benchmark_group("two threads, one breaker");
    let at = now();
    let mutex = Mutex::new(0_u64);
    group.bench_function("std mutex lock and unlock", |b| {
        b.iter_custom(|calls| together(2, calls, |_| *mutex.lock().expect("not poisoned") += 1));
    });
    for (name, window) in [
        (
            "admit and success, time window",
            RateWindow::Time(Duration::from_secs(60)),
        ),
        ("admit and success, count window", RateWindow::Calls(100)),
    ] {
        let breaker = breaker(window);
        group.bench_function(name, |b| {
            b.iter_custom(|calls| {
                together(2, calls, |_| {
                    breaker.admit(at).expect("closed").success(at);
                })
            });
        });
    }
    group.finish();
}

criterion_group!(benches, one_thread, two_threads);
criterion_main!(benches);

//! What a call through a closed breaker costs: one admission and one success, beside other breakers and beside
//! the floor of an uncontended lock in the same run.

use std::{
    hint::black_box,
    sync::{Arc, Barrier, Mutex},
    thread,
    time::{Duration, Instant},
};

use criterion::{Criterion, criterion_group, criterion_main};
use evenkeel_breaker::{
    Breaker, BreakerConfig, HedgeBudget, RateRule, RateWindow, RetryBudget, tower::BreakerLayer,
};
use tower::Layer;

use self::{
    handles::{Evenkeel, Failsafe, Handle, Recloser, Stack, judge, upstream},
    ratios::Figures,
};

#[path = "closed_path/handles.rs"]
mod handles;
#[path = "closed_path/ratios.rs"]
mod ratios;

const KEYS: usize = 64;

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn now() -> Instant {
    Instant::now()
}

fn with_rate(rate: Option<RateRule>) -> Arc<Breaker> {
    let config = BreakerConfig {
        rate,
        ..BreakerConfig::default()
    };
    Arc::new(Breaker::new(config, 1, now()).expect("valid settings"))
}

fn breaker(window: RateWindow) -> Arc<Breaker> {
    with_rate(Some(RateRule {
        window,
        ..RateRule::default()
    }))
}

const TIME: RateWindow = RateWindow::Time(Duration::from_secs(60));
const COUNT: RateWindow = RateWindow::Calls(100);

fn proof_that_it_breaks(mut handle: impl Handle) {
    assert!(handle.pass(true), "closed");
    (0..200).for_each(|_| assert!(!handle.pass(false)));
    assert!(!handle.pass(true), "open after 200 failures");
}

/// From the first of two threads' starts to the last one's end, for `calls` calls each.
///
/// Both are new, as the workers of a pool once were; the breaker gives each a cell of its own.
fn together<H: Handle>(handle: &H, calls: u64) -> Duration {
    let barrier = Barrier::new(2);
    let run = |mut own: H| {
        barrier.wait();
        let start = now();
        for _ in 0..calls {
            assert!(own.pass(true));
        }
        (start, now())
    };
    let threads = [handle.clone(), handle.clone()];
    let [one, two] = thread::scope(|scope| {
        threads
            .map(|own| scope.spawn(|| run(own)))
            .map(|thread| thread.join().expect("no call panics"))
    });
    one.1.max(two.1) - one.0.min(two.0)
}

/// How long so many calls take one after the other.
fn alone(calls: u64, mut call: impl FnMut() -> bool) -> Duration {
    let start = now();
    for _ in 0..calls {
        black_box(call());
    }
    start.elapsed()
}

/// Times one way of making calls, and keeps the figures for the ratios at the end.
fn measure<H: Handle>(
    c: &mut Criterion,
    figures: &mut Figures,
    name: &'static str,
    make: impl Fn() -> H,
) {
    let mut time = |group: &'static str, run: &mut dyn FnMut(u64) -> Duration| {
        c.benchmark_group(group).bench_function(name, |b| {
            b.iter_custom(|calls| figures.keep(group, name, calls, run(calls)));
        });
    };
    let mut own = make();
    time(ratios::ONE, &mut |calls| {
        alone(calls, || black_box(&mut own).pass(true))
    });
    let shared = make();
    time(ratios::TWO, &mut |calls| together(&shared, calls));
    let mut keyed: Vec<_> = (0..KEYS).map(|_| make()).collect();
    let mut key = 0;
    time(ratios::KEYED, &mut |calls| {
        alone(calls, || {
            key = (key + 1) % KEYS;
            black_box(&mut keyed[key]).pass(true)
        })
    });
}

fn compare<H: Handle>(
    c: &mut Criterion,
    figures: &mut Figures,
    name: &'static str,
    make: impl Fn() -> H,
) {
    proof_that_it_breaks(make());
    measure(c, figures, name, make);
}

fn calls(c: &mut Criterion) {
    let at = now();
    let mut figures = Figures::default();
    measure(c, &mut figures, ratios::FLOOR, || {
        Arc::new(Mutex::new(0_u64))
    });
    compare_all(c, &mut figures, at);
    figures.tell();
}

/// Every way of making calls, each of which has to break first.
fn compare_all(c: &mut Criterion, figures: &mut Figures, at: Instant) {
    compare(c, figures, ratios::DEFAULT, || {
        Evenkeel::new(breaker(TIME), move || at)
    });
    compare(c, figures, "evenkeel, in a row and 100 calls", || {
        Evenkeel::new(breaker(COUNT), move || at)
    });
    compare(c, figures, "evenkeel, in a row", || {
        Evenkeel::new(with_rate(None), move || at)
    });
    compare(c, figures, "recloser, 100 calls", Recloser::new);
    compare(c, figures, "failsafe, in a row", Failsafe::in_a_row);

    // These read the clock by themselves, or are made to.
    compare(
        c,
        figures,
        "evenkeel, in a row and 60 s window, clock",
        || Evenkeel::new(breaker(TIME), now),
    );
    compare(
        c,
        figures,
        "failsafe, in a row and 30 s window, clock",
        Failsafe::by_default,
    );
    compare(c, figures, "evenkeel, tower service, clock", || {
        Stack(BreakerLayer::new(breaker(TIME), now, judge).layer(upstream()))
    });
    compare(c, figures, "tower-resilience, tower service, clock", || {
        Stack(handles::tower_resilience())
    });
}

fn parts(c: &mut Criterion) {
    let mut group = c.benchmark_group("parts");
    let at = now();
    let mixed = breaker(TIME);
    mixed.admit(at).expect("closed").failure(at, None);
    group.bench_function("admit and success, failures in the window", |b| {
        b.iter(|| black_box(&mixed).admit(at).map(|permit| permit.success(at)));
    });
    let shared = breaker(TIME);
    group.bench_function("admit and drop", |b| {
        b.iter(|| black_box(black_box(&shared).admit(at)).is_ok());
    });
    group.bench_function("admit_owned and success", |b| {
        b.iter(|| {
            black_box(&shared)
                .admit_owned(at)
                .map(|permit| permit.success(at))
        });
    });
    let open = breaker(TIME);
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

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(50);
    targets = calls, parts
}
criterion_main!(benches);

//! What one record with one look for a breach costs, beside other ways to keep a window and beside the floor
//! of an uncontended lock.
//!
//! Every window is steady: calls come `window / samples` apart, so each holds that many samples while old
//! ones leave, and what leaving costs is in the figure.

use std::{
    hint::black_box,
    sync::{
        Barrier, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use evenkeel_probe::{LatencyWindow, RoleWord, WindowConfig};

use self::rivals::{KeptSorted, MergedHistograms, SortedAtCheck};

#[path = "window/rivals.rs"]
mod rivals;

const T95: Duration = Duration::from_millis(1_500);
const T99: Duration = Duration::from_millis(2_500);
const WINDOW: Duration = Duration::from_secs(15);
/// Samples below which no rival says that a percentile is over.
const MIN_SAMPLES: usize = 20;
const KEYS: usize = 64;

/// A window that takes a latency and says at once whether it is in breach.
trait Window {
    fn new(start: Instant) -> Self;
    fn record_and_check(&mut self, latency: Duration, now: Instant) -> bool;
}

impl Window for LatencyWindow {
    fn new(start: Instant) -> Self {
        let config = WindowConfig::new(T95, T99, WINDOW).expect("limits rise");
        Self::new(config, start)
    }

    fn record_and_check(&mut self, latency: Duration, now: Instant) -> bool {
        shared(self, latency, now)
    }
}

fn shared(window: &LatencyWindow, latency: Duration, now: Instant) -> bool {
    window.record(latency, now);
    window.judge(now).0.is_breached()
}

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn now() -> Instant {
    Instant::now()
}

/// Calls of a healthy endpoint: 0.2 to 1.4 s, one in 64 at 2 s, at even distances for ever.
struct Calls {
    latencies: Vec<Duration>,
    next: usize,
    now: Instant,
    step: Duration,
}

impl Calls {
    fn new(now: Instant, step: Duration) -> Self {
        let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
        let latencies = (0..4_096).map(|i| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            let micros = 200_000 + dice % 1_200_000;
            Duration::from_micros(if i % 64 == 63 { 2_000_000 } else { micros })
        });
        Self {
            latencies: latencies.collect(),
            next: 0,
            now,
            step,
        }
    }

    /// So that a window of `samples` stays at that many.
    fn holding(samples: u32) -> Self {
        Self::new(now(), WINDOW / samples)
    }

    fn next(&mut self) -> (Duration, Instant) {
        self.now += self.step;
        self.next = (self.next + 1) % self.latencies.len();
        (self.latencies[self.next], self.now)
    }
}

/// A window that has held `samples` for a while, with the calls that go on from there.
fn steady<W: Window>(samples: u32) -> (W, Calls) {
    let mut calls = Calls::holding(samples);
    let mut window = W::new(calls.now);
    for _ in 0..2 * samples {
        let (latency, now) = calls.next();
        assert!(!window.record_and_check(latency, now), "calls are healthy");
    }
    (window, calls)
}

fn proof_that_it_watches<W: Window>() {
    let (mut window, mut calls) = steady::<W>(1_000);
    let is_breached = (0..200).any(|_| {
        let (_, now) = calls.next();
        window.record_and_check(2 * T99, now)
    });
    assert!(is_breached, "a fifth of the window is slow");
}

fn one_window<W: Window>(c: &mut Criterion, name: &str) {
    proof_that_it_watches::<W>();
    let mut group = c.benchmark_group("one thread");
    for samples in [100, 1_000, 10_000] {
        let (mut window, mut calls) = steady::<W>(samples);
        group.bench_function(BenchmarkId::new(name, samples), |b| {
            b.iter(|| {
                let (latency, now) = calls.next();
                window.record_and_check(black_box(latency), now)
            });
        });
    }
    group.finish();
}

fn many_windows<W: Window>(c: &mut Criterion, name: &str) {
    let (windows, calls): (Vec<_>, Vec<_>) = (0..KEYS).map(|_| steady::<W>(1_000)).unzip();
    let mut windows: Vec<_> = windows.into_iter().zip(calls).collect();
    let mut key = 0;
    c.benchmark_group("64 keys in turn")
        .bench_function(BenchmarkId::new(name, 1_000), |b| {
            b.iter(|| {
                // A step that visits every key, and none beside the one before.
                key = (key + 27) % KEYS;
                let (window, calls) = &mut windows[key];
                let (latency, now) = calls.next();
                window.record_and_check(black_box(latency), now)
            });
        });
}

fn one_thread(c: &mut Criterion) {
    let mutex = Mutex::new(0_u64);
    c.bench_function("floor: std mutex lock and unlock", |b| {
        b.iter(|| *black_box(&mutex).lock().expect("not poisoned") += 1);
    });
    let mut calls = Calls::holding(1_000);
    c.bench_function("floor: the next call's latency and instant", |b| {
        b.iter(|| black_box(calls.next()));
    });
    one_window::<LatencyWindow>(c, "LatencyWindow");
    one_window::<MergedHistograms>(c, "merged histograms");
    one_window::<SortedAtCheck>(c, "deque sorted at each check");
    one_window::<KeptSorted>(c, "deque with a vector kept sorted");
    let (window, mut calls) = steady::<LatencyWindow>(1_000);
    c.bench_function("LatencyWindow: judge alone", |b| {
        b.iter(|| black_box(&window).judge(calls.now));
    });
    c.bench_function("LatencyWindow: begin and finish, no look", |b| {
        b.iter(|| {
            let (latency, now) = calls.next();
            let obs = window.begin(now);
            window.finish(obs, now + black_box(latency));
        });
    });
}

fn many_keys(c: &mut Criterion) {
    many_windows::<LatencyWindow>(c, "LatencyWindow");
    many_windows::<MergedHistograms>(c, "merged histograms");
    many_windows::<SortedAtCheck>(c, "deque sorted at each check");
    many_windows::<KeptSorted>(c, "deque with a vector kept sorted");
}

/// Time two threads take for `calls` calls each, all at once: from when the first begins to when the last ends.
fn together(calls: u64, work: impl Fn(u64) + Sync) -> Duration {
    let barrier = Barrier::new(2);
    let timed = || {
        barrier.wait();
        let began = now();
        work(calls);
        (began, now())
    };
    thread::scope(|scope| {
        let other = scope.spawn(timed);
        let (my_begin, my_end) = timed();
        let (its_begin, its_end) = other.join().expect("no call panics");
        my_end.max(its_end) - my_begin.min(its_begin)
    })
}

/// Both threads call `record_and_check` on a window that holds 1,000 samples from both.
fn contended(
    c: &mut Criterion,
    name: &str,
    record_and_check: impl Fn(Duration, Instant) -> bool + Sync,
) {
    let (start, passed) = (now() + 4 * WINDOW, AtomicU64::new(0));
    let step = WINDOW / 500;
    c.benchmark_group("two threads, one window").bench_function(
        BenchmarkId::new(name, 1_000),
        |b| {
            b.iter_custom(|calls| {
                let from = start + Duration::from_nanos(passed.load(Ordering::Relaxed));
                let took = together(calls, |calls| {
                    let mut stream = Calls::new(from, step);
                    for _ in 0..calls {
                        let (latency, now) = stream.next();
                        black_box(record_and_check(latency, now));
                    }
                });
                let span = u64::try_from(step.as_nanos()).expect("a step is short") * calls;
                passed.fetch_add(span, Ordering::Relaxed);
                took
            });
        },
    );
}

fn contended_behind_a_mutex<W: Window + Send>(c: &mut Criterion, name: &str) {
    let (window, _) = steady::<W>(1_000);
    let window = Mutex::new(window);
    contended(c, name, |latency, now| {
        let mut window = window.lock().expect("not poisoned");
        window.record_and_check(latency, now)
    });
}

fn two_threads(c: &mut Criterion) {
    let mutex = Mutex::new(0_u64);
    c.bench_function("two threads: std mutex lock and unlock", |b| {
        b.iter_custom(|calls| {
            together(calls, |calls| {
                (0..calls).for_each(|_| *mutex.lock().expect("not poisoned") += 1);
            })
        });
    });
    let (window, _) = steady::<LatencyWindow>(1_000);
    contended(c, "LatencyWindow", |latency, now| {
        shared(&window, latency, now)
    });
    contended_behind_a_mutex::<MergedHistograms>(c, "merged histograms");
    contended_behind_a_mutex::<SortedAtCheck>(c, "deque sorted at each check");
    contended_behind_a_mutex::<KeptSorted>(c, "deque with a vector kept sorted");
}

fn role_word(c: &mut Criterion) {
    let word = RoleWord::new(0);
    c.bench_function("RoleWord: load", |b| b.iter(|| black_box(&word).load()));
    c.bench_function("RoleWord: load and try_move", |b| {
        b.iter(|| {
            let seen = black_box(&word).load();
            word.try_move(seen, 1 - seen.rung)
        });
    });
}

criterion_group! {
    name = benches;
    // Many short samples: on a machine that does other things too, some of them have a core to themselves.
    config = Criterion::default()
        .sample_size(50)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500));
    targets = one_thread, many_keys, two_threads, role_word
}
criterion_main!(benches);

//! The reporting side of a window: two rotating histograms behind a mutex, two figures published.

use std::mem;
use std::time::Duration;

use crate::histogram::Histogram;
use crate::quantile::{percentile, to_micros};
use crate::report::{P95_FLOOR, Report};
use crate::run::Run;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// Fewest samples a median is published on (DESIGN: 5).
const MEDIAN_FLOOR: u64 = 5;

/// A published figure that is not known.
const NONE: u64 = u64::MAX;

/// Nothing here is read by a verdict. Time comes as the number of the slice it lies in.
#[derive(Debug)]
pub(crate) struct Reporting {
    samples: Mutex<Samples>,
    /// Nanoseconds, or NONE.
    median: AtomicU64,
    p95: AtomicU64,
    /// One more than the slice in which the figures were published; 0 before that.
    published: AtomicU64,
}

impl Reporting {
    /// For a window of `live` slices.
    pub(crate) fn new(live: u64) -> Self {
        Self {
            samples: Mutex::new(Samples {
                half: live.div_ceil(2),
                latest: 0,
                current: Half::new(),
                previous: Half::new(),
                run: Run::new(),
            }),
            median: AtomicU64::new(NONE),
            p95: AtomicU64::new(NONE),
            published: AtomicU64::new(0),
        }
    }

    /// Records a latency in nanoseconds after letting `with_run` see the run.
    pub(crate) fn record(&self, now: u64, latency: u64, with_run: impl FnOnce(&mut Run)) {
        let mut samples = lock(&self.samples);
        with_run(&mut samples.run);
        samples.rotate(now);
        samples.record(latency);
        self.publish(&samples, now);
    }

    /// Runs `f` on the run of exceedances.
    pub(crate) fn run<R>(&self, f: impl FnOnce(&mut Run) -> R) -> R {
        f(&mut lock(&self.samples).run)
    }

    /// Publishes anew if a slice has passed since that was last done, unless somebody holds the lock: they
    /// publish themselves.
    pub(crate) fn refresh(&self, now: u64) {
        if self.published.load(Ordering::Acquire) > now {
            return;
        }
        if let Ok(mut samples) = self.samples.try_lock() {
            samples.rotate(now);
            self.publish(&samples, now);
        }
    }

    pub(crate) fn report(&self, now: u64) -> Report {
        let mut samples = lock(&self.samples);
        samples.rotate(now);
        Report::of(&samples.histograms(), samples.max())
    }

    /// The report on the samples and on the attempts of the run that are open, at their age `since_origin`
    /// nanoseconds after the origin.
    pub(crate) fn report_with_open(&self, now: u64, generation: u64, since_origin: u64) -> Report {
        let mut samples = lock(&self.samples);
        samples.rotate(now);
        let mut open = Histogram::new();
        let mut max = samples.max();
        for began in samples.run.open_since(generation) {
            let age = since_origin.saturating_sub(began);
            open.record(to_micros(age));
            max = max.max(age);
        }
        let [current, previous] = samples.histograms();
        Report::of(&[current, previous, &open], max)
    }

    /// Adds all samples to `sum` and returns the largest, in nanoseconds.
    pub(crate) fn add_to(&self, now: u64, sum: &mut Histogram<u64>) -> u64 {
        let mut samples = lock(&self.samples);
        samples.rotate(now);
        for histogram in samples.histograms() {
            sum.add(histogram);
        }
        samples.max()
    }

    pub(crate) fn median(&self) -> Option<Duration> {
        known(self.median.load(Ordering::Acquire))
    }

    pub(crate) fn p95(&self) -> Option<Duration> {
        known(self.p95.load(Ordering::Acquire))
    }

    /// Whether the published figures are of samples that may still be in the window of `live` slices.
    pub(crate) fn is_current(&self, now: u64, live: u64) -> bool {
        self.published.load(Ordering::Acquire).saturating_add(live) > now.saturating_add(1)
    }

    /// Once a slice, and when a figure first becomes known.
    fn publish(&self, samples: &Samples, now: u64) {
        let n = samples.len();
        let is_due = self.published.load(Ordering::Acquire) <= now
            || (n >= MEDIAN_FLOOR && self.median().is_none())
            || (n >= P95_FLOOR && self.p95().is_none());
        if !is_due {
            return;
        }
        let figure = |percent, floor| {
            let value = percentile(&samples.histograms(), percent, samples.max());
            let known = value.filter(|_| n >= floor);
            known.map_or(NONE, |value| crate::slices::nanos(value).min(NONE - 1))
        };
        self.median
            .store(figure(50, MEDIAN_FLOOR), Ordering::Release);
        self.p95.store(figure(95, P95_FLOOR), Ordering::Release);
        // Under the lock, and never backwards when an earlier instant comes late.
        self.published
            .fetch_max(now.saturating_add(1), Ordering::AcqRel);
    }
}

fn known(nanos: u64) -> Option<Duration> {
    (nanos != NONE).then(|| Duration::from_nanos(nanos))
}

/// The samples of the current half window and of the one before.
#[derive(Debug)]
struct Samples {
    /// Slices of half a window.
    half: u64,
    /// The latest slice seen.
    latest: u64,
    current: Half,
    previous: Half,
    run: Run,
}

#[derive(Debug)]
struct Half {
    /// Microseconds. A half takes at most 65,535 samples, so no count overflows.
    histogram: Histogram<u16>,
    /// Nanoseconds.
    max: u64,
}

impl Samples {
    /// Lets go of what is older than a window. An earlier instant than the last changes nothing.
    fn rotate(&mut self, now: u64) {
        if now <= self.latest {
            return;
        }
        let passed = now / self.half - self.latest / self.half;
        self.latest = now;
        if passed > 0 {
            self.turn();
        }
        if passed > 1 {
            self.previous.clear();
        }
    }

    fn record(&mut self, latency: u64) {
        if self.current.histogram.len() >= u64::from(u16::MAX) {
            self.turn();
        }
        self.current.histogram.record(to_micros(latency));
        self.current.max = self.current.max.max(latency);
    }

    /// Makes the current half the previous one, and a cleared one the current.
    fn turn(&mut self) {
        mem::swap(&mut self.current, &mut self.previous);
        self.current.clear();
    }

    fn histograms(&self) -> [&Histogram<u16>; 2] {
        [&self.current.histogram, &self.previous.histogram]
    }

    fn len(&self) -> u64 {
        self.current.histogram.len() + self.previous.histogram.len()
    }

    fn max(&self) -> u64 {
        self.current.max.max(self.previous.max)
    }
}

impl Half {
    fn new() -> Self {
        Self {
            histogram: Histogram::new(),
            max: 0,
        }
    }

    fn clear(&mut self) {
        if self.histogram.len() > 0 {
            self.histogram.clear();
            self.max = 0;
        }
    }
}

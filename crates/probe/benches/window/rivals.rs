//! The windows people write by hand, each at its best: nothing is allocated while recording.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;

use crate::{MIN_SAMPLES, T95, T99, WINDOW, Window};

/// As many as [`LatencyWindow`](evenkeel_probe::LatencyWindow) has.
const SLOTS: usize = 16;
const SLICES: u64 = SLOTS as u64;

/// A ring of histograms, one a slice, merged at each check. Range and digits are `LatencyWindow`'s.
pub(crate) struct MergedHistograms {
    start: Instant,
    slice: u64,
    ring: [Histogram<u32>; SLOTS],
    merged: Histogram<u32>,
}

impl MergedHistograms {
    fn slot(&mut self, slice: u64) -> &mut Histogram<u32> {
        let slot = usize::try_from(slice % SLICES).expect("a remainder of 16");
        &mut self.ring[slot]
    }

    fn turn_to(&mut self, now: Instant) {
        let width = u64::try_from(WINDOW.as_nanos()).expect("seconds") / SLICES;
        let passed = u64::try_from((now - self.start).as_nanos()).expect("minutes") / width;
        for slice in (self.slice + 1).max(passed.saturating_sub(SLICES - 1))..=passed {
            self.slot(slice).reset();
        }
        self.slice = self.slice.max(passed);
    }
}

impl Window for MergedHistograms {
    fn new(start: Instant) -> Self {
        let empty = Histogram::new_with_bounds(1, (256 << 26) - 1, 2).expect("a valid range");
        Self {
            start,
            slice: 0,
            ring: std::array::from_fn(|_| empty.clone()),
            merged: empty,
        }
    }

    fn record_and_check(&mut self, latency: Duration, now: Instant) -> bool {
        self.turn_to(now);
        self.slot(self.slice).saturating_record(micros(latency));
        self.merged.reset();
        for slice in self.ring.iter().filter(|slice| !slice.is_empty()) {
            self.merged.add(slice).expect("same range");
        }
        self.merged.len() >= MIN_SAMPLES as u64
            && (self.merged.value_at_quantile(0.95) > micros(T95)
                || self.merged.value_at_quantile(0.99) > micros(T99))
    }
}

/// Samples in order of time; a copy is sorted at each check.
pub(crate) struct SortedAtCheck {
    samples: VecDeque<(Instant, u64)>,
    sorted: Vec<u64>,
}

impl Window for SortedAtCheck {
    fn new(_: Instant) -> Self {
        Self {
            samples: VecDeque::new(),
            sorted: Vec::new(),
        }
    }

    fn record_and_check(&mut self, latency: Duration, now: Instant) -> bool {
        while self
            .samples
            .front()
            .is_some_and(|(at, _)| *at + WINDOW <= now)
        {
            self.samples.pop_front();
        }
        self.samples.push_back((now, micros(latency)));
        self.sorted.clear();
        self.sorted
            .extend(self.samples.iter().map(|(_, latency)| *latency));
        self.sorted.sort_unstable();
        is_over(&self.sorted)
    }
}

/// Samples in order of time, and beside them in order of size: found by bisection, moved into place.
pub(crate) struct KeptSorted {
    samples: VecDeque<(Instant, u64)>,
    sorted: Vec<u64>,
}

impl Window for KeptSorted {
    fn new(_: Instant) -> Self {
        Self {
            samples: VecDeque::new(),
            sorted: Vec::new(),
        }
    }

    fn record_and_check(&mut self, latency: Duration, now: Instant) -> bool {
        while let Some(&(at, old)) = self.samples.front()
            && at + WINDOW <= now
        {
            self.samples.pop_front();
            let place = self.sorted.partition_point(|sample| *sample < old);
            self.sorted.remove(place);
        }
        let latency = micros(latency);
        self.samples.push_back((now, latency));
        let place = self.sorted.partition_point(|sample| *sample < latency);
        self.sorted.insert(place, latency);
        is_over(&self.sorted)
    }
}

/// Whether the exact p95 or p99 is over its limit, by nearest rank.
fn is_over(sorted: &[u64]) -> bool {
    let is_over = |percent: usize, limit: Duration| {
        let rank = (sorted.len() * percent).div_ceil(100);
        sorted[rank - 1] > micros(limit)
    };
    sorted.len() >= MIN_SAMPLES && (is_over(95, T95) || is_over(99, T99))
}

fn micros(latency: Duration) -> u64 {
    u64::try_from(latency.as_micros()).expect("seconds")
}

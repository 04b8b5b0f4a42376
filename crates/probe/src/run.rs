//! The attempts since the current run of exceedances began.

use crate::quantile::nearest_rank;
use crate::spike::Score;

/// Attempts of a run that are kept: the latest. Five make a spike breach; half of the calls slow take 14.
const KEPT: usize = 64;

/// Latencies, finished and censored, since the spike score last left 0.
///
/// A window that has just turned slow is still full of fast answers, so its p95 says little about the
/// endpoint as it is now; this says more.
#[derive(Debug)]
pub(crate) struct Run {
    generation: u64,
    score: Score,
    /// Number of the run's first entry, and of the next one.
    first: u64,
    next: u64,
    /// Nanoseconds: the latency, or while the entry's bit in `open` is set when the attempt began.
    values: [u64; KEPT],
    open: u64,
}

/// What is known of an attempt's latency, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Latency {
    /// It has ended, by itself or cut short, after this long.
    Ended(u64),
    /// It began this long after the window's origin and still runs.
    OpenSince(u64),
}

impl Run {
    pub(crate) const fn new() -> Self {
        Self {
            generation: 0,
            score: Score::ZERO,
            first: 0,
            next: 0,
            values: [0; KEPT],
            open: 0,
        }
    }

    /// Adds an attempt that has just become an observation; returns its entry if a run is on.
    pub(crate) fn add(&mut self, generation: u64, over: bool, latency: Latency) -> Option<u64> {
        if generation < self.generation {
            return None;
        }
        if generation > self.generation {
            self.generation = generation;
            self.score = Score::ZERO;
        }
        if self.score.is_zero() {
            self.first = self.next;
        }
        self.score = self.score.step(over);
        if self.score.is_zero() {
            return None;
        }
        let entry = self.next;
        self.next += 1;
        self.put(entry, latency);
        Some(entry)
    }

    /// An attempt of the run that was still open has ended after `latency` nanoseconds.
    pub(crate) fn settle(&mut self, entry: u64, latency: u64) {
        if entry >= self.oldest() {
            self.put(entry, Latency::Ended(latency));
        }
    }

    /// The p95 in nanoseconds over the run of `generation`, taking open attempts at their age `since_origin`
    /// nanoseconds after the origin. None if no run is on.
    pub(crate) fn p95(&self, generation: u64, since_origin: u64) -> Option<u64> {
        if generation != self.generation || self.score.is_zero() {
            return None;
        }
        let mut latencies = [0; KEPT];
        let mut len = 0;
        for entry in self.oldest()..self.next {
            let (slot, bit) = place(entry);
            let value = self.values[slot];
            let is_open = self.open & bit != 0;
            latencies[len] = if is_open {
                since_origin.saturating_sub(value)
            } else {
                value
            };
            len += 1;
        }
        let latencies = &mut latencies[..len];
        latencies.sort_unstable();
        let rank = nearest_rank(95, latencies.len() as u64);
        let index = usize::try_from(rank.checked_sub(1)?).ok()?;
        latencies.get(index).copied()
    }

    /// Of the attempts of the run of `generation` that are still open, when they began, in nanoseconds after
    /// the origin.
    pub(crate) fn open_since(&self, generation: u64) -> impl Iterator<Item = u64> {
        let is_on = generation == self.generation && !self.score.is_zero();
        let entries = self.oldest()..if is_on { self.next } else { 0 };
        entries
            .map(place)
            .filter(|(_, bit)| self.open & bit != 0)
            .map(|(slot, _)| self.values[slot])
    }

    fn put(&mut self, entry: u64, latency: Latency) {
        let (slot, bit) = place(entry);
        match latency {
            Latency::Ended(nanos) => {
                self.values[slot] = nanos;
                self.open &= !bit;
            }
            Latency::OpenSince(nanos) => {
                self.values[slot] = nanos;
                self.open |= bit;
            }
        }
    }

    fn oldest(&self) -> u64 {
        self.first.max(self.next.saturating_sub(KEPT as u64))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a remainder of 64 fits any usize"
)]
const fn place(entry: u64) -> (usize, u64) {
    let slot = entry % KEPT as u64;
    (slot as usize, 1 << slot)
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::{Latency, Run};

    #[test]
    fn one_attempt_that_ends_leaves_the_others_open() {
        let mut run = Run::new();
        let first = run.add(0, true, Latency::OpenSince(0)).unwrap();
        run.add(0, true, Latency::OpenSince(100)).unwrap();
        run.settle(first, 40);
        // By age: the second has run for 900, the first took 40 and no longer ages.
        assert_eq!(run.p95(0, 1_000), Some(900));
        run.settle(first + 1, 60);
        assert_eq!(run.p95(0, 1_000), Some(60));
    }
}

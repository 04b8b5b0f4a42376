//! The decision side of a window: counts, score, generation and episode, all lock-free.

use std::time::Duration;

use crate::ring::{Limit, Ring};
use crate::spike::Spike;
use crate::sync::{AtomicU64, Ordering};
use crate::verdict::Counts;

/// Everything a verdict is read from.
#[derive(Debug)]
pub(crate) struct Evidence {
    /// The generation, twice, plus 1 while a breach episode is on: one word, so that a verdict on older
    /// evidence can never open or end an episode.
    control: AtomicU64,
    ring: Ring,
    spike: Spike,
    /// Nanoseconds.
    p95: AtomicU64,
    p99: AtomicU64,
}

/// The control word as it was when a verdict was begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Episode {
    control: u64,
}

impl Episode {
    pub(crate) const fn generation(self) -> u64 {
        self.control >> 1
    }

    pub(crate) const fn is_breach(self) -> bool {
        self.control & 1 == 1
    }
}

impl Evidence {
    pub(crate) fn new(p95: Duration, p99: Duration) -> Self {
        Self {
            control: AtomicU64::new(0),
            ring: Ring::new(),
            spike: Spike::new(),
            p95: AtomicU64::new(crate::slices::nanos(p95)),
            p99: AtomicU64::new(crate::slices::nanos(p99)),
        }
    }

    pub(crate) fn episode(&self) -> Episode {
        Episode {
            control: self.control.load(Ordering::Acquire),
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.episode().generation()
    }

    /// Begins or ends the episode that `seen` showed; false if that is no longer the state.
    pub(crate) fn turn(&self, seen: Episode) -> bool {
        self.control
            .compare_exchange(
                seen.control,
                seen.control ^ 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .is_ok()
    }

    /// One observation of `generation`; nothing if evidence has started anew since.
    pub(crate) fn count(&self, limit: Limit, generation: u64, slice: u64, over: bool) {
        if generation != self.generation() {
            return;
        }
        self.ring.add(limit, generation, slice, over);
        if limit == Limit::P95 {
            self.spike.step(generation, over);
        }
    }

    pub(crate) fn counts(&self, generation: u64, slice: u64, live: u64) -> Counts {
        self.ring.counts(generation, slice, live)
    }

    pub(crate) fn has_spike(&self, generation: u64) -> bool {
        self.spike.raised(generation)
    }

    /// A new generation: from the first line on nothing older counts.
    pub(crate) fn restart(&self) {
        let control = self.control.fetch_add(2, Ordering::AcqRel).wrapping_add(2);
        let generation = Episode { control }.generation();
        self.ring.restart(generation);
        self.spike.restart(generation);
    }

    /// T95 and T99. Read while they are being changed it may be one old and one new; T99 is never below T95.
    pub(crate) fn limits(&self) -> (Duration, Duration) {
        let p95 = self.p95.load(Ordering::Acquire);
        let p99 = self.p99.load(Ordering::Acquire).max(p95);
        (Duration::from_nanos(p95), Duration::from_nanos(p99))
    }

    pub(crate) fn set_limits(&self, p95: Duration, p99: Duration) {
        self.p95.store(crate::slices::nanos(p95), Ordering::Release);
        self.p99.store(crate::slices::nanos(p99), Ordering::Release);
    }
}

//! Sixteen slices of lock-free counts for both limits.

use std::array;

use crate::slices::{SLICES, SLOTS};
use crate::sync::{AtomicU64, Ordering};
use crate::tally::{Stamp, Tally};
use crate::verdict::Counts;

/// Which of the two limits a count is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    P95,
    P99,
}

/// Counts in slices. Every word carries its slice and generation, so a count lands in its own slice or
/// nowhere, whatever other threads do meanwhile.
///
/// `head` is the latest slice anything was recorded in. Whoever moves it first frees the words of the
/// slices it passes; so a word that still holds counts is never more than one turn behind `head`, and the
/// short lap in its stamp is enough. Only a thread that is held up inside one call for 32,768 windows
/// could mistake a word.
#[derive(Debug)]
pub(crate) struct Ring {
    head: AtomicU64,
    words: [[AtomicU64; 2]; SLOTS],
}

impl Ring {
    pub(crate) fn new() -> Self {
        Self {
            head: AtomicU64::new(0),
            words: array::from_fn(|_| array::from_fn(|_| AtomicU64::new(0))),
        }
    }

    /// Counts one observation in `slice`, or in the latest slice if that is ahead.
    pub(crate) fn add(&self, limit: Limit, generation: u64, slice: u64, over: bool) {
        let slice = self.advance(slice);
        let stamp = stamp(generation, slice);
        update(self.word(slice, limit), |tally| tally.with(stamp, over));
    }

    /// The counts of `generation` in the `live` slices up to `slice`, or up to the latest recorded if that
    /// is ahead.
    pub(crate) fn counts(&self, generation: u64, slice: u64, live: u64) -> Counts {
        let head = self.head.load(Ordering::Acquire);
        let oldest = slice.max(head).saturating_sub(live - 1);
        let mut counts = Counts::default();
        // Beyond head nothing was recorded.
        for slice in oldest..=head {
            let stamp = stamp(generation, slice);
            let [p95, p99] = &self.words[position(slice)];
            // T99 first: an attempt is counted at T95 first, so n99 is not read ahead of n95.
            let [n99, over99] = Tally::counts_of(p99.load(Ordering::Acquire), stamp);
            let [n95, over95] = Tally::counts_of(p95.load(Ordering::Acquire), stamp);
            counts.n99 += n99;
            counts.over99 += over99;
            counts.n95 += n95;
            counts.over95 += over95;
        }
        counts
    }

    /// Frees every word of an older generation, so that the 8 bits kept of it never come round.
    pub(crate) fn restart(&self, generation: u64) {
        for word in self.words.iter().flatten() {
            update(word, |tally| {
                let fresh = Tally::free(stamp(generation, 0));
                let behind = fresh.stamp.generation.wrapping_sub(tally.stamp.generation);
                (behind.cast_signed() > 0).then_some(fresh)
            });
        }
    }

    /// Moves the head up to `slice` and returns it. Words are freed before the head moves: who sees the new
    /// head sees them free.
    fn advance(&self, slice: u64) -> u64 {
        let mut head = self.head.load(Ordering::Acquire);
        while head < slice {
            self.retire(head, slice);
            match self
                .head
                .compare_exchange(head, slice, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return slice,
                Err(seen) => head = seen,
            }
        }
        head
    }

    /// Frees what slices up to `head` left in the words of the slices `head + 1 ..= slice`.
    fn retire(&self, head: u64, slice: u64) {
        let first = (head + 1).max(slice.saturating_sub(SLICES - 1));
        for passed in first..=slice {
            for limit in [Limit::P95, Limit::P99] {
                update(self.word(passed, limit), |tally| {
                    // What slices after `head` left is written after the head has moved.
                    let is_stale = self.head.load(Ordering::Acquire) == head;
                    (is_stale && tally.n > 0).then_some(Tally::free(tally.stamp))
                });
            }
        }
    }

    fn word(&self, slice: u64, limit: Limit) -> &AtomicU64 {
        &self.words[position(slice)][limit as usize]
    }
}

const fn position(slice: u64) -> usize {
    (slice % SLICES) as usize
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "stamps keep the low bits on purpose"
)]
const fn stamp(generation: u64, slice: u64) -> Stamp {
    Stamp {
        generation: generation as u8,
        lap: (slice / SLICES) as u16,
    }
}

/// Swaps the word for `next` of it, unless that is None.
fn update(word: &AtomicU64, next: impl Fn(Tally) -> Option<Tally>) {
    let mut seen = word.load(Ordering::Acquire);
    while let Some(tally) = next(Tally::from_bits(seen)) {
        match word.compare_exchange_weak(seen, tally.to_bits(), Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => return,
            Err(current) => seen = current,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n95(ring: &Ring, slice: u64) -> u64 {
        ring.counts(0, slice, 16).n95
    }

    #[test]
    fn a_slice_never_visited_again_does_not_come_back_when_laps_wrap() {
        let ring = Ring::new();
        ring.add(Limit::P95, 0, 3, true);
        // One record a window, always in the same slot, until the lap's 16 bits have come round.
        for lap in 1..=65_537 {
            ring.add(Limit::P95, 0, lap * 16, false);
        }
        assert_eq!(n95(&ring, 65_536 * 16 + 15), 1);
    }

    #[test]
    fn a_jump_of_exactly_the_wrap_finds_an_empty_window() {
        for jump in [65_536 * 16, 32_768 * 16, 40_000 * 16, 1 << 60] {
            let ring = Ring::new();
            for slice in 0..16 {
                ring.add(Limit::P95, 0, slice, true);
            }
            assert_eq!(n95(&ring, 15 + jump), 0);
            ring.add(Limit::P95, 0, 15 + jump, true);
            assert_eq!(n95(&ring, 15 + jump), 1);
        }
    }

    #[test]
    fn generations_do_not_come_back_when_they_wrap() {
        let ring = Ring::new();
        ring.add(Limit::P95, 0, 0, true);
        for generation in 1..=256 {
            ring.restart(generation);
        }
        assert_eq!(ring.counts(256, 0, 16).n95, 0);
    }

    #[test]
    fn a_restart_frees_every_older_word_and_none_of_its_own_generation() {
        let ring = Ring::new();
        for slice in 0..16 {
            ring.add(Limit::P95, 0, slice, true);
        }
        ring.add(Limit::P99, 0, 15, true);
        ring.restart(1);
        assert_eq!(ring.counts(0, 15, 16), Counts::default());
        // Counted between the new generation's beginning and the sweep.
        ring.add(Limit::P95, 1, 15, true);
        ring.restart(1);
        assert_eq!(ring.counts(1, 15, 16).n95, 1);
    }
}

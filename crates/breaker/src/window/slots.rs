//! Counts of the slices of a time window.

use std::ops::RangeInclusive;

use crate::{
    sync::{AtomicU64, Ordering},
    window::seat::{self, SEATS},
};

/// Slices a window is cut into; under loom the fewest that can pass each other.
const SLICES: usize = if cfg!(evenkeel_loom) { 2 } else { 16 };
/// As many, as a count of sequence numbers.
pub(super) const SPAN: u64 = SLICES as u64;

/// Numbers of the slices that count.
pub(super) type Live = RangeInclusive<u64>;

/// One count per slice, each with the number of the slice it is for (40 bits; the count has 24 and stays
/// at its largest value). Aligned so that two share no cache line, nor a pair of them that is fetched together.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Slots([AtomicU64; SLICES]);

const COUNT_BITS: u32 = 24;
const COUNT: u64 = (1 << COUNT_BITS) - 1;

impl Slots {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Adds one for slice `number`; `false` if the slot counts for a later one by now.
    pub(super) fn add(&self, number: u64) -> bool {
        self.slot(number)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                let counts_for = word >> COUNT_BITS;
                if counts_for > number {
                    None
                } else if counts_for < number {
                    Some(number << COUNT_BITS | 1)
                } else if word & COUNT == COUNT {
                    Some(word)
                } else {
                    Some(word + 1)
                }
            })
            .is_ok()
    }

    /// Adds one for slice `number`; for the only thread that writes here, so no slot counts for a later one:
    /// numbers come from the window's head, which that thread never sees go back.
    #[inline]
    fn add_alone(&self, number: u64) {
        let slot = self.slot(number);
        let word = slot.load(Ordering::Relaxed);
        let empty = number << COUNT_BITS;
        // Out of the count's range if the slot counts for an earlier slice.
        let count = word.wrapping_sub(empty);
        if count < COUNT {
            slot.store(word + 1, Ordering::Release);
        } else if count != COUNT {
            slot.store(empty + 1, Ordering::Release);
        }
    }

    pub(super) fn sum(&self, live: &Live) -> u64 {
        self.0
            .iter()
            .map(|slot| slot.load(Ordering::Acquire))
            .filter(|word| live.contains(&(word >> COUNT_BITS)))
            .map(|word| word & COUNT)
            .sum()
    }

    #[inline]
    fn slot(&self, number: u64) -> &AtomicU64 {
        &self.0[(number % SPAN) as usize]
    }
}

/// Counts that every call adds to: each thread with a seat has its own, which nobody else writes to; guests
/// share one.
#[derive(Debug)]
pub(super) struct Shares {
    seated: [Slots; SEATS],
    guests: Slots,
}

impl Shares {
    pub(super) fn new() -> Self {
        Self {
            seated: std::array::from_fn(|_| Slots::new()),
            guests: Slots::new(),
        }
    }

    /// Adds one for slice `number` if this thread has a seat; says whether.
    #[inline]
    pub(super) fn add_seated(&self, number: u64) -> bool {
        let own = self.seated.get(seat::mine());
        own.inspect(|own| own.add_alone(number)).is_some()
    }

    /// Adds one for slice `number`; `false` if that has passed out of the window meanwhile. A guest asks for a
    /// seat each time: one may have become free.
    pub(super) fn add(&self, number: u64) -> bool {
        seat::claim_unless_seated();
        self.add_seated(number) || self.guests.add(number)
    }

    pub(super) fn sum(&self, live: &Live) -> u64 {
        let own = self.seated[..seat::ever_taken()].iter();
        own.map(|slots| slots.sum(live)).sum::<u64>() + self.guests.sum(live)
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::{COUNT, COUNT_BITS, Ordering, Shares, Slots};

    #[test]
    fn a_full_count_stays_full() {
        let slots = Slots::new();
        for add in [
            |slots: &Slots| assert!(slots.add(3)),
            |slots: &Slots| slots.add_alone(3),
        ] {
            slots.0[3].store(3 << COUNT_BITS | (COUNT - 1), Ordering::Relaxed);
            for _ in 0..3 {
                add(&slots);
                assert_eq!(slots.sum(&(3..=3)), COUNT);
            }
        }
    }

    #[test]
    fn a_slice_that_is_over_counts_nothing_more() {
        let slots = Slots::new();
        assert!(slots.add(19));
        assert!(!slots.add(3));
        assert_eq!((slots.sum(&(3..=3)), slots.sum(&(4..=19))), (0, 1));
    }

    #[test]
    fn an_owner_counts_as_any_thread_does() {
        let (shared, owned) = (Slots::new(), Slots::new());
        for number in [16, 16, 17, 17, 17, 31, 32, 33, 33, 49, 200] {
            assert!(shared.add(number));
            owned.add_alone(number);
            for first in 0..=number {
                assert_eq!(owned.sum(&(first..=number)), shared.sum(&(first..=number)));
            }
        }
    }

    #[test]
    fn a_thread_with_a_seat_counts_in_a_cell_of_its_own() {
        let shares = Shares::new();
        assert!(shares.add(16));
        assert!(shares.add_seated(16));
        assert_eq!(
            (shares.sum(&(16..=16)), shares.guests.sum(&(16..=16))),
            (2, 0)
        );
    }
}

//! Outcomes of the last stretch of time.

use std::ops::RangeInclusive;

use crate::{
    sync::{AtomicU64, Ordering, STRIPES, stripe},
    window::{Over, Sample, Tally},
};

/// Slices a window is cut into; under loom the fewest that can pass each other.
const SLICES: usize = if cfg!(evenkeel_loom) { 2 } else { 16 };
/// As many, as a count of sequence numbers.
const SPAN: u64 = SLICES as u64;

/// Numbers of the slices that count.
type Live = RangeInclusive<u64>;

/// A ring of time slices.
///
/// Slices have sequence numbers that only grow, across generations too: `head` is the newest, a new
/// generation begins above all numbers of the one before it, and every slot says which number it counts
/// for. So a late thread can't put an outcome into a slice that is over, nor into another generation.
/// Outcomes go into the head slice: time as the window sees it is the latest reading it was given.
#[derive(Debug)]
pub(crate) struct TimeWindow {
    slice: Slice,
    /// Generation and number of the newest slice.
    head: AtomicU64,
    /// Generation and number of its first slice.
    first: AtomicU64,
    /// Newest slice with a failure or slow call in it.
    blemished: AtomicU64,
    failures: Slots,
    slow: Slots,
    /// Successes, slow ones too.
    successes: [Slots; STRIPES],
}

/// Length of a slice in nanoseconds, at least 2, with what it takes to divide by it cheaply: a division
/// by a number the compiler does not know costs more than the rest of counting an outcome.
#[derive(Debug)]
struct Slice {
    length: u64,
    /// (2^64 - 1) / length, rounded down: at most 1 below 2^64 / length.
    reciprocal: u64,
}

impl Slice {
    fn new(length: u64) -> Self {
        let length = length.max(2);
        Self {
            length,
            reciprocal: u64::MAX / length,
        }
    }

    /// `span / length`, rounded down.
    fn whole_in(&self, span: u64) -> u64 {
        // So the product is less than 1 below span / length, and its whole part at most 1 too low.
        let low = ((u128::from(span) * u128::from(self.reciprocal)) >> 64) as u64;
        low + u64::from(span - low * self.length >= self.length)
    }
}

/// A generation (24 bits) with a slice number (40 bits) of it.
struct Mark;

impl Mark {
    const NUMBER: u64 = (1 << 40) - 1;

    const fn of(generation: u64, number: u64) -> u64 {
        generation << 40 | number
    }

    /// The slice number, if the mark is of that generation.
    fn number(mark: u64, generation: u64) -> Result<u64, Over> {
        if mark & !Self::NUMBER == generation << 40 {
            Ok(mark & Self::NUMBER)
        } else {
            Err(Over)
        }
    }
}

impl TimeWindow {
    /// An empty window of `span` nanoseconds for generation 0.
    pub(crate) fn new(span: u64) -> Self {
        Self {
            slice: Slice::new(span.div_ceil(SPAN)),
            head: AtomicU64::new(Mark::of(0, 1)),
            first: AtomicU64::new(Mark::of(0, 1)),
            blemished: AtomicU64::new(0),
            failures: Slots::new(),
            slow: Slots::new(),
            successes: std::array::from_fn(|_| Slots::new()),
        }
    }

    /// Number of the slice at `now`; from 1, so that 0 means none. At most 2^40 - 1: the shortest slices
    /// reach it after 21 years, and then time stands still.
    fn number(&self, now: u64) -> u64 {
        (self.slice.whole_in(now) + 1).min(Mark::NUMBER)
    }

    pub(crate) fn restart(&self, generation: u64, now: u64) {
        let number = self.number(now);
        // A late thread of an older generation may still move its head; after this it can't.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let next = number.max((head & Mark::NUMBER) + 1).min(Mark::NUMBER);
            let mark = Mark::of(generation, next);
            self.first.store(mark, Ordering::Release);
            match self
                .head
                .compare_exchange(head, mark, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    pub(crate) fn wipe(&self) {
        self.failures.wipe();
        self.slow.wipe();
        self.successes.iter().for_each(Slots::wipe);
    }

    /// Counts an outcome; `false` if no failure and no slow call lies in the window.
    pub(crate) fn record(&self, generation: u64, sample: Sample, now: u64) -> Result<bool, Over> {
        let number = self.number(now);
        loop {
            let head = self.advance(generation, number)?;
            let counted = match sample {
                Sample::Good => self.successes[stripe()].add(head),
                Sample::Slow => {
                    let counted = self.successes[stripe()].add(head);
                    if counted {
                        self.blemish(&self.slow, head);
                    }
                    counted
                }
                Sample::Failure => self.blemish(&self.failures, head),
            };
            // Not counted: the slice was reused while this thread stood still; take the newest.
            if counted {
                let live = self.live(generation, head)?;
                return Ok(self.blemished.load(Ordering::Acquire) >= *live.start());
            }
        }
    }

    /// What lies in the window at `now`, unless so many failures and slow calls are not worth the rest:
    /// the successes are on cache lines that other threads write to.
    pub(crate) fn tally(
        &self,
        generation: u64,
        now: u64,
        worth: impl Fn(u64, u64) -> bool,
    ) -> Result<Option<Tally>, Over> {
        loop {
            let head = self.head.load(Ordering::Acquire);
            let newest = Mark::number(head, generation)?.max(self.number(now));
            let live = self.live(generation, newest)?;
            let (failures, slow) = (self.failures.sum(&live), self.slow.sum(&live));
            if !worth(failures, slow) {
                return Ok(None);
            }
            let successes = self
                .successes
                .iter()
                .map(|stripe| stripe.sum(&live))
                .sum::<u64>();
            // A slot is reused only after the head has moved on: while it stands, no success is missing.
            if self.head.load(Ordering::Acquire) == head {
                return Ok(Some(Tally {
                    calls: failures + successes,
                    failures,
                    slow,
                }));
            }
        }
    }

    /// Moves the head to `number` unless it is there or beyond, and tells where it is.
    fn advance(&self, generation: u64, number: u64) -> Result<u64, Over> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let at = Mark::number(head, generation)?;
            if number <= at {
                return Ok(at);
            }
            let next = Mark::of(generation, number);
            match self
                .head
                .compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Ok(number),
                Err(seen) => head = seen,
            }
        }
    }

    /// The slices that count when `head` is the newest.
    fn live(&self, generation: u64, head: u64) -> Result<Live, Over> {
        let first = Mark::number(self.first.load(Ordering::Acquire), generation)?;
        Ok(first.max((head + 1).saturating_sub(SPAN))..=head)
    }

    fn blemish(&self, slots: &Slots, head: u64) -> bool {
        let counted = slots.add(head);
        if self.blemished.load(Ordering::Acquire) < head {
            self.blemished.fetch_max(head, Ordering::AcqRel);
        }
        counted
    }
}

/// One count per slice, each with the number of the slice it is for (40 bits; the count has 24 and stays
/// at its largest value). Aligned so that stripes share no cache line, nor a pair of them that is fetched together.
#[derive(Debug)]
#[repr(align(128))]
struct Slots([AtomicU64; SLICES]);

const COUNT_BITS: u32 = 24;
const COUNT: u64 = (1 << COUNT_BITS) - 1;

impl Slots {
    fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Adds one for slice `number`; `false` if the slot counts for a later one by now.
    fn add(&self, number: u64) -> bool {
        let slot = &self.0[(number % SPAN) as usize];
        slot.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
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

    fn sum(&self, live: &Live) -> u64 {
        self.0
            .iter()
            .map(|slot| slot.load(Ordering::Acquire))
            .filter(|word| live.contains(&(word >> COUNT_BITS)))
            .map(|word| word & COUNT)
            .sum()
    }

    fn wipe(&self) {
        for slot in &self.0 {
            slot.fetch_and(!COUNT, Ordering::AcqRel);
        }
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::{COUNT, COUNT_BITS, Ordering, Slice, Slots};

    #[test]
    fn a_full_count_stays_full() {
        let slots = Slots::new();
        slots.0[3].store(3 << COUNT_BITS | (COUNT - 1), Ordering::Relaxed);
        for _ in 0..3 {
            assert!(slots.add(3));
            assert_eq!(slots.sum(&(3..=3)), COUNT);
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
    fn dividing_by_a_slice_is_exact() {
        let lengths = [
            2,
            3,
            7,
            625_000,
            3_750_000_000,
            1 << 20,
            (1 << 20) - 1,
            u64::MAX / 3,
            u64::MAX,
        ];
        for length in lengths {
            let slice = Slice::new(length);
            let near = [0, 1, 5, 1_000, 1 << 33].map(|times| length.saturating_mul(times));
            for border in near
                .into_iter()
                .chain([u64::MAX / length * length, u64::MAX])
            {
                for span in [border.saturating_sub(1), border, border.saturating_add(1)] {
                    assert_eq!(slice.whole_in(span), span / length, "{span} / {length}");
                }
            }
        }
    }
}

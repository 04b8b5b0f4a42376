//! Outcomes of the last stretch of time.

use crate::{
    sync::{AtomicU64, Ordering, STRIPES, stripe},
    window::{Over, Sample, Tally},
};

/// Slices a window is cut into.
const SLICES: usize = 16;
/// As many, as a count of sequence numbers.
const SPAN: u64 = SLICES as u64;

/// A ring of time slices.
///
/// Slices have sequence numbers that only grow, across generations too: `head` is the newest, a new
/// generation begins above all numbers of the one before it, and every slot says which number it counts
/// for. So a late thread can't put an outcome into a slice that is over, nor into another generation.
/// Outcomes go into the head slice: time as the window sees it is the latest reading it was given.
#[derive(Debug)]
pub(crate) struct TimeWindow {
    /// Length of a slice in nanoseconds.
    slice: u64,
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
            slice: span.div_ceil(SPAN).max(1),
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
        (now / self.slice).saturating_add(1).min(Mark::NUMBER)
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
                    self.successes[stripe()].add(head) && self.blemish(&self.slow, head)
                }
                Sample::Failure => self.blemish(&self.failures, head),
            };
            // Not counted: the slice was reused while this thread stood still; take the newest.
            if counted {
                let oldest = self.oldest(generation, head)?;
                return Ok(self.blemished.load(Ordering::Acquire) >= oldest);
            }
        }
    }

    pub(crate) fn tally(&self, generation: u64, now: u64) -> Result<Tally, Over> {
        let head =
            Mark::number(self.head.load(Ordering::Acquire), generation)?.max(self.number(now));
        let oldest = self.oldest(generation, head)?;
        let failures = self.failures.sum(oldest, head);
        let successes = self
            .successes
            .iter()
            .map(|stripe| stripe.sum(oldest, head))
            .sum::<u64>();
        Ok(Tally {
            calls: failures + successes,
            failures,
            slow: self.slow.sum(oldest, head),
        })
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

    /// Number of the oldest slice that counts when `head` is the newest.
    fn oldest(&self, generation: u64, head: u64) -> Result<u64, Over> {
        let first = Mark::number(self.first.load(Ordering::Acquire), generation)?;
        Ok(first.max((head + 1).saturating_sub(SPAN)))
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

    fn sum(&self, oldest: u64, newest: u64) -> u64 {
        self.0
            .iter()
            .map(|slot| slot.load(Ordering::Acquire))
            .filter(|word| (oldest..=newest).contains(&(word >> COUNT_BITS)))
            .map(|word| word & COUNT)
            .sum()
    }

    fn wipe(&self) {
        for slot in &self.0 {
            slot.fetch_and(!COUNT, Ordering::AcqRel);
        }
    }
}

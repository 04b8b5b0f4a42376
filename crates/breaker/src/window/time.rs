//! Outcomes of the last stretch of time.

use std::time::Instant;

use crate::{
    sync::{AtomicU64, Ordering},
    timeline::Timeline,
    window::{
        Over, Sample, Tally, horizon,
        slots::{Live, SPAN, Shares, Slots},
    },
};

/// A ring of time slices.
///
/// Slices have sequence numbers that only grow, across generations too: `head` is the newest, a new
/// generation begins above all numbers of the one before it, and every slot says which number it counts
/// for. So a late thread can't put an outcome into a slice that is over, nor into another generation.
/// Outcomes go into the head slice: time as the window sees it is the latest reading it was given.
#[derive(Debug)]
pub(crate) struct TimeWindow {
    /// Which window this is to the threads that remember it.
    id: u64,
    /// Length of a slice in nanoseconds; not 0, for the shortest window is 10 ms.
    slice: u64,
    timeline: Timeline,
    /// By how much the number of a slice is above the slices since the origin: one more for each beginning,
    /// so that no window runs ahead of time.
    lead: AtomicU64,
    /// Generation and number of the newest slice.
    head: AtomicU64,
    /// Generation and number of its first slice.
    first: AtomicU64,
    /// Newest slice with a failure or slow call in it; a late thread may put an old one back.
    blemished: AtomicU64,
    failures: Slots,
    slow: Slots,
    /// Slow ones too.
    successes: Shares,
}

/// A generation (24 bits) with a slice number (40 bits) of it.
struct Mark;

impl Mark {
    const NUMBER: u64 = (1 << 40) - 1;

    #[inline]
    const fn of(generation: u64, number: u64) -> u64 {
        generation << 40 | number
    }

    /// The slice number, if the mark is of that generation.
    #[inline]
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
    pub(crate) fn new(span: u64, timeline: Timeline) -> Self {
        // The first number has a whole window of numbers below it, none of them with an outcome.
        let first = Mark::of(0, SPAN);
        Self {
            id: horizon::window(),
            slice: span.div_ceil(SPAN),
            timeline,
            lead: AtomicU64::new(SPAN),
            head: AtomicU64::new(first),
            first: AtomicU64::new(first),
            blemished: AtomicU64::new(0),
            failures: Slots::new(),
            slow: Slots::new(),
            successes: Shares::new(),
        }
    }

    /// Number of the slice at `now`.
    pub(crate) fn number_at(&self, now: Instant) -> u64 {
        self.number(self.passed(now))
    }

    /// Slices from the origin to the one at `now`.
    fn passed(&self, now: Instant) -> u64 {
        self.timeline.nanos(now) / self.slice
    }

    /// Number of the slice before which so many have passed. Half of the numbers are for time: the shortest
    /// slices use them up in ten years, and then it stands still. The rest is for beginnings.
    fn number(&self, passed: u64) -> u64 {
        passed.min(Mark::NUMBER / 2) + self.lead.load(Ordering::Acquire)
    }

    /// Empties the window, for `generation`: a new one, or the same. Not for two threads at a time.
    pub(crate) fn restart(&self, generation: u64, now: Instant) {
        let number = self.number_at(now);
        // Before the head: what fails in the emptied window must not be forgotten. A swap, for it meets late
        // threads' read-modify-writes.
        self.blemished.swap(0, Ordering::AcqRel);
        // A late thread of an older generation may still move its head; after this it can't.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let mark = Mark::of(generation, number.max(head & Mark::NUMBER) + 1);
            self.first.store(mark, Ordering::Release);
            match self
                .head
                .compare_exchange(head, mark, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => break,
                Err(seen) => head = seen,
            }
        }
        // After the head: with the new lead a late thread would move the old one.
        let lead = self.lead.load(Ordering::Acquire);
        self.lead.store(lead + 1, Ordering::Release);
    }

    /// Counts a success if that takes no more than a store: if the reading does not move the window and this
    /// thread has a seat, as in all calls but the first of a slice. Says as [`record`](Self::record) does what
    /// is in the window; `None` if nothing has been counted.
    #[inline]
    pub(crate) fn record_success(&self, generation: u64, now: Instant) -> Option<bool> {
        if !horizon::is_ahead(self.id, now) {
            return None;
        }
        let head = Mark::number(self.head.load(Ordering::Acquire), generation).ok()?;
        let counted = self.successes.add_seated(head);
        counted.then(|| self.is_blemished(head))
    }

    /// Counts an outcome; `false` if for sure no failure and no slow call lies in the window.
    pub(crate) fn record(
        &self,
        generation: u64,
        sample: Sample,
        now: Instant,
    ) -> Result<bool, Over> {
        loop {
            let head = self.advance(generation, now)?;
            let counted = match sample {
                Sample::Good => self.successes.add(head),
                Sample::Slow => {
                    let counted = self.successes.add(head);
                    if counted {
                        self.blemish(&self.slow, head);
                    }
                    counted
                }
                Sample::Failure => self.blemish(&self.failures, head),
            };
            // Not counted: the slice was reused while this thread stood still; take the newest.
            if counted {
                return Ok(self.is_blemished(head));
            }
        }
    }

    /// What lies in the window when slice `number`, or one after it, is the newest; unless so many failures
    /// and slow calls are not worth the rest: the successes are on cache lines that other threads write to.
    pub(crate) fn tally(
        &self,
        generation: u64,
        number: u64,
        worth: impl Fn(u64, u64) -> bool,
    ) -> Result<Option<Tally>, Over> {
        loop {
            let head = self.head.load(Ordering::Acquire);
            let newest = Mark::number(head, generation)?.max(number);
            let live = self.live(generation, newest)?;
            let (failures, slow) = (self.failures.sum(&live), self.slow.sum(&live));
            if !worth(failures, slow) {
                return Ok(None);
            }
            let successes = self.successes.sum(&live);
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

    /// Moves the head to the slice at `now` unless it is there or beyond, and tells where it is.
    fn advance(&self, generation: u64, now: Instant) -> Result<u64, Over> {
        let passed = self.passed(now);
        let number = self.number(passed);
        let mut head = self.head.load(Ordering::Acquire);
        let at = loop {
            let at = Mark::number(head, generation)?;
            if number <= at {
                break at;
            }
            let next = Mark::of(generation, number);
            match self
                .head
                .compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => break number,
                Err(seen) => head = seen,
            }
        };
        let end = (passed + 1).checked_mul(self.slice);
        horizon::reached(self.id, end.and_then(|end| self.timeline.at(end)));
        Ok(at)
    }

    #[inline]
    fn is_blemished(&self, head: u64) -> bool {
        self.blemished.load(Ordering::Acquire) + SPAN > head
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

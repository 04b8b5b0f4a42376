//! Outcomes of the last so many calls.

use crate::{
    sync::{AtomicU64, Ordering},
    window::{Over, Sample, Tally},
};

/// A ring with a slot for each of the last outcomes, and the sums over it.
///
/// An outcome takes a ticket, whose number only grows, and replaces what its slot held; what it adds and
/// what it replaces change the sums. Whatever the order in which threads do so, each sum ends up as the
/// sum over the ring. Tickets and sums say which generation they are of, and late threads of an older one miss.
#[derive(Debug)]
pub(crate) struct CountWindow {
    /// Generation and number of the next ticket.
    next: AtomicU64,
    /// Generation and number of its first ticket.
    first: AtomicU64,
    /// Generation and number of the first ticket that counts as a call.
    since: AtomicU64,
    failures: Sum,
    slow: Sum,
    /// Ticket number (62 bits), and whether it failed (1) or was slow (2).
    ring: Box<[AtomicU64]>,
}

const FAILED: u64 = 1;
const SLOW: u64 = 2;
const MARKS: u64 = FAILED | SLOW;

/// A generation (16 bits) with a number (48 bits) of it: nine years of a million calls a second.
struct Tag;

impl Tag {
    const NUMBER: u64 = (1 << 48) - 1;

    const fn of(generation: u64, number: u64) -> u64 {
        generation << 48 | (number & Self::NUMBER)
    }

    fn number(word: u64, generation: u64) -> Result<u64, Over> {
        if word & !Self::NUMBER == generation << 48 {
            Ok(word & Self::NUMBER)
        } else {
            Err(Over)
        }
    }
}

impl CountWindow {
    /// An empty window of `size` calls for generation 0.
    pub(crate) fn new(size: u32) -> Self {
        // Tickets count from 1, so that an empty slot, with 0, is none.
        Self {
            next: AtomicU64::new(1),
            first: AtomicU64::new(1),
            since: AtomicU64::new(1),
            failures: Sum::new(),
            slow: Sum::new(),
            ring: (0..size).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub(crate) fn restart(&self, generation: u64) {
        // The sums first: who holds a ticket of this generation must find them ready.
        self.failures.restart(generation);
        self.slow.restart(generation);
        let mut next = self.next.load(Ordering::Acquire);
        loop {
            let mark = Tag::of(generation, next);
            self.first.store(mark, Ordering::Release);
            self.since.store(mark, Ordering::Release);
            match self
                .next
                .compare_exchange(next, mark, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return,
                Err(seen) => next = seen,
            }
        }
    }

    /// Forgets what the ring holds, by replacing it as a call would.
    pub(crate) fn wipe(&self, generation: u64) {
        let Ok(first) = Tag::number(self.first.load(Ordering::Acquire), generation) else {
            return;
        };
        for slot in &self.ring {
            let before = slot.fetch_and(!MARKS, Ordering::AcqRel);
            self.shift(generation, first, before, 0);
        }
        self.since
            .store(self.next.load(Ordering::Acquire), Ordering::Release);
    }

    pub(crate) fn record(&self, generation: u64, sample: Sample) -> Result<(), Over> {
        let ticket = self.take(generation)?;
        self.put(generation, ticket, sample)
    }

    /// Replaces what the slot of `ticket` holds, unless a later ticket was faster by a whole ring: then the
    /// outcome has left the window already.
    fn put(&self, generation: u64, ticket: u64, sample: Sample) -> Result<(), Over> {
        let first = Tag::number(self.first.load(Ordering::Acquire), generation)?;
        let mark = match sample {
            Sample::Good => 0,
            Sample::Slow => SLOW,
            Sample::Failure => FAILED,
        };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "below the length of the ring"
        )]
        let slot = &self.ring[(ticket % self.ring.len() as u64) as usize];
        let replaced = slot.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            (word >> 2 < ticket).then_some(ticket << 2 | mark)
        });
        if let Ok(before) = replaced {
            self.shift(generation, first, before, mark);
        }
        Ok(())
    }

    /// What lies in the window. Other threads that record at this very moment may or may not be in it.
    pub(crate) fn tally(&self, generation: u64) -> Result<Tally, Over> {
        // The calls last: those that come in between may lower a share for once, never raise it.
        let (failures, slow) = (self.failures.get(generation)?, self.slow.get(generation)?);
        let next = Tag::number(self.next.load(Ordering::Acquire), generation)?;
        let since = Tag::number(self.since.load(Ordering::Acquire), generation)?;
        Ok(Tally {
            calls: next.saturating_sub(since).min(self.ring.len() as u64),
            failures,
            slow,
        })
    }

    fn take(&self, generation: u64) -> Result<u64, Over> {
        let mut next = self.next.load(Ordering::Acquire);
        loop {
            let ticket = Tag::number(next, generation)?;
            let after = Tag::of(generation, ticket + 1);
            match self
                .next
                .compare_exchange_weak(next, after, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Ok(ticket),
                Err(seen) => next = seen,
            }
        }
    }

    /// Takes the marks of a slot's former content out of the sums, unless it was of an older generation,
    /// and brings those of its new content in.
    fn shift(&self, generation: u64, first: u64, before: u64, mark: u64) {
        let left = if before >> 2 < first {
            0
        } else {
            before & MARKS
        };
        for (sum, bit) in [(&self.failures, FAILED), (&self.slow, SLOW)] {
            match (left & bit != 0, mark & bit != 0) {
                (true, false) => sum.add(generation, Tag::NUMBER),
                (false, true) => sum.add(generation, 1),
                _ => {}
            }
        }
    }
}

/// A signed sum of one generation, modulo 2^48: a mark may leave before the thread that brought it has added it.
#[derive(Debug)]
struct Sum(AtomicU64);

impl Sum {
    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn restart(&self, generation: u64) {
        // A swap, for it meets late threads' read-modify-writes.
        self.0.swap(Tag::of(generation, 0), Ordering::AcqRel);
    }

    /// Adds, modulo 2^48, unless the generation is over.
    fn add(&self, generation: u64, change: u64) {
        let mut word = self.0.load(Ordering::Acquire);
        while let Ok(number) = Tag::number(word, generation) {
            let after = Tag::of(generation, number + change);
            match self
                .0
                .compare_exchange_weak(word, after, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return,
                Err(seen) => word = seen,
            }
        }
    }

    /// The sum; 0 while it is below.
    fn get(&self, generation: u64) -> Result<u64, Over> {
        let number = Tag::number(self.0.load(Ordering::Acquire), generation)?;
        Ok(if number > Tag::NUMBER / 2 { 0 } else { number })
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::{CountWindow, Sample};

    #[test]
    fn an_outcome_that_comes_a_whole_ring_late_counts_nothing() {
        let window = CountWindow::new(2);
        let late = window.take(0).unwrap();
        for _ in 0..2 {
            window.record(0, Sample::Good).unwrap();
        }
        window.put(0, late, Sample::Failure).unwrap();
        assert_eq!(window.tally(0).unwrap().failures, 0);
        window.record(0, Sample::Failure).unwrap();
        assert_eq!(window.tally(0).unwrap().failures, 1);
    }

    #[test]
    fn what_is_wiped_is_not_taken_away_once_more() {
        let window = CountWindow::new(4);
        let record = |sample| window.record(0, sample).unwrap();
        let failures = || window.tally(0).unwrap().failures;
        (0..4).for_each(|_| record(Sample::Failure));
        window.wipe(0);
        let empty = window.tally(0).unwrap();
        assert_eq!((empty.calls, empty.failures), (0, 0));
        (0..2).for_each(|_| record(Sample::Failure));
        assert_eq!(failures(), 2);
        (0..4).for_each(|_| record(Sample::Good));
        assert_eq!(failures(), 0);
        record(Sample::Failure);
        assert_eq!(failures(), 1);
    }

    #[test]
    fn a_mark_may_leave_before_it_has_come() {
        let window = CountWindow::new(1);
        window.failures.add(0, super::Tag::NUMBER);
        assert_eq!(window.tally(0).unwrap().failures, 0);
        window.failures.add(0, 1);
        window.record(0, Sample::Failure).unwrap();
        assert_eq!(window.tally(0).unwrap().failures, 1);
    }
}

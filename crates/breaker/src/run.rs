//! Failures in a row.

use crate::sync::{AtomicU64, Ordering};

/// The run of one generation in one word: 32 bits of generation, 32 of length.
///
/// The tag makes a late outcome of an older generation miss: it can neither lengthen nor end the
/// run of the current one. (Tags repeat after 2^32 changes of state.)
#[derive(Debug)]
pub(crate) struct Run(AtomicU64);

const LENGTH: u64 = 0xffff_ffff;

#[inline]
const fn tag(generation: u64) -> u64 {
    generation << 32
}

impl Run {
    /// No failure yet in generation 0.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Starts an empty run for `generation`.
    pub(crate) fn restart(&self, generation: u64) {
        // A swap, for it meets late threads' read-modify-writes.
        self.0.swap(tag(generation), Ordering::AcqRel);
    }

    /// Adds a failure and tells how long the run is now, or `None` if `generation` is over.
    pub(crate) fn lengthen(&self, generation: u64) -> Option<u32> {
        let longer = |word: u64| (word & !LENGTH) | (word & LENGTH).saturating_add(1).min(LENGTH);
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                (word & !LENGTH == tag(generation)).then(|| longer(word))
            })
            .ok()
            .map(|before| length(longer(before)))
    }

    /// Whether `generation` is the current one and there is no run to end.
    #[inline]
    pub(crate) fn is_empty(&self, generation: u64) -> bool {
        self.0.load(Ordering::Acquire) == tag(generation)
    }

    /// Ends the run; `false` if `generation` is over. Writes only if there is a run to end.
    pub(crate) fn end(&self, generation: u64) -> bool {
        let mut word = self.0.load(Ordering::Acquire);
        while word != tag(generation) {
            if word & !LENGTH != tag(generation) {
                return false;
            }
            match self.0.compare_exchange_weak(
                word,
                tag(generation),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return true,
                Err(seen) => word = seen,
            }
        }
        true
    }

    /// Length of the run of `generation`; 0 if that is not the current one.
    pub(crate) fn length(&self, generation: u64) -> u32 {
        let word = self.0.load(Ordering::Acquire);
        if word & !LENGTH == tag(generation) {
            length(word)
        } else {
            0
        }
    }
}

const fn length(word: u64) -> u32 {
    (word & LENGTH) as u32
}

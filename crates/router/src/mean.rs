//! A running mean of counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// Weight of the newest count: the mean is that of the last fifty or so.
const WEIGHT: f64 = 0.02;

/// A running mean, lock-free. Two counts at the same moment may lose one of them.
#[derive(Debug, Default)]
pub(crate) struct Mean(AtomicU64); // bits of an f64; 0: nothing counted yet

impl Mean {
    /// Takes a count in; the mean with it.
    pub(crate) fn observe(&self, count: u64) -> f64 {
        let count = as_f64(count);
        let mean = match self.get() {
            Some(old) => old + WEIGHT * (count - old),
            None => count,
        };
        self.0.store(mean.to_bits(), Ordering::Relaxed);
        mean
    }

    /// The mean; none before the first count that is not zero.
    pub(crate) fn get(&self) -> Option<f64> {
        let mean = f64::from_bits(self.0.load(Ordering::Relaxed));
        (mean > 0.0).then_some(mean)
    }
}

/// A count of tokens as a number to reckon with.
#[expect(clippy::cast_precision_loss, reason = "no call has 2^53 tokens")]
pub(crate) fn as_f64(tokens: u64) -> f64 {
    tokens as f64
}

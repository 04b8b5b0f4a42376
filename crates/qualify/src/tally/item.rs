//! What the repeats of one item at one candidate came to.

/// A score of 1, 2^40. Whole numbers add up to the same sum in any order; its parts
/// are finer than any scorer's score, and 65,535 of them fit 64 bits.
const ONE: f64 = 1_099_511_627_776.0;

/// Kept for each item and candidate, so it is small.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ItemTally {
    /// Sum of the scores, in parts of [`ONE`].
    sum: u64,
    scored: u16,
    checked: u16,
    valid: u16,
}

const _: () = assert!(size_of::<ItemTally>() == 16);

impl ItemTally {
    /// Adds a repeat; the 65,536th and later ones of an item are not counted.
    pub(super) fn record(&mut self, score: f64, is_valid: Option<bool>) {
        if self.scored == u16::MAX {
            return;
        }
        self.scored += 1;
        self.sum += parts(score);
        if let Some(is_valid) = is_valid {
            self.checked += 1;
            self.valid += u16::from(is_valid);
        }
    }

    /// The mean score over its repeats, in parts of one.
    pub(super) fn mean(self) -> Option<u64> {
        self.sum.checked_div(u64::from(self.scored))
    }

    /// The mean score over its repeats, 0..1.
    pub(super) fn score(self) -> Option<f64> {
        (self.scored > 0).then(|| whole(self.sum) / f64::from(self.scored))
    }

    /// The share of its repeats that were valid; none where that was not asked.
    pub(super) fn validity(self) -> Option<f64> {
        (self.checked > 0).then(|| f64::from(self.valid) / f64::from(self.checked))
    }
}

/// A score in parts of one. What is no number in 0..1 is taken for the nearer
/// end, and no number at all for 0: scorers give neither.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and 2^40"
)]
pub(super) fn parts(score: f64) -> u64 {
    (score.clamp(0.0, 1.0) * ONE).round() as u64
}

/// Parts of one as a score; exact, since a sum of fewer than 4,096 of them has no
/// more bits than a number.
#[expect(
    clippy::cast_precision_loss,
    reason = "what is lost of larger sums is a part in 2^53"
)]
pub(super) fn whole(parts: u64) -> f64 {
    parts as f64 / ONE
}

//! What one scorer says.

/// A score and, where it is not plain, what it comes from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grade {
    pub(crate) score: f64,
    pub(crate) note: Option<String>,
    /// Whether both judgements of a judge agree; none of any other scorer.
    pub(crate) judges_agree: Option<bool>,
}

impl Grade {
    pub(crate) fn of(score: f64) -> Self {
        Self {
            score,
            note: None,
            judges_agree: None,
        }
    }

    /// 1 where it is right, 0 where it is not.
    pub(crate) fn right(is_right: bool) -> Self {
        Self::of(if is_right { 1.0 } else { 0.0 })
    }

    /// 0, and why.
    pub(crate) fn wrong(note: impl Into<String>) -> Self {
        Self::of(0.0).with(note)
    }

    pub(crate) fn with(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }
}

/// A part of a whole as a share; 1 where there is nothing.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of fields and words, far below 2^52"
)]
pub(crate) fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        1.0
    } else {
        part as f64 / whole as f64
    }
}

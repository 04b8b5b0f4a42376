//! What has been heard of a candidate so far, in numbers to be shown.

use crate::outcome::{Outcome, OutcomeKind};
use std::fmt;

/// What has been heard of a candidate so far, of a run that goes on from its beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SoFar {
    heard: usize,
    sum: f64,
    scored: u64,
    failed: u64,
    unmeasured: u64,
    unscored: u64,
}

impl SoFar {
    /// Questions that have come to their end.
    pub const fn heard(&self) -> usize {
        self.heard
    }

    pub(crate) fn add(&mut self, outcome: &Outcome) {
        self.heard += 1;
        if let Some(score) = outcome.kind.score() {
            self.sum += score;
            self.scored += 1;
        }
        match outcome.kind {
            OutcomeKind::Failed(_) => self.failed += 1,
            OutcomeKind::Unmeasured(_) => self.unmeasured += 1,
            OutcomeKind::Unscored => self.unscored += 1,
            OutcomeKind::Answered(_) | OutcomeKind::Refused => {}
        }
    }
}

impl fmt::Display for SoFar {
    /// `score 0.912, 3 failed, 1 unmeasured`; what there is none of is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scored {
            0 => f.write_str("no score yet")?,
            #[expect(
                clippy::cast_precision_loss,
                reason = "a mean that is shown to three digits"
            )]
            n => write!(f, "score {:.3}", self.sum / n as f64)?,
        }
        for (count, word) in [
            (self.failed, "failed"),
            (self.unmeasured, "unmeasured"),
            (self.unscored, "not scored"),
        ] {
            if count > 0 {
                write!(f, ", {count} {word}")?;
            }
        }
        Ok(())
    }
}

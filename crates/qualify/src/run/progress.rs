//! Who is shown how a run goes.

use super::score::SoFar;
use crate::outcome::Outcome;
use evenkeel_core::ModelId;
use std::time::Duration;

/// Why no more questions are put to a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Halt {
    /// So many questions in a row failed.
    Failing {
        /// How many.
        in_a_row: u32,
        /// The class of the last.
        class: evenkeel_core::Class,
    },
    /// So many questions in a row waited for rate limits or quota to no end.
    Limited {
        /// How many.
        in_a_row: u32,
        /// The class of the last.
        class: evenkeel_core::Class,
    },
}

impl std::fmt::Display for Halt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failing { in_a_row, class } => {
                write!(
                    f,
                    "{in_a_row} questions in a row failed ({class}): not asked further"
                )
            }
            Self::Limited { in_a_row, class } => write!(
                f,
                "{in_a_row} questions in a row were never taken ({class}): not asked further"
            ),
        }
    }
}

/// Is shown how a run goes. Called from one task, in order; must not block for long.
pub trait Progress: Send {
    /// A candidate will be asked `total` questions, of which `before` were asked before
    /// the run went on: they are not told of by [`heard`](Self::heard) again.
    fn begins(&mut self, candidate: &ModelId, total: usize, before: SoFar);
    /// A question has come to its end.
    fn heard(&mut self, outcome: &Outcome);
    /// A candidate's rate limit is waited for.
    fn waits(&mut self, candidate: &ModelId, wait: Duration);
    /// A candidate is not asked further.
    fn halted(&mut self, candidate: &ModelId, halt: Halt);
    /// A candidate has been asked everything, or is not asked further.
    fn ends(&mut self, candidate: &ModelId);
}

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begins(&mut self, _: &ModelId, _: usize, _: SoFar) {}
    fn heard(&mut self, _: &Outcome) {}
    fn waits(&mut self, _: &ModelId, _: Duration) {}
    fn halted(&mut self, _: &ModelId, _: Halt) {}
    fn ends(&mut self, _: &ModelId) {}
}

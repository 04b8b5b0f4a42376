#![doc = include_str!("../README.md")]

mod golden;
mod hashes;
mod measures;
mod outcome;
mod scorers;

pub use golden::{Golden, GoldenError, GoldenFault, GoldenFaults, Item, Items, WeightedScorer};
pub use hashes::{ContentHasher, NOTHING, ToolsHasher, json_hash, prompt_hash};
pub use measures::{CandidateMeasures, Interval, LatencyMeasures, Quantiles};
pub use outcome::{Outcome, OutcomeKind};
pub use scorers::{
    CommandLimits, Judge, JudgeError, ScoreDetail, Scored, Scorer, ScoringContext, ScoringError,
    score,
};

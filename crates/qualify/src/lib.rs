#![doc = include_str!("../README.md")]

mod hashes;
mod measures;
mod outcome;

pub use hashes::{ContentHasher, NOTHING, ToolsHasher, json_hash, prompt_hash};
pub use measures::{CandidateMeasures, Interval, LatencyMeasures, Quantiles};
pub use outcome::{Outcome, OutcomeKind};

#![doc = include_str!("../README.md")]

mod measures;
mod outcome;

pub use measures::{CandidateMeasures, Interval, LatencyMeasures, Quantiles};
pub use outcome::{Outcome, OutcomeKind};

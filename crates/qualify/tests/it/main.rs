//! What the crate does, through its public API.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod banking;
mod credits;
mod datasets;
mod drill;
mod eol;
mod gate;
mod outcomes;
mod ranking;
mod report;
mod roster_file;
mod shadows;
mod simulation;
mod staleness;
mod statistics;
mod tally;

//! What the crate does, through its public API.

mod banking;
mod credits;
mod datasets;
mod gate;
mod outcomes;
mod simulation;
mod statistics;
mod tally;

//! The router over simulated providers, on the paused clock.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod clocks;
mod crowd;
mod failures;
mod hedging;
mod restoration;
mod review;
mod streams;
mod substitution;
mod trace;
mod world;

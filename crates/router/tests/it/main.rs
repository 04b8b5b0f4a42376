//! The router over simulated providers, on the paused clock.

mod clocks;
mod crowd;
mod failures;
mod hedging;
mod restoration;
mod streams;
mod substitution;
mod world;

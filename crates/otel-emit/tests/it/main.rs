//! What is told of calls, through the public interface.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail as the tests themselves do"
)]

mod audit;
mod callers;
mod cases;
mod closed;
mod content;
mod current;
mod leaks;
mod metrics;
mod moves;
mod otlp;
mod propagation;
mod records;
mod spans;
mod story;
mod suite;
mod world;

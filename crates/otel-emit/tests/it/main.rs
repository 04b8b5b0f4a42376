//! What is told of calls, through the public interface.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail as the tests themselves do"
)]

mod audit;
mod metrics;

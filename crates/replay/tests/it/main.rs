//! Every scenario of the project, and what is told of a file that is none.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod messages;
mod random;
mod scenarios;

//! The public API from outside: demands, dialects, answers.

#![expect(
    clippy::unwrap_used,
    reason = "what a test takes for granted is part of what it asserts"
)]

mod asking;
mod cases;
mod forward;
mod generated;
mod keywords;
mod limits;
mod suite;
#[cfg(feature = "typed")]
mod typed;
mod wire;

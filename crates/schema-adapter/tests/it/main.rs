//! The public API from outside: demands, dialects, answers.

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

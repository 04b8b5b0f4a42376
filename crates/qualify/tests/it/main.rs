//! What the crate does, through its public API.

mod credits;
mod datasets;

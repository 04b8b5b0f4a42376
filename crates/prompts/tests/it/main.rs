//! Tests of the public interface.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod cases;
mod chat;
mod folder;
mod long;
mod messages;
mod placement;
mod properties;
mod registry;

//! Wire formats, in both directions and without I/O.

pub mod classify;
mod excerpt;
mod json;
pub mod openai;
mod server;
pub mod sse;

pub use crate::wire::server::Server;

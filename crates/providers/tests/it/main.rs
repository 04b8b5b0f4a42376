//! The crate as its users see it: every fixture of `fixtures/wire`, round
//! trips, and a client against real sockets.

mod fixtures;
mod wire_classes;
mod wire_streams;

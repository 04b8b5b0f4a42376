//! The gateway through its socket: in front of misbehaving upstreams, behind
//! misbehaving clients.

mod answers;
mod auth;
mod bad_input;
mod command;
mod departures;
mod failures;
mod gateway;
mod shutdown;
mod slow_clients;
mod streams;
mod wire;

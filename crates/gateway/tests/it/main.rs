//! The gateway through its socket: in front of misbehaving upstreams, behind
//! misbehaving clients.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail as the tests themselves do"
)]

mod admin;
mod answers;
mod audit;
mod auth;
mod bad_input;
mod baggage;
mod cases;
mod collectors;
mod command;
mod demands;
mod departures;
mod eol;
mod failures;
mod gateway;
mod heartbeats;
mod log_words;
mod metrics;
mod outcomes;
mod passes;
mod qualify;
mod qualify_check;
mod qualify_drill;
mod qualify_gate;
mod qualify_graded;
mod qualify_roles;
mod qualify_shadow;
mod resumes;
mod shadow;
mod shutdown;
mod slow_clients;
mod streams;
mod tickets;
mod traces;
mod validators;
mod wire;

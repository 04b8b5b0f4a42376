//! The router over simulated providers, on the paused clock.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod capability;
mod cases;
mod clocks;
mod commit;
mod cost;
mod cost_ceiling;
mod crowd;
mod decomposition;
mod degradation;
mod degraded_input;
mod demand;
mod drift;
mod edges;
mod failures;
mod hedging;
mod machine;
mod notice;
mod operators;
mod pass;
mod queueing;
mod race;
mod rate_limits;
mod reload;
mod restoration;
mod resume;
mod shadows;
mod streams;
mod substitution;
mod tailoring;
mod tape;
mod tickets;
mod trace;
mod validators;
mod workflows;
mod world;

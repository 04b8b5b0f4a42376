#![doc = include_str!("../README.md")]

mod admission;
mod backoff;
mod breaker;
mod config;
mod cooldown;
mod error;
mod event;
mod hedge_budget;
mod ledger;
mod period;
mod permit;
#[cfg(all(test, evenkeel_loom))]
mod proofs;
mod retry_budget;
mod run;
mod snapshot;
mod state;
mod sync;
mod timeline;
mod token;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(feature = "tracing")]
mod traced;
mod transition;
mod verdict;
mod window;
#[cfg(feature = "serde")]
mod written;

pub use crate::{
    backoff::Backoff,
    breaker::Breaker,
    config::{BreakerConfig, RateRule, RateWindow, SlowRule},
    cooldown::Cooldown,
    error::ConfigError,
    event::{Cause, Transition},
    hedge_budget::HedgeBudget,
    permit::{OwnedPermit, Permit, Recorded, Refused},
    retry_budget::RetryBudget,
    snapshot::Snapshot,
    state::State,
};

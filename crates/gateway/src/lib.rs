#![doc = include_str!("../README.md")]

mod admin;
mod answer;
mod app;
mod audit;
mod auth;
mod body;
mod chat;
mod context;
mod demand;
mod error;
mod events;
mod heartbeat;
mod limits;
mod live;
mod log;
mod metrics;
mod outbound;
mod outcomes;
mod routes;
mod server;
mod shadow;
mod socket;
mod tickets;
mod trust;
mod validator;

pub use crate::audit::{audit_log, open_audit};
pub use crate::limits::Limits;
pub use crate::live::{ReloadError, Reloaded, Reloader};
pub use crate::log::LogObserver;
pub use crate::metrics::GatewayMetrics;
pub use crate::server::{BindError, Server, worker_threads};
pub use crate::shadow::{ShadowLog, ShadowWriter};
pub use crate::tickets::{OpenError, Tickets};
pub use crate::validator::{HttpValidators, HttpValidatorsError};

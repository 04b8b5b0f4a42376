#![doc = include_str!("../README.md")]

mod body;
mod called;
mod client;
mod config;
mod connection;
mod dialect;
mod encoding;
mod endpoint;
mod listing;
mod proxy;
mod stream;
mod transport;
pub mod wire;

pub use crate::client::Client;
pub use crate::config::{
    ClientConfig, ClientOptions, Limits, ModelOptions, ProviderConfigError, ReasoningControl,
};
pub use crate::dialect::Dialect;
pub use crate::listing::{Lifecycle, ListedModel};
pub use crate::proxy::Proxy;
pub use crate::wire::Server;

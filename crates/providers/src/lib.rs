#![doc = include_str!("../README.md")]

mod body;
mod config;
mod connection;
mod encoding;
mod openai;
mod transport;
pub mod wire;

pub use crate::config::{Limits, OpenAiConfig, OpenAiOptions, ProviderConfigError};
pub use crate::openai::OpenAi;
pub use crate::wire::Server;

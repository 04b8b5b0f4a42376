//! Providers as the files describe them.

use std::path::PathBuf;

use secrecy::SecretString;

use crate::guard::{BreakerPolicy, RetryBudgetPolicy};

/// A provider's wire dialect (`dialect`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// `openai`: OpenAI Chat Completions, and every server that speaks it.
    OpenAi,
    /// `simulated`: models inside this process, which need no key.
    Simulated,
    /// A dialect that is known by name but not spoken in this version: the
    /// provider's rungs are skipped.
    Unavailable(&'static str),
}

/// One configured or built-in provider.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// The part of a model's id before the first slash.
    pub name: String,
    /// `dialect`.
    pub dialect: Dialect,
    /// `base_url`, without a trailing slash; `None` where the dialect has no address.
    pub base_url: Option<String>,
    /// `api_key`; `None`: none is sent, unless `api_key_file` is there.
    pub api_key: Option<SecretString>,
    /// `api_key_file`: read at each request by the provider's key source; relative to the config folder.
    pub api_key_file: Option<PathBuf>,
    /// `propagate`: whether trace context is sent to it.
    pub propagate: bool,
    /// Its own breaker: the shared settings, then its own.
    pub breaker: BreakerPolicy,
    /// Its retry budget, from the same two places.
    pub retry_budget: RetryBudgetPolicy,
}

impl ProviderConfig {
    /// A provider without address or key, with default settings.
    pub fn new(name: impl Into<String>, dialect: Dialect) -> Self {
        Self {
            name: name.into(),
            dialect,
            base_url: None,
            api_key: None,
            api_key_file: None,
            propagate: false,
            breaker: BreakerPolicy::default(),
            retry_budget: RetryBudgetPolicy::default(),
        }
    }
}

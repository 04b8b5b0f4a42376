//! Providers as the files describe them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

use crate::guard::{BreakerPolicy, RetryBudgetPolicy};

/// A provider's wire dialect (`dialect`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// `openai`: OpenAI Chat Completions, and every server that speaks it.
    OpenAi,
    /// `anthropic`: Anthropic Messages.
    Anthropic,
    /// `gemini`: Google's generateContent.
    Gemini,
    /// `mistral`: Mistral's chat.
    Mistral,
    /// `simulated`: models inside this process, which need no key.
    Simulated,
}

impl Dialect {
    /// Every dialect, in the order of the documentation.
    pub const ALL: [Self; 5] = [
        Self::OpenAi,
        Self::Anthropic,
        Self::Gemini,
        Self::Mistral,
        Self::Simulated,
    ];

    /// The word in the files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Mistral => "mistral",
            Self::Simulated => "simulated",
        }
    }
}

/// One configured or built-in provider.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// The part of a model's id before the first slash.
    pub name: String,
    /// `dialect`.
    pub dialect: Dialect,
    /// Who serves it, where `preset` says so: `groq`, `vllm`, … It decides
    /// details that servers of one dialect differ in.
    pub server: Option<&'static str>,
    /// `base_url`, without a trailing slash; `None` where the dialect has no address.
    pub base_url: Option<String>,
    /// `api_version`: of Azure, which puts deployments into the path, or of
    /// Anthropic's format.
    pub api_version: Option<String>,
    /// `api_key`; `None`: none is sent, unless `api_key_file` is there.
    pub api_key: Option<SecretString>,
    /// `api_key_file`: read at each request by the provider's key source; relative to the config folder.
    pub api_key_file: Option<PathBuf>,
    /// `key_header`: the header that carries the key; `None`: the usual one of
    /// dialect and server. `authorization` carries it as a bearer token.
    pub key_header: Option<String>,
    /// `headers`: sent with every request, by name. Their values may be secrets.
    pub headers: BTreeMap<String, SecretString>,
    /// `proxy`: `http://[user:password@]host[:port]`.
    pub proxy: Option<SecretString>,
    /// `ca_file`: certificates, PEM, trusted in place of the public roots; relative to the config folder.
    pub ca_file: Option<PathBuf>,
    /// `connections`.
    pub connections: ConnectionPolicy,
    /// `propagate`: whether trace context is sent to it.
    pub propagate: bool,
    /// What single models want said differently, by name.
    pub models: BTreeMap<String, WireConfig>,
    /// Its own breaker: the shared settings, then its own.
    pub breaker: BreakerPolicy,
    /// Its retry budget, from the same two places.
    pub retry_budget: RetryBudgetPolicy,
}

/// `[providers.NAME.connections]`; what is `None` is left to the client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectionPolicy {
    /// `max`: connections open at a time; requests beyond wait for one.
    pub max: Option<u32>,
    /// `max_idle`: idle connections kept.
    pub max_idle: Option<u32>,
    /// `idle_ms`: how long an idle connection is kept.
    pub idle: Option<Duration>,
}

/// What a model wants said differently than other models of its provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WireConfig {
    /// `api_version`, in place of the provider's.
    pub api_version: Option<String>,
    /// `fixed_sampling`: it refuses temperature and the like.
    pub fixed_sampling: bool,
    /// `stream_usage`: whether its streams are asked for their usage (dialect
    /// `openai`); `None`: they are, until it refuses.
    pub stream_usage: Option<bool>,
    /// `reasoning`: how it is told to reason; `None`: as is usual for its name.
    pub reasoning: Option<ReasoningControl>,
}

/// How a model is told to reason (`reasoning`), where its dialect knows several ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningControl {
    /// `none`: it does not reason, or cannot be told to.
    None,
    /// `budget`: by a number of tokens.
    Budget,
    /// `level`: by a level, from which it decides by itself.
    Level,
}

impl ProviderConfig {
    /// A provider without address or key, with default settings.
    pub fn new(name: impl Into<String>, dialect: Dialect) -> Self {
        Self {
            name: name.into(),
            dialect,
            server: None,
            base_url: None,
            api_version: None,
            api_key: None,
            api_key_file: None,
            key_header: None,
            headers: BTreeMap::new(),
            proxy: None,
            ca_file: None,
            connections: ConnectionPolicy::default(),
            propagate: false,
            models: BTreeMap::new(),
            breaker: BreakerPolicy::default(),
            retry_budget: RetryBudgetPolicy::default(),
        }
    }
}

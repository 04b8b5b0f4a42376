//! Providers as the files describe them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

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

/// What a reload asks of two configurations of one provider.
impl ProviderConfig {
    /// Whether both reach the same endpoint as the same customer: what is
    /// known of its health by one holds for the other.
    pub fn has_endpoint_of(&self, other: &Self) -> bool {
        let same_secret = |a: &Option<SecretString>, b: &Option<SecretString>| {
            let shown =
                |key: &Option<SecretString>| key.as_ref().map(|k| k.expose_secret().to_owned());
            shown(a) == shown(b)
        };
        (self.dialect, self.server) == (other.dialect, other.server)
            && (&self.base_url, &self.api_version) == (&other.base_url, &other.api_version)
            && (&self.api_key_file, &self.key_header) == (&other.api_key_file, &other.key_header)
            && same_secret(&self.api_key, &other.api_key)
            && same_secret(&self.proxy, &other.proxy)
            && self.headers.len() == other.headers.len()
            && self.headers.iter().all(|(name, value)| {
                let other = other.headers.get(name);
                other.is_some_and(|other| other.expose_secret() == value.expose_secret())
            })
    }

    /// Whether one client does for both: it is asked the same way, over the
    /// same connections. The files they name are not looked into.
    pub fn has_client_of(&self, other: &Self) -> bool {
        self.has_endpoint_of(other)
            && (&self.ca_file, self.connections) == (&other.ca_file, other.connections)
            && (self.propagate, &self.models) == (other.propagate, &other.models)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> ProviderConfig {
        ProviderConfig {
            base_url: Some("https://a.test/v1".to_owned()),
            api_key: Some("sk-one".into()),
            proxy: Some("http://proxy:1".into()),
            headers: BTreeMap::from([("x-title".to_owned(), "t".into())]),
            ..ProviderConfig::new("a", Dialect::OpenAi)
        }
    }

    #[test]
    fn each_setting_of_the_way_makes_another_endpoint() {
        assert!(full().has_endpoint_of(&full()) && full().has_client_of(&full()));
        let changes: [fn(&mut ProviderConfig); 10] = [
            |p| p.dialect = Dialect::Mistral,
            |p| p.server = Some("groq"),
            |p| p.base_url = Some("https://b.test/v1".to_owned()),
            |p| p.api_version = Some("2".to_owned()),
            |p| p.api_key = Some("sk-two".into()),
            |p| p.api_key = None,
            |p| p.api_key_file = Some("key".into()),
            |p| p.key_header = Some("x-key".to_owned()),
            |p| p.proxy = None,
            |p| {
                p.headers.insert("x-title".to_owned(), "u".into());
            },
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut other = full();
            change(&mut other);
            assert!(!full().has_endpoint_of(&other), "change {index}");
            assert!(!full().has_client_of(&other), "change {index}");
        }
    }

    #[test]
    fn another_client_may_reach_the_same_endpoint() {
        let changes: [fn(&mut ProviderConfig); 4] = [
            |p| p.ca_file = Some("ca.pem".into()),
            |p| p.connections.max = Some(1),
            |p| p.propagate = true,
            |p| {
                p.models.insert("m".to_owned(), WireConfig::default());
            },
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut other = full();
            change(&mut other);
            assert!(full().has_endpoint_of(&other), "change {index}");
            assert!(!full().has_client_of(&other), "change {index}");
        }
        let mut other = full();
        other.breaker.failure_threshold = 1;
        assert!(
            full().has_client_of(&other),
            "a breaker is no part of a client"
        );
    }
}

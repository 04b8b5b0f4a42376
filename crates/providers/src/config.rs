//! What a client is told about its endpoint.

use crate::dialect::Dialect;
use crate::proxy::Proxy;
use crate::wire::Server;
use crate::wire::{DEFAULT_MAX_ANSWER_BYTES, DEFAULT_MAX_EVENT_BYTES};
use evenkeel_core::{Clock, KeySource, SystemClock};
use http::{HeaderMap, HeaderName};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// An endpoint, and how it is spoken to.
#[derive(Clone)]
pub struct ClientConfig {
    /// The wire format it speaks.
    pub dialect: Dialect,
    /// The address up to and with the version: `https://api.openai.com/v1`. A
    /// query in it (`?api-version=…`) is kept. For Azure the resource's
    /// address is enough.
    pub base_url: String,
    /// Where the key comes from.
    pub key: Arc<dyn KeySource>,
    /// Whether the attempt's `traceparent` is sent, and as `baggage` what the answers
    /// that the call builds on have lost.
    pub propagate: bool,
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConfig")
            .field("dialect", &self.dialect)
            .field("base_url", &without_secrets(&self.base_url))
            .field("key", &self.key)
            .field("propagate", &self.propagate)
            .finish()
    }
}

/// An address without its query and user name, where keys may stand.
fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}"),
        _ => url.to_owned(),
    }
}

/// What rarely needs saying.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Who serves it; guessed from the address where none is given.
    pub server: Option<Server>,
    /// The version of the API where it is not part of the address: Azure's
    /// `api-version`, which also puts the model into the path as a deployment,
    /// and Anthropic's `anthropic-version`.
    pub api_version: Option<String>,
    /// The header that carries the key, where it is not the usual one of the
    /// format and server. In `authorization` the key is a bearer token.
    pub key_header: Option<HeaderName>,
    /// Headers sent with every request. Their values are treated as secrets.
    pub headers: HeaderMap,
    /// What is known of single models, by name.
    pub models: BTreeMap<String, ModelOptions>,
    /// Bounds on what the endpoint may cost.
    pub limits: Limits,
    /// How long an idle connection is kept. None means 50 s, less than common
    /// load balancers keep theirs (60 s), and 4 s for servers on this machine
    /// or network, less than theirs (5 s is common).
    pub idle: Option<Duration>,
    /// Certificates, PEM, trusted in place of the public roots.
    pub root_certificates: Option<Vec<u8>>,
    /// The proxy that connections go through.
    pub proxy: Option<Proxy>,
    /// The time of day, for waits that are given as a date.
    pub clock: Arc<dyn Clock>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            server: None,
            api_version: None,
            key_header: None,
            headers: HeaderMap::new(),
            models: BTreeMap::new(),
            limits: Limits::default(),
            idle: None,
            root_certificates: None,
            proxy: None,
            clock: Arc::new(SystemClock),
        }
    }
}

/// What is known of a single model and changes how it is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelOptions {
    /// Its own version of the API, in place of [`ClientOptions::api_version`].
    pub api_version: Option<String>,
    /// Whether it refuses temperature and the like, as reasoning models do.
    pub fixed_sampling: bool,
    /// Whether its streams are asked for their usage, where the dialect has them
    /// asked (`OpenAI`'s); none: as is usual.
    pub stream_usage: Option<bool>,
    /// Most tokens it can answer with, where known.
    pub max_output_tokens: Option<u64>,
    /// Whether it goes on from a final assistant message, where known.
    pub prefill: Option<bool>,
    /// How it is told to reason, where the dialect knows several ways
    /// (Anthropic, Gemini). None is told by its name, or left to the provider.
    pub reasoning: Option<ReasoningControl>,
}

/// How a model is told to reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningControl {
    /// Not at all: it does not reason, or cannot be told to.
    None,
    /// By a number of tokens.
    Budget,
    /// By a level, from which it decides by itself.
    Level,
}

/// Bounds on what an endpoint may cost, whatever it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest whole answer, and largest sum of a stream's content, bytes.
    pub max_answer_bytes: usize,
    /// Largest single event of a stream, bytes.
    pub max_event_bytes: usize,
    /// Most connections at a time; a request beyond waits for one to be free.
    /// The default is as good as none.
    pub max_connections: usize,
    /// Most idle connections kept.
    pub max_idle_connections: usize,
    /// How long after its finish reason a stream counts as ended, if it does
    /// not end by itself.
    pub after_finish: Duration,
}

/// More than a process can open, and few enough to be counted by a semaphore.
const UNBOUNDED: usize = 1 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_answer_bytes: DEFAULT_MAX_ANSWER_BYTES,
            max_event_bytes: DEFAULT_MAX_EVENT_BYTES,
            max_connections: UNBOUNDED,
            max_idle_connections: 64,
            after_finish: Duration::from_secs(1),
        }
    }
}

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderConfigError {
    /// The address cannot be used. It is not shown: it may hold a key.
    #[error("base_url: {0}")]
    BaseUrl(&'static str),
    /// The proxy's address cannot be used. It is not shown: it may hold a password.
    #[error("proxy: {0}")]
    Proxy(&'static str),
    /// The version cannot be used.
    #[error("api_version: `{seen}` is none, expected {expected}")]
    ApiVersion {
        /// What was given.
        seen: String,
        /// What would do.
        expected: &'static str,
    },
    /// A header that the client sets by itself.
    #[error("headers: `{0}` is set by the client itself")]
    Header(HeaderName),
    /// The certificates cannot be used.
    #[error("root_certificates: {0}")]
    Certificates(String),
    /// TLS cannot be set up.
    #[error("tls: {0}")]
    Tls(#[from] rustls::Error),
}

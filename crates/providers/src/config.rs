//! What a client is told about its endpoint.

use crate::wire::Server;
use crate::wire::{DEFAULT_MAX_ANSWER_BYTES, DEFAULT_MAX_EVENT_BYTES};
use evenkeel_core::{Clock, KeySource, SystemClock};
use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// An endpoint that speaks `OpenAI`'s dialect.
#[derive(Clone)]
pub struct OpenAiConfig {
    /// The address up to `/chat/completions`: `https://api.openai.com/v1`. A
    /// query in it (`?api-version=…`) is kept.
    pub base_url: String,
    /// Where the key comes from.
    pub key: Arc<dyn KeySource>,
    /// Whether the attempt's `traceparent` is sent.
    pub propagate: bool,
}

impl fmt::Debug for OpenAiConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiConfig")
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
pub struct OpenAiOptions {
    /// Who serves it; guessed from the address where none is given.
    pub server: Option<Server>,
    /// Bounds on what the endpoint may cost.
    pub limits: Limits,
    /// How long an idle connection is kept. None means 50 s, less than common
    /// load balancers keep theirs (60 s), and 4 s for servers on this machine
    /// or network, less than theirs (5 s is common).
    pub idle: Option<Duration>,
    /// Certificates, PEM, trusted in place of the public roots.
    pub root_certificates: Option<Vec<u8>>,
    /// The time of day, for waits that are given as a date.
    pub clock: Arc<dyn Clock>,
}

impl Default for OpenAiOptions {
    fn default() -> Self {
        Self {
            server: None,
            limits: Limits::default(),
            idle: None,
            root_certificates: None,
            clock: Arc::new(SystemClock),
        }
    }
}

/// Bounds on what an endpoint may cost, whatever it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest whole answer, and largest sum of a stream's content, bytes.
    pub max_answer_bytes: usize,
    /// Largest single event of a stream, bytes.
    pub max_event_bytes: usize,
    /// Most idle connections kept.
    pub max_idle_connections: usize,
    /// How long after its finish reason a stream counts as ended, if it does
    /// not end by itself.
    pub after_finish: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_answer_bytes: DEFAULT_MAX_ANSWER_BYTES,
            max_event_bytes: DEFAULT_MAX_EVENT_BYTES,
            max_idle_connections: 64,
            after_finish: Duration::from_secs(1),
        }
    }
}

/// Kept idle by default at remote endpoints.
const REMOTE_IDLE: Duration = Duration::from_secs(50);
/// Kept idle by default at near ones.
const NEAR_IDLE: Duration = Duration::from_secs(4);

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderConfigError {
    /// The address cannot be used. It is not shown: it may hold a key.
    #[error("base_url: {0}")]
    BaseUrl(&'static str),
    /// The certificates cannot be used.
    #[error("root_certificates: {0}")]
    Certificates(String),
    /// TLS cannot be set up.
    #[error("tls: {0}")]
    Tls(#[from] rustls::Error),
}

/// A checked address.
#[derive(Clone)]
pub(crate) struct Endpoint {
    /// Where chat completions are asked for.
    pub(crate) chat: Uri,
    /// Host and port, for messages.
    pub(crate) authority: String,
    pub(crate) server: Server,
    pub(crate) idle: Duration,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("authority", &self.authority)
            .field("server", &self.server)
            .field("idle", &self.idle)
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    pub(crate) fn new(
        base_url: &str,
        options: &OpenAiOptions,
    ) -> Result<Self, ProviderConfigError> {
        let wrong = ProviderConfigError::BaseUrl;
        let base: Uri = base_url.trim().parse().map_err(|_| wrong("is not a URL"))?;
        let parts = base.into_parts();
        let scheme = parts
            .scheme
            .ok_or(wrong("must begin with https:// or http://"))?;
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
            return Err(wrong("must begin with https:// or http://"));
        }
        let authority = parts.authority.ok_or(wrong("names no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("must hold no user name or password: use a key"));
        }
        let path = chat_path(parts.path_and_query.as_ref())?;
        let server = options
            .server
            .unwrap_or_else(|| Server::guess(authority.host(), authority.port_u16()));
        let chat = Uri::builder()
            .scheme(scheme)
            .authority(authority.clone())
            .path_and_query(path)
            .build()
            .map_err(|_| wrong("is not a URL"))?;
        let usual_idle = if is_near(&authority, server) {
            NEAR_IDLE
        } else {
            REMOTE_IDLE
        };
        Ok(Self {
            chat,
            authority: authority.to_string(),
            server,
            idle: options.idle.unwrap_or(usual_idle),
        })
    }
}

fn chat_path(base: Option<&PathAndQuery>) -> Result<PathAndQuery, ProviderConfigError> {
    let path = base.map_or("", PathAndQuery::path).trim_end_matches('/');
    if path.ends_with("/chat/completions") {
        return Err(ProviderConfigError::BaseUrl(
            "must end before /chat/completions",
        ));
    }
    let query = base.and_then(PathAndQuery::query);
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{path}/chat/completions{query}")
        .parse()
        .map_err(|_| ProviderConfigError::BaseUrl("is not a URL"))
}

fn is_near(authority: &Authority, server: Server) -> bool {
    let host = authority.host();
    let ip = host
        .trim_matches(['[', ']'])
        .parse::<IpAddr>()
        .is_ok_and(|ip| match ip {
            IpAddr::V4(ip) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local(),
        });
    let served_near = matches!(server, Server::Ollama | Server::LlamaCpp | Server::Vllm);
    // A name without a dot is of this machine or network.
    ip || served_near || !host.contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(url: &str) -> Result<Endpoint, String> {
        Endpoint::new(url, &OpenAiOptions::default()).map_err(|e| e.to_string())
    }

    #[test]
    fn the_path_is_added_and_the_query_kept() {
        for (base, chat) in [
            (
                "https://api.openai.com/v1",
                "https://api.openai.com/v1/chat/completions",
            ),
            (
                "https://api.openai.com/v1/",
                "https://api.openai.com/v1/chat/completions",
            ),
            (
                "http://127.0.0.1:8000",
                "http://127.0.0.1:8000/chat/completions",
            ),
            (
                "https://h.openai.azure.com/openai/deployments/d?api-version=2026-01-01",
                "https://h.openai.azure.com/openai/deployments/d/chat/completions?api-version=2026-01-01",
            ),
        ] {
            assert_eq!(endpoint(base).unwrap().chat.to_string(), chat);
        }
    }

    #[test]
    fn near_servers_are_kept_idle_for_less_than_they_keep_us() {
        for (url, idle) in [
            ("http://127.0.0.1:8000/v1", NEAR_IDLE),
            ("http://[::1]:8000/v1", NEAR_IDLE),
            ("http://10.0.3.4/v1", NEAR_IDLE),
            ("http://vllm:8000/v1", NEAR_IDLE),
            ("https://api.groq.com/openai/v1", REMOTE_IDLE),
        ] {
            assert_eq!(endpoint(url).unwrap().idle, idle, "{url}");
        }
    }

    #[test]
    fn a_bad_address_is_told_without_being_shown() {
        for (url, said) in [
            ("api.openai.com/v1", "base_url: "),
            ("ftp://h/v1", "https:// or http://"),
            ("https://user:sk-secret@h/v1", "user name"),
            ("https://h/v1/chat/completions", "must end before"),
            ("not a url", "is not a URL"),
        ] {
            let error = endpoint(url).unwrap_err();
            assert!(error.contains(said), "{url}: {error}");
            assert!(!error.contains("sk-secret"));
        }
    }
}

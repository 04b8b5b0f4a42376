//! A checked address, and the targets behind it.

use crate::config::{ClientOptions, ProviderConfigError};
use crate::dialect::{Dialect, Target};
use crate::wire::Server;
use evenkeel_core::{Class, Failure};
use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};
use std::fmt;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

/// Kept idle by default at remote endpoints.
const REMOTE_IDLE: Duration = Duration::from_secs(50);
/// Kept idle by default at near ones.
const NEAR_IDLE: Duration = Duration::from_secs(4);

/// A checked address.
#[derive(Clone)]
pub(crate) struct Endpoint {
    dialect: Dialect,
    pub(crate) scheme: Scheme,
    authority_of_uri: Authority,
    /// The path without a trailing slash.
    path: String,
    query: Option<String>,
    /// Azure's version, where the model is a deployment in the path.
    deployments: Option<String>,
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
        dialect: Dialect,
        base_url: &str,
        options: &ClientOptions,
    ) -> Result<Self, ProviderConfigError> {
        let wrong = ProviderConfigError::BaseUrl;
        let base: Uri = base_url.trim().parse().map_err(|_| wrong("is not a URL"))?;
        let parts = base.into_parts();
        let scheme = parts
            .scheme
            .filter(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS)
            .ok_or(wrong("must begin with https:// or http://"))?;
        let authority = parts.authority.ok_or(wrong("names no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("must hold no user name or password: use a key"));
        }
        let base = parts.path_and_query.as_ref();
        let path = base.map_or("", PathAndQuery::path).trim_end_matches('/');
        if path.ends_with(dialect.never_in_base()) {
            return Err(wrong(
                "must end before what is added to it, such as /chat/completions",
            ));
        }
        let guess = || match Server::guess(authority.host(), authority.port_u16()) {
            Server::Compatible => dialect.usual_server(),
            server => server,
        };
        let server = options.server.unwrap_or_else(guess);
        let usual_idle = if is_near(&authority, server) {
            NEAR_IDLE
        } else {
            REMOTE_IDLE
        };
        let azure = dialect == Dialect::OpenAi && server == Server::Azure;
        let (path, deployments) = match options.api_version.as_ref().filter(|_| azure) {
            _ if path.contains("/deployments/") => (path.to_owned(), None),
            Some(version) => (deployments_path(path), Some(version.clone())),
            None if path.is_empty() => (dialect.usual_path(server).to_owned(), None),
            None => (path.to_owned(), None),
        };
        let endpoint = Self {
            dialect,
            scheme,
            authority: authority.to_string(),
            authority_of_uri: authority,
            path,
            query: base.and_then(PathAndQuery::query).map(str::to_owned),
            deployments,
            server,
            idle: options.idle.unwrap_or(usual_idle),
        };
        if endpoint.uri("m", false).is_err() {
            return Err(match endpoint.deployments {
                Some(seen) => ProviderConfigError::ApiVersion {
                    seen,
                    expected: "a date such as 2024-10-21",
                },
                None => wrong("is not a URL"),
            });
        }
        Ok(endpoint)
    }

    /// Whether the address names the model.
    pub(crate) fn names_model(&self) -> bool {
        self.deployments.is_some()
    }

    /// Whether it is Vertex AI, whose addresses hold the publisher.
    pub(crate) fn is_vertex(&self) -> bool {
        self.path.contains("/publishers/")
    }

    /// Where the list of models is, or what is said of one. `query` is what is asked of a
    /// list, and the name under which the next page is asked for.
    pub(crate) fn listing(
        &self,
        model: Option<&str>,
        query: Option<(&str, &str)>,
        page: Option<&str>,
    ) -> Result<Uri, Failure> {
        let mut whole = format!("{}/models", self.path);
        if let Some(model) = model {
            whole.push('/');
            push_segment(&mut whole, model);
        }
        let mut queries: Vec<String> = self.query.iter().cloned().collect();
        if let Some((first, next)) = query {
            queries.push(first.to_owned());
            if let Some(page) = page {
                let mut asked = format!("{next}=");
                push_segment(&mut asked, page);
                queries.push(asked);
            }
        }
        if !queries.is_empty() {
            whole.push('?');
            whole.push_str(&queries.join("&"));
        }
        self.address(whole)
    }

    /// Where `model` is asked.
    pub(crate) fn uri(&self, model: &str, stream: bool) -> Result<Uri, Failure> {
        let Target { path, query } = self.dialect.target(model, stream);
        let mut whole = self.path.clone();
        if self.deployments.is_some() {
            whole.push('/');
            push_segment(&mut whole, model);
        }
        whole.push_str(&path);
        let version = self.deployments.as_ref();
        let queries = [
            self.query.clone(),
            version.map(|version| format!("api-version={version}")),
            query,
        ];
        let mut joint = '?';
        for query in queries.into_iter().flatten() {
            whole.push(joint);
            whole.push_str(&query);
            joint = '&';
        }
        self.address(whole)
    }

    fn address(&self, path_and_query: String) -> Result<Uri, Failure> {
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority_of_uri.clone())
            .path_and_query(path_and_query)
            .build()
            .map_err(|_| {
                let message = "the model's name does not fit into an address";
                Failure::new(Class::ModelGone, message)
            })
    }
}

/// Azure's path up to the deployment, from a base that ends anywhere before.
fn deployments_path(base: &str) -> String {
    let base = base.strip_suffix("/v1").unwrap_or(base);
    let base = base.strip_suffix("/openai").unwrap_or(base);
    format!("{base}/openai/deployments")
}

/// Adds one segment of a path; what has a meaning of its own there is escaped.
pub(crate) fn push_segment(path: &mut String, segment: &str) {
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:@".contains(&byte) {
            path.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(path, "%{byte:02X}");
        }
    }
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
        let options = ClientOptions::default();
        Endpoint::new(Dialect::OpenAi, url, &options).map_err(|e| e.to_string())
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
            (
                "https://h.openai.azure.com",
                "https://h.openai.azure.com/openai/v1/chat/completions",
            ),
        ] {
            let uri = endpoint(base).unwrap().uri("m", false).unwrap();
            assert_eq!(uri.to_string(), chat);
        }
    }

    #[test]
    fn a_version_makes_azures_models_deployments_of_the_path() {
        let options = ClientOptions {
            api_version: Some("2024-10-21".into()),
            ..ClientOptions::default()
        };
        for base in ["", "/openai", "/openai/v1"] {
            let base = format!("https://h.openai.azure.com{base}");
            let endpoint = Endpoint::new(Dialect::OpenAi, &base, &options).unwrap();
            assert!(endpoint.names_model());
            assert_eq!(
                endpoint.uri("my deploy", false).unwrap().to_string(),
                "https://h.openai.azure.com/openai/deployments/my%20deploy/chat/completions?api-version=2024-10-21"
            );
        }
        let broken = ClientOptions {
            api_version: Some("2024 10\u{7f}".into()),
            ..ClientOptions::default()
        };
        let error = Endpoint::new(Dialect::OpenAi, "https://h.openai.azure.com", &broken);
        assert!(error.unwrap_err().to_string().contains("api_version"));
    }

    #[test]
    fn each_format_has_its_own_targets() {
        let vertex =
            "https://eu-aiplatform.googleapis.com/v1/projects/p/locations/eu/publishers/google";
        for (dialect, base, stream, expected) in [
            (
                Dialect::Anthropic,
                "https://api.anthropic.com",
                true,
                "/v1/messages",
            ),
            (
                Dialect::Anthropic,
                "https://api.anthropic.com/v1",
                true,
                "/v1/messages",
            ),
            (
                Dialect::Mistral,
                "https://api.mistral.ai/v1",
                true,
                "/v1/chat/completions",
            ),
            (
                Dialect::Gemini,
                "https://generativelanguage.googleapis.com/v1beta",
                false,
                "/v1beta/models/m:generateContent",
            ),
            (
                Dialect::Gemini,
                "https://generativelanguage.googleapis.com/v1beta?x=1",
                true,
                "/v1beta/models/m:streamGenerateContent?x=1&alt=sse",
            ),
            (
                Dialect::Gemini,
                vertex,
                false,
                "/v1/projects/p/locations/eu/publishers/google/models/m:generateContent",
            ),
        ] {
            let endpoint = Endpoint::new(dialect, base, &ClientOptions::default()).unwrap();
            let uri = endpoint.uri("m", stream).unwrap();
            assert_eq!(uri.path_and_query().unwrap(), expected);
            assert_eq!(endpoint.is_vertex(), base == vertex);
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

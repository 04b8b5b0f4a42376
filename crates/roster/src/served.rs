//! Who serves a provider's models, in the words of OpenTelemetry.

use std::sync::Arc;

use evenkeel_core::Server;
use http::Uri;

use crate::provider::{Dialect, ProviderConfig};

/// Hosts, or ends of hosts that begin with a dot, and who is there
/// (`gen_ai.provider.name` of the semantic conventions v1.41.1).
const HOSTS: [(&str, &str); 14] = [
    ("api.openai.com", "openai"),
    (".openai.azure.com", "azure.ai.openai"),
    (".services.ai.azure.com", "azure.ai.inference"),
    ("api.anthropic.com", "anthropic"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    (".googleapis.com", "gcp.vertex_ai"),
    ("api.mistral.ai", "mistral_ai"),
    (".amazonaws.com", "aws.bedrock"),
    ("api.groq.com", "groq"),
    ("api.deepseek.com", "deepseek"),
    (".cohere.com", "cohere"),
    ("api.x.ai", "x_ai"),
    ("api.perplexity.ai", "perplexity"),
    (".ml.cloud.ibm.com", "ibm.watsonx.ai"),
];

impl ProviderConfig {
    /// Who serves its models, and where: by `preset`, else by the host of `base_url`, else
    /// under its own name.
    pub fn served_by(&self) -> Server {
        let uri = self
            .base_url
            .as_deref()
            .and_then(|url| url.parse::<Uri>().ok());
        let host = uri.as_ref().and_then(Uri::host);
        let usual = match uri.as_ref().and_then(Uri::scheme_str) {
            Some("http") => 80,
            _ => 443,
        };
        let port = uri.as_ref().map(|uri| uri.port_u16().unwrap_or(usual));
        let known = self.server.map(system).or_else(|| of_host(host?));
        Server {
            provider: Arc::from(self.name.as_str()),
            system: Arc::from(known.unwrap_or(&self.name)),
            address: host.map(Arc::from),
            port: port.filter(|_| host.is_some()),
            in_process: self.dialect == Dialect::Simulated,
        }
    }
}

/// The convention's word for a preset.
fn system(server: &'static str) -> &'static str {
    match server {
        "gemini" => "gcp.gemini",
        "mistral" => "mistral_ai",
        "azure" => "azure.ai.openai",
        "llamacpp" => "llama_cpp",
        other => other,
    }
}

fn of_host(host: &str) -> Option<&'static str> {
    let at = |known: &str| host == known || (known.starts_with('.') && host.ends_with(known));
    HOSTS
        .iter()
        .find(|(known, _)| at(known))
        .map(|(_, system)| *system)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str) -> Server {
        ProviderConfig {
            base_url: Some(url.to_owned()),
            ..ProviderConfig::new("acme", Dialect::OpenAi)
        }
        .served_by()
    }

    #[test]
    fn an_address_is_a_host_and_a_port_and_nothing_else() {
        let server = at("https://user:secret@api.acme.test/v1?key=secret");
        assert_eq!(server.address.as_deref(), Some("api.acme.test"));
        assert_eq!((server.port, &*server.system), (Some(443), "acme"));
        assert_eq!(at("http://127.0.0.1:8000/v1").port, Some(8000));
        assert_eq!(at("http://localhost/v1").port, Some(80));
    }

    #[test]
    fn who_is_there_is_told_by_the_host() {
        for (url, system) in [
            ("https://api.openai.com/v1", "openai"),
            ("https://acme.openai.azure.com/openai", "azure.ai.openai"),
            (
                "https://europe-west1-aiplatform.googleapis.com/v1",
                "gcp.vertex_ai",
            ),
            (
                "https://generativelanguage.googleapis.com/v1beta",
                "gcp.gemini",
            ),
            ("https://evilapi.openai.com.acme.test/v1", "acme"),
        ] {
            assert_eq!(&*at(url).system, system, "{url}");
        }
    }

    #[test]
    fn a_preset_goes_before_the_host() {
        let mut config = ProviderConfig::new("mine", Dialect::OpenAi);
        config.server = Some("llamacpp");
        config.base_url = Some("http://127.0.0.1:8080/v1".to_owned());
        assert_eq!(&*config.served_by().system, "llama_cpp");
        let simulated = ProviderConfig::new("north", Dialect::Simulated).served_by();
        assert!(simulated.in_process && simulated.address.is_none());
        assert_eq!(simulated.port, None);
    }
}

//! Who is at the other end.

/// The server behind an endpoint. It decides details only: the names of a few
/// request fields, how the key is sent, and four rules of the failure
/// classifier. Everything else is read the same way from all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Server {
    /// `OpenAI` itself.
    OpenAi,
    /// Azure `OpenAI`.
    Azure,
    /// `OpenRouter`.
    OpenRouter,
    /// Groq.
    Groq,
    /// `DeepSeek`.
    DeepSeek,
    /// vLLM.
    Vllm,
    /// The llama.cpp server.
    LlamaCpp,
    /// Ollama.
    Ollama,
    /// Mistral.
    Mistral,
    /// Anthropic.
    Anthropic,
    /// Google Gemini.
    Gemini,
    /// Any other server that speaks a known dialect.
    #[default]
    Compatible,
}

/// Host name endings that tell a server. From the vendors' API references.
const HOSTS: [(&str, Server); 11] = [
    ("api.openai.com", Server::OpenAi),
    (".openai.azure.com", Server::Azure),
    (".cognitiveservices.azure.com", Server::Azure),
    (".services.ai.azure.com", Server::Azure),
    ("openrouter.ai", Server::OpenRouter),
    ("api.groq.com", Server::Groq),
    ("api.deepseek.com", Server::DeepSeek),
    (".mistral.ai", Server::Mistral),
    ("api.anthropic.com", Server::Anthropic),
    ("generativelanguage.googleapis.com", Server::Gemini),
    (".api.openai.com", Server::OpenAi),
];

/// The port Ollama listens on unless told otherwise.
const OLLAMA_PORT: u16 = 11_434;

impl Server {
    /// The server that usually stands at `host` and `port`;
    /// [`Server::Compatible`] where neither tells.
    pub fn guess(host: &str, port: Option<u16>) -> Self {
        let host = host.to_ascii_lowercase();
        HOSTS
            .iter()
            .find(|(ending, _)| {
                host == *ending || (ending.starts_with('.') && host.ends_with(ending))
            })
            .map(|(_, server)| *server)
            .or((port == Some(OLLAMA_PORT)).then_some(Self::Ollama))
            .unwrap_or_default()
    }

    /// The name used in configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Azure => "azure",
            Self::OpenRouter => "openrouter",
            Self::Groq => "groq",
            Self::DeepSeek => "deepseek",
            Self::Vllm => "vllm",
            Self::LlamaCpp => "llamacpp",
            Self::Ollama => "ollama",
            Self::Mistral => "mistral",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Compatible => "compatible",
        }
    }

    /// Every server, in the order of the documentation.
    pub const ALL: [Self; 12] = [
        Self::OpenAi,
        Self::Azure,
        Self::OpenRouter,
        Self::Groq,
        Self::DeepSeek,
        Self::Vllm,
        Self::LlamaCpp,
        Self::Ollama,
        Self::Mistral,
        Self::Anthropic,
        Self::Gemini,
        Self::Compatible,
    ];

    /// The server of this name ([`Server::as_str`]).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_tells_the_server() {
        for (host, port, server) in [
            ("api.openai.com", None, Server::OpenAi),
            ("eu.api.openai.com", None, Server::OpenAi),
            ("harbour.openai.azure.com", None, Server::Azure),
            ("API.Groq.com", None, Server::Groq),
            ("api.eu.mistral.ai", None, Server::Mistral),
            ("127.0.0.1", Some(11_434), Server::Ollama),
            ("notopenrouter.ai", None, Server::Compatible),
            ("127.0.0.1", Some(8000), Server::Compatible),
        ] {
            assert_eq!(Server::guess(host, port), server, "{host}");
        }
    }

    #[test]
    fn every_server_is_found_by_its_name() {
        for server in Server::ALL {
            assert_eq!(Server::named(server.as_str()), Some(server));
        }
        assert_eq!(Server::named("elsewhere"), None);
    }
}

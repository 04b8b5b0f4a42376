//! Providers that are known by name (`preset`).

use crate::provider::{Dialect, ProviderConfig};

/// What is known of a provider.
#[derive(Debug)]
pub(crate) struct Preset {
    pub(crate) name: &'static str,
    pub(crate) dialect: Dialect,
    /// Where it is; `None` where everybody has an address of their own.
    pub(crate) base_url: Option<&'static str>,
    /// The environment variables that usually hold its key, the first that is
    /// set counts.
    pub(crate) key_variables: &'static [&'static str],
    /// Whether a provider of this name needs no entry.
    pub(crate) built_in: bool,
}

/// Addresses and variables from the vendors' API references and clients; the
/// ports are the servers' defaults.
static PRESETS: [Preset; 11] = [
    Preset {
        name: "openai",
        dialect: Dialect::OpenAi,
        base_url: Some("https://api.openai.com/v1"),
        key_variables: &["OPENAI_API_KEY"],
        built_in: true,
    },
    Preset {
        name: "anthropic",
        dialect: Dialect::Anthropic,
        base_url: Some("https://api.anthropic.com/v1"),
        key_variables: &["ANTHROPIC_API_KEY"],
        built_in: true,
    },
    Preset {
        name: "google",
        dialect: Dialect::Gemini,
        base_url: Some("https://generativelanguage.googleapis.com/v1beta"),
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        built_in: true,
    },
    Preset {
        name: "mistral",
        dialect: Dialect::Mistral,
        base_url: Some("https://api.mistral.ai/v1"),
        key_variables: &["MISTRAL_API_KEY"],
        built_in: true,
    },
    Preset {
        name: "azure",
        dialect: Dialect::OpenAi,
        base_url: None,
        key_variables: &[],
        built_in: false,
    },
    Preset {
        name: "openrouter",
        dialect: Dialect::OpenAi,
        base_url: Some("https://openrouter.ai/api/v1"),
        key_variables: &["OPENROUTER_API_KEY"],
        built_in: false,
    },
    Preset {
        name: "groq",
        dialect: Dialect::OpenAi,
        base_url: Some("https://api.groq.com/openai/v1"),
        key_variables: &["GROQ_API_KEY"],
        built_in: false,
    },
    Preset {
        name: "deepseek",
        dialect: Dialect::OpenAi,
        base_url: Some("https://api.deepseek.com/v1"),
        key_variables: &["DEEPSEEK_API_KEY"],
        built_in: false,
    },
    Preset {
        name: "vllm",
        dialect: Dialect::OpenAi,
        base_url: Some("http://127.0.0.1:8000/v1"),
        key_variables: &[],
        built_in: false,
    },
    Preset {
        name: "llamacpp",
        dialect: Dialect::OpenAi,
        base_url: Some("http://127.0.0.1:8080/v1"),
        key_variables: &[],
        built_in: false,
    },
    Preset {
        name: "ollama",
        dialect: Dialect::OpenAi,
        base_url: Some("http://127.0.0.1:11434/v1"),
        key_variables: &[],
        built_in: false,
    },
];

/// Every value that [`ProviderConfig::server`] can have.
pub fn preset_servers() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(Preset::server)
}

impl Preset {
    /// Every preset with the word for it.
    pub(crate) fn words() -> Vec<(&'static str, &'static Self)> {
        PRESETS.iter().map(|p| (p.name, p)).collect()
    }

    /// The preset of a provider that needs no entry.
    pub(crate) fn built_in(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|p| p.built_in && p.name == name)
    }

    /// Names of the providers that need no entry.
    pub(crate) fn built_in_names<'a>() -> impl Iterator<Item = &'a str> {
        PRESETS.iter().filter(|p| p.built_in).map(|p| p.name)
    }

    /// Who serves it.
    fn server(&self) -> &'static str {
        match self.name {
            "google" => "gemini",
            name => name,
        }
    }

    /// A provider with what is known of it.
    pub(crate) fn provider(&self, name: &str) -> ProviderConfig {
        let mut provider = ProviderConfig::new(name, self.dialect);
        provider.server = Some(self.server());
        provider.base_url = self.base_url.map(str::to_owned);
        provider
    }
}

//! The index of `fixtures/wire`.

use evenkeel_providers::Server;
use http::{HeaderMap, HeaderName};
use serde_json::Value;
use std::path::PathBuf;

/// One line of the index, with the file it names.
pub(crate) struct Fixture {
    pub(crate) file: String,
    pub(crate) provider: String,
    pub(crate) kind: String,
    pub(crate) line: Value,
    pub(crate) bytes: Vec<u8>,
}

impl Fixture {
    /// The server it comes from.
    pub(crate) fn server(&self) -> Server {
        Server::named(&self.provider).unwrap_or_default()
    }

    pub(crate) fn class(&self) -> Option<&str> {
        self.line["class"].as_str()
    }

    pub(crate) fn headers(&self) -> HeaderMap {
        let headers = self.line["headers"].as_object().unwrap();
        headers
            .iter()
            .map(|(name, value)| {
                (
                    name.parse::<HeaderName>().unwrap(),
                    value.as_str().unwrap().parse().unwrap(),
                )
            })
            .collect()
    }

    /// Whether it is in `OpenAI`'s dialect.
    pub(crate) fn speaks_openai(&self) -> bool {
        let dialect = [
            "openai",
            "azure",
            "openrouter",
            "groq",
            "deepseek",
            "vllm",
            "llamacpp",
            "ollama",
        ];
        dialect.contains(&self.provider.as_str()) && !self.file.ends_with(".ndjson")
    }
}

/// All fixtures, in the order of the index.
pub(crate) fn all() -> Vec<Fixture> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/wire");
    let index = std::fs::read_to_string(root.join("INDEX.jsonl")).unwrap();
    index
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let text = |name: &str| line[name].as_str().unwrap().to_owned();
            Fixture {
                file: text("file"),
                provider: text("provider"),
                kind: text("kind"),
                bytes: std::fs::read(root.join(text("file"))).unwrap(),
                line,
            }
        })
        .collect()
}

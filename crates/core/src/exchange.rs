//! What is told of an attempt beside its fate: who serves it, what was asked for, and
//! what the answer says of itself.

use crate::{ChatRequest, ChatResponse, Finish, Output, Sampling};
use std::sync::Arc;

/// Who serves a model, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The configured provider's name.
    pub provider: Arc<str>,
    /// Who that is by OpenTelemetry's names (`gen_ai.provider.name`): `openai`,
    /// `gcp.gemini`, …; the configured name where it is none of those.
    pub system: Arc<str>,
    /// Its host, without anything else of its address; none where it has no address.
    pub address: Option<Arc<str>>,
    /// Its port.
    pub port: Option<u16>,
    /// Whether the model runs in this process.
    pub in_process: bool,
}

impl Server {
    /// A provider of which only the name is known.
    pub fn named(provider: &str) -> Self {
        let name: Arc<str> = Arc::from(provider);
        Self {
            provider: name.clone(),
            system: name,
            address: None,
            port: None,
            in_process: false,
        }
    }
}

/// What a request asks for beside its messages.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asked {
    /// Whether the answer is to be JSON.
    pub json: bool,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// Cap on generated tokens.
    pub max_output_tokens: Option<u64>,
    /// Texts that end the answer.
    pub stop: Vec<String>,
}

impl Asked {
    /// What `request` asks for.
    pub fn of(request: &ChatRequest) -> Self {
        Self {
            json: request.output != Output::Text,
            sampling: request.sampling.clone(),
            max_output_tokens: request.max_output_tokens,
            stop: request.stop.clone(),
        }
    }
}

/// What an answer says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reported {
    /// The provider's id of it.
    pub id: Option<Arc<str>>,
    /// The model that it says it comes from.
    pub model: Option<Arc<str>>,
    /// Why it ended.
    pub finish: Option<Finish>,
    /// Content events that came of a stream.
    pub chunks: u64,
}

/// What a call was about, from its caller's side: whichever models were asked, and in
/// whatever words.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// The request as the caller made it.
    pub request: Arc<ChatRequest>,
    /// The answer as the caller has it, but for the role's notice; none where it was
    /// given no whole one.
    pub answer: Option<Arc<ChatResponse>>,
}

/// Which configuration something was decided by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyStamp {
    /// What its files call themselves (`version`).
    pub version: Option<Arc<str>>,
    /// SHA-256 of its files, 64 hexadecimal digits.
    pub sha256: Arc<str>,
}

/// What one role makes of a probe, by its own limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeVerdict {
    /// The role.
    pub role: Arc<str>,
    /// The task of the role, where it stands on a rung of its own.
    pub task: Option<Arc<str>>,
    /// `ok`, `slow` or `error`.
    pub result: &'static str,
}

//! The wire formats that the client speaks, behind one set of questions.

use crate::config::{ModelOptions, ProviderConfigError, ReasoningControl};
use crate::wire::anthropic::{Support, Version};
use crate::wire::classify::Reply;
use crate::wire::gemini::Platform;
use crate::wire::{
    Encoded, EventDecoder, Server, StreamLimits, anthropic, gemini, mistral, openai,
};
use evenkeel_core::{ChatRequest, ChatResponse, Failure};
use http::HeaderName;
use http::header::AUTHORIZATION;
use secrecy::SecretString;

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// `OpenAI`'s Chat Completions.
    OpenAi,
    /// Anthropic's Messages.
    Anthropic,
    /// Google's `generateContent`, at the Developer API and at Vertex AI.
    Gemini,
    /// Mistral's chat.
    Mistral,
}

/// What a request is made of, beside the address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) server: Server,
    pub(crate) request: &'a ChatRequest,
    pub(crate) model: &'a str,
    pub(crate) stream: bool,
    pub(crate) options: &'a ModelOptions,
    /// Whether the address names the model.
    pub(crate) model_in_path: bool,
    /// Whether it is asked at Vertex AI.
    pub(crate) at_vertex: bool,
    /// What the model has refused so far of that which is not the caller's.
    pub(crate) unwanted: openai::Unwanted,
}

/// The rest of an address, behind the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) path: String,
    /// What is asked beside the base's own query.
    pub(crate) query: Option<String>,
}

impl Dialect {
    /// Every dialect, in the order of the documentation.
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::Anthropic, Self::Gemini, Self::Mistral];

    /// The name used in configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => openai::DIALECT,
            Self::Anthropic => anthropic::DIALECT,
            Self::Gemini => gemini::DIALECT,
            Self::Mistral => mistral::DIALECT,
        }
    }

    /// The dialect of that name ([`Dialect::as_str`]).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.as_str() == name)
    }

    /// Who speaks it where neither address nor configuration tells.
    pub(crate) const fn usual_server(self) -> Server {
        match self {
            Self::OpenAi => Server::Compatible,
            Self::Anthropic => Server::Anthropic,
            Self::Gemini => Server::Gemini,
            Self::Mistral => Server::Mistral,
        }
    }

    /// The path that stands for none in a base address, as the vendor's own
    /// client adds it.
    pub(crate) const fn usual_path(self, server: Server) -> &'static str {
        match (self, server) {
            (Self::OpenAi, Server::Azure) => "/openai/v1",
            (Self::OpenAi, _) => "",
            (Self::Anthropic | Self::Mistral, _) => "/v1",
            (Self::Gemini, _) => "/v1beta",
        }
    }

    /// Where `model` is asked, behind the base address.
    pub(crate) fn target(self, model: &str, stream: bool) -> Target {
        let path = match self {
            Self::OpenAi | Self::Mistral => "/chat/completions".to_owned(),
            Self::Anthropic => "/messages".to_owned(),
            Self::Gemini => gemini::path(model, stream),
        };
        match path.split_once('?') {
            Some((path, query)) => Target {
                path: path.to_owned(),
                query: Some(query.to_owned()),
            },
            None => Target { path, query: None },
        }
    }

    /// What no base address ends with, since it is added.
    pub(crate) const fn never_in_base(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Mistral => "/chat/completions",
            Self::Anthropic => "/messages",
            Self::Gemini => "/models",
        }
    }

    /// The header that carries the key. `authorization` carries it as a bearer token.
    pub(crate) fn key_header(self, server: Server, at_vertex: bool) -> HeaderName {
        match self {
            Self::OpenAi if server == Server::Azure => HeaderName::from_static("api-key"),
            Self::Anthropic => HeaderName::from_static("x-api-key"),
            Self::Gemini if !at_vertex => HeaderName::from_static("x-goog-api-key"),
            Self::OpenAi | Self::Mistral | Self::Gemini => AUTHORIZATION,
        }
    }

    /// Checks what the format itself knows of `options`.
    pub(crate) fn check(self, options: &ModelOptions) -> Result<(), ProviderConfigError> {
        match (self, &options.api_version) {
            (Self::Anthropic, Some(version)) if Version::named(version).is_none() => {
                Err(ProviderConfigError::ApiVersion {
                    seen: version.clone(),
                    expected: "2023-06-01 or 2026-10-21",
                })
            }
            _ => Ok(()),
        }
    }

    /// Headers of the format beside the usual ones.
    pub(crate) fn headers(self, options: &ModelOptions) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::Anthropic => vec![("anthropic-version", version(options).as_str())],
            Self::OpenAi | Self::Gemini | Self::Mistral => Vec::new(),
        }
    }

    pub(crate) fn encode(self, asked: &Asked<'_>) -> Encoded {
        let Asked {
            request,
            model,
            stream,
            options,
            ..
        } = *asked;
        match self {
            Self::OpenAi => {
                let options = openai::Options {
                    server: Some(asked.server),
                    fixed_sampling: options.fixed_sampling,
                    model_in_path: asked.model_in_path,
                    unwanted: asked.unwanted,
                };
                openai::encode_request(request, model, stream, &options)
            }
            Self::Anthropic => {
                let options = anthropic::Options {
                    version: version(options),
                    max_output_tokens: options.max_output_tokens,
                    sampling: if options.fixed_sampling {
                        Support::No
                    } else {
                        Support::Unknown
                    },
                    prefill: match options.prefill {
                        None => Support::Unknown,
                        Some(true) => Support::Yes,
                        Some(false) => Support::No,
                    },
                    thinking: match options.reasoning {
                        None => anthropic::Thinking::Unknown,
                        Some(ReasoningControl::None) => anthropic::Thinking::No,
                        Some(ReasoningControl::Budget) => anthropic::Thinking::Budget,
                        Some(ReasoningControl::Level) => anthropic::Thinking::Adaptive,
                    },
                    ..anthropic::Options::default()
                };
                anthropic::encode_request(request, model, stream, &options)
            }
            Self::Gemini => {
                let options = gemini::Options {
                    platform: if asked.at_vertex {
                        Platform::Vertex
                    } else {
                        Platform::Developer
                    },
                    thinking: options.reasoning.map(|control| match control {
                        ReasoningControl::None => gemini::Thinking::Unsupported,
                        ReasoningControl::Budget => gemini::Thinking::Budget,
                        ReasoningControl::Level => gemini::Thinking::Level,
                    }),
                    ..gemini::Options::default()
                };
                gemini::encode_request(request, model, &options)
            }
            Self::Mistral => {
                let options = mistral::Options {
                    fixed_sampling: options.fixed_sampling,
                };
                mistral::encode_request(request, model, stream, &options)
            }
        }
    }

    pub(crate) fn decode_answer(self, reply: &Reply<'_>) -> Result<ChatResponse, Failure> {
        match self {
            Self::OpenAi => openai::decode_answer(reply),
            Self::Anthropic => anthropic::decode_answer(reply),
            Self::Gemini => gemini::decode_answer(reply),
            Self::Mistral => mistral::decode_answer(reply),
        }
    }

    pub(crate) fn decoder(
        self,
        server: Server,
        limits: StreamLimits,
        key: Option<SecretString>,
    ) -> Box<dyn EventDecoder> {
        match self {
            Self::OpenAi => {
                Box::new(openai::StreamDecoder::with_limits(server, limits).with_key(key))
            }
            Self::Anthropic => {
                Box::new(anthropic::StreamDecoder::with_limits(limits).with_key(key))
            }
            Self::Gemini => Box::new(gemini::StreamDecoder::with_limits(limits).with_key(key)),
            Self::Mistral => Box::new(mistral::StreamDecoder::with_limits(limits).with_key(key)),
        }
    }
}

/// The version of Anthropic's format; a name that is none was refused before.
fn version(options: &ModelOptions) -> Version {
    let named = options.api_version.as_deref().and_then(Version::named);
    named.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{Effort, Message, Reasoning, Role};

    fn body(dialect: Dialect, options: &ModelOptions) -> serde_json::Value {
        let mut request = ChatRequest::user("Which tide?");
        request.messages.push(Message::text(Role::Assistant, "The"));
        request.max_output_tokens = Some(16_000);
        request.reasoning = Some(Reasoning {
            effort: Some(Effort::High),
            budget_tokens: None,
        });
        let asked = Asked {
            server: Server::Compatible,
            request: &request,
            model: "m",
            stream: false,
            options,
            model_in_path: false,
            at_vertex: false,
            unwanted: openai::Unwanted::default(),
        };
        dialect.encode(&asked).body
    }

    #[test]
    fn a_model_is_told_to_reason_as_its_options_say() {
        let told = |dialect, control| {
            let options = ModelOptions {
                reasoning: Some(control),
                ..ModelOptions::default()
            };
            let body = body(dialect, &options);
            match dialect {
                Dialect::Anthropic => body["thinking"].clone(),
                _ => body["generationConfig"]["thinkingConfig"].clone(),
            }
        };
        let claude = |control| told(Dialect::Anthropic, control);
        assert!(claude(ReasoningControl::None).is_null());
        assert_eq!(claude(ReasoningControl::Budget)["type"], "enabled");
        assert_eq!(claude(ReasoningControl::Level)["type"], "adaptive");
        let gemini = |control| told(Dialect::Gemini, control);
        assert!(gemini(ReasoningControl::None).is_null());
        assert!(gemini(ReasoningControl::Budget)["thinkingBudget"].is_u64());
        assert!(gemini(ReasoningControl::Level)["thinkingLevel"].is_string());
    }

    #[test]
    fn a_model_that_takes_no_prefill_gets_none() {
        let last_role = |prefill| {
            let options = ModelOptions {
                prefill,
                reasoning: Some(ReasoningControl::None),
                ..ModelOptions::default()
            };
            let body = body(Dialect::Anthropic, &options);
            let last = body["messages"].as_array().and_then(|turns| turns.last());
            last.map(|turn| turn["role"].clone())
        };
        assert_eq!(last_role(Some(true)), Some("assistant".into()));
        assert_eq!(last_role(Some(false)), Some("user".into()));
    }
}

//! The wire formats that the client speaks, behind one set of questions.

use crate::config::ModelOptions;
use crate::wire::classify::Reply;
use crate::wire::{Encoded, EventDecoder, Server, StreamLimits, openai};
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
    pub const ALL: [Self; 1] = [Self::OpenAi];

    /// The name used in configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => openai::DIALECT,
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
        }
    }

    /// Where `model` is asked, behind the base address.
    pub(crate) fn target(self, _model: &str, _stream: bool) -> Target {
        match self {
            Self::OpenAi => Target {
                path: "/chat/completions".to_owned(),
                query: None,
            },
        }
    }

    /// What no base address ends with, since it is added.
    pub(crate) const fn never_in_base(self) -> &'static str {
        match self {
            Self::OpenAi => "/chat/completions",
        }
    }

    /// The header that carries the key. `authorization` carries it as a bearer token.
    pub(crate) fn key_header(self, server: Server) -> HeaderName {
        match (self, server) {
            (Self::OpenAi, Server::Azure) => HeaderName::from_static("api-key"),
            (Self::OpenAi, _) => AUTHORIZATION,
        }
    }

    /// Headers of the format beside the usual ones.
    pub(crate) fn headers(self, _options: &ModelOptions) -> Vec<(&'static str, String)> {
        match self {
            Self::OpenAi => Vec::new(),
        }
    }

    pub(crate) fn encode(self, asked: &Asked<'_>) -> Encoded {
        let Asked {
            server,
            request,
            model,
            stream,
            options,
            model_in_path,
        } = *asked;
        match self {
            Self::OpenAi => {
                let options = openai::Options {
                    server: Some(server),
                    fixed_sampling: options.fixed_sampling,
                    model_in_path,
                };
                openai::encode_request(request, model, stream, &options)
            }
        }
    }

    pub(crate) fn decode_answer(self, reply: &Reply<'_>) -> Result<ChatResponse, Failure> {
        match self {
            Self::OpenAi => openai::decode_answer(reply),
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
        }
    }
}

//! The wire formats of providers, behind one set of questions.

mod anthropic;
mod gemini;
mod mistral;
mod openai;
mod trouble;

pub(crate) use trouble::{Kind, Trouble};

use crate::answer::Answer;
use crate::script::Act;
use evenkeel_core::{Allowance, ChatResponse, Extra, Failure, Value};
use evenkeel_providers::Server;
use evenkeel_providers::wire::classify::Reply;
use evenkeel_providers::wire::{ClientRequest, EventDecoder, RequestError};
use serde_json::Map;
use std::fmt::Debug;
use std::time::{Duration, SystemTime};

pub(crate) const JSON: &str = "application/json";
pub(crate) const SSE: &str = "text/event-stream; charset=utf-8";
/// A signature that says of itself what it is, in base 64.
const SIGNATURE: &str = "c2ltdWxhdGVkIHNpZ25hdHVyZQ==";

/// A provider's wire format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// `OpenAI`'s Chat Completions.
    #[default]
    OpenAi,
    /// Anthropic's Messages.
    Anthropic,
    /// Google's `generateContent`.
    Gemini,
    /// Mistral's chat format, whose path is `OpenAI`'s.
    Mistral,
}

/// How a client asks for a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Whether the counts are to come too, where that is a choice.
    pub(crate) usage: bool,
    /// Whether it is to be a JSON array instead of server-sent events.
    pub(crate) array: bool,
}

/// What a path says of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Addressed {
    /// The model, where the path names it.
    pub(crate) model: String,
    /// Whether the path asks for a stream.
    pub(crate) stream: bool,
    /// Whether a stream is to be a JSON array.
    pub(crate) array: bool,
}

/// One wire format, as a server speaks it.
pub(crate) trait Format: Debug + Sync {
    /// Who speaks it.
    fn server(&self) -> Server;

    /// Reads a request.
    fn decode_request(&self, to: &Addressed, body: &[u8]) -> Result<ClientRequest, RequestError>;

    /// A whole answer.
    fn answer(&self, response: &ChatResponse) -> Value;

    /// Takes the finish away from a whole answer.
    fn break_off(&self, answer: &mut Value);

    /// Takes the content away from a whole answer, with the place it stands in.
    fn empty(&self, answer: &mut Value);

    /// The beginning of a whole answer, within its text.
    fn opening(&self) -> &'static str;

    /// An error body.
    fn error(&self, trouble: &Trouble<'_>) -> Value;

    /// The status that goes with it.
    fn status(&self, trouble: &Trouble<'_>) -> u16 {
        trouble.status
    }

    /// The error body of a reply whose status says success.
    fn error_in_success(&self, trouble: &Trouble<'_>) -> Value {
        self.error(trouble)
    }

    /// The body for a request that cannot be read, and its status.
    fn refusal(&self, error: &RequestError) -> (u16, Value);

    /// The headers that ask for a wait. Some formats have it in the body.
    fn wait_headers(&self, wait: Duration) -> Vec<(&'static str, String)>;

    /// The headers that say what is left of a quota of requests at `now`. Not every
    /// format says it.
    fn limit_headers(&self, requests: &Allowance, now: SystemTime) -> Vec<(&'static str, String)> {
        let _ = (requests, now);
        Vec::new()
    }

    /// Writes a stream.
    fn writer(&self, answer: &Answer, wanted: Wanted) -> Box<dyn StreamWriter>;

    /// The list of models.
    fn models(&self, names: &[String]) -> Value;

    /// Reads a request to count its tokens.
    fn decode_count(&self, to: &Addressed, body: &[u8]) -> Result<ClientRequest, RequestError> {
        self.decode_request(to, body)
    }

    /// What a count of tokens answers; asked only of formats that have such a call.
    fn count(&self, tokens: u64) -> Value {
        Value::from(tokens)
    }

    /// Reads a whole answer as the product's client does.
    fn decode_answer(&self, reply: &Reply<'_>) -> Result<ChatResponse, Failure>;

    /// Reads a stream as the product's client does.
    fn decoder(&self) -> Box<dyn EventDecoder>;
}

/// Writes the acts of one stream.
pub(crate) trait StreamWriter: Debug + Send {
    /// Adds an act's bytes; `sent` is the number of tokens so far.
    fn write(&mut self, act: &Act, answer: &Answer, sent: u32, out: &mut Vec<u8>);
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::Anthropic, Self::Gemini, Self::Mistral];

    /// Its name, as in a configuration of the product.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Mistral => "mistral",
        }
    }

    /// The path that a client of the product puts before its own.
    pub(crate) const fn version_path(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Anthropic | Self::Mistral => "/v1",
            Self::Gemini => "/v1beta",
        }
    }

    /// The dialect of that name ([`Dialect::as_str`]).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.as_str() == name)
    }

    /// The dialect of `…/chat/completions` where this one is the usual one.
    pub(crate) const fn of_completions(self) -> Self {
        match self {
            Self::OpenAi | Self::Anthropic | Self::Gemini => Self::OpenAi,
            Self::Mistral => Self::Mistral,
        }
    }

    pub(crate) fn format(self) -> &'static dyn Format {
        match self {
            Self::OpenAi => &openai::Format,
            Self::Anthropic => &anthropic::Format,
            Self::Gemini => &gemini::Format,
            Self::Mistral => &mistral::Format,
        }
    }

    /// The id of a provider's answer.
    pub(crate) fn answer_id(self, provider: &str, number: u64) -> String {
        let begin = match self {
            Self::OpenAi => "chatcmpl-",
            Self::Anthropic => "msg_",
            Self::Gemini | Self::Mistral => "",
        };
        format!("{begin}{provider}-{number}")
    }

    /// The id of a tool call of that answer.
    pub(crate) fn call_id(self, provider: &str, number: u64, call: usize) -> String {
        match self {
            Self::OpenAi => format!("call_{provider}_{number}_{call}"),
            Self::Anthropic => format!("toolu_{provider}_{number}_{call}"),
            Self::Gemini => format!("{provider}-{number}-{call}"),
            // Nine letters and digits.
            Self::Mistral => format!("{:05}{:04}", number % 100_000, call % 10_000),
        }
    }

    /// The signature over reasoning, where the format has one.
    pub(crate) const fn reasoning_signature(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => None,
            Self::Anthropic | Self::Gemini | Self::Mistral => Some(SIGNATURE),
        }
    }

    /// The signature over a call, where the format has one.
    pub(crate) fn call_signature(self) -> Option<Extra> {
        match self {
            Self::OpenAi | Self::Anthropic | Self::Mistral => None,
            Self::Gemini => Some(self.extra("thoughtSignature", SIGNATURE)),
        }
    }

    /// The stop text that ended an answer, where the format says it.
    pub(crate) fn stop_text(self, text: &str) -> Option<Extra> {
        match self {
            Self::OpenAi | Self::Gemini | Self::Mistral => None,
            Self::Anthropic => Some(self.extra("stop_sequence", text)),
        }
    }

    fn extra(self, name: &str, value: &str) -> Extra {
        Extra {
            dialect: self.as_str(),
            fields: Map::from_iter([(name.to_owned(), value.into())]),
        }
    }
}

/// A limit and what is left of it, under these names.
fn counts(requests: &Allowance, names: [&'static str; 2]) -> Vec<(&'static str, String)> {
    let said = names.into_iter().zip([requests.limit, requests.remaining]);
    said.filter_map(|(name, count)| Some((name, count?.to_string())))
        .collect()
}

/// Whole seconds, rounded up.
fn retry_after(wait: Duration) -> (&'static str, String) {
    ("retry-after", wait.as_millis().div_ceil(1_000).to_string())
}

/// Puts `value` at `pointer`, where the answer has such a place.
fn put(answer: &mut Value, pointer: &str, value: Value) {
    if let Some(place) = answer.pointer_mut(pointer) {
        *place = value;
    }
}

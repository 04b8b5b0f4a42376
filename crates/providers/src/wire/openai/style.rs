//! How servers of this dialect differ in what they take.

use super::unwanted::Unwanted;
use crate::wire::Server;
use crate::wire::tool_names::NameRule;

/// What a request is written for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Who reads it. None: everything is written as the caller said it, and
    /// nothing is left out that the format can say.
    pub server: Option<Server>,
    /// Whether the model refuses sampling parameters, as reasoning models do.
    pub fixed_sampling: bool,
    /// Whether the address names the model, so that the body does not.
    pub model_in_path: bool,
    /// What the model has refused of that which is not the caller's.
    pub unwanted: Unwanted,
}

impl Options {
    /// For `server`, with nothing else known.
    pub const fn of(server: Server) -> Self {
        Self {
            server: Some(server),
            fixed_sampling: false,
            model_in_path: false,
            unwanted: NOTHING,
        }
    }
}

/// The field that caps the answer.
#[derive(Debug, Clone, Copy)]
pub(in crate::wire) enum Cap {
    /// `max_completion_tokens`: reasoning models refuse the older name.
    New,
    /// `max_tokens`: these servers ignore or refuse the newer name, and an
    /// ignored cap lets the answer run on unbounded.
    Old,
    /// As the caller wrote it; `max_tokens`, which every server has known
    /// longest, where the caller spoke another dialect.
    AsWritten,
}

/// Where earlier reasoning goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::wire) enum History {
    /// Nowhere: unknown fields are refused.
    Nowhere,
    /// Its text into this field.
    Field(&'static str),
    /// Into this field, but only behind the last user message: older models
    /// refuse it, newer ones need it inside of a tool loop.
    Loop(&'static str),
    /// Its text into this field, signatures and opaque blocks into
    /// `reasoning_details`.
    Details(&'static str),
    /// Into `content`, as thinking chunks with their signature.
    Chunks,
}

/// Where the wish for reasoning goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::wire) enum EffortField {
    Nowhere,
    /// `reasoning_effort`, which knows levels only.
    Level,
    /// `reasoning`, an object that knows levels and budgets.
    Object,
    /// As the caller wrote it; both know it.
    AsWritten,
}

/// Where the caller's own user goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::wire) enum UserField {
    Nowhere,
    Named(&'static str),
    /// Into `metadata`, under `user_id`.
    Metadata,
    AsWritten,
}

/// What differs between servers.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a table with a column per difference, most of them yes or no"
)]
pub(in crate::wire) struct Style {
    /// The dialect whose extra fields are written.
    pub(in crate::wire) dialect: &'static str,
    /// Whether everything is written as it was said.
    pub(in crate::wire) faithful: bool,
    /// Whether the role `developer` is known.
    pub(in crate::wire) developer: bool,
    /// Whether messages of all roles take a `name`.
    pub(in crate::wire) names: bool,
    pub(in crate::wire) history: History,
    pub(in crate::wire) cap: Cap,
    pub(in crate::wire) effort: EffortField,
    pub(in crate::wire) user: UserField,
    pub(in crate::wire) stream_options: bool,
    pub(in crate::wire) top_k: bool,
    pub(in crate::wire) penalties: bool,
    /// Whether the model refuses sampling parameters.
    pub(in crate::wire) fixed_sampling: bool,
    /// Highest temperature.
    pub(in crate::wire) max_temperature: Option<f64>,
    pub(in crate::wire) seed: &'static str,
    pub(in crate::wire) tool_choice: bool,
    /// What "at least one tool" is called.
    pub(in crate::wire) required: &'static str,
    pub(in crate::wire) parallel: bool,
    pub(in crate::wire) metadata: bool,
    /// Whether a tool must say its parameters, though it has none.
    pub(in crate::wire) needs_parameters: bool,
    pub(in crate::wire) max_stop: usize,
    /// Whether `refusal` is a field of messages.
    pub(in crate::wire) refusal: bool,
    pub(in crate::wire) images_in_results: bool,
    /// Whether a call's signature goes where Google's layer has it.
    pub(in crate::wire) call_signatures: bool,
    /// Whether an image is an object, or its address alone.
    pub(in crate::wire) image_objects: bool,
    pub(in crate::wire) tool_names: Option<NameRule>,
    /// Longest id of a tool call, characters.
    pub(in crate::wire) max_call_id: usize,
    pub(in crate::wire) model_in_path: bool,
    /// Fields that callers of `OpenAI` use and this server refuses or ignores.
    pub(in crate::wire) unknown: &'static [&'static str],
    /// What the model has refused so far.
    pub(in crate::wire) unwanted: Unwanted,
}

/// Nothing was refused yet.
pub(in crate::wire) const NOTHING: Unwanted = Unwanted {
    stream_options: false,
    new_cap: false,
    old_cap: false,
};
/// The reference of the API: letters, digits, `_` and `-`, at most 64.
pub(in crate::wire) const TOOL_NAME: NameRule = NameRule {
    max_chars: 64,
    also: "",
    letter_first: false,
};
/// `OpenAI` answers 400 to longer ones.
const MAX_CALL_ID: usize = 40;
/// `OpenAI` and those that check as it does take at most four.
const MAX_STOP: usize = 4;
/// What only `OpenAI` (and Azure) has, and what counts in its tokens.
const OPENAI_ONLY: [&str; 12] = [
    "audio",
    "logit_bias",
    "modalities",
    "moderation",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "safety_identifier",
    "service_tier",
    "store",
    "verbosity",
    "web_search_options",
];

impl Style {
    /// Everything as the caller said it.
    pub(in crate::wire) const FAITHFUL: Self = Self {
        dialect: super::DIALECT,
        faithful: true,
        developer: true,
        names: true,
        history: History::Details("reasoning_content"),
        cap: Cap::AsWritten,
        effort: EffortField::AsWritten,
        user: UserField::AsWritten,
        stream_options: true,
        top_k: true,
        penalties: true,
        fixed_sampling: false,
        max_temperature: None,
        seed: "seed",
        tool_choice: true,
        required: "required",
        parallel: true,
        metadata: true,
        needs_parameters: false,
        max_stop: usize::MAX,
        refusal: true,
        images_in_results: true,
        call_signatures: true,
        image_objects: true,
        tool_names: None,
        max_call_id: usize::MAX,
        model_in_path: false,
        unknown: &[],
        unwanted: NOTHING,
    };

    pub(super) fn of(options: Options) -> Self {
        let Some(server) = options.server else {
            return Self::FAITHFUL;
        };
        let usual = Self::of_server(server);
        Self {
            fixed_sampling: options.fixed_sampling,
            model_in_path: options.model_in_path,
            stream_options: usual.stream_options && !options.unwanted.stream_options,
            unwanted: options.unwanted,
            ..usual
        }
    }

    fn of_server(server: Server) -> Self {
        let unknown_server = Self {
            faithful: false,
            developer: false,
            history: History::Field("reasoning_content"),
            user: UserField::Named("user"),
            images_in_results: false,
            tool_names: Some(TOOL_NAME),
            ..Self::FAITHFUL
        };
        let strict = Self {
            cap: Cap::New,
            effort: EffortField::Level,
            top_k: false,
            max_stop: MAX_STOP,
            call_signatures: false,
            ..unknown_server
        };
        match server {
            Server::OpenAi | Server::Azure => Self {
                developer: true,
                history: History::Nowhere,
                user: UserField::Named(if server == Server::OpenAi {
                    "safety_identifier"
                } else {
                    "user"
                }),
                max_call_id: MAX_CALL_ID,
                ..strict
            },
            Server::OpenRouter => Self {
                developer: true,
                history: History::Details("reasoning"),
                cap: Cap::Old,
                effort: EffortField::Object,
                ..unknown_server
            },
            Server::Groq => Self {
                history: History::Field("reasoning"),
                metadata: false,
                refusal: false,
                unknown: &OPENAI_ONLY,
                ..strict
            },
            Server::DeepSeek => Self {
                history: History::Loop("reasoning_content"),
                cap: Cap::Old,
                effort: EffortField::Nowhere,
                user: UserField::Nowhere,
                metadata: false,
                refusal: false,
                max_stop: 16,
                unknown: &OPENAI_ONLY,
                ..strict
            },
            Server::Ollama => Self {
                history: History::Field("reasoning"),
                cap: Cap::Old,
                user: UserField::Nowhere,
                tool_choice: false,
                parallel: false,
                metadata: false,
                refusal: false,
                max_stop: usize::MAX,
                unknown: &OPENAI_ONLY,
                ..strict
            },
            Server::Vllm | Server::LlamaCpp => Self {
                effort: EffortField::Level,
                refusal: false,
                ..unknown_server
            },
            Server::Mistral => Self {
                dialect: super::DIALECT,
                image_objects: true,
                ..crate::wire::mistral::STYLE
            },
            _ => unknown_server,
        }
    }
}

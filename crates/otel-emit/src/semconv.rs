//! Names of the OpenTelemetry semantic conventions for generative AI, pinned to v1.41.1:
//! the last release of `open-telemetry/semantic-conventions` that holds them. They have
//! status *Development*; a move to another release is a change of this file alone.

use evenkeel_core::Finish;
#[cfg(any(feature = "otlp", feature = "prometheus"))]
use opentelemetry::InstrumentationScope;

/// The release that the names are of.
#[cfg(any(feature = "otlp", feature = "prometheus"))]
const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.1";

/// Everything comes from evenkeel, whose version it is.
#[cfg(any(feature = "otlp", feature = "prometheus"))]
pub(crate) fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("evenkeel")
        .with_version(env!("CARGO_PKG_VERSION"))
        .with_schema_url(SCHEMA_URL)
        .build()
}

pub(crate) const OPERATION_NAME: &str = "gen_ai.operation.name";
pub(crate) const PROVIDER_NAME: &str = "gen_ai.provider.name";
pub(crate) const CONVERSATION_ID: &str = "gen_ai.conversation.id";
pub(crate) const OUTPUT_TYPE: &str = "gen_ai.output.type";

pub(crate) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(crate) const REQUEST_STREAM: &str = "gen_ai.request.stream";
pub(crate) const REQUEST_SEED: &str = "gen_ai.request.seed";
pub(crate) const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
pub(crate) const REQUEST_TEMPERATURE: &str = "gen_ai.request.temperature";
pub(crate) const REQUEST_TOP_P: &str = "gen_ai.request.top_p";
pub(crate) const REQUEST_TOP_K: &str = "gen_ai.request.top_k";
pub(crate) const REQUEST_FREQUENCY_PENALTY: &str = "gen_ai.request.frequency_penalty";
pub(crate) const REQUEST_PRESENCE_PENALTY: &str = "gen_ai.request.presence_penalty";
pub(crate) const REQUEST_STOP_SEQUENCES: &str = "gen_ai.request.stop_sequences";

pub(crate) const RESPONSE_ID: &str = "gen_ai.response.id";
pub(crate) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(crate) const RESPONSE_FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(crate) const RESPONSE_TIME_TO_FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";

pub(crate) const USAGE_INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(crate) const USAGE_OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(crate) const USAGE_CACHE_READ: &str = "gen_ai.usage.cache_read.input_tokens";
pub(crate) const USAGE_CACHE_CREATION: &str = "gen_ai.usage.cache_creation.input_tokens";
pub(crate) const USAGE_REASONING: &str = "gen_ai.usage.reasoning.output_tokens";

pub(crate) const INPUT_MESSAGES: &str = "gen_ai.input.messages";
pub(crate) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
pub(crate) const SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";
pub(crate) const TOOL_DEFINITIONS: &str = "gen_ai.tool.definitions";
/// Which tokens a count is of.
pub(crate) const TOKEN_TYPE: &str = "gen_ai.token.type";

// Instruments.
pub(crate) const OPERATION_DURATION: &str = "gen_ai.client.operation.duration";
pub(crate) const TIME_TO_FIRST_CHUNK: &str = "gen_ai.client.operation.time_to_first_chunk";
pub(crate) const TIME_PER_OUTPUT_CHUNK: &str = "gen_ai.client.operation.time_per_output_chunk";
pub(crate) const TOKEN_USAGE: &str = "gen_ai.client.token.usage";

/// The event that carries what was said, where spans are not to.
pub(crate) const OPERATION_DETAILS: &str = "gen_ai.client.inference.operation.details";

// Stable, of the general conventions.
pub(crate) const ERROR_TYPE: &str = "error.type";
pub(crate) const SERVER_ADDRESS: &str = "server.address";
pub(crate) const SERVER_PORT: &str = "server.port";
pub(crate) const HTTP_REQUEST_METHOD: &str = "http.request.method";
/// The methods that the conventions name: any other is `_OTHER`, and `HTTP` in a span's name.
pub(crate) const METHODS: [&str; 10] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY",
];
pub(crate) const OTHER_METHOD: &str = "_OTHER";
pub(crate) const ANY_METHOD: &str = "HTTP";
pub(crate) const HTTP_ROUTE: &str = "http.route";
pub(crate) const URL_PATH: &str = "url.path";
pub(crate) const URL_SCHEME: &str = "url.scheme";
pub(crate) const HTTP_RESPONSE_STATUS_CODE: &str = "http.response.status_code";

/// `gen_ai.operation.name` of a chat.
pub(crate) const CHAT: &str = "chat";
/// `gen_ai.output.type` where a format was asked for.
pub(crate) const JSON: &str = "json";

/// Of `gen_ai.response.finish_reasons`: the words that most providers have for it, which are
/// the convention's examples.
pub(crate) const fn finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::StopSequence => "stop",
        Finish::ToolUse => "tool_calls",
        finish => finish.as_str(),
    }
}

/// The same in a message of `gen_ai.output.messages`, whose schema has words of its own.
pub(crate) const fn message_finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::ToolUse => "tool_call",
        finish => finish_reason(finish),
    }
}

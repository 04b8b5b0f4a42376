//! One chat request and its answer, in no provider's dialect.

use serde_json::{Map, Value};

/// Fields of a wire format that have no neutral place. They travel with the
/// request or answer and are written back only to a provider of the same dialect.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Extra {
    /// The wire format they were read from (`openai`, `anthropic`, …).
    pub dialect: &'static str,
    /// The fields, in the order they were read.
    pub fields: Map<String, Value>,
}

/// A chat request in neutral form.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChatRequest {
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// Client-run tools the model may call.
    pub tools: Vec<Tool>,
    /// Which tool the model must, may or must not call.
    pub tool_choice: Option<ToolChoice>,
    /// Whether several calls in one answer are allowed.
    pub parallel_tool_calls: Option<bool>,
    /// The shape of the answer.
    pub output: Output,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// Cap on generated tokens, reasoning included.
    pub max_output_tokens: Option<u64>,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    /// Free key-value data of the caller.
    pub metadata: Map<String, Value>,
    /// What has no neutral place.
    pub extra: Extra,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Instructions of the application.
    System,
    /// Instructions of the application, as newer OpenAI models name them.
    Developer,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool's result.
    Tool,
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub parts: Vec<Part>,
    /// Name of the speaker, where given.
    pub name: Option<String>,
    /// Wire fields without a neutral place.
    pub extra: Extra,
}

impl Message {
    /// A message of one text part.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            parts: vec![Part::Text(text.into())],
            name: None,
            extra: Extra::default(),
        }
    }

    /// All text parts, one after the other.
    pub fn plain_text(&self) -> String {
        plain_text(&self.parts)
    }
}

fn plain_text(parts: &[Part]) -> String {
    parts
        .iter()
        .filter_map(|p| match p {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

/// A piece of a message or an answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Part {
    /// Plain text.
    Text(String),
    /// An image.
    Image(Image),
    /// The model asks for a tool to be run.
    ToolCall(ToolCall),
    /// What a tool answered.
    ToolResult(ToolResult),
    /// The model's reasoning; not an answer.
    Reasoning(ReasoningPart),
    /// The model's own words of refusal.
    Refusal(String),
    /// A part of a wire format that has no neutral form.
    Other(Extra),
}

/// An image, by address or inline as a `data:` URL.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// `https:` or `data:` URL.
    pub url: String,
    /// Detail hint of the caller.
    pub detail: Option<String>,
}

/// A tool call. `arguments` is kept as the text the model wrote: it may be
/// invalid JSON, and it is never re-serialised.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolCall {
    /// The call's id, as the model gave it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// JSON text of the arguments; empty means `{}`.
    pub arguments: String,
}

/// A tool's result.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// The id of the call it answers.
    pub call_id: String,
    /// Its content.
    pub parts: Vec<Part>,
    /// Whether the tool failed, where the wire format can say so.
    pub is_error: bool,
}

/// Reasoning text and what a provider needs to get it back unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReasoningPart {
    /// The text, possibly empty.
    pub text: String,
    /// The provider's signature over it.
    pub signature: Option<String>,
}

/// A client-run tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// JSON Schema of its arguments; none means no arguments.
    pub parameters: Option<Value>,
    /// Whether arguments must obey the schema exactly.
    pub strict: Option<bool>,
    /// Wire fields without a neutral place.
    pub extra: Extra,
}

/// Which tool is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// No tool.
    None,
    /// At least one tool.
    Required,
    /// This tool.
    Named(String),
}

/// The shape of the answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Output {
    /// Free text.
    #[default]
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that obeys a schema.
    JsonSchema {
        /// The schema's name.
        name: String,
        /// The schema.
        schema: Value,
        /// Whether the provider must enforce it.
        strict: bool,
        /// What it is for.
        description: Option<String>,
    },
}

/// Sampling parameters; none means the provider's default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sampling {
    /// Temperature.
    pub temperature: Option<f64>,
    /// Nucleus share, 0..1.
    pub top_p: Option<f64>,
    /// Presence penalty.
    pub presence_penalty: Option<f64>,
    /// Frequency penalty.
    pub frequency_penalty: Option<f64>,
    /// Seed, best effort at every provider.
    pub seed: Option<i64>,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// The model was done.
    Stop,
    /// A stop text was met.
    StopSequence,
    /// The output cap was reached.
    Length,
    /// The model waits for tool results.
    ToolUse,
    /// The provider cut the answer.
    ContentFilter,
    /// The model refused.
    Refusal,
    /// The provider paused a long turn.
    Pause,
    /// The context window was full.
    ContextWindow,
    /// A value this version does not know; the answer is kept.
    Unknown,
}

impl Finish {
    /// The name used outside Rust.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::StopSequence => "stop_sequence",
            Self::Length => "length",
            Self::ToolUse => "tool_use",
            Self::ContentFilter => "content_filter",
            Self::Refusal => "refusal",
            Self::Pause => "pause",
            Self::ContextWindow => "context_window",
            Self::Unknown => "unknown",
        }
    }
}

/// Tokens of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// All input tokens, cached ones included.
    pub input: u64,
    /// All generated tokens, reasoning included.
    pub output: u64,
    /// Part of `input` read from the provider's cache.
    pub cached: Option<u64>,
    /// Part of `input` written to the provider's cache.
    pub cache_write: Option<u64>,
    /// Part of `output` spent on reasoning.
    pub reasoning: Option<u64>,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatResponse {
    /// The provider's id of the answer, possibly empty.
    pub id: String,
    /// The model that the answer says it comes from.
    pub model: String,
    /// Unix time in seconds the answer states, 0 where it states none.
    pub created: u64,
    /// Its content.
    pub parts: Vec<Part>,
    /// Why it ended.
    pub finish: Finish,
    /// Tokens, where reported.
    pub usage: Option<Usage>,
    /// Wire fields without a neutral place.
    pub extra: Extra,
}

impl ChatResponse {
    /// All text parts, one after the other.
    pub fn plain_text(&self) -> String {
        plain_text(&self.parts)
    }

    /// The tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|p| match p {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Checks that a complete answer is of use: it says something, calls
    /// something or refuses, and the arguments of its calls parse.
    ///
    /// # Errors
    /// [`Class::ContentFilter`] where the provider cut it, [`Class::Malformed`]
    /// for tool arguments that are no JSON, [`Class::Semantic`] for an empty answer.
    ///
    /// [`Class::ContentFilter`]: crate::Class::ContentFilter
    /// [`Class::Malformed`]: crate::Class::Malformed
    /// [`Class::Semantic`]: crate::Class::Semantic
    pub fn verify(&self) -> Result<(), crate::Failure> {
        use crate::{Class, Failure};
        if self.finish == Finish::ContentFilter {
            return Err(Failure::new(
                Class::ContentFilter,
                "the provider's content filter ended the answer",
            ));
        }
        for call in self.tool_calls() {
            let text = call.arguments.trim();
            if !text.is_empty() && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
                return Err(Failure::new(
                    Class::Malformed,
                    format!("arguments of the call to tool `{}` are not JSON", call.name),
                ));
            }
        }
        let says_something = self.parts.iter().any(|p| match p {
            Part::Text(text) | Part::Refusal(text) => !text.trim().is_empty(),
            Part::ToolCall(_) | Part::Image(_) | Part::Other(_) => true,
            Part::ToolResult(_) | Part::Reasoning(_) => false,
        });
        if !says_something && self.finish != Finish::Refusal && self.finish != Finish::Pause {
            return Err(Failure::new(
                Class::Semantic,
                format!("the answer is empty (finish {})", self.finish.as_str()),
            ));
        }
        Ok(())
    }
}

/// Characters of English text a token stands for, on average; the usual rule
/// of thumb of providers' own documentation. Used only where no count exists.
const CHARS_PER_TOKEN: usize = 4;
/// Tokens a chat turn costs beside its text (role and separators).
const TOKENS_PER_MESSAGE: usize = 4;
/// Tokens an image is taken for: the middle of what vision models charge.
const TOKENS_PER_IMAGE: usize = 800;

impl ChatRequest {
    /// A request of one user message.
    pub fn user(text: impl Into<String>) -> Self {
        Self {
            messages: vec![Message::text(Role::User, text)],
            ..Self::default()
        }
    }

    /// A rough count of input tokens: four characters a token. It bounds
    /// hedging cost and picks a rung with room; it is no tokenizer.
    pub fn estimated_input_tokens(&self) -> u64 {
        let parts = |parts: &[Part]| parts.iter().map(part_tokens).sum::<usize>();
        let messages: usize = self
            .messages
            .iter()
            .map(|m| TOKENS_PER_MESSAGE + parts(&m.parts))
            .sum();
        let tools: usize = self
            .tools
            .iter()
            .map(|t| {
                let schema = t.parameters.as_ref().map_or(0, |p| p.to_string().len());
                (t.name.len() + t.description.as_ref().map_or(0, String::len) + schema)
                    .div_ceil(CHARS_PER_TOKEN)
            })
            .sum();
        let schema = match &self.output {
            Output::JsonSchema { schema, .. } => schema.to_string().len().div_ceil(CHARS_PER_TOKEN),
            Output::Text | Output::JsonObject => 0,
        };
        (messages + tools + schema) as u64
    }

    /// What tells one conversation from another where the caller names no
    /// session: the system prompt and the first user message.
    pub fn conversation_key(&self) -> String {
        let first = |want: &[Role]| {
            self.messages
                .iter()
                .find(|m| want.contains(&m.role))
                .map(Message::plain_text)
                .unwrap_or_default()
        };
        format!(
            "{}\u{0}{}",
            first(&[Role::System, Role::Developer]),
            first(&[Role::User])
        )
    }
}

fn part_tokens(part: &Part) -> usize {
    match part {
        Part::Text(text) | Part::Refusal(text) => text.len().div_ceil(CHARS_PER_TOKEN),
        Part::Reasoning(r) => r.text.len().div_ceil(CHARS_PER_TOKEN),
        Part::ToolCall(c) => (c.name.len() + c.arguments.len()).div_ceil(CHARS_PER_TOKEN),
        Part::ToolResult(r) => r.parts.iter().map(part_tokens).sum(),
        Part::Image(_) => TOKENS_PER_IMAGE,
        Part::Other(extra) => Value::Object(extra.fields.clone())
            .to_string()
            .len()
            .div_ceil(CHARS_PER_TOKEN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    fn answer(parts: Vec<Part>, finish: Finish) -> ChatResponse {
        ChatResponse {
            id: String::new(),
            model: "m".into(),
            created: 0,
            parts,
            finish,
            usage: None,
            extra: Extra::default(),
        }
    }

    #[test]
    fn an_empty_answer_is_a_semantic_failure() {
        for parts in [
            vec![],
            vec![Part::Text("  \n".into())],
            vec![Part::Reasoning(ReasoningPart::default())],
        ] {
            let failure = answer(parts, Finish::Stop).verify().unwrap_err();
            assert_eq!(failure.class, Class::Semantic);
        }
        assert!(
            answer(vec![Part::Text("a".into())], Finish::Stop)
                .verify()
                .is_ok()
        );
    }

    #[test]
    fn tool_arguments_that_do_not_parse_are_malformed_and_empty_ones_are_fine() {
        let call = |arguments: &str| {
            answer(
                vec![Part::ToolCall(ToolCall {
                    id: "c".into(),
                    name: "t".into(),
                    arguments: arguments.into(),
                })],
                Finish::ToolUse,
            )
        };
        assert_eq!(
            call("{\"a\":").verify().unwrap_err().class,
            Class::Malformed
        );
        assert!(call("").verify().is_ok());
        assert!(call("{\"a\":1}").verify().is_ok());
    }

    #[test]
    fn the_token_estimate_grows_with_the_text() {
        let short = ChatRequest::user("hello").estimated_input_tokens();
        let long = ChatRequest::user("hello ".repeat(1_000)).estimated_input_tokens();
        assert!(short < 10, "{short}");
        assert!((1_400..1_600).contains(&long), "{long}");
    }
}

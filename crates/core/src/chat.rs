//! One chat request, in no provider's dialect.

use crate::{Extra, Part, part::plain_text};
use serde_json::{Map, Value};

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
    /// How much the model may reason before it answers.
    pub reasoning: Option<Reasoning>,
    /// Who the caller's own user is, in the caller's words, for the provider's abuse checks.
    pub user: Option<String>,
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
    /// How many of the likeliest tokens are drawn from.
    pub top_k: Option<u64>,
    /// Presence penalty.
    pub presence_penalty: Option<f64>,
    /// Frequency penalty.
    pub frequency_penalty: Option<f64>,
    /// Seed, best effort at every provider.
    pub seed: Option<i64>,
}

/// How much a model may reason; what is none is left to the provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reasoning {
    /// A level, where the caller named one.
    pub effort: Option<Effort>,
    /// A cap in tokens, where the caller named one; 0 means no reasoning.
    pub budget_tokens: Option<u64>,
}

/// Levels of reasoning, least first. Models know some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effort {
    /// No reasoning.
    None,
    /// As little as can be.
    Minimal,
    /// Little.
    Low,
    /// The middle.
    Medium,
    /// Much.
    High,
    /// More than much.
    XHigh,
    /// As much as can be.
    Max,
}

impl Effort {
    /// Every level, least first.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::Minimal,
        Self::Low,
        Self::Medium,
        Self::High,
        Self::XHigh,
        Self::Max,
    ];

    /// The name used on the wire (`none`, `minimal`, `low`, …).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// The level of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }
}

impl ChatRequest {
    /// A request of one user message.
    pub fn user(text: impl Into<String>) -> Self {
        Self {
            messages: vec![Message::text(Role::User, text)],
            ..Self::default()
        }
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

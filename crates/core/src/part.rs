//! What messages and answers are made of.

use crate::{Class, Failure};
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
    /// Wire fields without a neutral place, such as a provider's signature
    /// over the call.
    pub extra: Extra,
}

impl ToolCall {
    /// Checks that the arguments are JSON; empty ones mean `{}`.
    ///
    /// # Errors
    /// [`Class::Malformed`](crate::Class::Malformed) where they do not parse.
    pub fn verify(&self) -> Result<(), Failure> {
        let text = self.arguments.trim();
        if text.is_empty() || serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
            return Ok(());
        }
        Err(Failure::new(
            Class::Malformed,
            format!("arguments of the call to tool `{}` are not JSON", self.name),
        ))
    }
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
    /// The wire format it is bound to, signed or not; empty where it is bound
    /// to none. It is sent back to that dialect only.
    pub dialect: &'static str,
}

/// All text parts, one after the other.
pub(crate) fn plain_text(parts: &[Part]) -> String {
    parts
        .iter()
        .filter_map(|p| match p {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

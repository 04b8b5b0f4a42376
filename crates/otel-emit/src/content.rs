//! What was asked and answered, where somebody has decided that it is to be kept: as the
//! four attributes of the conventions, each a JSON text in their schema of messages.

mod parts;

use self::parts::{message, part};
use crate::semconv;
use crate::value::cut;
use evenkeel_core::{ChatRequest, ChatResponse, Message, Role, Tool, Value};
use opentelemetry::KeyValue;
use serde_json::json;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Longest part of a message that is kept, bytes.
const LONGEST_PART: usize = 4 * 1024;
/// Longest attribute, bytes: beyond it the oldest messages, or the last tools, are left out.
const LONGEST_ATTRIBUTE: usize = 128 * 1024;

/// Changes each text before it is kept: takes out names, numbers, whatever must not leave.
pub trait Redaction: Send + Sync {
    /// The text as it may be kept.
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str>;
}

impl<F> Redaction for F
where
    F: Fn(&str) -> String + Send + Sync,
{
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        Cow::Owned(self(text))
    }
}

/// Where what was said is kept (`capture_content`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CaptureContent {
    /// Nowhere.
    #[default]
    None,
    /// On the span of the attempt.
    Span,
    /// In an event of its own, a log record.
    Event,
}

impl CaptureContent {
    /// `none`, `span` or `event`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Span => "span",
            Self::Event => "event",
        }
    }
}

/// That what was said is to be kept, where, and what of it.
#[derive(Clone, Default)]
pub struct Capture {
    /// Where.
    pub content: CaptureContent,
    /// What is made of each text first; none: it is kept as it is.
    pub redaction: Option<Arc<dyn Redaction>>,
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture")
            .field("content", &self.content)
            .field("redacts", &self.redaction.is_some())
            .finish()
    }
}

/// How content is kept.
#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) on_span: bool,
    kept: Kept,
}

/// What may be kept of a text.
pub(crate) struct Kept(Option<Arc<dyn Redaction>>);

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kept").field(&self.0.is_some()).finish()
    }
}

impl Kept {
    /// The text, redacted and cut.
    pub(crate) fn text(&self, text: &str) -> String {
        match &self.0 {
            None => cut(text, LONGEST_PART).to_owned(),
            Some(redaction) => cut(&redaction.redact(text), LONGEST_PART).to_owned(),
        }
    }
}

impl Captured {
    /// None where nothing is kept.
    pub(crate) fn of(capture: Capture) -> Option<Self> {
        let on_span = match capture.content {
            CaptureContent::None => return None,
            CaptureContent::Span => true,
            CaptureContent::Event => false,
        };
        Some(Self {
            on_span,
            kept: Kept(capture.redaction),
        })
    }

    /// A request as it was sent.
    pub(crate) fn request(&self, request: &ChatRequest) -> Vec<KeyValue> {
        let is_own = |m: &&Message| matches!(m.role, Role::System | Role::Developer);
        let own = request.messages.iter().filter(is_own);
        let system: Vec<Value> = own
            .flat_map(|m| &m.parts)
            .map(|p| part(&self.kept, p))
            .collect();
        let others = request.messages.iter().filter(|m| !is_own(m)).rev();
        let mut messages = within(others.map(|m| message(&self.kept, m)));
        messages.reverse();
        let tools = within(request.tools.iter().map(|tool| self.tool(tool)));
        let mut said = vec![told(semconv::INPUT_MESSAGES, messages)];
        for (key, values) in [
            (semconv::SYSTEM_INSTRUCTIONS, within(system.into_iter())),
            (semconv::TOOL_DEFINITIONS, tools),
        ] {
            if !values.is_empty() {
                said.push(told(key, values));
            }
        }
        said
    }

    /// A whole answer.
    pub(crate) fn answer(&self, answer: &ChatResponse) -> Vec<KeyValue> {
        let parts: Vec<Value> = answer.parts.iter().map(|p| part(&self.kept, p)).collect();
        let message = json!({
            "role": "assistant",
            "parts": within(parts.into_iter()),
            "finish_reason": semconv::message_finish_reason(answer.finish),
        });
        vec![told(semconv::OUTPUT_MESSAGES, vec![message])]
    }

    fn tool(&self, tool: &Tool) -> Value {
        let mut told = json!({ "type": "function", "name": self.kept.text(&tool.name) });
        if let Some(description) = &tool.description {
            told["description"] = self.kept.text(description).into();
        }
        if let Some(parameters) = &tool.parameters {
            let text = parameters.to_string();
            told["parameters"] = match &self.kept.0 {
                None if text.len() <= LONGEST_PART => parameters.clone(),
                // No longer the schema, but what there may be of it.
                _ => self.kept.text(&text).into(),
            };
        }
        told
    }
}

/// The first values that fit into an attribute together.
fn within(values: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut room = LONGEST_ATTRIBUTE;
    values
        .map_while(|value| {
            room = room.checked_sub(value.to_string().len() + 1)?;
            Some(value)
        })
        .collect()
}

fn told(key: &'static str, values: Vec<Value>) -> KeyValue {
    KeyValue::new(key, Value::Array(values).to_string())
}

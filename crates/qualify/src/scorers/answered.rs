//! An answer as scorers look at it.

use evenkeel_core::{ChatResponse, Finish, Part, Value};
use std::sync::OnceLock;

/// An answer, its text put together and its JSON parsed once.
#[derive(Debug)]
pub(crate) struct Answered<'a> {
    pub(crate) response: &'a ChatResponse,
    text: String,
    json: OnceLock<Option<Value>>,
}

impl<'a> Answered<'a> {
    pub(crate) fn new(response: &'a ChatResponse) -> Self {
        let mut text = response.plain_text();
        if text.is_empty() {
            // What a model says when it refuses is what the caller reads.
            text = refusals(response).collect();
        }
        Self {
            response,
            text,
            json: OnceLock::new(),
        }
    }

    /// Its text; the words of its refusal where it has no other.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Its text as one JSON value; none where it is not that and nothing else.
    pub(crate) fn json(&self) -> Option<&Value> {
        self.json
            .get_or_init(|| serde_json::from_str(&self.text).ok())
            .as_ref()
    }

    /// Whether the model declines, by what the provider says of the answer or by
    /// its first sentence.
    pub(crate) fn declines(&self) -> bool {
        let response = self.response;
        if response.tool_calls().next().is_some() {
            return false;
        }
        matches!(response.finish, Finish::Refusal | Finish::ContentFilter)
            || refusals(response).next().is_some()
            || evenkeel_validators::is_refusal(&self.text)
    }
}

fn refusals(response: &ChatResponse) -> impl Iterator<Item = &str> {
    response.parts.iter().filter_map(|part| match part {
        Part::Refusal(text) => Some(text.as_str()),
        _ => None,
    })
}

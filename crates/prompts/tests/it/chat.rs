//! Conversations and counters for the tests of truncation.

use evenkeel_core::{ChatRequest, Message, Part, Role, ToolCall, ToolResult};
use evenkeel_prompts::TokenCounter;

pub(crate) fn say(role: Role, text: &str) -> Message {
    Message::text(role, text)
}

/// A message of the model that calls a tool once for each id.
pub(crate) fn calls(ids: &[&str], arguments: &str) -> Message {
    let call = |id: &&str| {
        Part::ToolCall(ToolCall {
            id: (*id).to_owned(),
            name: "f".to_owned(),
            arguments: arguments.to_owned(),
            ..ToolCall::default()
        })
    };
    Message {
        parts: ids.iter().map(call).collect(),
        ..Message::text(Role::Assistant, "")
    }
}

pub(crate) fn result(id: &str, text: &str) -> Part {
    Part::ToolResult(ToolResult {
        call_id: id.to_owned(),
        parts: vec![Part::Text(text.to_owned())],
        is_error: false,
    })
}

pub(crate) fn tool(id: &str, text: &str) -> Message {
    Message {
        parts: vec![result(id, text)],
        ..Message::text(Role::Tool, "")
    }
}

pub(crate) fn conversation(messages: Vec<Message>) -> ChatRequest {
    ChatRequest {
        messages,
        ..ChatRequest::default()
    }
}

/// Every message is one token.
pub(crate) struct ByMessage;

impl TokenCounter for ByMessage {
    fn message(&self, _: &Message) -> u64 {
        1
    }

    fn fixed(&self, _: &ChatRequest) -> u64 {
        0
    }
}

/// All characters that are sent, `per_token` of them a token, and `separator` beside
/// each message; tool schemas too.
pub(crate) struct ByCharacter {
    pub(crate) per_token: u64,
    pub(crate) separator: u64,
}

impl ByCharacter {
    fn tokens(&self, characters: usize) -> u64 {
        (characters as u64).div_ceil(self.per_token)
    }
}

impl TokenCounter for ByCharacter {
    fn message(&self, message: &Message) -> u64 {
        let characters = message.parts.iter().map(characters).sum();
        self.tokens(characters) + self.separator
    }

    fn fixed(&self, request: &ChatRequest) -> u64 {
        let tools = request.tools.iter().map(|tool| {
            let schema = tool.parameters.as_ref().map_or(0, |p| p.to_string().len());
            tool.name.len() + tool.description.as_ref().map_or(0, String::len) + schema
        });
        self.tokens(tools.sum())
    }
}

fn characters(part: &Part) -> usize {
    match part {
        Part::Text(text) => text.chars().count(),
        Part::ToolCall(call) => call.name.len() + call.arguments.chars().count(),
        Part::ToolResult(result) => result.parts.iter().map(characters).sum(),
        Part::Image(_) => 500,
        _ => 0,
    }
}

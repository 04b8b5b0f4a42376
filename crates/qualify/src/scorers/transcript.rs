//! A conversation as text, for a judge to read.

use evenkeel_core::{ChatRequest, ChatResponse, Message, Part, Role};
use std::fmt::Write as _;

/// The messages of a request, each after who speaks.
pub(super) fn of_request(request: &ChatRequest) -> String {
    let mut text = String::new();
    for message in &request.messages {
        let Message { role, parts, .. } = message;
        let _ = writeln!(text, "{}: {}", speaker(*role), of_parts(parts));
    }
    text
}

/// What an answer says and calls.
pub(super) fn of_answer(answer: &ChatResponse) -> String {
    of_parts(&answer.parts)
}

fn speaker(role: Role) -> &'static str {
    match role {
        Role::System | Role::Developer => "instructions",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn of_parts(parts: &[Part]) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Text(said) | Part::Refusal(said) => text.push_str(said),
            Part::ToolCall(call) => {
                let _ = write!(text, "[calls {}({})]", call.name, call.arguments);
            }
            Part::ToolResult(result) => text.push_str(&of_parts(&result.parts)),
            Part::Image(_) => text.push_str("[image]"),
            // Reasoning is not part of an answer, and the rest has no words.
            _ => {}
        }
    }
    text
}

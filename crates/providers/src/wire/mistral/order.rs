//! The order of messages that Mistral accepts.
//!
//! Behind a tool result only another one or the assistant may speak, and the
//! system only before the first answer or behind a user message (error 3230,
//! "Unexpected role 'user' after role 'tool'"). Nothing is invented: what
//! stands elsewhere is moved, and that is told.

use crate::wire::adapted::Adapted;
use evenkeel_core::{Extra, Message, Part, Role};

/// `messages` in an order that is accepted.
pub(super) fn arranged(messages: &[Message], adapted: &mut Adapted) -> Vec<Message> {
    let mut out: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages.iter().flat_map(split) {
        let before = out.last().map(|message| message.role);
        match (message.role, before) {
            (Role::System | Role::Developer, Some(Role::Assistant | Role::Tool)) => {
                adapted.note("a system message in mid-conversation", "moved to the start");
                let start = out
                    .iter()
                    .position(|m| !matches!(m.role, Role::System | Role::Developer))
                    .unwrap_or(out.len());
                out.insert(start, message);
            }
            (Role::User, Some(Role::Tool)) => {
                adapted.note("a user message behind a tool result", "moved into it");
                append(&mut out, message);
            }
            _ => out.push(message),
        }
    }
    out
}

/// Each tool result as a message of its own, before what stands beside it.
fn split(message: &Message) -> Vec<Message> {
    let is_result = |part: &&Part| matches!(part, Part::ToolResult(_));
    let results = message.parts.iter().filter(is_result).count();
    if results == 0 || message.parts.len() == 1 {
        return vec![message.clone()];
    }
    let alone = |role, parts: Vec<Part>| Message {
        role,
        parts,
        name: None,
        extra: Extra::default(),
    };
    let (results, others): (Vec<Part>, Vec<Part>) = message
        .parts
        .iter()
        .cloned()
        .partition(|part| is_result(&part));
    let mut out: Vec<Message> = results
        .into_iter()
        .map(|result| alone(Role::Tool, vec![result]))
        .collect();
    if !others.is_empty() {
        out.push(alone(Role::User, others));
    }
    out
}

/// Puts a user's words behind those of the last tool result.
fn append(out: &mut [Message], message: Message) {
    let result = out.last_mut().and_then(|m| m.parts.last_mut());
    if let Some(Part::ToolResult(result)) = result {
        result.parts.extend(message.parts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::ToolResult;

    fn result(text: &str) -> Message {
        let mut message = Message::text(Role::Tool, "");
        message.parts = vec![Part::ToolResult(ToolResult {
            call_id: "c".into(),
            parts: vec![Part::Text(text.into())],
            is_error: false,
        })];
        message
    }

    /// Trap 3.
    #[test]
    fn what_may_not_stand_behind_a_result_is_moved_and_told() {
        let messages = [
            Message::text(Role::System, "a"),
            Message::text(Role::User, "b"),
            Message::text(Role::Assistant, "c"),
            Message::text(Role::System, "d"),
            result("e"),
            Message::text(Role::User, "f"),
            Message::text(Role::Assistant, "g"),
        ];
        let mut adapted = Adapted::default();
        let out = arranged(&messages, &mut adapted);
        let roles: Vec<Role> = out.iter().map(|m| m.role).collect();
        assert_eq!(
            roles,
            [
                Role::System,
                Role::System,
                Role::User,
                Role::Assistant,
                Role::Tool,
                Role::Assistant
            ]
        );
        assert_eq!(out[1].plain_text(), "d");
        let Part::ToolResult(result) = &out[4].parts[0] else {
            panic!("a result")
        };
        assert_eq!(result.parts.len(), 2);
        assert_eq!(adapted.into_lines().len(), 2);
    }
}

//! Messages that stand or fall together.

use std::collections::HashMap;
use std::ops::Range;

use evenkeel_core::{Message, Part, Role};

/// Consecutive messages that are never separated: a message with tool calls, all
/// results of these calls, and whatever stands between; else one message alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// Where its messages are.
    pub(crate) range: Range<usize>,
    /// Whether the user says something in it: a turn begins.
    pub(crate) is_turn: bool,
    /// Whether it holds tool results.
    pub(crate) has_results: bool,
}

/// The groups of a history, in order, without a gap.
pub(crate) fn groups(messages: &[Message]) -> Vec<Group> {
    let reach = reach(messages);
    let mut groups = Vec::new();
    let mut start = 0;
    while start < messages.len() {
        let mut last = start;
        let mut at = start;
        while at <= last {
            last = last.max(reach[at]);
            at += 1;
        }
        let range = start..last + 1;
        let inside = &messages[range.clone()];
        groups.push(Group {
            is_turn: inside.iter().any(speaks),
            has_results: inside.iter().any(has_results),
            range,
        });
        start = last + 1;
    }
    groups
}

/// For each message, the last one that must not be separated from it.
fn reach(messages: &[Message]) -> Vec<usize> {
    let mut reach: Vec<usize> = (0..messages.len()).collect();
    // An id that is used again belongs to the later call.
    let mut calls: HashMap<&str, usize> = HashMap::new();
    for (at, message) in messages.iter().enumerate() {
        for part in &message.parts {
            match part {
                Part::ToolCall(call) => {
                    calls.insert(&call.id, at);
                }
                Part::ToolResult(result) => {
                    // A result without a call goes with what stands before it.
                    let call = calls.get(result.call_id.as_str()).copied();
                    let from = call.unwrap_or(at.saturating_sub(1));
                    reach[from] = reach[from].max(at);
                }
                _ => {}
            }
        }
    }
    reach
}

/// Whether a user says something in it; some formats put tool results into user messages.
fn speaks(message: &Message) -> bool {
    let is_result = |part: &Part| matches!(part, Part::ToolResult(_));
    message.role == Role::User && !(has_results(message) && message.parts.iter().all(is_result))
}

fn has_results(message: &Message) -> bool {
    let mut parts = message.parts.iter();
    message.role == Role::Tool || parts.any(|part| matches!(part, Part::ToolResult(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{ToolCall, ToolResult};

    fn message(role: Role, parts: Vec<Part>) -> Message {
        Message {
            parts,
            ..Message::text(role, "")
        }
    }

    fn calls(ids: &[&str]) -> Message {
        let call = |id: &&str| {
            Part::ToolCall(ToolCall {
                id: (*id).to_owned(),
                ..ToolCall::default()
            })
        };
        message(Role::Assistant, ids.iter().map(call).collect())
    }

    fn result(id: &str) -> Part {
        Part::ToolResult(ToolResult {
            call_id: id.to_owned(),
            parts: Vec::new(),
            is_error: false,
        })
    }

    fn tool(id: &str) -> Message {
        message(Role::Tool, vec![result(id)])
    }

    fn user(text: &str) -> Message {
        Message::text(Role::User, text)
    }

    fn ranges(messages: &[Message]) -> Vec<Range<usize>> {
        groups(messages).into_iter().map(|g| g.range).collect()
    }

    #[test]
    fn parallel_calls_go_with_all_their_results() {
        let history = [
            user("q"),
            calls(&["a", "b"]),
            tool("b"),
            tool("a"),
            user("r"),
        ];
        assert_eq!(ranges(&history), [0..1, 1..4, 4..5]);
    }

    #[test]
    fn a_late_result_holds_what_stands_between() {
        let history = [
            calls(&["a"]),
            user("wait"),
            calls(&["b"]),
            tool("a"),
            tool("b"),
        ];
        let groups = groups(&history);
        assert_eq!(groups.len(), 1);
        assert!(groups[0].is_turn && groups[0].has_results);
    }

    #[test]
    fn an_id_used_again_belongs_to_the_later_call() {
        let history = [calls(&["a"]), tool("a"), calls(&["a"]), tool("a")];
        assert_eq!(ranges(&history), [0..2, 2..4]);
    }

    #[test]
    fn a_result_without_a_call_goes_with_what_stands_before_it() {
        assert_eq!(ranges(&[tool("x"), user("q")]), [0..1, 1..2]);
        assert_eq!(ranges(&[user("q"), tool("x"), tool("y")]).len(), 1);
    }

    #[test]
    fn results_in_a_user_message_begin_no_turn() {
        let only = message(Role::User, vec![result("a")]);
        let both = message(Role::User, vec![result("a"), Part::Text("and".to_owned())]);
        let turns = |last: Message| groups(&[calls(&["a"]), last])[0].is_turn;
        assert!(!turns(only));
        assert!(turns(both));
        assert!(groups(&[message(Role::User, Vec::new())])[0].is_turn);
    }
}

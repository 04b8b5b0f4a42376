//! Ids of calls, each once in a conversation.

use evenkeel_core::{Message, Part};
use std::collections::HashSet;

/// The calls of a conversation so far.
///
/// Some servers number the calls of each answer anew, or give no ids at all, so that those of
/// every answer would be the same: the caller could not tell its results apart.
#[derive(Debug, Default)]
pub(crate) struct Called(HashSet<String>);

impl Called {
    pub(crate) fn before(messages: &[Message]) -> Self {
        let parts = messages.iter().flat_map(|message| &message.parts);
        let ids = parts.filter_map(|part| match part {
            Part::ToolCall(call) => Some(call.id.clone()),
            _ => None,
        });
        Self(ids.collect())
    }

    /// Adds the next call of the answer. An id that an earlier call has gets a number behind it,
    /// the same whenever the answer is read.
    pub(crate) fn add(&mut self, id: &mut String) {
        if id.is_empty() || self.0.insert(id.clone()) {
            return;
        }
        let mut number = 2_usize;
        loop {
            let other = format!("{id}_{number}");
            if self.0.insert(other.clone()) {
                *id = other;
                return;
            }
            number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{Extra, Role, ToolCall};

    #[test]
    fn an_id_is_given_once() {
        let call = |id: &str| {
            Part::ToolCall(ToolCall {
                id: id.to_owned(),
                name: "f".to_owned(),
                arguments: String::new(),
                extra: Extra::default(),
            })
        };
        let mut earlier = Message::text(Role::Assistant, "");
        earlier.parts = vec![call("call_0"), call("call_0_2")];
        let mut called = Called::before(&[earlier]);
        let mut next = |id: &str| {
            let mut id = id.to_owned();
            called.add(&mut id);
            id
        };
        assert_eq!(next("call_0"), "call_0_3");
        assert_eq!(next("call_0"), "call_0_4");
        assert_eq!(next("call_1"), "call_1");
        assert_eq!(next(""), "");
    }
}

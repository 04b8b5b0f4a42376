//! Ids of tool calls, where a format allows fewer than other providers give, or
//! an answer gives too few.

use evenkeel_core::{Message, Part};
use std::collections::{HashMap, HashSet};

/// Most hashes that are tried for one id. Each is taken with a chance of one in
/// billions, so that the second is already next to never needed.
pub(crate) const ATTEMPTS: u32 = 1000;

/// Rewrites the ids that `allows` refuses, in calls and results alike, to what
/// `make` gives for an id and a number of attempt; two ids never become one.
/// True where any was rewritten.
pub(crate) fn rewrite(
    messages: &mut [Message],
    allows: impl Fn(&str) -> bool,
    make: impl Fn(&str, u32) -> String,
) -> bool {
    let mut taken: HashSet<String> = HashSet::new();
    each(messages, &mut |id| {
        if allows(id) {
            taken.insert(id.clone());
        }
    });
    let mut rewritten: HashMap<String, String> = HashMap::new();
    each(messages, &mut |id| {
        if allows(id) {
            return;
        }
        if let Some(new) = rewritten.get(id) {
            id.clone_from(new);
            return;
        }
        let free = (0..ATTEMPTS)
            .map(|n| make(id, n))
            .find(|new| !taken.contains(new));
        if let Some(new) = free {
            taken.insert(new.clone());
            rewritten.insert(std::mem::replace(id, new.clone()), new);
        }
    });
    !rewritten.is_empty()
}

/// Characters of an answer's id that go into those of its calls.
const TAIL_CHARS: usize = 24;
/// Characters that stand for an answer without an id.
const HASH_CHARS: usize = 11;

/// The ids of the calls of one answer, each its own: some servers give two
/// calls one id, and some give none.
#[derive(Debug, Default)]
pub(crate) struct AnswerIds {
    /// The end of the answer's id.
    tail: String,
    /// What an answer without an id has said, hashed.
    heard: u64,
    taken: HashSet<String>,
}

impl AnswerIds {
    /// The ids of the answer `answer_id`, or else the one that says `content`.
    pub(crate) fn of(answer_id: &str, content: &[u8]) -> Self {
        let mut ids = Self::default();
        ids.name(answer_id);
        ids.hear(&String::from_utf8_lossy(content));
        ids
    }

    /// Tells the answer's id.
    pub(crate) fn name(&mut self, answer_id: &str) {
        let plain = answer_id.chars().rev().filter(char::is_ascii_alphanumeric);
        let tail: Vec<char> = plain.take(TAIL_CHARS).collect();
        self.tail = tail.into_iter().rev().collect();
    }

    /// Takes the next of what the answer says, which tells it from others
    /// where it has no id.
    pub(crate) fn hear(&mut self, said: &str) {
        if self.tail.is_empty() {
            let before = u32::try_from(self.heard >> 32).unwrap_or_default();
            self.heard = hash(said, before);
        }
    }

    /// The id of the call at `position`: its own where it has one that no call
    /// before it has, else one that is made up. That is distinct within a
    /// conversation as far as the answers are, the same each time, and at most
    /// 40 characters long, which `OpenAI` allows.
    pub(crate) fn claim(&mut self, id: &str, position: usize) -> String {
        if !id.is_empty() && self.taken.insert(id.to_owned()) {
            return id.to_owned();
        }
        if self.tail.is_empty() {
            self.tail = base62(&self.heard.to_string(), 0, HASH_CHARS);
        }
        let first = format!("call_{}_{position}", self.tail);
        let mut made = first.clone();
        let mut attempt = 1;
        while !self.taken.insert(made.clone()) {
            made = format!("{first}_{attempt}");
            attempt += 1;
        }
        made
    }
}

fn each(messages: &mut [Message], with: &mut impl FnMut(&mut String)) {
    for part in messages.iter_mut().flat_map(|message| &mut message.parts) {
        match part {
            Part::ToolCall(call) => with(&mut call.id),
            Part::ToolResult(result) => with(&mut result.call_id),
            _ => {}
        }
    }
}

/// FNV-1a, 64 bits (Fowler, Noll and Vo, draft-eastlake-fnv): the same id gives
/// the same hash in every process, which a randomly keyed hash does not.
pub(crate) fn hash(text: &str, attempt: u32) -> u64 {
    let bytes = text.bytes().chain(attempt.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// `len` letters and digits that stand for `id`.
pub(crate) fn base62(id: &str, attempt: u32, len: usize) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut rest = hash(id, attempt);
    let mut out = String::with_capacity(len);
    for _ in 0..len {
        let digit = usize::try_from(rest % 62).unwrap_or_default();
        out.push(char::from(DIGITS[digit]));
        rest /= 62;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{Extra, Role, ToolCall, ToolResult};

    fn turn(ids: &[&str]) -> Vec<Message> {
        let call = |id: &&str| {
            Part::ToolCall(ToolCall {
                id: (*id).into(),
                name: "t".into(),
                arguments: String::new(),
                extra: Extra::default(),
            })
        };
        let result = |id: &&str| {
            Part::ToolResult(ToolResult {
                call_id: (*id).into(),
                parts: vec![],
                is_error: false,
            })
        };
        let mut calls = Message::text(Role::Assistant, "");
        calls.parts = ids.iter().map(call).collect();
        let mut results = Message::text(Role::Tool, "");
        results.parts = ids.iter().map(result).collect();
        vec![calls, results]
    }

    fn ids(message: &Message) -> Vec<&str> {
        message
            .parts
            .iter()
            .map(|part| match part {
                Part::ToolCall(call) => call.id.as_str(),
                Part::ToolResult(result) => result.call_id.as_str(),
                _ => unreachable!(),
            })
            .collect()
    }

    #[test]
    fn a_call_and_its_result_keep_one_id_and_two_calls_never_share_one() {
        let mut messages = turn(&["call_a", "zzzzzzzzz", "call_b"]);
        // Every first attempt collides with an id that is there already.
        let make = |_: &str, n: u32| match n {
            0 => "zzzzzzzzz".to_owned(),
            n => format!("made{n:05}"),
        };
        assert!(rewrite(&mut messages, |id| id.len() == 9, make));
        assert_eq!(ids(&messages[0]), ["made00001", "zzzzzzzzz", "made00002"]);
        assert_eq!(ids(&messages[0]), ids(&messages[1]));
        assert!(!rewrite(&mut messages, |id| id.len() == 9, make));
    }

    /// Case C128: ids that fit stay, the others become what Mistral takes, each
    /// its own and the same on every turn.
    #[test]
    fn ids_that_mistral_refuses_become_such_that_it_takes() {
        let written = ["callQ7w2ZxLm0PaV83kd_long_form", "turn1_0", "abc123XYZ"];
        let fits = |id: &str| id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric());
        let make = |id: &str, attempt| base62(id, attempt, 9);
        let mut first = turn(&written);
        assert!(rewrite(&mut first, fits, make));
        let sent = ids(&first[0]);
        assert!(sent.iter().all(|id| fits(id)), "{sent:?}");
        assert!(sent[0] != sent[1] && sent[2] == "abc123XYZ");
        assert_eq!(sent, ids(&first[1]));
        let mut again = turn(&written);
        rewrite(&mut again, fits, make);
        assert_eq!(ids(&again[0]), sent);
    }

    #[test]
    fn an_id_always_becomes_the_same_nine_characters() {
        let id = base62("call_0123456789abcdef", 0, 9);
        assert_eq!(id, base62("call_0123456789abcdef", 0, 9));
        assert_eq!(id.len(), 9);
        assert!(id.bytes().all(|b| b.is_ascii_alphanumeric()));
        assert_ne!(id, base62("call_0123456789abcdef", 1, 9));
    }
}

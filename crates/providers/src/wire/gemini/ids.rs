//! Ids of calls that come without one.

use crate::wire::call_ids;
use evenkeel_core::Part;

/// What every id of our making begins with. No provider's ids do, so that it
/// is known again in a later request and left out.
const MADE_UP: &str = "gcall_";
/// Characters of the answer's id that go into a call's.
const TAIL_CHARS: usize = 24;
/// Characters that stand for an answer without an id.
const HASH_CHARS: usize = 11;

/// Makes ids that are distinct within a conversation.
#[derive(Debug, Default, Clone)]
pub(super) struct Ids {
    seed: String,
    next: usize,
}

impl Ids {
    /// Ids for the calls of the answer `answer_id`. Where it has none,
    /// `content`, any text that differs from answer to answer, stands for it.
    pub(super) fn of_answer(answer_id: &str, content: impl FnOnce() -> String) -> Self {
        let mut tail: Vec<char> = answer_id
            .chars()
            .rev()
            .filter(char::is_ascii_alphanumeric)
            .take(TAIL_CHARS)
            .collect();
        tail.reverse();
        let tail: String = if tail.is_empty() {
            call_ids::base62(&content(), 0, HASH_CHARS)
        } else {
            tail.into_iter().collect()
        };
        Self {
            seed: format!("{tail}_"),
            next: 0,
        }
    }

    /// The next id: at most 40 characters as long as an answer has no more
    /// than 99,999,999 calls.
    pub(super) fn make(&mut self) -> String {
        let id = format!("{MADE_UP}{}{}", self.seed, self.next);
        self.next += 1;
        id
    }
}

/// Whether an id means nothing to the provider.
pub(super) fn is_made_up(id: &str) -> bool {
    id.is_empty() || id.starts_with(MADE_UP)
}

/// The part with its made-up id taken out, to compare it with another reading.
pub(super) fn blanked(part: &Part) -> Part {
    let mut part = part.clone();
    let id = match &mut part {
        Part::ToolCall(call) => &mut call.id,
        Part::ToolResult(result) => &mut result.call_id,
        _ => return part,
    };
    if is_made_up(id) {
        id.clear();
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_distinct_short_and_known_again() {
        let mut ids = Ids::of_answer(&"r-é".repeat(30), String::new);
        let (first, second) = (ids.make(), ids.make());
        assert_ne!(first, second);
        assert!(first.len() <= 40 && first.is_ascii(), "{first}");
        assert!(is_made_up(&first));
        assert!(!is_made_up("call_1"));
        let other = Ids::of_answer("", || "a".into()).make();
        assert_ne!(other, Ids::of_answer("", || "b".into()).make());
    }
}

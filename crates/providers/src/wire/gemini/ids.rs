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

/// Makes ids that are distinct within a request, or within an answer.
#[derive(Debug, Default, Clone)]
pub(super) struct Ids {
    of: Of,
    next: usize,
}

/// What the ids are made for.
#[derive(Debug, Default, Clone)]
enum Of {
    #[default]
    Request,
    /// An answer of this id.
    Answer(String),
    /// An answer without an id: what is called stands for it.
    Unnamed,
}

impl Ids {
    /// Ids for the calls of the answer `answer_id`. They are the same however
    /// often, and in whatever pieces, the answer is read. Answers without an
    /// id that call the same get the same ids; the client, which knows what
    /// was called before, keeps them apart.
    pub(super) fn of_answer(answer_id: &str) -> Self {
        let mut tail: Vec<char> = answer_id
            .chars()
            .rev()
            .filter(char::is_ascii_alphanumeric)
            .take(TAIL_CHARS)
            .collect();
        tail.reverse();
        let of = if tail.is_empty() {
            Of::Unnamed
        } else {
            Of::Answer(tail.into_iter().collect())
        };
        Self { of, next: 0 }
    }

    /// The id of the next call, of `name` with `arguments`: at most 40
    /// characters as long as an answer has no more than 99,999,999 calls.
    pub(super) fn make(&mut self, name: &str, arguments: &str) -> String {
        let next = self.next;
        self.next += 1;
        match &self.of {
            Of::Request => format!("{MADE_UP}{next}"),
            Of::Answer(tail) => format!("{MADE_UP}{tail}_{next}"),
            Of::Unnamed => {
                let called = call_ids::base62(&format!("{name}\n{arguments}"), 0, HASH_CHARS);
                format!("{MADE_UP}{called}_{next}")
            }
        }
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
        let mut ids = Ids::of_answer(&"r-é".repeat(30));
        let (first, second) = (ids.make("f", "{}"), ids.make("f", "{}"));
        assert_ne!(first, second);
        assert!(first.len() <= 40 && first.is_ascii(), "{first}");
        assert!(is_made_up(&first));
        assert!(!is_made_up("call_1"));
        let unnamed = |arguments| Ids::of_answer("").make("f", arguments);
        assert_eq!(unnamed("{}"), unnamed("{}"));
        assert_ne!(unnamed("{}"), unnamed("[]"));
    }
}

//! `choice`: one of several answers.

use super::{Answered, Expected, Grade, normal};
use crate::golden::{Keys, brief};
use regex::Regex;
use serde_json::Value;
use std::sync::LazyLock;

/// Most choices of an item.
const MOST: usize = 1_000;

/// What stands before an answer that is given at the end of a text.
static ANNOUNCED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:answer|choice|option)(?:\s+is)?\s*:?\s*[*_(\[{\x22'`]*|\\boxed\s*\{")
        .expect("a constant that the tests match with")
});

/// The answer names the expected one of `choices`, and no other.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    choices: Vec<Named>,
    /// Its place in `choices`.
    right: usize,
}

/// A choice, and where it may stand in a text.
#[derive(Debug, Clone)]
struct Named {
    written: String,
    normal: String,
}

impl Choice {
    pub(super) fn read(keys: &mut Keys<'_>, expected: &Expected<'_>) -> Option<Self> {
        if !keys.has("choices") {
            keys.fault("the scorer needs `choices`, a list of strings");
        }
        let written = keys.texts("choices")?;
        if written.len() < 2 || written.len() > MOST {
            let what = format!("must have from 2 to {MOST} choices, got {}", written.len());
            keys.fault_of("choices", &what);
            return None;
        }
        let mut choices: Vec<Named> = Vec::with_capacity(written.len());
        for written in written {
            let normal = normal::text(&written);
            if let Some(twin) = choices.iter().find(|c| c.normal == normal) {
                let (a, b) = (brief(&twin.written), brief(&written));
                keys.fault_of("choices", &format!("`{a}` and `{b}` cannot be told apart"));
                return None;
            }
            choices.push(Named { written, normal });
        }
        let Some(Value::String(text)) = expected.value else {
            super::reference::missing(keys, expected, "one of the `choices`");
            return None;
        };
        let right = choices.iter().position(|c| c.written == *text);
        if right.is_none() {
            keys.fault(format!(
                "`expected` is `{}`, none of the `choices`",
                brief(text)
            ));
        }
        let right = right?;
        Some(Self { choices, right })
    }

    pub(super) fn grade(&self, answer: &Answered<'_>) -> Grade {
        match self.named(answer.text()) {
            Ok(choice) if choice == self.right => Grade::right(true),
            Ok(choice) => {
                let written = brief(&self.choices[choice].written);
                Grade::wrong(format!("chose `{written}`"))
            }
            Err(why) => Grade::wrong(why),
        }
    }

    /// The choice that a text names: the one it is, else the one it announces
    /// ("the answer is …"), else the only one in it.
    fn named(&self, text: &str) -> Result<usize, &'static str> {
        let whole = normal::text(text);
        if let Some(choice) = self.choices.iter().position(|c| c.normal == whole) {
            return Ok(choice);
        }
        if let Some(choice) = self.announced(text) {
            return Ok(choice);
        }
        match self.mentioned(text, &whole).as_slice() {
            [only] => Ok(*only),
            [] => Err("names none of the choices"),
            _ => Err("names more than one of the choices"),
        }
    }

    /// What follows the last announcement that a choice follows.
    fn announced(&self, text: &str) -> Option<usize> {
        let ends: Vec<usize> = ANNOUNCED.find_iter(text).map(|found| found.end()).collect();
        ends.into_iter().rev().find_map(|end| {
            let after = text[end..].trim_start();
            let normal = normal::text(after.lines().next().unwrap_or_default());
            let begins = |choice: &&Named| {
                if is_letter(&choice.written) {
                    return stands_alone(after, &choice.written);
                }
                let rest = normal.strip_prefix(choice.normal.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            };
            self.longest(begins)
        })
    }

    fn longest(&self, fits: impl Fn(&&Named) -> bool) -> Option<usize> {
        let fitting = self.choices.iter().enumerate().filter(|(_, c)| fits(c));
        fitting.max_by_key(|(_, c)| c.normal.len()).map(|(i, _)| i)
    }

    /// The choices whose words are in the text, except inside of a longer choice's.
    fn mentioned(&self, text: &str, normal: &str) -> Vec<usize> {
        let mut left = format!(" {normal} ");
        let mut by_length: Vec<usize> = (0..self.choices.len()).collect();
        by_length.sort_by_key(|i| std::cmp::Reverse(self.choices[*i].normal.len()));
        by_length.retain(|i| {
            let choice = &self.choices[*i];
            if is_letter(&choice.written) {
                return is_marked(text, &choice.written);
            }
            let words = format!(" {} ", choice.normal);
            let is_there = left.contains(&words);
            if is_there {
                // Apart, so that what stood around it does not become one phrase.
                left = left.replace(&words, " \u{0} ");
            }
            is_there
        });
        by_length
    }
}

/// A choice such as `A`, which is a word of its own in many texts.
fn is_letter(choice: &str) -> bool {
    let mut chars = choice.trim().chars();
    chars.next().is_some_and(char::is_alphabetic) && chars.next().is_none()
}

/// Whether `text` begins with the letter and then something that is no word.
fn stands_alone(text: &str, letter: &str) -> bool {
    text.strip_prefix(letter.trim())
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '\''))
}

/// Whether the letter is set like the name of a choice somewhere: `(A)`, `A)`,
/// `**A**`, `A:`, or a line for itself.
fn is_marked(text: &str, letter: &str) -> bool {
    let letter = letter.trim();
    text.match_indices(letter).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + letter.len()..].chars().next();
        let is_open = before.is_none_or(|c| !c.is_alphanumeric());
        let is_line = before.is_none_or(|c| c == '\n') && after.is_none_or(|c| "\r\n.".contains(c));
        is_open && (is_line || after.is_some_and(|c| ")]*:}`".contains(c)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(choices: &[&str], text: &str) -> Option<usize> {
        let choices = choices.iter().map(|written| Named {
            written: (*written).to_owned(),
            normal: normal::text(written),
        });
        let choice = Choice {
            choices: choices.collect(),
            right: 0,
        };
        choice.named(text).ok()
    }

    #[test]
    fn letters_are_told_from_words() {
        let letters = ["A", "B", "C", "I"];
        for (text, choice) in [
            ("B", Some(1)),
            ("(b)", Some(1)),
            ("b.", Some(1)),
            ("The answer is B.", Some(1)),
            ("A cat is a mammal, so the answer is (C).", Some(2)),
            ("**Answer:** B) because A is wrong", Some(1)),
            ("\\boxed{C}", Some(2)),
            ("Not (A). I think the answer is: **B**", Some(1)),
            ("C) the liver", Some(2)),
            ("First thoughts.\nB\n", Some(1)),
            ("(A) or (B)", None),
            ("I think a cat", None),
            ("Answer: An apple", None),
            ("", None),
        ] {
            assert_eq!(named(&letters, text), choice, "{text}");
        }
    }

    #[test]
    fn a_longer_choice_hides_the_words_in_it() {
        let labels = ["card", "card arrival", "not sure", "sure"];
        for (text, choice) in [
            ("card_arrival", Some(1)),
            ("This is about card arrival.", Some(1)),
            ("The label: CARD", Some(0)),
            ("not sure", Some(2)),
            ("I am not sure", Some(2)),
            ("card arrival, or else card", None),
            ("The answer is card, not card arrival", Some(0)),
            ("discard", None),
        ] {
            assert_eq!(named(&labels, text), choice, "{text}");
        }
    }
}

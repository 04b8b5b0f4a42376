//! `regex`: a pattern in the text.

use super::{Answered, Expected, Grade, reference};
use crate::golden::Keys;
use regex::{Regex, RegexBuilder};

/// Most bytes of a compiled pattern.
const LARGEST: usize = 1 << 20;

/// The pattern matches (or, with `absent`, does not), or what a group of its last
/// match took is one of the texts expected.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    regex: Regex,
    wanted: Wanted,
}

#[derive(Debug, Clone, PartialEq)]
enum Wanted {
    Match,
    NoMatch,
    Group { index: usize, texts: Vec<String> },
}

impl Pattern {
    pub(super) fn read(keys: &mut Keys<'_>, expected: &Expected<'_>) -> Option<Self> {
        if !keys.has("pattern") {
            keys.fault("the scorer needs a `pattern`");
        }
        let pattern = keys.text("pattern");
        let absent = keys.flag("absent");
        let group = keys.count("group");
        let built = RegexBuilder::new(&pattern?).size_limit(LARGEST).build();
        let regex = match built {
            Ok(regex) => regex,
            Err(error) => {
                keys.fault_of(
                    "pattern",
                    &format!("is no regular expression: {}", last_line(&error)),
                );
                return None;
            }
        };
        let wanted = match group {
            Some(_) if absent => {
                keys.fault(
                    "has `absent` and `group`: nothing is taken by a pattern that is absent",
                );
                return None;
            }
            Some(group) => {
                let groups = regex.captures_len() - 1;
                let Some(index) = usize::try_from(group).ok().filter(|g| *g <= groups) else {
                    keys.fault_of(
                        "group",
                        &format!("is {group}, the pattern has {groups} groups"),
                    );
                    return None;
                };
                let texts = reference::texts(keys, expected)?;
                Wanted::Group { index, texts }
            }
            None if absent => Wanted::NoMatch,
            None => Wanted::Match,
        };
        Some(Self { regex, wanted })
    }

    /// Whether it compares what it takes with what is expected.
    pub(super) fn needs_expected(&self) -> bool {
        matches!(self.wanted, Wanted::Group { .. })
    }

    /// Whether both want the same, by how their patterns are written.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.regex.as_str() == other.regex.as_str() && self.wanted == other.wanted
    }

    pub(super) fn grade(&self, answer: &Answered<'_>) -> Grade {
        let text = answer.text();
        match &self.wanted {
            Wanted::Match => Grade::right(self.regex.is_match(text)),
            Wanted::NoMatch => Grade::right(!self.regex.is_match(text)),
            Wanted::Group { index, texts } => {
                let last = self.regex.captures_iter(text).last();
                let Some(taken) = last.and_then(|captures| captures.get(*index)) else {
                    return Grade::wrong("the pattern does not match");
                };
                let taken = taken.as_str().trim();
                Grade::right(texts.iter().any(|text| text.trim() == taken))
            }
        }
    }
}

/// What is wrong, without the drawing of where.
fn last_line(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

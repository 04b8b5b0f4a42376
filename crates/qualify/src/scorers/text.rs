//! `text`: the same words, however they are set.

use super::{Answered, Expected, Grade, normal, reference};
use crate::golden::Keys;

/// The text equals one of those expected, once both are in normal form.
#[derive(Debug, Clone)]
pub(super) struct SameText {
    texts: Vec<String>,
}

impl SameText {
    pub(super) fn read(keys: &mut Keys<'_>, expected: &Expected<'_>) -> Option<Self> {
        let texts = reference::texts(keys, expected)?;
        let texts: Vec<String> = texts.iter().map(|text| normal::text(text)).collect();
        if texts.iter().any(String::is_empty) {
            keys.fault("`expected` has a text of punctuation alone: any such answer is right");
            return None;
        }
        Some(Self { texts })
    }

    pub(super) fn grade(&self, answer: &Answered<'_>) -> Grade {
        let text = normal::text(answer.text());
        Grade::right(self.texts.contains(&text))
    }
}

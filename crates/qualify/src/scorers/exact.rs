//! `exact`: the text, letter for letter.

use super::{Answered, Expected, Grade, reference};
use crate::golden::Keys;

/// The text equals one of those expected; space around it does not count.
#[derive(Debug, Clone)]
pub(super) struct Exact {
    texts: Vec<String>,
}

impl Exact {
    pub(super) fn read(keys: &mut Keys<'_>, expected: &Expected<'_>) -> Option<Self> {
        let texts = reference::texts(keys, expected)?;
        Some(Self { texts })
    }

    pub(super) fn grade(&self, answer: &Answered<'_>) -> Grade {
        let text = answer.text().trim();
        Grade::right(self.texts.iter().any(|expected| expected.trim() == text))
    }
}

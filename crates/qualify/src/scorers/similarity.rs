//! `similarity`: how much of a text is there.

use super::grade::share;
use super::{Answered, Expected, Grade, normal, reference};
use crate::golden::Keys;
use std::collections::HashMap;

/// Most characters that are compared letter by letter: that takes the product of
/// both lengths.
const LONGEST: usize = 4_000;

const MEASURES: [(&str, Measure); 3] = [
    ("token_f1", Measure::TokenF1),
    ("levenshtein", Measure::Levenshtein),
    ("jaro_winkler", Measure::JaroWinkler),
];

/// How two texts in normal form are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// F1 over the words that both have, each as often as both have it.
    TokenF1,
    /// 1 − edits / length of the longer.
    Levenshtein,
    /// Jaro-Winkler, for names and other short texts.
    JaroWinkler,
}

/// The likeness to the most alike of the texts expected; with `at_least`, whether
/// it reaches that.
#[derive(Debug, Clone)]
pub(super) struct Similar {
    measure: Measure,
    texts: Vec<String>,
    at_least: Option<f64>,
}

impl Similar {
    pub(super) fn read(keys: &mut Keys<'_>, expected: &Expected<'_>) -> Option<Self> {
        let measure = if keys.has("measure") {
            keys.word("measure", &MEASURES)
        } else {
            keys.value("measure");
            Some(Measure::TokenF1)
        };
        let range = "above 0 and at most 1";
        let at_least = keys.number("at_least", range, |n| n > 0.0 && n <= 1.0);
        let texts = reference::texts(keys, expected)?;
        let measure = measure?;
        let texts: Vec<String> = texts.iter().map(|text| normal::text(text)).collect();
        let is_long = |text: &String| text.chars().count() > LONGEST;
        if measure != Measure::TokenF1 && texts.iter().any(is_long) {
            keys.fault(format!(
                "`expected` has more than {LONGEST} characters: use `token_f1` for long texts"
            ));
            return None;
        }
        Some(Self {
            measure,
            texts,
            at_least,
        })
    }

    pub(super) fn grade(&self, answer: &Answered<'_>) -> Grade {
        let text = normal::text(answer.text());
        let likenesses = self.texts.iter().map(|t| self.measure.of(t, &text));
        let likeness = likenesses.fold(0.0, f64::max);
        match self.at_least {
            None => Grade::of(likeness),
            Some(least) => Grade::right(likeness >= least).with(format!("likeness {likeness:.3}")),
        }
    }
}

impl Measure {
    /// The likeness of two texts in normal form, 0 to 1.
    pub(super) fn of(self, expected: &str, found: &str) -> f64 {
        match self {
            Self::TokenF1 => token_f1(expected, found),
            Self::Levenshtein => levenshtein(expected, found),
            Self::JaroWinkler => {
                let found: String = found.chars().take(LONGEST).collect();
                strsim::jaro_winkler(expected, &found).clamp(0.0, 1.0)
            }
        }
    }
}

/// F1 over the words of two texts in normal form.
pub(crate) fn token_f1(expected: &str, found: &str) -> f64 {
    let mut left: HashMap<&str, usize> = HashMap::new();
    let mut wanted = 0;
    for word in expected.split(' ').filter(|w| !w.is_empty()) {
        *left.entry(word).or_default() += 1;
        wanted += 1;
    }
    let (mut given, mut both) = (0, 0);
    for word in found.split(' ').filter(|w| !w.is_empty()) {
        given += 1;
        if let Some(count) = left.get_mut(word).filter(|count| **count > 0) {
            *count -= 1;
            both += 1;
        }
    }
    share(2 * both, wanted + given)
}

/// Of a text that is too long the rest counts as edits, each character one: the
/// likeness is never said to be higher than it is.
fn levenshtein(expected: &str, found: &str) -> f64 {
    let length = found.chars().count();
    let longer = length.max(expected.chars().count());
    let head: String = found.chars().take(LONGEST).collect();
    let edits = strsim::levenshtein(expected, &head) + length.saturating_sub(LONGEST);
    share(longer.saturating_sub(edits), longer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_count_as_often_as_both_have_them() {
        let f1 = |a, b| Measure::TokenF1.of(a, b);
        assert!((f1("a b c", "c b a") - 1.0).abs() < 1e-12);
        assert!((f1("a a b", "a b b") - 2.0 / 3.0).abs() < 1e-12);
        assert!(f1("a", "b").abs() < 1e-12);
        assert!(f1("a", "").abs() < 1e-12);
    }

    #[test]
    fn letters_are_compared_up_to_a_length() {
        let of = |a: &str, b: &str| Measure::Levenshtein.of(a, b);
        assert!((of("kitten", "sitting") - 4.0 / 7.0).abs() < 1e-12);
        let long = "x".repeat(10 * LONGEST);
        let expected = "x".repeat(LONGEST);
        assert!((of(&expected, &long) - 0.1).abs() < 1e-12);
        assert!(Measure::JaroWinkler.of("marta", "marhta") > 0.9);
    }
}

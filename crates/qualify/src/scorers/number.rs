//! `number`: the last number of the text.

use super::{Answered, Expected, Grade, reference};
use crate::golden::Keys;
use regex::Regex;
use serde_json::Value;
use std::sync::LazyLock;

/// Digits, commas between them, and a fraction.
static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"-?[0-9][0-9,]*\.?[0-9]*").expect("a constant that the tests match with")
});

/// The zeros of the digits that texts in other scripts are written with; the nine
/// others follow each.
const ZEROS: [char; 8] = [
    '\u{ff10}', // full width
    '\u{660}',  // Arabic
    '\u{6f0}',  // Persian
    '\u{966}',  // Devanagari
    '\u{9e6}',  // Bengali
    '\u{be6}',  // Tamil
    '\u{e50}',  // Thai
    '\u{17e0}', // Khmer
];

/// The last number of the text lies within a tolerance of the one expected.
#[derive(Debug, Clone)]
pub(super) struct Number {
    expected: f64,
    absolute: f64,
    relative: f64,
}

impl Number {
    pub(super) fn read(keys: &mut Keys<'_>, expected: &Expected<'_>) -> Option<Self> {
        let tolerance = "a finite number, at least 0";
        let absolute = keys.number("abs", tolerance, |n| n >= 0.0);
        let relative = keys.number("rel", tolerance, |n| n >= 0.0);
        let number = match expected.value {
            Some(Value::Number(number)) => number.as_f64(),
            Some(Value::String(text)) => text.trim().replace(',', "").parse().ok(),
            _ => None,
        };
        let Some(expected) = number.filter(|n| n.is_finite()) else {
            reference::missing(keys, expected, "a number, or a string that holds one");
            return None;
        };
        Some(Self {
            expected,
            absolute: absolute.unwrap_or(0.0),
            relative: relative.unwrap_or(0.0),
        })
    }

    pub(super) fn grade(&self, answer: &Answered<'_>) -> Grade {
        let Some(number) = last_number(answer.text()) else {
            return Grade::wrong("no number in the answer");
        };
        let off = (number - self.expected).abs();
        let room = self.absolute.max(self.relative * self.expected.abs());
        Grade::right(number.is_finite() && off <= room).with(format!("read {number}"))
    }
}

/// The number that the text is, else the last one in it.
fn last_number(text: &str) -> Option<f64> {
    let text: String = text.chars().map(ascii_digit).collect();
    if let Some(whole) = whole_number(text.trim()) {
        return Some(whole);
    }
    let last = NUMBER.find_iter(&text).last()?;
    let digits = last.as_str().replace(',', "");
    digits.trim_end_matches('.').parse().ok()
}

/// A text that is a number and nothing else may have an exponent, or no digit
/// before the point.
fn whole_number(text: &str) -> Option<f64> {
    let begins_like_one = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    let number: f64 = begins_like_one.then(|| text.parse().ok())??;
    number.is_finite().then_some(number)
}

fn ascii_digit(c: char) -> char {
    ZEROS
        .iter()
        .find_map(|zero| {
            let digit = u32::from(c).checked_sub(u32::from(*zero))?;
            char::from_digit(digit, 10)
        })
        .unwrap_or(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_is_read() {
        for (text, number) in [
            ("12 and then 42.", Some(42.0)),
            ("It is $1,234.50!", Some(1234.5)),
            ("-7", Some(-7.0)),
            ("1e3", Some(1000.0)),
            (".5", Some(0.5)),
            ("about 1e3 times", Some(3.0)),
            ("٤٢", Some(42.0)),
            ("答えは４２です", Some(42.0)),
            ("1,,2", Some(12.0)),
            ("none", None),
            ("", None),
            ("inf", None),
            ("-", None),
        ] {
            assert_eq!(last_number(text), number, "{text}");
        }
        let huge = "9".repeat(400);
        assert_eq!(last_number(&huge), Some(f64::INFINITY));
    }
}

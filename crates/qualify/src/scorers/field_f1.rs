//! `field_f1`: how many values of two JSON documents are in both.

use super::grade::share;
use super::reference::{alike, missing};
use super::{Answered, Expected, Grade};
use crate::golden::Keys;
use serde_json::Value;
use std::collections::HashMap;

/// The harmonic mean of precision and recall over the leaves of the document:
/// each value at its path, texts alike by case and outer space. With `unordered`
/// the values of a list are at one path.
#[derive(Debug, Clone)]
pub(super) struct FieldF1 {
    expected: Value,
    unordered: bool,
}

impl FieldF1 {
    pub(super) fn read(keys: &mut Keys<'_>, expected: &Expected<'_>) -> Option<Self> {
        let unordered = keys.flag("unordered");
        let Some(value @ (Value::Object(_) | Value::Array(_))) = expected.value else {
            missing(keys, expected, "an object or a list");
            return None;
        };
        Some(Self {
            expected: value.clone(),
            unordered,
        })
    }

    pub(super) fn grade(&self, answer: &Answered<'_>) -> Grade {
        match answer.json() {
            Some(found) => field_f1(&self.expected, found, self.unordered),
            None => Grade::wrong("the answer is not JSON"),
        }
    }
}

/// F1 over the leaves of two documents.
pub(crate) fn field_f1(expected: &Value, found: &Value, unordered: bool) -> Grade {
    let mut wanted = HashMap::new();
    let mut given = HashMap::new();
    let wanted_count = leaves(expected, String::new(), unordered, &mut wanted);
    let given_count = leaves(found, String::new(), unordered, &mut given);
    let mut both = 0;
    for (path, values) in &mut given {
        let Some(left) = wanted.get_mut(path) else {
            continue;
        };
        for value in values {
            if let Some(at) = left.iter().position(|wanted| alike(wanted, value)) {
                left.swap_remove(at);
                both += 1;
            }
        }
    }
    let note = format!("{both} of {wanted_count} expected values among {given_count}");
    Grade::of(share(2 * both, wanted_count + given_count)).with(note)
}

/// Gathers scalars and empty containers by path; how many there are.
fn leaves<'v>(
    value: &'v Value,
    path: String,
    unordered: bool,
    found: &mut HashMap<String, Vec<&'v Value>>,
) -> usize {
    match value {
        Value::Object(map) if !map.is_empty() => map
            .iter()
            .map(|(name, value)| {
                leaves(value, format!("{path}/{}", escaped(name)), unordered, found)
            })
            .sum(),
        Value::Array(items) if !items.is_empty() => items
            .iter()
            .enumerate()
            .map(|(i, value)| {
                let place = if unordered {
                    "[]".to_owned()
                } else {
                    format!("[{i}]")
                };
                leaves(value, format!("{path}{place}"), unordered, found)
            })
            .sum(),
        leaf => {
            found.entry(path).or_default().push(leaf);
            1
        }
    }
}

/// A name that cannot be taken for a path.
fn escaped(name: &str) -> String {
    name.replace('~', "~0")
        .replace('/', "~1")
        .replace('[', "~2")
}

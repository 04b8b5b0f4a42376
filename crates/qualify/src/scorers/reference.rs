//! What an item expects, as a scorer needs it, and when two values are the same.

use super::Expected;
use crate::golden::Keys;
use serde_json::Value;

/// Takes one or several texts, any of which is right.
pub(super) fn texts(keys: &mut Keys<'_>, expected: &Expected<'_>) -> Option<Vec<String>> {
    let texts = match expected.value {
        Some(Value::String(text)) => Some(vec![text.clone()]),
        Some(Value::Array(items)) if !items.is_empty() => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect(),
        _ => None,
    };
    if texts.is_none() {
        missing(
            keys,
            expected,
            "a string, or a list of strings of which any is right",
        );
    }
    texts
}

/// Tells that `expected` is not what the scorer needs.
pub(super) fn missing(keys: &mut Keys<'_>, expected: &Expected<'_>, needed: &str) {
    let seen = match expected.value {
        None => "nothing",
        Some(Value::Array(items)) if items.is_empty() => "an empty list",
        Some(Value::Object(map)) if map.is_empty() => "an empty object",
        Some(value) => crate::golden::kind(value),
    };
    keys.fault(format!(
        "the scorer needs `expected` to be {needed}, got {seen}"
    ));
}

/// A text without the space around it, in lower case.
pub(super) fn folded(text: &str) -> String {
    // As Python's `str.strip`: its white space has four separators more.
    let is_space = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
    text.trim_matches(is_space).to_lowercase()
}

/// Whether two values say the same: numbers by value, whatever they are written
/// like, objects whatever their order.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            if (a.is_i64() || a.is_u64()) && (b.is_i64() || b.is_u64()) {
                a == b
            } else {
                // What was read from JSON is finite.
                a.as_f64() == b.as_f64()
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// [`same`], or two texts that differ in case and in the space around them.
pub(super) fn alike(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a == b || folded(a) == folded(b),
        _ => same(a, b),
    }
}

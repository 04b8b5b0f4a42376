//! `json`: one JSON value that says the same.

use super::reference::missing;
use super::{Answered, Expected, Grade};
use crate::golden::Keys;
use serde_json::Value;

/// The answer is JSON and equals what is expected: objects in any order, numbers
/// by value and within a tolerance.
#[derive(Debug, Clone)]
pub(super) struct SameJson {
    expected: Value,
    tolerance: Tolerance,
    /// Lists are the same whatever their order.
    unordered: bool,
}

#[derive(Debug, Clone, Copy)]
struct Tolerance {
    absolute: f64,
    relative: f64,
}

impl SameJson {
    pub(super) fn read(keys: &mut Keys<'_>, expected: &Expected<'_>) -> Option<Self> {
        let range = "a finite number, at least 0";
        let absolute = keys.number("abs", range, |n| n >= 0.0);
        let relative = keys.number("rel", range, |n| n >= 0.0);
        let unordered = keys.flag("unordered");
        let Some(value) = expected.value else {
            missing(keys, expected, "a JSON value");
            return None;
        };
        Some(Self {
            expected: value.clone(),
            tolerance: Tolerance {
                absolute: absolute.unwrap_or(0.0),
                relative: relative.unwrap_or(0.0),
            },
            unordered,
        })
    }

    pub(super) fn grade(&self, answer: &Answered<'_>) -> Grade {
        match answer.json() {
            Some(found) => Grade::right(self.same(&self.expected, found)),
            None => Grade::wrong("the answer is not JSON"),
        }
    }

    fn same(&self, expected: &Value, found: &Value) -> bool {
        match (expected, found) {
            (Value::Number(a), Value::Number(b)) => {
                super::reference::same(expected, found)
                    || matches!((a.as_f64(), b.as_f64()), (Some(a), Some(b)) if self.tolerance.takes(a, b))
            }
            (Value::Array(a), Value::Array(b)) if a.len() != b.len() => false,
            (Value::Array(a), Value::Array(b)) if self.unordered => self.same_unordered(a, b),
            (Value::Array(a), Value::Array(b)) => a.iter().zip(b).all(|(a, b)| self.same(a, b)),
            (Value::Object(a), Value::Object(b)) => {
                a.len() == b.len()
                    && a.iter()
                        .all(|(key, a)| b.get(key).is_some_and(|b| self.same(a, b)))
            }
            _ => expected == found,
        }
    }

    /// Each expected value takes the first one left that is the same.
    fn same_unordered(&self, expected: &[Value], found: &[Value]) -> bool {
        let mut left: Vec<&Value> = found.iter().collect();
        expected.iter().all(|value| {
            let at = left.iter().position(|found| self.same(value, found));
            at.map(|at| left.swap_remove(at)).is_some()
        })
    }
}

impl Tolerance {
    fn takes(self, expected: f64, found: f64) -> bool {
        let room = self.absolute.max(self.relative * expected.abs());
        (found - expected).abs() <= room
    }
}

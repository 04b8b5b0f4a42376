//! `fields`: the share of expected fields that are right.

use super::grade::share;
use super::reference::{alike, missing};
use super::{Answered, Expected, Grade};
use crate::golden::Keys;
use serde_json::{Map, Value};

/// Each field of the expected object that the answer's object has alike (texts by
/// case and outer space), as a share. A field that is not there is null; fields
/// that are not expected do not count.
#[derive(Debug, Clone)]
pub(super) struct Fields {
    expected: Map<String, Value>,
}

impl Fields {
    pub(super) fn read(keys: &mut Keys<'_>, expected: &Expected<'_>) -> Option<Self> {
        match expected.value {
            Some(Value::Object(map)) if !map.is_empty() => Some(Self {
                expected: map.clone(),
            }),
            _ => {
                missing(keys, expected, "an object that is not empty");
                None
            }
        }
    }

    pub(super) fn grade(&self, answer: &Answered<'_>) -> Grade {
        let Some(Value::Object(found)) = answer.json() else {
            return Grade::wrong("the answer is no JSON object");
        };
        let wrong: Vec<&str> = self
            .expected
            .iter()
            .filter(|(name, value)| !alike(found.get(*name).unwrap_or(&Value::Null), value))
            .map(|(name, _)| name.as_str())
            .collect();
        let whole = self.expected.len();
        let grade = Grade::of(share(whole - wrong.len(), whole));
        if wrong.is_empty() {
            grade
        } else {
            grade.with(format!("not as expected: {}", wrong.join(", ")))
        }
    }
}

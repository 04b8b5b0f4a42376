//! Bands: least and most of what may come.

use evenkeel_document::{Findings, Node, Place, TableReader, Value};
use std::fmt;

/// Least and most, both allowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Band {
    /// Whether `value` lies within it.
    pub fn holds(&self, value: f64) -> bool {
        (self.least..=self.most).contains(&value)
    }
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least.total_cmp(&self.most).is_eq() {
            write!(f, "{}", self.least)
        } else {
            write!(f, "{} to {}", self.least, self.most)
        }
    }
}

/// The band at `key`, written `[least, most]`.
pub(super) fn read(table: &mut TableReader<'_, '_>, key: &'static str) -> Option<Band> {
    let numbers = table.numbers(key)?;
    let at = table.place(key);
    checked(&numbers, &at, table.findings)
}

/// The bands of a table whose keys are names, in the order of lines.
pub(super) fn read_named(
    table: &mut TableReader<'_, '_>,
    key: &'static str,
) -> Vec<(String, Band)> {
    let Some(scope) = table.table(key) else {
        return Vec::new();
    };
    let mut bands = Vec::new();
    for entry in &scope.table.entries {
        let at = scope.place.below(&entry.key, entry.line);
        let Some(numbers) = numbers(&entry.node) else {
            let message = format!("expected [least, most], found {}", entry.node.value.kind());
            table.findings.error(&at, message, None);
            continue;
        };
        if let Some(band) = checked(&numbers, &at, table.findings) {
            bands.push((entry.key.clone(), band));
        }
    }
    bands
}

fn numbers(node: &Node) -> Option<Vec<f64>> {
    let Value::Array(items) = &node.value else {
        return None;
    };
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts, shares and milliseconds"
    )]
    let number = |item: &Node| match item.value {
        Value::Integer(number) => Some(number as f64),
        Value::Float(number) if number.is_finite() => Some(number),
        _ => None,
    };
    items.iter().map(number).collect()
}

fn checked(numbers: &[f64], at: &Place, findings: &mut Findings) -> Option<Band> {
    match *numbers {
        [least, most] if least <= most => Some(Band { least, most }),
        [least, most] => {
            let message = format!("from {least} to {most} there is nothing");
            findings.error(at, message, Some("write the least first".to_owned()));
            None
        }
        _ => {
            let message = format!("has {} numbers, expected [least, most]", numbers.len());
            findings.error(at, message, None);
            None
        }
    }
}

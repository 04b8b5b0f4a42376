//! TOML with lines.

use ::toml::de::{DeTable, DeValue};

use crate::findings::Findings;
use crate::node::{Entry, Node, Table, Value};
use crate::place::Place;

/// Parses a TOML document; reports every syntax error, not only the first.
pub(super) fn parse(file: &Place, text: &str, findings: &mut Findings) -> Option<Node> {
    let lines = Lines::new(text);
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let line = error.span().map_or(0, |span| lines.of(span.start));
        let place = Place {
            line,
            ..file.clone()
        };
        let message = error.message().lines().collect::<Vec<_>>().join("; ");
        findings.error(&place, format!("not TOML: {message}"), None);
    }
    if !errors.is_empty() {
        return None;
    }
    Some(Node::new(1, Value::Table(table(root.get_ref(), &lines))))
}

fn table(source: &DeTable<'_>, lines: &Lines) -> Table {
    let mut entries: Vec<Entry> = source
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            line: lines.of(key.span().start),
            node: Node::new(
                lines.of(value.span().start),
                node_value(value.get_ref(), lines),
            ),
        })
        .collect();
    entries.sort_by_key(|entry| entry.line);
    Table { entries }
}

fn node_value(source: &DeValue<'_>, lines: &Lines) -> Value {
    match source {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Value::Float(f64::INFINITY), Value::Integer),
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(items) => Value::Array(
            items
                .iter()
                .map(|item| {
                    Node::new(
                        lines.of(item.span().start),
                        node_value(item.get_ref(), lines),
                    )
                })
                .collect(),
        ),
        DeValue::Table(inner) => Value::Table(table(inner, lines)),
    }
}

/// Byte offsets to line numbers, from 1.
struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    fn new(text: &str) -> Self {
        let starts = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(at, _)| at + 1))
            .collect();
        Self { starts }
    }

    fn of(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }
}

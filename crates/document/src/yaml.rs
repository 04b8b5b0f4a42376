//! YAML 1.2 (core schema) with lines: what manifests use of it.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};

use crate::findings::Findings;
use crate::node::{Entry, Node, Table, Value};
use crate::place::Place;

/// Deeper nesting than this is no configuration; it only exhausts the stack.
const DEEPEST: usize = 32;

/// More values than this, aliases counted as often as they are used, is no configuration.
const MOST_VALUES: usize = 20_000;

/// Parses one YAML document; reports the first thing that cannot be read.
pub(super) fn parse(file: &Place, text: &str, findings: &mut Findings) -> Option<Node> {
    let mut tree = Tree {
        parser: Parser::new_from_str(text),
        anchors: BTreeMap::new(),
        values: 0,
    };
    match tree.document() {
        Ok(node) => Some(node),
        Err(fault) => {
            // At the end of the text the parser counts one line too many.
            let line = fault.line.clamp(1, text.lines().count().max(1));
            let place = Place {
                line,
                ..file.clone()
            };
            findings.error(&place, fault.message, None);
            None
        }
    }
}

struct Fault {
    line: usize,
    message: String,
}

struct Tree<'t> {
    parser: Parser<'t, StrInput<'t>>,
    anchors: BTreeMap<usize, (Node, usize)>,
    values: usize,
}

impl<'t> Tree<'t> {
    fn next(&mut self) -> Result<(Event<'t>, usize), Fault> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, line(&span))),
            Some(Err(error)) => Err(Fault {
                line: error.marker().line(),
                message: format!("not YAML: {}", error.info()),
            }),
            None => Ok((Event::StreamEnd, 0)),
        }
    }

    fn document(&mut self) -> Result<Node, Fault> {
        let mut root = None;
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => break,
                (Event::DocumentStart(_), line) if root.is_some() => {
                    return Err(Fault {
                        line,
                        message: "a second document, expected one".to_owned(),
                    });
                }
                (Event::DocumentStart(_), _) => {
                    let (event, line) = self.next()?;
                    root = Some(self.node(event, line, 0)?);
                }
                _ => {}
            }
        }
        Ok(root.unwrap_or(Node::new(1, Value::Null)))
    }

    fn node(&mut self, event: Event<'t>, line: usize, depth: usize) -> Result<Node, Fault> {
        if depth > DEEPEST {
            let message = format!("nested deeper than {DEEPEST} levels");
            return Err(Fault { line, message });
        }
        let before = self.values;
        self.count(1, line)?;
        let (anchor, value) = match event {
            Event::Alias(anchor) => return self.alias(anchor, line),
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => {
                let message = "tags (`!…`) are not read".to_owned();
                return Err(Fault { line, message });
            }
            Event::Scalar(text, style, anchor, None) => (anchor, scalar(&text, style)),
            Event::SequenceStart(anchor, None) => (anchor, self.sequence(depth)?),
            Event::MappingStart(anchor, None) => (anchor, self.mapping(depth)?),
            _ => (0, Value::Null),
        };
        let node = Node::new(line, value);
        if anchor > 0 {
            self.anchors
                .insert(anchor, (node.clone(), self.values - before));
        }
        Ok(node)
    }

    fn alias(&mut self, anchor: usize, line: usize) -> Result<Node, Fault> {
        let Some((node, values)) = self.anchors.get(&anchor).cloned() else {
            let message = "an alias inside the value it names".to_owned();
            return Err(Fault { line, message });
        };
        self.count(values, line)?;
        Ok(Node { line, ..node })
    }

    fn sequence(&mut self, depth: usize) -> Result<Value, Fault> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::Array(items)),
                (event, line) => items.push(self.node(event, line, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, Fault> {
        let mut table = Table::default();
        loop {
            let (key, line) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(Value::Table(table)),
                (Event::Scalar(key, ..), line) => (key.into_owned(), line),
                (_, line) => {
                    let message = "a key that is not a plain word".to_owned();
                    return Err(Fault { line, message });
                }
            };
            if let Some(first) = table.get(&key) {
                let message = format!("key `{key}` twice, first in line {}", first.line);
                return Err(Fault { line, message });
            }
            let (event, value_line) = self.next()?;
            let node = self.node(event, value_line, depth + 1)?;
            table.entries.push(Entry { key, line, node });
        }
    }

    fn count(&mut self, more: usize, line: usize) -> Result<(), Fault> {
        self.values += more;
        if self.values > MOST_VALUES {
            let message = format!("more than {MOST_VALUES} values");
            return Err(Fault { line, message });
        }
        Ok(())
    }
}

fn line(span: &Span) -> usize {
    span.start.line()
}

/// A scalar's value by the core schema of YAML 1.2.2, section 10.3.2.
fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Value::Float(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => Value::Float(f64::NAN),
        _ => number(text).unwrap_or_else(|| Value::String(text.to_owned())),
    }
}

fn number(text: &str) -> Option<Value> {
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return i64::from_str_radix(digits, radix).ok().map(Value::Integer);
        }
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        || !unsigned.contains(|c: char| c.is_ascii_digit())
        || !unsigned
            .bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'))
    {
        return None;
    }
    if unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return Some(
            text.parse()
                .map_or(Value::Float(f64::INFINITY), Value::Integer),
        );
    }
    text.parse().ok().map(Value::Float)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: &Value) -> String {
        match value {
            Value::String(text) => format!("{text:?}"),
            other => other.kind(),
        }
    }

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        for (text, expected) in [
            ("", "nothing"),
            ("~", "nothing"),
            ("true", "`true`"),
            ("yes", "\"yes\""),
            ("12", "`12`"),
            ("-3", "`-3`"),
            ("+3", "`3`"),
            ("0x1F", "`31`"),
            ("0o17", "`15`"),
            ("0.93", "`0.93`"),
            ("1e3", "`1000.0`"),
            (".5", "`0.5`"),
            ("2027-06-30", "\"2027-06-30\""),
            ("1.2.3", "\"1.2.3\""),
            ("-", "\"-\""),
            (".", "\".\""),
            ("1_000", "\"1_000\""),
            ("99999999999999999999", "`inf`"),
        ] {
            assert_eq!(shown(&scalar(text, ScalarStyle::Plain)), expected, "{text}");
        }
        assert_eq!(shown(&scalar("12", ScalarStyle::DoubleQuoted)), "\"12\"");
    }
}

//! A prompt's text with `{{variables}}` in it.

use std::collections::BTreeSet;
use std::fmt;

/// A checked template.
///
/// `{{name}}` stands for a variable, spaces inside are allowed; `{{{{` is a plain
/// `{{`. Anything else, `}}` alone too, is text.
#[derive(Clone, PartialEq)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, PartialEq)]
enum Piece {
    Text(String),
    Variable(String),
}

/// What is wrong in a template, and in which of its lines, from 1.
#[derive(Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) line: usize,
    pub(crate) message: String,
    pub(crate) suggestion: String,
}

/// A variable met in a template, and in which of its lines, from 1.
#[derive(Debug, PartialEq)]
pub(crate) struct Use {
    pub(crate) line: usize,
    pub(crate) name: String,
}

impl Template {
    /// Reads a template, and where it uses which variable.
    ///
    /// # Errors
    /// Every `{{` that opens no variable.
    pub(crate) fn parse(text: &str) -> Result<(Self, Vec<Use>), Vec<Fault>> {
        let mut reading = Reading::default();
        let mut rest = text;
        while let Some(at) = rest.find("{{") {
            reading.text(&rest[..at]);
            rest = &rest[at + 2..];
            if let Some(after) = rest.strip_prefix("{{") {
                reading.text("{{");
                rest = after;
            } else {
                rest = reading.variable(rest);
            }
        }
        reading.text(rest);
        if reading.faults.is_empty() {
            let pieces = reading.pieces;
            Ok((Self { pieces }, reading.uses))
        } else {
            Err(reading.faults)
        }
    }

    /// The names it uses.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        let names = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Variable(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        });
        names.collect()
    }

    /// The text with each variable replaced by what `value` gives for it. A value is
    /// never read as a template.
    pub(crate) fn render<'v>(&self, value: impl Fn(&str) -> &'v str) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            text.push_str(match piece {
                Piece::Text(text) => text,
                Piece::Variable(name) => value(name),
            });
        }
        text
    }
}

impl fmt::Debug for Template {
    /// Shows the variables, never the text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.names()).finish()
    }
}

/// Whether `name` can name a variable: letters, digits and `_`, no digit first.
pub(crate) fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

struct Reading {
    pieces: Vec<Piece>,
    uses: Vec<Use>,
    faults: Vec<Fault>,
    line: usize,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            pieces: Vec::new(),
            uses: Vec::new(),
            faults: Vec::new(),
            line: 1,
        }
    }
}

impl Reading {
    fn text(&mut self, text: &str) {
        self.line += text.matches('\n').count();
        if let Some(Piece::Text(last)) = self.pieces.last_mut() {
            last.push_str(text);
        } else if !text.is_empty() {
            self.pieces.push(Piece::Text(text.to_owned()));
        }
    }

    /// Reads a variable from behind its `{{`; gives what follows it.
    fn variable<'t>(&mut self, rest: &'t str) -> &'t str {
        let end_of_line = rest.find('\n').unwrap_or(rest.len());
        let Some(end) = rest[..end_of_line].find("}}") else {
            self.fault("`{{` without `}}` in its line".to_owned());
            return rest;
        };
        let name = rest[..end].trim();
        if is_name(name) {
            self.pieces.push(Piece::Variable(name.to_owned()));
            let (line, name) = (self.line, name.to_owned());
            self.uses.push(Use { line, name });
        } else {
            let shown: String = name.chars().take(40).collect();
            self.fault(format!("`{{{{{shown}}}}}` does not name a variable"));
        }
        &rest[end + 2..]
    }

    fn fault(&mut self, message: String) {
        self.faults.push(Fault {
            line: self.line,
            message,
            suggestion: "write `{{name}}`, or `{{{{` for two plain braces".to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str) -> String {
        let (template, _) = Template::parse(text).unwrap();
        template.render(|name| match name {
            "a" => "1",
            "nested" => "{{a}}",
            _ => "?",
        })
    }

    #[test]
    fn variables_are_filled_once() {
        for (text, expected) in [
            ("", ""),
            ("x {{a}} y", "x 1 y"),
            ("{{ a }}{{a}}", "11"),
            ("{{nested}}", "{{a}}"),
            ("{{{{a}}", "{{a}}"),
            ("{{{{{{a}}", "{{1"),
            ("{\"k\": {\"a\": 1}} }}", "{\"k\": {\"a\": 1}} }}"),
            ("{{a}}}}", "1}}"),
        ] {
            assert_eq!(rendered(text), expected, "{text}");
        }
    }

    #[test]
    fn what_opens_no_variable_is_a_fault_with_its_line() {
        for (text, line, message) in [
            ("{{", 1, "`{{` without `}}` in its line"),
            ("a\nb {{a\n}}", 2, "`{{` without `}}` in its line"),
            ("{{}}", 1, "`{{}}` does not name a variable"),
            ("{{1a}}", 1, "`{{1a}}` does not name a variable"),
            ("{{{a}}}", 1, "`{{{a}}` does not name a variable"),
            ("\n\n{{a b}}", 3, "`{{a b}}` does not name a variable"),
            ("{{#if a}}", 1, "`{{#if a}}` does not name a variable"),
        ] {
            let faults = Template::parse(text).unwrap_err();
            assert_eq!(faults.len(), 1, "{text}: {faults:?}");
            assert_eq!(faults[0].line, line, "{text}");
            assert_eq!(faults[0].message, message, "{text}");
        }
    }

    #[test]
    fn every_fault_and_every_use_is_told() {
        assert_eq!(Template::parse("{{\n{{1}} {{").unwrap_err().len(), 3);
        let (_, uses) = Template::parse("{{a}}\n{{{{ {{b}}").unwrap();
        let met: Vec<_> = uses.iter().map(|u| (u.name.as_str(), u.line)).collect();
        assert_eq!(met, [("a", 1), ("b", 2)]);
    }
}

//! From text to a tree: syntax and placeholders, always with file and line.

use crate::findings::Findings;
use crate::node::{Table, Value};
use crate::place::Place;
use crate::{placeholder, toml, yaml};

/// How a file is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    Toml,
    Yaml,
}

/// Parses `text` and fills in its placeholders. `None` if it does not parse;
/// `findings` then says where.
pub(crate) fn parse(
    file: &Place,
    syntax: Syntax,
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
    findings: &mut Findings,
) -> Option<Table> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut root = match syntax {
        Syntax::Toml => toml::parse(file, text, findings)?,
        Syntax::Yaml => yaml::parse(file, text, findings)?,
    };
    placeholder::fill(&mut root, file, env, findings);
    match root.value {
        Value::Table(table) => Some(table),
        Value::Null => Some(Table::default()),
        other => {
            let place = Place {
                line: root.line,
                ..file.clone()
            };
            findings.error(
                &place,
                format!("expected keys and values, found {}", other.kind()),
                None,
            );
            None
        }
    }
}

//! From text to checked tables: syntax, placeholders, keys and types, always with file and line.

mod node;
mod place;
mod placeholder;
mod table;
mod toml;
mod yaml;

pub(crate) use self::node::{Table, Value};
pub(crate) use self::place::{Findings, Place, Scope, locate_any, nearest};
pub(crate) use self::table::{Item, TableReader, assign};

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
        Syntax::Toml => self::toml::parse(file, text, findings)?,
        Syntax::Yaml => self::yaml::parse(file, text, findings)?,
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

//! `${NAME}` and `${NAME:-default}` in strings; a default may have placeholders of its own.

use crate::findings::Findings;
use crate::node::{Node, Value};
use crate::place::Place;

/// Replaces the placeholders in every string below `root`. As in a shell,
/// `${NAME:-default}` takes the default where the variable is unset or empty, and reaches to the
/// `}` of its own; `$$` is a dollar sign.
pub(super) fn fill(
    root: &mut Node,
    at: &Place,
    env: &dyn Fn(&str) -> Option<String>,
    findings: &mut Findings,
) {
    match &mut root.value {
        Value::String(text) if text.contains('$') => match filled(text, env) {
            Ok(done) => {
                *text = done.text;
                root.variables = done.variables;
            }
            Err(fault) => {
                findings.error(at, fault.message, Some(fault.suggestion));
                root.value = Value::Unusable;
            }
        },
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let place = at.item(index, item.line);
                fill(item, &place, env, findings);
            }
        }
        Value::Table(table) => {
            for entry in &mut table.entries {
                let place = at.below(&entry.key, entry.line);
                fill(&mut entry.node, &place, env, findings);
            }
        }
        _ => {}
    }
}

#[derive(Debug, PartialEq)]
struct Fault {
    message: String,
    suggestion: String,
}

#[derive(Debug)]
struct Filled {
    text: String,
    variables: Vec<String>,
}

/// Deepest nesting of placeholders in defaults; no configuration that a person reads has more.
const MOST_LEVELS: usize = 8;

fn filled(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Filled, Fault> {
    let (pieces, _) = pieces(text, 0)?;
    let mut done = Filled {
        text: String::with_capacity(text.len()),
        variables: Vec::new(),
    };
    fill_in(&pieces, env, &mut done)?;
    Ok(done)
}

/// A part of a string.
enum Piece<'t> {
    Text(&'t str),
    Variable {
        name: &'t str,
        default: Option<Vec<Self>>,
    },
}

/// The pieces of `text`, and what follows them. Below the top they end with the `}` that closes the
/// placeholder they are the default of, which is taken.
fn pieces(text: &str, level: usize) -> Result<(Vec<Piece<'_>>, &str), Fault> {
    let mut pieces = Vec::new();
    let mut rest = text;
    loop {
        let mark = rest.find(|c| c == '$' || (level > 0 && c == '}'));
        let Some(mark) = mark else {
            if level > 0 {
                return Err(unclosed());
            }
            pieces.push(Piece::Text(rest));
            return Ok((pieces, ""));
        };
        pieces.push(Piece::Text(&rest[..mark]));
        let (dollar, after) = rest[mark..].split_at(1);
        if dollar == "}" {
            return Ok((pieces, after));
        }
        rest = if let Some(after) = after.strip_prefix('{') {
            let (variable, after) = variable(after, level + 1)?;
            pieces.push(variable);
            after
        } else {
            pieces.push(Piece::Text(dollar));
            after.strip_prefix('$').unwrap_or(after)
        };
    }
}

/// The placeholder whose `${` stands before `text`, and what follows it.
fn variable(text: &str, level: usize) -> Result<(Piece<'_>, &str), Fault> {
    if level > MOST_LEVELS {
        return Err(Fault {
            message: format!("placeholders within more than {MOST_LEVELS} others"),
            suggestion: "write fewer defaults within defaults".to_owned(),
        });
    }
    let end = text.find('}').ok_or_else(unclosed)?;
    let default = text[..end].find(":-");
    let name = &text[..default.unwrap_or(end)];
    if !is_variable(name) {
        return Err(Fault {
            message: format!("`{name}` is not the name of an environment variable"),
            suggestion: "write `${NAME}` or `${NAME:-default}`".to_owned(),
        });
    }
    let (default, after) = match default {
        Some(at) => {
            let (default, after) = pieces(&text[at + 2..], level)?;
            (Some(default), after)
        }
        None => (None, &text[end + 1..]),
    };
    Ok((Piece::Variable { name, default }, after))
}

fn unclosed() -> Fault {
    Fault {
        message: "`${` without `}`".to_owned(),
        suggestion: "write `${NAME}`, or `$$` for a dollar sign".to_owned(),
    }
}

/// Puts what the pieces stand for into `done`. A variable of a default counts only where that
/// default is taken.
fn fill_in(
    pieces: &[Piece<'_>],
    env: &dyn Fn(&str) -> Option<String>,
    done: &mut Filled,
) -> Result<(), Fault> {
    for piece in pieces {
        match piece {
            Piece::Text(text) => done.text.push_str(text),
            Piece::Variable { name, default } => {
                done.variables.push((*name).to_owned());
                match (env(name), default) {
                    (Some(value), None) => done.text.push_str(&value),
                    (Some(value), Some(_)) if !value.is_empty() => done.text.push_str(&value),
                    (_, Some(default)) => fill_in(default, env, done)?,
                    (None, None) => return Err(unset(name)),
                }
            }
        }
    }
    Ok(())
}

fn unset(name: &str) -> Fault {
    Fault {
        message: format!("environment variable {name} is not set"),
        suggestion: format!("set it, or write `${{{name}:-default}}`"),
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "KEY" => Some("secret".to_owned()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${KEY}".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn placeholders_are_filled_and_a_doubled_dollar_is_one() {
        for (text, expected) in [
            ("a ${KEY} b", "a secret b"),
            ("${KEY}${KEY}", "secretsecret"),
            ("${EMPTY}", ""),
            ("${EMPTY:-x}", "x"),
            ("${NONE:-}", ""),
            ("${NONE:-a:-b}", "a:-b"),
            ("$${KEY}", "${KEY}"),
            ("costs $5", "costs $5"),
            ("$", "$"),
            ("${NESTED}", "${KEY}"),
            ("${NONE:-${KEY}}", "secret"),
            ("${NONE:-${EMPTY:-x}}/y", "x/y"),
            ("${NONE:-a${ALSO:-b${KEY}c}d}e", "absecretcde"),
            ("${KEY:-${NONE}}", "secret"),
            ("${NONE:-$${KEY}", "${KEY"),
            ("${NONE:-{x}}", "{x}"),
            ("${NONE:-$}", "$"),
            ("}${KEY}{", "}secret{"),
        ] {
            assert_eq!(filled(text, &env).unwrap().text, expected, "{text}");
        }
    }

    #[test]
    fn a_placeholder_that_cannot_be_filled_says_why() {
        for (text, expected) in [
            ("${NONE}", "environment variable NONE is not set"),
            ("${NONE", "`${` without `}`"),
            ("${NONE:-${KEY}", "`${` without `}`"),
            ("${KEY:-${NONE:-x}", "`${` without `}`"),
            ("${NONE:-$$", "`${` without `}`"),
            ("${NONE:-${ALSO}}", "environment variable ALSO is not set"),
            (
                "${KEY:-${a b}}",
                "`a b` is not the name of an environment variable",
            ),
            ("${}", "`` is not the name of an environment variable"),
            ("${1A}", "`1A` is not the name of an environment variable"),
        ] {
            assert_eq!(filled(text, &env).unwrap_err().message, expected, "{text}");
        }
    }

    #[test]
    fn every_variable_that_was_looked_up_is_told() {
        let done = filled("${NONE:-${KEY:-${ALSO}}}", &env).unwrap();
        assert_eq!(done.variables, ["NONE", "KEY"]);
    }

    #[test]
    fn defaults_within_defaults_are_bounded() {
        let nested = |levels| "${NONE:-".repeat(levels) + "x" + &"}".repeat(levels);
        assert_eq!(filled(&nested(MOST_LEVELS), &env).unwrap().text, "x");
        let fault = filled(&nested(100_000), &env).unwrap_err();
        assert_eq!(fault.message, "placeholders within more than 8 others");
    }
}

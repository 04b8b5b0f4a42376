//! `${NAME}` and `${NAME:-default}` in strings.

use crate::findings::Findings;
use crate::node::{Node, Value};
use crate::place::Place;

/// Replaces the placeholders in every string below `root`. As in a shell,
/// `${NAME:-default}` takes the default where the variable is unset or empty;
/// `$$` is a dollar sign.
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

fn filled(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Filled, Fault> {
    let mut out = String::with_capacity(text.len());
    let mut variables = Vec::new();
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        out.push_str(&rest[..dollar]);
        rest = &rest[dollar + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some(after) = rest.strip_prefix('{') {
            let (inside, after) = after.split_once('}').ok_or_else(|| Fault {
                message: "`${` without `}`".to_owned(),
                suggestion: "write `${NAME}`, or `$$` for a dollar sign".to_owned(),
            })?;
            let (name, value) = looked_up(inside, env)?;
            out.push_str(&value);
            variables.push(name.to_owned());
            rest = after;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    Ok(Filled {
        text: out,
        variables,
    })
}

/// The variable's name and what stands for it.
fn looked_up<'t>(
    inside: &'t str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(&'t str, String), Fault> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    if !is_variable(name) {
        return Err(Fault {
            message: format!("`{name}` is not the name of an environment variable"),
            suggestion: "write `${NAME}` or `${NAME:-default}`".to_owned(),
        });
    }
    match (env(name), default) {
        (Some(value), None) => Ok((name, value)),
        (Some(value), Some(_)) if !value.is_empty() => Ok((name, value)),
        (_, Some(default)) => Ok((name, default.to_owned())),
        (None, None) => Err(Fault {
            message: format!("environment variable {name} is not set"),
            suggestion: format!("set it, or write `${{{name}:-default}}`"),
        }),
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
        ] {
            assert_eq!(filled(text, &env).unwrap().text, expected, "{text}");
        }
    }

    #[test]
    fn a_placeholder_that_cannot_be_filled_says_why() {
        for (text, expected) in [
            ("${NONE}", "environment variable NONE is not set"),
            ("${NONE", "`${` without `}`"),
            ("${}", "`` is not the name of an environment variable"),
            ("${1A}", "`1A` is not the name of an environment variable"),
        ] {
            assert_eq!(filled(text, &env).unwrap_err().message, expected, "{text}");
        }
    }
}

//! Values and bounds.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{Builder, kind_of_keyword};
use crate::dialect::{EnumValues, Keyword, Rule};
use crate::error::Reason;
use crate::kind::Kinds;
use crate::loss::Treatment;
use crate::node::{Node, NodeId};

/// Longest default or example that is told in words, in bytes.
const LONGEST_TOLD: usize = 80;

/// The values of `enum` or `const`.
pub(super) fn values_of(map: &Map<String, Value>) -> Option<Cow<'_, [Value]>> {
    match (map.get("enum"), map.get("const")) {
        (Some(Value::Array(values)), Some(constant)) => Some(Cow::Owned(
            values.iter().filter(|v| *v == constant).cloned().collect(),
        )),
        (Some(Value::Array(values)), None) => Some(Cow::Borrowed(values)),
        (_, Some(constant)) => Some(Cow::Borrowed(std::slice::from_ref(constant))),
        _ => None,
    }
}

impl Builder<'_> {
    /// `enum` and `const`.
    pub(super) fn values(
        &mut self,
        node: &mut Node,
        map: &Map<String, Value>,
        at: &str,
    ) -> Result<(), Reason> {
        let Some(values) = values_of(map) else {
            return Ok(());
        };
        let mut kept: Vec<Value> = Vec::new();
        for value in values.iter() {
            if !node.kinds.admits(Kinds::of(value)) || value.is_null() || kept.contains(value) {
                continue;
            }
            if value.is_object() || value.is_array() {
                return self.inexpressible("an enum of objects or lists", at);
            }
            kept.push(value.clone());
        }
        if !values.iter().any(Value::is_null) {
            node.kinds = node.kinds.without(Kinds::NULL);
        }
        if kept.is_empty() {
            return Ok(()); // null alone, which its type says
        }
        let both_booleans = node.kinds.without(Kinds::NULL) == Kinds::BOOLEAN && kept.len() == 2;
        if both_booleans {
            return Ok(());
        }
        if self.takes(&kept) {
            node.is_const = map.contains_key("const")
                && kept.len() == 1
                && !node.kinds.meets(Kinds::NULL)
                && self.rule(Keyword::Const) == Rule::Enforced;
            node.values = Some(kept);
        } else {
            let list: Vec<String> = kept.iter().map(Value::to_string).collect();
            node.told.push(format!("one of {}", list.join(", ")));
            self.lose(at, "enum", Treatment::Told);
        }
        Ok(())
    }

    fn takes(&self, values: &[Value]) -> bool {
        self.rule(Keyword::Enum) == Rule::Enforced
            && values.iter().all(|value| match self.rules.enum_values {
                EnumValues::Primitives => true,
                EnumValues::StringsAndNumbers => value.is_string() || value.is_number(),
                EnumValues::Strings => value.is_string(),
            })
    }

    /// Every keyword that bounds a value of the node's types.
    pub(super) fn bounds(&mut self, node: &mut Node, map: &Map<String, Value>, at: &str) {
        let mut told_length = false;
        for (name, value) in map {
            let Some(keyword) = Keyword::named(name) else {
                continue;
            };
            let speaks_of = kind_of_keyword(name);
            let numeric = speaks_of == Kinds::NUMBER && node.kinds.meets(Kinds::INTEGER);
            if !(numeric || node.kinds.meets(speaks_of)) {
                continue;
            }
            let Some(words) = words(keyword, value) else {
                continue;
            };
            if keyword == Keyword::Format && !is_known_format(value) {
                continue; // a note for other programs, such as `uint32`
            }
            if self.rule(keyword) == Rule::Enforced && self.fits(node, map, keyword, value) {
                node.bounds.insert(name.clone(), value.clone());
                continue;
            }
            told_length |= matches!(keyword, Keyword::MinLength | Keyword::MaxLength);
            node.told.push(words);
            self.lose(at, keyword.as_str(), Treatment::Told);
        }
        // A length that is told goes with a pattern that is sent, and never half of it.
        if told_length {
            for name in ["minLength", "maxLength"] {
                if let Some((_, value)) = node.bounds.shift_remove_entry(name)
                    && let Some(keyword) = Keyword::named(name)
                {
                    node.told.extend(words(keyword, &value));
                    self.lose(at, keyword.as_str(), Treatment::Told);
                }
            }
        }
    }

    /// Whether a keyword that the dialect enforces is one that it enforces here.
    fn fits(&self, node: &Node, map: &Map<String, Value>, keyword: Keyword, value: &Value) -> bool {
        match keyword {
            Keyword::Format => value
                .as_str()
                .is_some_and(|f| self.rules.formats.contains(&f)),
            Keyword::Pattern => {
                !self.rules.anchored_patterns || value.as_str().is_some_and(is_plain_anchored)
            }
            Keyword::MinLength | Keyword::MaxLength => {
                let beside =
                    map.contains_key("pattern") || map.get("format").is_some_and(is_known_format);
                !(self.rules.length_or_pattern && beside) && self.repeats(value)
            }
            Keyword::MinItems => {
                self.repeats(value)
                    && !(self.rules.min_items_at_most_one && value.as_u64().is_none_or(|n| n > 1))
            }
            Keyword::MaxItems => self.repeats(value),
            Keyword::Minimum
            | Keyword::Maximum
            | Keyword::ExclusiveMinimum
            | Keyword::ExclusiveMaximum => {
                !self.rules.integer_bounds_only || !node.kinds.meets(Kinds::NUMBER)
            }
            _ => true,
        }
    }

    fn repeats(&self, value: &Value) -> bool {
        let most = self.rules.limits.repetitions;
        most.is_none_or(|most| value.as_u64().is_some_and(|n| n <= most))
    }

    /// Title, description, default and examples.
    pub(super) fn annotate(&mut self, id: NodeId, map: &Map<String, Value>) {
        let text = |name: &str| map.get(name).and_then(Value::as_str).map(str::to_owned);
        let (title, description) = (text("title"), text("description"));
        let mut hints = Map::new();
        let mut told = Vec::new();
        for (name, keyword, said) in [
            ("default", Keyword::Default, "by default"),
            ("examples", Keyword::Examples, "for example"),
        ] {
            let Some(value) = map.get(name) else { continue };
            if self.rule(keyword) == Rule::Hint {
                hints.insert(name.to_owned(), value.clone());
                continue;
            }
            let written = value.to_string();
            if !value.is_null() && written.len() <= LONGEST_TOLD {
                told.push(format!("{said} {written}"));
            }
        }
        let node = &mut self.nodes[id];
        node.title = title.or(node.title.take());
        node.description = description.or(node.description.take());
        node.told.extend(told);
        node.bounds.extend(hints);
    }
}

/// Formats that JSON Schema itself defines; others are notes, which no validator checks.
fn is_known_format(value: &Value) -> bool {
    const KNOWN: [&str; 19] = [
        "date-time",
        "date",
        "time",
        "duration",
        "email",
        "idn-email",
        "hostname",
        "idn-hostname",
        "ipv4",
        "ipv6",
        "uri",
        "uri-reference",
        "iri",
        "iri-reference",
        "uuid",
        "uri-template",
        "json-pointer",
        "relative-json-pointer",
        "regex",
    ];
    value.as_str().is_some_and(|format| KNOWN.contains(&format))
}

/// Whether a pattern is one that llama.cpp turns into a grammar: anchored on both sides, no
/// look-around, and no escape beyond those its converter knows.
fn is_plain_anchored(pattern: &str) -> bool {
    let Some(inner) = pattern.strip_prefix('^').and_then(|p| p.strip_suffix('$')) else {
        return false;
    };
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' if !matches!(chars.next(), Some('d' | 'w' | 's' | '.' | '-' | '/' | '+')) => {
                return false;
            }
            '^' | '$' => return false,
            _ => {}
        }
    }
    !inner.contains("(?")
}

/// A bound in plain words; none for what is no bound, or not written as one.
fn words(keyword: Keyword, value: &Value) -> Option<String> {
    let number = value.is_number().then_some(value);
    let count = |one: &str| {
        let n = value.as_f64().filter(|n| *n >= 0.0)?;
        Some(match (n.to_string().as_str(), one) {
            ("1", one) => format!("1 {one}"),
            (n, "property") => format!("{n} properties"),
            (n, one) => format!("{n} {one}s"),
        })
    };
    Some(match keyword {
        Keyword::MinLength => format!("at least {}", count("character")?),
        Keyword::MaxLength => format!("at most {}", count("character")?),
        Keyword::Pattern => format!("matches the regular expression {}", value.as_str()?),
        Keyword::Format => format!("written as {}", value.as_str()?),
        Keyword::Minimum => format!("at least {}", number?),
        Keyword::Maximum => format!("at most {}", number?),
        Keyword::ExclusiveMinimum => format!("more than {}", number?),
        Keyword::ExclusiveMaximum => format!("less than {}", number?),
        Keyword::MultipleOf => format!("a multiple of {}", number?),
        Keyword::MinItems => format!("at least {}", count("item")?),
        Keyword::MaxItems => format!("at most {}", count("item")?),
        Keyword::UniqueItems if *value == Value::Bool(true) => "no two items alike".to_owned(),
        Keyword::MinProperties => format!("at least {}", count("property")?),
        Keyword::MaxProperties => format!("at most {}", count("property")?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_anchored_patterns_go_to_a_grammar() {
        for fine in ["^a+$", "^[A-Z]{2}\\d{3}$", "^(a|b)$"] {
            assert!(is_plain_anchored(fine), "{fine}");
        }
        for not in ["\\S", "^a", "a$", "^a\\!$", "^(?=x)y$", "^a$|^b$"] {
            assert!(!is_plain_anchored(not), "{not}");
        }
    }
}

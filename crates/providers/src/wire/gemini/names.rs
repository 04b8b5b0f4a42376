//! Field names: the format is written in camelCase and read in either case.

use crate::wire::tool_names::NameRule;
use serde_json::{Map, Value};

/// What a function may be called: the characters of Google's reference. It
/// allows 128 of them; 64, the limit of its earlier versions, are taken by all.
pub(super) const RULE: NameRule = NameRule {
    max_chars: 64,
    also: ".:",
    letter_first: true,
};

/// The fields under their camelCase names. Of a field that is there in both
/// spellings the camelCase one holds.
pub(super) fn camel_keys(map: Map<String, Value>) -> Map<String, Value> {
    if !map.keys().any(|name| name.contains('_')) {
        return map;
    }
    let mut out = Map::with_capacity(map.len());
    let (plain, snake): (Vec<_>, Vec<_>) =
        map.into_iter().partition(|(name, _)| !name.contains('_'));
    out.extend(plain);
    for (name, value) in snake {
        out.entry(camel(&name)).or_insert(value);
    }
    out
}

/// As [`camel_keys`], where the value is an object.
pub(super) fn camel_value(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(camel_keys(map)),
        other => other,
    }
}

fn camel(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut upper = false;
    for c in name.chars() {
        if c == '_' && !out.is_empty() {
            upper = true;
        } else if upper {
            out.push(c.to_ascii_uppercase());
            upper = false;
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_spellings_become_one() {
        let map = json!({"system_instruction": 1, "topP": 2, "top_p": 3, "_x": 4, "a": 5});
        assert_eq!(
            camel_value(map),
            json!({"topP": 2, "a": 5, "systemInstruction": 1, "_x": 4})
        );
    }
}

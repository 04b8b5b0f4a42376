//! `nullable: true`, the way `OpenAPI` 3.0 lets null in, in the words of JSON Schema.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::pointer::{child, decoded};
use crate::survey::Place;

/// Keywords that may shut null out whatever `type` says, and so have to stand beside it.
const BOUND: [&str; 8] = [
    "$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else",
];

/// `schema` with every `nullable: true` said in words that validators and providers know; none
/// where it has no such word. For a schema whose depth has been surveyed.
///
/// Null is let in beside `type`, `enum`, `const`, references and unions. Nothing but the schema's
/// own parts are looked at: a property of that name, a default or an enum value stays.
pub(crate) fn spelled_out(schema: &Value) -> Option<Value> {
    if !speaks(schema, Place::Schema) {
        return None;
    }
    let mut plain = schema.clone();
    let mut moved = HashSet::new();
    spell(&mut plain, Place::Schema, "", &mut moved);
    if !moved.is_empty() {
        follow(&mut plain, Place::Schema, &moved);
    }
    Some(plain)
}

/// Whether any part of the schema says that it is nullable.
fn speaks(value: &Value, place: Place) -> bool {
    match value {
        Value::Object(map) => {
            (place.is_schema() && is_nullable(map))
                || map.iter().any(|(k, v)| speaks(v, place.of_member(k)))
        }
        Value::Array(items) => items.iter().any(|item| speaks(item, place.of_item())),
        _ => false,
    }
}

fn is_nullable(map: &Map<String, Value>) -> bool {
    map.get("nullable") == Some(&Value::Bool(true))
}

/// Spells out `value`, at `at` in the schema as it came, and notes which keywords were moved.
fn spell(value: &mut Value, place: Place, at: &str, moved: &mut HashSet<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map.iter_mut() {
                spell(value, place.of_member(name), &child(at, name), moved);
            }
            if place.is_schema() && is_nullable(map) {
                let names = let_null_in(map);
                moved.extend(names.into_iter().map(|name| child(at, name)));
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter_mut().enumerate() {
                spell(item, place.of_item(), &child(at, &i.to_string()), moved);
            }
        }
        _ => {}
    }
}

/// Lets null into one schema; the keywords that now stand in the first branch of its `anyOf`.
fn let_null_in(map: &mut Map<String, Value>) -> Vec<&'static str> {
    widen(map);
    let mut names: Vec<&str> = BOUND
        .into_iter()
        .filter(|name| map.contains_key(*name))
        .collect();
    if names == ["anyOf"]
        && let Some(Value::Array(branches)) = map.get_mut("anyOf")
    {
        branches.push(json!({"type": "null"}));
        names.clear();
    } else if !names.is_empty() {
        let branch: Map<String, Value> = names
            .iter()
            .filter_map(|name| map.shift_remove_entry(*name))
            .collect();
        map.insert("anyOf".to_owned(), json!([branch, {"type": "null"}]));
    }
    let says_types = ["type", "enum", "anyOf"];
    // Without one of these, null is let in as any value is, and the word may stay for readers.
    if says_types.iter().any(|name| map.contains_key(*name)) {
        map.shift_remove("nullable");
    }
    names
}

/// Lets null in beside `type`, `enum` and `const`.
fn widen(map: &mut Map<String, Value>) {
    match map.get_mut("type") {
        Some(Value::Array(kinds)) if !kinds.contains(&json!("null")) => kinds.push(json!("null")),
        Some(kind @ Value::String(_)) if *kind != "null" => *kind = json!([kind.take(), "null"]),
        _ => {}
    }
    if let Some(Value::Array(values)) = map.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    if let Some(constant) = map.shift_remove("const") {
        let both = vec![constant, Value::Null];
        match map.get_mut("enum") {
            Some(Value::Array(values)) => values.retain(|value| both.contains(value)),
            _ => {
                map.insert("enum".to_owned(), Value::Array(both));
            }
        }
    }
}

/// Points references that lead through a moved keyword to where it stands now.
fn follow(value: &mut Value, place: Place, moved: &HashSet<String>) {
    match value {
        Value::Object(map) => {
            if place.is_schema()
                && let Some(Value::String(reference)) = map.get_mut("$ref")
                && let Some(fragment) = reference.strip_prefix('#')
            {
                let led = led(&decoded(fragment), moved);
                if let Some(led) = led {
                    *reference = led;
                }
            }
            for (name, value) in map.iter_mut() {
                follow(value, place.of_member(name), moved);
            }
        }
        Value::Array(items) => {
            for item in items {
                follow(item, place.of_item(), moved);
            }
        }
        _ => {}
    }
}

/// The reference to what stood at `pointer`; none where it stands there still.
fn led(pointer: &str, moved: &HashSet<String>) -> Option<String> {
    let mut was = String::new();
    let mut is = "#".to_owned();
    let mut changed = false;
    for token in pointer.split('/').skip(1) {
        was.push('/');
        was.push_str(token);
        if moved.contains(&was) {
            is.push_str("/anyOf/0");
            changed = true;
        }
        is.push('/');
        is.push_str(&token.replace('%', "%25"));
    }
    changed.then_some(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_let_in_beside_whatever_says_what_a_value_may_be() {
        for (written, plain) in [
            (
                json!({"type": "string"}),
                json!({"type": ["string", "null"]}),
            ),
            (
                json!({"type": ["string", "integer"]}),
                json!({"type": ["string", "integer", "null"]}),
            ),
            (
                json!({"type": ["string", "null"]}),
                json!({"type": ["string", "null"]}),
            ),
            (
                json!({"type": "string", "enum": ["a"]}),
                json!({"type": ["string", "null"], "enum": ["a", null]}),
            ),
            (json!({"const": 1}), json!({"enum": [1, null]})),
            (
                json!({"const": 1, "enum": [1, 2]}),
                json!({"enum": [1, null]}),
            ),
            (
                json!({"$ref": "#/$defs/a", "title": "A"}),
                json!({"title": "A", "anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}),
            ),
            (
                json!({"type": "object", "allOf": [{}]}),
                json!({"type": ["object", "null"], "anyOf": [{"allOf": [{}]}, {"type": "null"}]}),
            ),
            (
                json!({"anyOf": [{"type": "string"}]}),
                json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            ),
            (
                json!({"oneOf": [{"type": "string"}]}),
                json!({"anyOf": [{"oneOf": [{"type": "string"}]}, {"type": "null"}]}),
            ),
            (
                json!({"description": "anything"}),
                json!({"description": "anything", "nullable": true}),
            ),
        ] {
            let mut said = written.clone();
            said["nullable"] = json!(true);
            assert_eq!(spelled_out(&said), Some(plain), "{written}");
            assert_eq!(spelled_out(&written), None, "{written}");
        }
    }

    #[test]
    fn only_schemas_are_nullable() {
        for other in [
            json!({"properties": {"nullable": true}}),
            json!({"default": {"type": "string", "nullable": true}}),
            json!({"enum": [{"nullable": true}]}),
            json!({"type": "string", "nullable": false}),
        ] {
            assert_eq!(spelled_out(&other), None, "{other}");
        }
    }

    #[test]
    fn references_follow_what_was_moved() {
        let written = json!({"properties": {
            "a b": {"nullable": true, "allOf": [{"properties": {
                "in": {"nullable": true, "oneOf": [{"type": "string"}]},
            }}]},
            "c": {"$ref": "#/properties/a%20b/allOf/0/properties/in/oneOf/0"},
            "d": {"$ref": "#/properties/a%20b"},
        }});
        let plain = spelled_out(&written).unwrap();
        let c = plain["properties"]["c"]["$ref"].as_str().unwrap();
        let found = crate::pointer::resolve(&plain, c);
        assert_eq!(found, Some(&json!({"type": "string"})), "{c}");
        assert_eq!(plain["properties"]["d"], written["properties"]["d"]);
    }
}

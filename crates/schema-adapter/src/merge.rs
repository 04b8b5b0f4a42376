//! Two schemas that both hold, as one.

use serde_json::{Map, Value, json};

use crate::kind::Kinds;

/// Words that say nothing about validity.
pub(crate) const ANNOTATIONS: [&str; 9] = [
    "title",
    "description",
    "default",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
    "nullable",
];

/// Both at once.
pub(crate) struct Merged {
    pub(crate) map: Map<String, Value>,
    /// Keywords that only one of two different statements was kept of.
    pub(crate) dropped: Vec<String>,
}

/// `a` and `b` as one schema, neither holding `$ref` or `allOf`; what `a` says of itself (title,
/// description) stands. None where nothing obeys both.
pub(crate) fn merge(a: Map<String, Value>, b: Map<String, Value>) -> Option<Merged> {
    let mut dropped = Vec::new();
    let (mut a, mut b) = (constant_as_enum(a, &b), b);
    if a.contains_key("enum") {
        b = constant_as_enum(b, &a);
    }
    share_rest(&mut a, &mut b);
    for (keyword, theirs) in b {
        let Some(ours) = a.get(&keyword) else {
            a.insert(keyword, theirs);
            continue;
        };
        if *ours == theirs || ANNOTATIONS.contains(&keyword.as_str()) {
            continue;
        }
        match combine(&keyword, ours, &theirs)? {
            Some(both) => {
                a.insert(keyword, both);
            }
            None => dropped.push(keyword),
        }
    }
    Some(Merged { map: a, dropped })
}

/// `const` as an `enum` of one, where `other` has either.
fn constant_as_enum(mut map: Map<String, Value>, other: &Map<String, Value>) -> Map<String, Value> {
    if (other.contains_key("enum") || other.contains_key("const"))
        && let Some(value) = map.shift_remove("const")
    {
        map.insert("enum".to_owned(), Value::Array(vec![value]));
    }
    map
}

/// Both statements of a keyword as one: none on the outside where nothing obeys both, none on the
/// inside where they cannot be written as one.
#[expect(
    clippy::option_option,
    reason = "the two absences mean different things, as said above"
)]
fn combine(keyword: &str, a: &Value, b: &Value) -> Option<Option<Value>> {
    Some(match keyword {
        "type" => Some(Kinds::written(a).common(Kinds::written(b))?.to_json()),
        "enum" | "const" => {
            let (a, b) = (listed(a), listed(b));
            let both: Vec<Value> = a.iter().filter(|v| b.contains(v)).cloned().collect();
            if both.is_empty() {
                return None;
            }
            Some(Value::Array(both))
        }
        "properties" => properties(a, b),
        "required" => {
            let mut names = listed(a).to_vec();
            names.extend(listed(b).iter().filter(|n| !listed(a).contains(n)).cloned());
            Some(Value::Array(names))
        }
        "items" | "additionalProperties" => both_schemas(a, b),
        "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" => {
            farther(a, b, |a, b| a < b)
        }
        "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" => {
            farther(a, b, |a, b| a > b)
        }
        "uniqueItems" => Some(Value::Bool(
            *a == Value::Bool(true) || *b == Value::Bool(true),
        )),
        _ => None,
    })
}

fn listed(value: &Value) -> &[Value] {
    match value {
        Value::Array(values) => values,
        one => std::slice::from_ref(one),
    }
}

fn both_schemas(a: &Value, b: &Value) -> Option<Value> {
    match (a, b) {
        (Value::Bool(true), other) | (other, Value::Bool(true)) => Some(other.clone()),
        (Value::Bool(false), _) | (_, Value::Bool(false)) => Some(Value::Bool(false)),
        (Value::Object(_), Value::Object(_)) => Some(json!({"allOf": [a, b]})),
        _ => None,
    }
}

fn properties(a: &Value, b: &Value) -> Option<Value> {
    let (Value::Object(a), Value::Object(b)) = (a, b) else {
        return None;
    };
    let mut all = a.clone();
    for (name, schema) in b {
        let both = match a.get(name) {
            Some(ours) if ours != schema => both_schemas(ours, schema)?,
            _ => schema.clone(),
        };
        all.insert(name.clone(), both);
    }
    Some(Value::Object(all))
}

fn farther(a: &Value, b: &Value, replaces: impl Fn(f64, f64) -> bool) -> Option<Value> {
    let (x, y) = (a.as_f64()?, b.as_f64()?);
    Some(if replaces(x, y) { b.clone() } else { a.clone() })
}

/// What each says of properties it does not name holds for those that only the other names.
fn share_rest(a: &mut Map<String, Value>, b: &mut Map<String, Value>) {
    let (of_a, of_b) = (Closure::of(a), Closure::of(b));
    of_a.hold_for(b);
    of_b.hold_for(a);
}

/// The properties a schema names, and what it says of all others.
struct Closure {
    names: Vec<String>,
    rest: Option<Value>,
}

impl Closure {
    fn of(map: &Map<String, Value>) -> Self {
        let properties = map.get("properties").and_then(Value::as_object);
        Self {
            names: properties.map_or_else(Vec::new, |p| p.keys().cloned().collect()),
            rest: map.get("additionalProperties").cloned(),
        }
    }

    fn hold_for(&self, other: &mut Map<String, Value>) {
        let Some(rest) = &self.rest else { return };
        let Some(Value::Object(properties)) = other.get_mut("properties") else {
            return;
        };
        for (name, schema) in properties.iter_mut() {
            if !self.names.contains(name)
                && let Some(both) = both_schemas(schema, rest)
            {
                *schema = both;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(a: Value, b: Value) -> Option<(Value, Vec<String>)> {
        let (Value::Object(a), Value::Object(b)) = (a, b) else {
            panic!("objects");
        };
        merge(a, b).map(|m| (Value::Object(m.map), m.dropped))
    }

    #[test]
    fn both_statements_hold_afterwards() {
        let (map, dropped) = both(
            json!({"type": ["string", "null"], "minLength": 2, "pattern": "^a"}),
            json!({"type": "string", "minLength": 3, "maxLength": 9, "pattern": "b$"}),
        )
        .unwrap();
        assert_eq!(
            map,
            json!({"type": "string", "minLength": 3, "pattern": "^a", "maxLength": 9})
        );
        assert_eq!(dropped, ["pattern"]);
    }

    #[test]
    fn contradictions_are_seen() {
        assert!(both(json!({"type": "string"}), json!({"type": "object"})).is_none());
        assert!(both(json!({"const": 1}), json!({"enum": [2, 3]})).is_none());
        let (map, _) = both(json!({"const": 3}), json!({"enum": [2, 3]})).unwrap();
        assert_eq!(map, json!({"enum": [3]}));
    }

    #[test]
    fn a_closed_object_shuts_out_what_only_the_other_names() {
        let (map, _) = both(
            json!({"properties": {"a": {}}, "additionalProperties": false}),
            json!({"properties": {"b": {}}, "required": ["b"]}),
        )
        .unwrap();
        assert_eq!(map["properties"], json!({"a": {}, "b": false}));
        assert_eq!(map["additionalProperties"], json!(false));
    }
}

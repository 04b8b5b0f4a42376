//! Google's subset of `OpenAPI` schemas, read as JSON Schema.

use super::names::camel_keys;
use serde_json::{Map, Value, json};

/// The JSON Schema that says what an `OpenAPI` schema says: types in lower
/// case, `nullable` as a type of its own. Never deeper than its input, which
/// the JSON parser bounds.
pub(super) fn to_json_schema(schema: &Value) -> Value {
    let Value::Object(map) = schema else {
        return schema.clone();
    };
    let mut out = Map::new();
    let mut is_nullable = false;
    for (name, value) in camel_keys(map.clone()) {
        match (name.as_str(), value) {
            ("type", Value::String(kind)) => {
                out.insert(name, kind.to_ascii_lowercase().into());
            }
            ("nullable", Value::Bool(nullable)) => is_nullable = nullable,
            ("properties", Value::Object(properties)) => {
                let properties: Map<String, Value> = properties
                    .iter()
                    .map(|(name, schema)| (name.clone(), to_json_schema(schema)))
                    .collect();
                out.insert(name, properties.into());
            }
            ("items", schema) => {
                out.insert(name, to_json_schema(&schema));
            }
            ("anyOf", Value::Array(schemas)) => {
                out.insert(name, schemas.iter().map(to_json_schema).collect());
            }
            // Counts may come as strings, as 64-bit integers do in this format.
            (
                "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties"
                | "maxProperties",
                Value::String(count),
            ) => {
                let count = count.parse::<u64>().map_or(count.into(), Value::from);
                out.insert(name, count);
            }
            (_, value) => {
                out.insert(name, value);
            }
        }
    }
    if is_nullable {
        make_nullable(&mut out);
    }
    Value::Object(out)
}

/// Whether a schema is written in this form: somewhere in it is a type in capitals, which JSON
/// Schema does not know.
pub(super) fn is_openapi(schema: &Value) -> bool {
    let Value::Object(map) = schema else {
        return false;
    };
    map.iter()
        .any(|(name, value)| match (name.as_str(), value) {
            ("type", Value::String(kind)) => TYPES.contains(&kind.as_str()),
            ("properties", Value::Object(properties)) => properties.values().any(is_openapi),
            ("items", schema) => is_openapi(schema),
            ("anyOf", Value::Array(schemas)) => schemas.iter().any(is_openapi),
            _ => false,
        })
}

/// Its types. Google's reference, `Type`.
const TYPES: [&str; 7] = [
    "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL",
];

fn make_nullable(schema: &mut Map<String, Value>) {
    if let Some(kind) = schema.get_mut("type") {
        *kind = json!([kind, "null"]);
    } else if let Some(Value::Array(schemas)) = schema.get_mut("anyOf") {
        schemas.push(json!({"type": "null"}));
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_in_capitals_tell_the_form_at_any_depth() {
        for schema in [
            json!({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}),
            json!({"anyOf": [{"items": {"type": "INTEGER", "nullable": true}}]}),
        ] {
            assert!(is_openapi(&schema), "{schema}");
        }
        for schema in [
            json!({"type": "object", "properties": {"type": {"const": "STRING"}}}),
            json!({"enum": ["OBJECT"], "title": "STRING"}),
            json!(true),
        ] {
            assert!(!is_openapi(&schema), "{schema}");
        }
    }

    #[test]
    fn an_openapi_schema_says_the_same_as_json_schema() {
        let read = to_json_schema(&json!({
            "type": "OBJECT",
            "properties": {
                "type": {"type": "STRING", "nullable": true, "enum": ["a"]},
                "xs": {"type": "ARRAY", "items": {"any_of": [{"type": "INTEGER"}], "nullable": true}, "min_items": "2"},
            },
            "required": ["type"],
            "property_ordering": ["xs", "type"],
        }));
        assert_eq!(
            read,
            json!({
                "type": "object",
                "properties": {
                    "type": {"type": ["string", "null"], "enum": ["a", null]},
                    "xs": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "minItems": 2},
                },
                "required": ["type"],
                "propertyOrdering": ["xs", "type"],
            })
        );
    }
}

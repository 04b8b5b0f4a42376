//! Every keyword in every dialect, as a table that is read by people.

use std::fmt::Write as _;

use evenkeel_schema_adapter::{AdaptError, Adapter, Dialect, Treatment};
use serde_json::{Value, json};

#[expect(clippy::too_many_lines, reason = "one table")]
/// A schema for each row; the one property `x` holds the keyword.
fn rows() -> Vec<(&'static str, Value)> {
    vec![
        ("type string", json!({"type": "string"})),
        ("type list", json!({"type": ["string", "null"]})),
        ("two types", json!({"type": ["string", "integer"]})),
        ("no type", json!({"description": "Whatever"})),
        ("enum", json!({"enum": ["a", "b"]})),
        ("enum with null", json!({"enum": ["a", null]})),
        ("enum of numbers", json!({"enum": [1, 2.5]})),
        ("enum of true", json!({"enum": [true]})),
        ("const", json!({"const": "a"})),
        (
            "optional in object",
            json!({"type": "object", "properties": {"a": {"type": "integer"}}}),
        ),
        (
            "additionalProperties false",
            json!({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": false}),
        ),
        (
            "additionalProperties true",
            json!({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": true}),
        ),
        (
            "map",
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
        ),
        (
            "patternProperties",
            json!({"type": "object", "properties": {"a": {"type": "integer"}}, "patternProperties": {"^x": {}}}),
        ),
        (
            "propertyNames",
            json!({"type": "object", "properties": {"a": {"type": "integer"}}, "propertyNames": {"minLength": 1}}),
        ),
        (
            "minProperties",
            json!({"type": "object", "properties": {"a": {"type": "integer"}}, "minProperties": 1}),
        ),
        (
            "dependentRequired",
            json!({"type": "object", "properties": {"a": {"type": "integer"}}, "dependentRequired": {"a": ["b"]}}),
        ),
        (
            "items",
            json!({"type": "array", "items": {"type": "integer"}}),
        ),
        ("no items", json!({"type": "array"})),
        (
            "prefixItems",
            json!({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false}),
        ),
        (
            "minItems 1",
            json!({"type": "array", "items": {"type": "integer"}, "minItems": 1}),
        ),
        (
            "minItems 2",
            json!({"type": "array", "items": {"type": "integer"}, "minItems": 2}),
        ),
        (
            "maxItems",
            json!({"type": "array", "items": {"type": "integer"}, "maxItems": 3}),
        ),
        (
            "uniqueItems",
            json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true}),
        ),
        (
            "contains",
            json!({"type": "array", "items": {"type": "integer"}, "contains": {"const": 1}}),
        ),
        (
            "minLength, maxLength",
            json!({"type": "string", "minLength": 1, "maxLength": 9}),
        ),
        (
            "maxLength 4000",
            json!({"type": "string", "maxLength": 4000}),
        ),
        ("pattern", json!({"type": "string", "pattern": "^[a-z]+$"})),
        (
            "pattern, not anchored",
            json!({"type": "string", "pattern": "\\S"}),
        ),
        (
            "pattern and maxLength",
            json!({"type": "string", "pattern": "^[a-z]+$", "maxLength": 9}),
        ),
        (
            "format date-time",
            json!({"type": "string", "format": "date-time"}),
        ),
        ("format uri", json!({"type": "string", "format": "uri"})),
        (
            "format uint32",
            json!({"type": "integer", "format": "uint32"}),
        ),
        (
            "minimum, maximum",
            json!({"type": "integer", "minimum": 0, "maximum": 9}),
        ),
        (
            "minimum of a number",
            json!({"type": "number", "minimum": 0.5}),
        ),
        (
            "exclusiveMinimum",
            json!({"type": "integer", "exclusiveMinimum": 0}),
        ),
        ("multipleOf", json!({"type": "integer", "multipleOf": 5})),
        ("nullable", json!({"type": "string", "nullable": true})),
        (
            "nullable enum",
            json!({"type": "string", "enum": ["a", "b"], "nullable": true}),
        ),
        (
            "nullable $ref",
            json!({"$ref": "#/$defs/d", "nullable": true}),
        ),
        (
            "nullable allOf",
            json!({"allOf": [{"$ref": "#/$defs/d"}], "nullable": true}),
        ),
        (
            "nullable, no type",
            json!({"properties": {"a": {"type": "string"}}, "nullable": true}),
        ),
        ("null alone", json!({"const": null})),
        (
            "anyOf",
            json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
        ),
        (
            "anyOf beside type",
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        ),
        (
            "object or null",
            json!({"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, {"type": "null"}]}),
        ),
        (
            "oneOf",
            json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
        ),
        (
            "allOf",
            json!({"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "string"}}, "required": ["a"]}]}),
        ),
        ("not", json!({"type": "string", "not": {"const": "x"}})),
        (
            "if",
            json!({"type": "integer", "if": {"minimum": 5}, "then": {"multipleOf": 5}}),
        ),
        (
            "unevaluatedProperties",
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "unevaluatedProperties": false}),
        ),
        ("$ref", json!({"$ref": "#/$defs/d"})),
        (
            "$ref with siblings",
            json!({"$ref": "#/$defs/d", "description": "Here", "maxLength": 3}),
        ),
        ("recursion, optional", json!({"$ref": "#/$defs/r"})),
        ("recursion in a list", json!({"$ref": "#/$defs/l"})),
        (
            "default, examples",
            json!({"type": "string", "default": "a", "examples": ["b"]}),
        ),
        (
            "title, description",
            json!({"type": "string", "title": "T", "description": "D"}),
        ),
    ]
}

fn around(x: &Value) -> Value {
    json!({"type": "object", "properties": {"x": x}, "required": ["x"], "additionalProperties": false,
    "$defs": {
        "d": {"type": "string", "minLength": 1},
        "r": {"type": "object", "properties": {"next": {"$ref": "#/$defs/r"}}, "additionalProperties": false},
        "l": {"type": "object", "properties": {"all": {"type": "array", "items": {"$ref": "#/$defs/l"}}}, "required": ["all"], "additionalProperties": false}
    }})
}

#[test]
fn what_becomes_of_every_keyword_in_every_dialect() {
    let adapter = Adapter::new();
    let mut table = String::new();
    for (name, x) in rows() {
        writeln!(table, "{name}: {x}").unwrap();
        let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
        for dialect in Dialect::ALL.into_iter().filter(|d| *d != Dialect::None) {
            let line = line(&adapter, &around(&x), dialect);
            match lines.iter_mut().find(|(known, _)| *known == line) {
                Some((_, dialects)) => dialects.push(dialect.as_str()),
                None => lines.push((line, vec![dialect.as_str()])),
            }
        }
        for (line, dialects) in lines {
            writeln!(table, "  {}\n    {line}", dialects.join(" ")).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

/// What is sent for `x`, and what is lost; or why it is refused.
fn line(adapter: &Adapter, schema: &Value, dialect: Dialect) -> String {
    match adapter.rewrite(schema, dialect, false) {
        Ok(rewritten) => {
            let mut line = rewritten.schema["properties"]["x"].to_string();
            for loss in &rewritten.losses {
                let how = match loss.treatment {
                    Treatment::Told => "told",
                    Treatment::Checked => "checked",
                    Treatment::AsAnyOf => "as anyOf",
                    Treatment::Narrowed => "narrowed",
                    Treatment::Closed => "closed",
                    other => panic!("{other:?}"),
                };
                write!(line, "  [{} {how}]", loss.keyword).unwrap();
            }
            line
        }
        Err(AdaptError::Refused(refusal)) => {
            let reason = refusal.reasons[0].1.to_string();
            format!("refused: {}", reason.replace(dialect.as_str(), "it"))
        }
        Err(other) => panic!("{other}"),
    }
}

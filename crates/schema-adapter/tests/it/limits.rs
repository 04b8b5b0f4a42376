//! Schemas and answers that are made to do harm.

use std::fmt::Write as _;

use evenkeel_core::{Class, Failure, Output};
use evenkeel_schema_adapter::{
    AdaptError, Adapter, Checker, Dialect, ModelSupport, Reason, SchemaFault,
};
use serde_json::{Map, Value, json};

use crate::asking::{demand, said};

/// Each level refers to the next one twice: 2^30 strings once references are put in place.
fn bomb() -> Value {
    let mut defs = Map::new();
    for i in 0..30 {
        let next = json!({"$ref": format!("#/$defs/d{}", i + 1)});
        defs.insert(
            format!("d{i}"),
            json!({"type": "object", "properties": {"a": next, "b": next}, "required": ["a", "b"]}),
        );
    }
    defs.insert("d30".to_owned(), json!({"type": "string"}));
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

#[test]
fn references_that_grow_without_end_are_refused_or_kept_as_references() {
    let adapter = Adapter::new();
    for dialect in [Dialect::LlamaCpp, Dialect::GeminiOpenApi, Dialect::Mistral] {
        let error = adapter.rewrite(&bomb(), dialect, false).unwrap_err();
        let AdaptError::Refused(refusal) = error else {
            panic!("{error}")
        };
        assert!(
            matches!(refusal.reasons[0].1, Reason::TooLarge { .. }),
            "{refusal}"
        );
    }
    let kept = adapter.rewrite(&bomb(), Dialect::Vllm, false).unwrap();
    assert!(kept.schema.to_string().len() < 10_000);
}

#[test]
fn unions_that_grow_without_end_are_refused() {
    // Ten unions of ten branches each, one within the other by `allOf`.
    let mut schema = json!({"type": "string"});
    for i in 0..10 {
        let branches: Vec<Value> = (0..10)
            .map(|j| json!({"allOf": [schema], "description": format!("{i}.{j}")}))
            .collect();
        schema = json!({"anyOf": branches});
        if schema.to_string().len() > 1_000_000 {
            break;
        }
    }
    let error = Adapter::new()
        .rewrite(&schema, Dialect::OpenAiStrict, false)
        .unwrap_err();
    assert!(matches!(error, AdaptError::Schema(_)), "{error}");
}

#[test]
fn schemas_that_are_none_are_refused_at_their_place() {
    let long: Vec<Value> = (0..10_001).map(Value::from).collect();
    for (schema, pointer, has) in [
        (
            json!(7),
            "",
            "expected an object or a boolean, found integer",
        ),
        (
            json!({"properties": {"a": {"enum": long}}}),
            "/properties/a/enum",
            "more than 10000",
        ),
        (
            json!({"properties": {"a": {"type": "strng"}}}),
            "/properties/a/type",
            "is not",
        ),
        (
            json!({"properties": {"a": {"pattern": "("}}}),
            "/properties/a/pattern",
            "regex",
        ),
        (
            json!({"properties": {"a": {"minimum": "1"}}}),
            "/properties/a/minimum",
            "number",
        ),
        (json!({"required": "a"}), "/required", "array"),
        (
            json!({"properties": {"a": {"$ref": "#/$defs/none"}}}),
            "/properties/a",
            "leads nowhere",
        ),
        (
            json!({"properties": {"a": {"$ref": "https://example.test/s"}}}),
            "/properties/a",
            "not followed",
        ),
        (
            json!({"properties": {"a": {"$ref": "other.json"}}}),
            "",
            "not followed",
        ),
        (json!({"$ref": "#"}), "", "without a schema between"),
    ] {
        let error = Checker::new(&schema).map_err(|e| e.to_string()).err();
        let support = ModelSupport::of(Dialect::OpenAiStrict);
        let failure = match Adapter::new().adapt(&demand(schema.clone()), support) {
            Err(AdaptError::Schema(e)) => {
                assert_eq!(e.pointer, pointer, "{e}");
                Failure::from(e)
            }
            other => panic!("{:?}", other.map(|a| a.mode)),
        };
        assert!(failure.message.contains(has), "{failure}");
        assert_eq!(
            (failure.class, failure.capability_gap),
            (Class::BadRequest, false)
        );
        assert!(error.is_some());
    }
}

#[test]
fn ten_thousand_levels_are_refused() {
    let deep = (0..10_000).fold(Value::Object(Map::new()), |inner, _| {
        // Not by `json!`, which copies, and recurses.
        Value::Object(Map::from_iter([("items".to_owned(), inner)]))
    });
    let mut request = demand(deep);
    for dialect in Dialect::ALL {
        let error = Adapter::new()
            .adapt(&request, ModelSupport::of(dialect))
            .unwrap_err();
        assert!(
            error.to_string().contains("more than 127 levels"),
            "{error}"
        );
    }
    // Taken apart level by level: the value's own drop recurses.
    let Output::JsonSchema { schema, .. } = &mut request.output else {
        panic!()
    };
    while let Some(inner) = schema.get_mut("items").map(Value::take) {
        *schema = inner;
    }
}

#[test]
fn remote_references_are_named_as_such() {
    let error = Checker::new(&json!({"items": {"$ref": "http://127.0.0.1:9/x"}})).unwrap_err();
    assert_eq!(error.fault, SchemaFault::RemoteReference);
}

#[test]
fn a_pattern_that_explodes_ends_and_refuses() {
    let schema = json!({"type": "string", "pattern": "^(?=(a+)+$)(a|aa)+$"});
    let checker = Checker::new(&schema).unwrap();
    assert!(!checker.is_valid(&Value::String("a".repeat(40) + "!")));
}

#[test]
fn answers_that_nest_without_end_are_refused() {
    let schema = json!({"$ref": "#/$defs/l", "$defs": {"l": {"anyOf": [
        {"type": "array", "items": {"$ref": "#/$defs/l"}}, {"type": "integer"}]}}});
    let adapted = Adapter::new()
        .adapt(&demand(schema), ModelSupport::of(Dialect::OpenAiStrict))
        .unwrap();
    let nested = |n: usize| format!("{{\"value\":{}1{}}}", "[".repeat(n), "]".repeat(n));
    assert!(adapted.back.read(said(&nested(100))).is_ok());
    assert!(adapted.back.read(said(&nested(10_000))).is_err());
    assert!(adapted.back.read(said(&nested(1_000_000))).is_err());
}

/// Unions in unions, where every branch looks right until its deepest place.
#[test]
fn the_way_back_through_nested_unions_is_bounded() {
    let level = |next: Value| {
        let branch = |mark: &str| json!({"type": "object", "properties": {"next": next, "o": {"type": "string"}, "mark": {"const": mark}}, "required": ["next"]});
        json!({"anyOf": [branch("a"), branch("b")]})
    };
    let mut schema = json!({"const": 1});
    for _ in 0..8 {
        schema = level(schema);
    }
    let mut text = "2".to_owned();
    for _ in 0..8 {
        text = format!("{{\"next\":{text},\"o\":null,\"mark\":null}}");
    }
    let adapted = Adapter::new()
        .adapt(&demand(schema), ModelSupport::of(Dialect::OpenAiStrict))
        .unwrap();
    assert!(
        adapted
            .back
            .read(said(&format!("{{\"value\":{text}}}")))
            .is_err()
    );
}

#[test]
fn messages_are_short_and_hold_no_value_of_the_answer() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false});
    let adapted = Adapter::new()
        .adapt(&demand(schema), ModelSupport::of(Dialect::Vllm))
        .unwrap();
    let error = adapted
        .back
        .read(said(r#"{"a":"the secret"}"#))
        .unwrap_err();
    assert_eq!(
        error.message,
        r#"at /a: the value is not of type "integer""#
    );
    assert_eq!(
        error.hint().unwrap(),
        "Your last answer was not valid: at /a: the value is not of type \"integer\". Answer again with the corrected JSON value and nothing else."
    );
    let mut many = "{\"a\":1".to_owned();
    for i in 0..1_000 {
        write!(many, ",\"extra{i}\":1").unwrap();
    }
    let error = adapted.back.read(said(&(many + "}"))).unwrap_err();
    assert!(error.message.chars().count() <= 240, "{}", error.message);
}

#[test]
fn adapters_and_what_they_make_can_be_shared() {
    fn shared<T: Send + Sync>() {}
    shared::<Adapter>();
    shared::<evenkeel_schema_adapter::Adapted>();
    shared::<evenkeel_schema_adapter::Return>();
    shared::<Checker>();
}

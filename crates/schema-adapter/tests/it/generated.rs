//! Random schemas and answers: to each dialect and back.

use evenkeel_schema_adapter::{Adapter, Checker, Dialect, ModelSupport, Treatment};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::asking::{demand, said};
use crate::forward::{forward, without_nulls};

/// A schema and a value that obeys it.
type Pair = (Value, Value);

fn leaf() -> BoxedStrategy<Pair> {
    prop_oneof![
        "[a-z]{0,6}".prop_map(|s| (json!({"type": "string"}), json!(s))),
        ("[a-z]{2,6}", 0..3_u64).prop_map(|(s, n)| (
            json!({"type": "string", "minLength": n, "maxLength": 9}),
            json!(s)
        )),
        "[a-z]{1,6}".prop_map(|s| (
            json!({"type": "string", "pattern": "^[a-z]+$", "description": "small"}),
            json!(s)
        )),
        any::<i32>().prop_map(|n| (json!({"type": "integer"}), json!(n))),
        (0..50_i32).prop_map(|n| (
            json!({"type": "integer", "minimum": 0, "exclusiveMaximum": 50}),
            json!(n)
        )),
        (-1e6..1e6_f64).prop_map(|n| (json!({"type": "number"}), json!(n))),
        any::<bool>().prop_map(|b| (json!({"type": "boolean"}), json!(b))),
        Just((json!({"type": "null"}), Value::Null)),
        (0..3_usize).prop_map(|i| (json!({"enum": ["a", "b", "c"]}), json!(["a", "b", "c"][i]))),
        (0..3_usize).prop_map(|i| (
            json!({"enum": [1, null, "x"]}),
            json!([1, null, "x"])[i].clone()
        )),
        "[a-z]{1,3}".prop_map(|s| (json!({"const": s}), json!(s))),
        prop_oneof![Just(Value::Null), "[a-z]{0,3}".prop_map(Value::from)]
            .prop_map(|v| (json!({"type": ["string", "null"]}), v)),
        (any::<bool>(), any::<u8>()).prop_map(|(as_text, n)| {
            let value = if as_text {
                json!(n.to_string())
            } else {
                json!(n)
            };
            (json!({"type": ["string", "integer"]}), value)
        }),
        Just((
            json!({"type": "string", "format": "date"}),
            json!("2026-11-30")
        )),
    ]
    .boxed()
}

#[derive(Debug, Clone)]
struct Field {
    name: String,
    pair: Pair,
    required: bool,
    present: bool,
}

fn field(inner: BoxedStrategy<Pair>) -> impl Strategy<Value = Field> {
    ("[a-e]", inner, any::<bool>(), any::<bool>()).prop_map(|(name, pair, required, present)| {
        Field {
            name,
            pair,
            required,
            present: present || required,
        }
    })
}

fn object(fields: Vec<Field>, closed: bool) -> Pair {
    let (mut properties, mut value, mut required) = (Map::new(), Map::new(), Vec::new());
    for field in fields {
        if properties.contains_key(&field.name) {
            continue;
        }
        properties.insert(field.name.clone(), field.pair.0);
        if field.required {
            required.push(Value::from(field.name.clone()));
        }
        if field.present {
            value.insert(field.name, field.pair.1);
        }
    }
    let mut schema = json!({"type": "object", "properties": properties, "required": required});
    if closed {
        schema["additionalProperties"] = json!(false);
    }
    (schema, Value::Object(value))
}

fn pair() -> BoxedStrategy<Pair> {
    leaf()
        .prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                4 => (vec(field(inner.clone()), 1..5), any::<bool>()).prop_map(|(fields, closed)| object(fields, closed)),
                2 => (inner.clone(), 0..3_usize).prop_map(|((schema, value), n)| {
                    (json!({"type": "array", "items": schema, "maxItems": 5}), Value::Array(vec![value; n]))
                }),
                2 => (inner.clone(), inner.clone(), any::<bool>()).prop_map(|(a, b, first)| {
                    (json!({"anyOf": [a.0, b.0]}), if first { a.1 } else { b.1 })
                }),
                1 => inner.clone().prop_map(|(schema, value)| (json!({"anyOf": [schema, {"type": "null"}], "description": "or not"}), value)),
                1 => inner.clone().prop_map(|(schema, value)| (json!({"allOf": [schema]}), value)),
                1 => (inner.clone(), inner).prop_map(|(a, b)| {
                    (json!({"type": "array", "prefixItems": [a.0, b.0], "items": false}), json!([a.1, b.1]))
                }),
            ]
        })
        .boxed()
}

/// A pair whose schema names some of its parts, and refers to them.
fn with_definitions() -> BoxedStrategy<Pair> {
    (pair(), pair())
        .prop_map(|(a, b)| {
            let schema = json!({"type": "object", "properties": {
                "one": {"$ref": "#/$defs/a"}, "two": {"$ref": "#/$defs/a", "description": "again"},
                "more": {"type": "array", "items": {"$ref": "#/$defs/b"}}},
                "required": ["one"], "$defs": {"a": a.0, "b": b.0}});
            (schema, json!({"one": a.1, "more": [b.1]}))
        })
        .boxed()
}

fn native(dialect: Dialect) -> ModelSupport {
    ModelSupport {
        json_object: false,
        forced_tool: false,
        prompt: false,
        ..ModelSupport::of(dialect)
    }
}

fn natively() -> impl Iterator<Item = Dialect> {
    Dialect::ALL.into_iter().filter(|d| *d != Dialect::None)
}

/// Draws an answer that a rewritten schema lets in, bounds set aside.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }

    fn answer(&mut self, root: &Value, schema: &Value) -> Value {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            return self.answer(root, root.pointer(&reference[1..]).unwrap());
        }
        if schema.get("nullable") == Some(&json!(true)) && self.below(3) == 0 {
            return Value::Null;
        }
        for list in ["anyOf", "enum"] {
            if let Some(Value::Array(choices)) = schema.get(list) {
                let one = &choices[self.below(choices.len())];
                return if list == "enum" {
                    one.clone()
                } else {
                    self.answer(root, one)
                };
            }
        }
        if let Some(constant) = schema.get("const") {
            return constant.clone();
        }
        let kind = match &schema["type"] {
            Value::Array(names) => names[self.below(names.len())].clone(),
            name => name.clone(),
        };
        match kind.as_str().unwrap().to_lowercase().as_str() {
            "string" => json!(["", "a", "bcd", "2026-11-30", "Z"][self.below(5)]),
            "integer" => json!([-1, 0, 7, 49, 60][self.below(5)]),
            "number" => json!([-0.5, 0.0, 3.25][self.below(3)]),
            "boolean" => json!(self.below(2) == 0),
            "null" => Value::Null,
            "array" => {
                let (prefix, items) = (schema.get("prefixItems"), schema.get("items").unwrap());
                let length = prefix.map_or_else(|| self.below(3), |p| p.as_array().unwrap().len());
                let of = |i| prefix.and_then(|p| p.get(i)).unwrap_or(items);
                Value::Array((0..length).map(|i| self.answer(root, of(i))).collect())
            }
            _ => {
                let mut map = Map::new();
                let required = schema.get("required").and_then(Value::as_array);
                for (name, schema) in schema["properties"].as_object().unwrap() {
                    let must = required.is_some_and(|r| r.iter().any(|n| n == name));
                    if must || self.below(2) == 0 {
                        map.insert(name.clone(), self.answer(root, schema));
                    }
                }
                Value::Object(map)
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// What the caller's schema lets in can be said in every dialect that takes the schema, is let
    /// in by what is sent, and comes back as it was, but for nulls that
    /// the schema itself has for absence.
    #[test]
    fn an_answer_goes_there_and_back((schema, value) in prop_oneof![pair(), with_definitions()]) {
        let checker = Checker::new(&schema).unwrap();
        prop_assume!(checker.is_valid(&value));
        let adapter = Adapter::new();
        for dialect in natively() {
            let Ok(adapted) = adapter.adapt(&demand(schema.clone()), native(dialect)) else { continue };
            let sent = adapter.rewrite(&schema, dialect, false).unwrap().schema.clone();
            // No generated property has the wrapper's name.
            let wrapped = sent["properties"].get("value").is_some();
            let asked = if wrapped { json!({"value": value}) } else { value.clone() };
            let answer = forward(&sent, &sent, &asked);
            let answer = answer.unwrap_or_else(|| panic!("{dialect:?} cannot say {value}: {sent}"));
            if dialect != Dialect::GeminiOpenApi {
                let wire = Checker::new(&sent).unwrap();
                prop_assert!(wire.is_valid(&answer), "{dialect:?}: {answer} against {sent}");
            }
            let read = adapted.back.read(said(&answer.to_string()));
            let back = read.unwrap_or_else(|e| panic!("{dialect:?}: {e}: {answer} for {sent}")).value;
            let back = back.unwrap();
            prop_assert!(checker.is_valid(&back));
            // A property that may be null by the schema itself may come as null for absent.
            prop_assert_eq!(without_nulls(&back), without_nulls(&value), "{:?}: {} for {}", dialect, answer, sent);
        }
    }

    /// What a dialect lets in comes back valid or not at all; and where nothing but narrowing was
    /// done to the schema, it comes back.
    #[test]
    fn an_answer_to_what_was_sent_obeys_what_was_asked((schema, _) in prop_oneof![pair(), with_definitions()], seed in any::<u64>()) {
        let checker = Checker::new(&schema).unwrap();
        let adapter = Adapter::new();
        for dialect in natively() {
            let Ok(adapted) = adapter.adapt(&demand(schema.clone()), native(dialect)) else { continue };
            let sent = adapter.rewrite(&schema, dialect, false).unwrap().schema.clone();
            let answer = Draw(seed).answer(&sent, &sent);
            let within = dialect == Dialect::GeminiOpenApi || Checker::new(&sent).unwrap().is_valid(&answer);
            let exact = within
                && dialect != Dialect::GeminiOpenApi
                && adapted.losses.iter().all(|l| matches!(l.treatment, Treatment::Narrowed | Treatment::Closed));
            match adapted.back.read(said(&answer.to_string())) {
                Ok(read) => {
                    let value = read.value.unwrap();
                    prop_assert!(checker.is_valid(&value), "{dialect:?}: {answer} became {value}");
                    let text = read.response.plain_text();
                    prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
                }
                Err(error) => prop_assert!(!exact, "{dialect:?}: {error}: {answer} for {sent}"),
            }
        }
    }

    /// No text makes the reader panic, and what it gives obeys the schema.
    #[test]
    fn any_text_is_read_or_refused(text in "[\\[\\]{}\",:a1`\\\\ \n<>/think]{0,60}") {
        let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
        let adapted = Adapter::new().adapt(&demand(schema.clone()), native(Dialect::OpenAiStrict)).unwrap();
        if let Ok(read) = adapted.back.read(said(&text)) {
            prop_assert!(Checker::new(&schema).unwrap().is_valid(&read.value.unwrap()));
        }
    }
}

//! Smallest instances of JSON schemas.

use super::pattern::matching;
use serde_json::{Map, Value, json};
use std::cell::Cell;

/// Deepest nesting: a schema that requires itself has no finite instance.
const MAX_DEPTH: usize = 32;
/// Most schemas looked at for one instance: those that require themselves
/// twice grow without measure long before they are deep.
const MAX_STEPS: usize = 20_000;
/// What a string is that may be anything.
const ANY_TEXT: &str = "text";
/// Longest string and list that a lower bound may ask for.
const MAX_LENGTH: u64 = 10_000;

/// A small instance of `schema`: required properties only, the first of
/// alternatives, numbers next to zero.
///
/// It is valid where the schema uses `type`, `enum`, `const`, `properties`,
/// `required`, `items`, `prefixItems`, bounds, `pattern`, the usual formats,
/// `anyOf`, `oneOf`, `allOf` and local `$ref`s. `not`, conditions, `contains`
/// and `uniqueItems` are not looked at.
pub(super) fn minimal(schema: &Value) -> Value {
    let builder = Builder {
        root: schema,
        steps: Cell::new(0),
    };
    builder.build(schema, 0)
}

struct Builder<'a> {
    root: &'a Value,
    steps: Cell<usize>,
}

impl Builder<'_> {
    /// Whether another schema may be looked at, so deep.
    fn may_go_on(&self, depth: usize) -> bool {
        let steps = self.steps.get() + 1;
        self.steps.set(steps);
        depth < MAX_DEPTH && steps < MAX_STEPS
    }

    fn build(&self, schema: &Value, depth: usize) -> Value {
        let Some(map) = schema.as_object().filter(|_| self.may_go_on(depth)) else {
            return Value::Null;
        };
        let map = self.resolved(map, depth);
        if let Some(value) = map.get("const") {
            return value.clone();
        }
        if let Some(value) = list(&map, "enum").first() {
            return value.clone();
        }
        match kind(&map) {
            "object" => self.object(&map, depth),
            "array" => self.array(&map, depth),
            "string" => string(&map).into(),
            "integer" => number(&map, true),
            "number" => number(&map, false),
            "boolean" => false.into(),
            _ => Value::Null,
        }
    }

    /// The schema with what it refers to and its first alternatives put in.
    fn resolved(&self, map: &Map<String, Value>, depth: usize) -> Map<String, Value> {
        let mut merged = map.clone();
        let mut parts = Vec::new();
        if let Some(Value::String(address)) = merged.shift_remove("$ref") {
            let pointer = address.strip_prefix('#').unwrap_or_default();
            parts.extend(self.root.pointer(pointer).cloned());
        }
        if let Some(Value::Array(all)) = merged.shift_remove("allOf") {
            parts.extend(all);
        }
        for name in ["anyOf", "oneOf"] {
            if let Some(Value::Array(any)) = merged.shift_remove(name) {
                parts.extend(any.into_iter().next());
            }
        }
        for part in parts {
            if let Value::Object(part) = part
                && self.may_go_on(depth)
            {
                merge(&mut merged, self.resolved(&part, depth + 1));
            }
        }
        merged
    }

    fn object(&self, map: &Map<String, Value>, depth: usize) -> Value {
        let properties = map.get("properties").and_then(Value::as_object);
        let of = |name: &str| {
            let schema = properties.and_then(|p| p.get(name));
            schema.or_else(|| map.get("additionalProperties"))
        };
        let mut object = Map::new();
        let required = list(map, "required").iter().filter_map(Value::as_str);
        // Properties beyond the required ones where so many are demanded.
        let optional = properties.into_iter().flat_map(Map::keys);
        let least = count(map, "minProperties");
        for (name, is_required) in required
            .map(|name| (name, true))
            .chain(optional.map(|name| (name.as_str(), false)))
        {
            if is_required || (object.len() as u64) < least {
                let value = of(name).map_or(Value::Null, |s| self.build(s, depth + 1));
                object.insert(name.to_owned(), value);
            }
        }
        object.into()
    }

    fn array(&self, map: &Map<String, Value>, depth: usize) -> Value {
        let first = list(map, "prefixItems");
        let least = usize::try_from(count(map, "minItems")).unwrap_or(0);
        let rest = map.get("items").unwrap_or(&Value::Null);
        (0..least)
            .map(|index| self.build(first.get(index).unwrap_or(rest), depth + 1))
            .collect()
    }
}

/// Adds the keywords of `more`; properties and required names are joined.
fn merge(to: &mut Map<String, Value>, more: Map<String, Value>) {
    for (name, value) in more {
        match (to.get_mut(&name), value) {
            (Some(Value::Object(old)), Value::Object(new)) if name == "properties" => {
                old.extend(new);
            }
            (Some(Value::Array(old)), Value::Array(new)) if name == "required" => old.extend(new),
            (None, value) => {
                to.insert(name, value);
            }
            // The nearer keyword holds.
            _ => {}
        }
    }
}

fn list<'a>(map: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    map.get(name)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn count(map: &Map<String, Value>, name: &str) -> u64 {
    let count = map.get(name).and_then(Value::as_u64);
    count.unwrap_or(0).min(MAX_LENGTH)
}

/// The type, told by the keywords where it is not stated.
fn kind(map: &Map<String, Value>) -> &str {
    let stated = match map.get("type") {
        Some(Value::Array(types)) => types.first().and_then(Value::as_str),
        Some(kind) => kind.as_str(),
        None => None,
    };
    let has = |names: &[&str]| names.iter().any(|name| map.contains_key(*name));
    if let Some(kind) = stated {
        kind
    } else if has(&["properties", "required", "minProperties"]) {
        "object"
    } else if has(&["items", "prefixItems", "minItems"]) {
        "array"
    } else if has(&["pattern", "format", "minLength"]) {
        "string"
    } else if has(&["minimum", "maximum", "exclusiveMinimum", "multipleOf"]) {
        "number"
    } else {
        "null"
    }
}

fn string(map: &Map<String, Value>) -> String {
    let text = |name: &str| map.get(name).and_then(Value::as_str);
    if let Some(found) = text("pattern").and_then(matching) {
        return found;
    }
    let format = text("format").and_then(example);
    let most = map.get("maxLength").and_then(Value::as_u64);
    let most = usize::try_from(most.unwrap_or(MAX_LENGTH)).unwrap_or(usize::MAX);
    let least = usize::try_from(count(map, "minLength")).unwrap_or(0);
    let mut found: String = match format {
        Some(example) => example.to_owned(),
        None => ANY_TEXT.chars().take(most).collect(),
    };
    let short = least.saturating_sub(found.chars().count());
    found.extend(std::iter::repeat_n('x', short));
    found
}

/// An example of a format. From JSON Schema 2020-12, validation, section 7.3.
fn example(format: &str) -> Option<&'static str> {
    Some(match format {
        "date-time" => "2026-01-01T00:00:00Z",
        "date" => "2026-01-01",
        "time" => "00:00:00Z",
        "duration" => "P1D",
        "email" | "idn-email" => "a@example.com",
        "hostname" | "idn-hostname" => "example.com",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "uri" | "iri" | "uri-reference" | "iri-reference" | "uri-template" => {
            "https://example.com/"
        }
        "uuid" => "00000000-0000-4000-8000-000000000000",
        "json-pointer" => "/a",
        "relative-json-pointer" => "0",
        "regex" => "a",
        _ => return None,
    })
}

/// The number nearest to zero that the bounds allow.
fn number(map: &Map<String, Value>, is_integer: bool) -> Value {
    let bound = |name: &str| map.get(name).and_then(Value::as_f64);
    let step = bound("multipleOf").filter(|step| *step > 0.0);
    // A strict bound moves by a step, or by one.
    let past = step.unwrap_or(1.0);
    let (low, above) = (bound("minimum"), bound("exclusiveMinimum"));
    let (high, below) = (bound("maximum"), bound("exclusiveMaximum"));
    let middle = match (above, below) {
        (Some(above), Some(below)) if !is_integer && step.is_none() => {
            Some(f64::midpoint(above, below))
        }
        _ => None,
    };
    let mut value = 0.0_f64;
    value = value.max(low.unwrap_or(value));
    value = match above {
        Some(above) if value <= above => middle.unwrap_or(above.floor() + past),
        _ => value,
    };
    value = value.min(high.unwrap_or(value));
    value = match below {
        Some(below) if value >= below => middle.unwrap_or(below.ceil() - past),
        _ => value,
    };
    let grain = step.or(is_integer.then_some(1.0));
    if let Some(grain) = grain {
        let up = (value / grain).ceil() * grain;
        let down = (value / grain).floor() * grain;
        value = if up > high.unwrap_or(up) { down } else { up };
    }
    if is_integer || value.fract() == 0.0 {
        // Within 2^53, where doubles are exact; bounds beyond are no use to a test.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a saturating cast is wanted"
        )]
        let whole = value as i64;
        return whole.into();
    }
    json!(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn instances_are_minimal_and_valid() {
        for (schema, expected) in [
            (json!({"type": "object"}), json!({})),
            (
                json!({"type": "object", "required": ["city", "sky"], "properties": {
                    "city": {"type": "string", "maxLength": 2},
                    "note": {"type": "string"},
                    "sky": {"enum": ["clear", "rain"]}}}),
                json!({"city": "te", "sky": "clear"}),
            ),
            (
                json!({"$defs": {"p": {"type": "object", "required": ["x"],
                       "properties": {"x": {"type": "integer", "minimum": 3}}}},
                       "type": "array", "minItems": 2, "items": {"$ref": "#/$defs/p"}}),
                json!([{"x": 3}, {"x": 3}]),
            ),
            (
                json!({"anyOf": [{"type": "null"}, {"type": "string"}]}),
                json!(null),
            ),
            (
                json!({"type": ["string", "null"], "minLength": 6}),
                json!("textxx"),
            ),
            (
                json!({"allOf": [{"required": ["a"], "properties": {"a": {"const": 1}}},
                                  {"required": ["b"], "properties": {"b": {"type": "boolean"}}}]}),
                json!({"a": 1, "b": false}),
            ),
            (
                json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
                json!(0.5),
            ),
            (
                json!({"type": "integer", "minimum": 4, "multipleOf": 5}),
                json!(5),
            ),
            (json!({"type": "integer", "maximum": -7}), json!(-7)),
            (
                json!({"type": "string", "pattern": "^[A-Z]{3}-\\d{2,4}(x|y)?$"}),
                json!("AAA-00"),
            ),
            (
                json!({"type": "string", "format": "date"}),
                json!("2026-01-01"),
            ),
            (
                json!({"minProperties": 1, "properties": {"a": {"type": "null"}}}),
                json!({"a": null}),
            ),
            (
                json!({"type": "array", "minItems": 2, "prefixItems": [{"const": "a"}],
                       "items": {"type": "integer"}}),
                json!(["a", 0]),
            ),
        ] {
            let instance = minimal(&schema);
            assert_eq!(instance, expected, "{schema}");
            assert!(
                jsonschema::is_valid(&schema, &instance),
                "{schema}: {instance}"
            );
        }
    }

    #[test]
    fn a_schema_without_end_has_an_instance_that_ends() {
        let endless = json!({"type": "object", "required": ["next"],
                             "properties": {"next": {"$ref": "#"}}});
        assert!(minimal(&endless)["next"]["next"].is_object());
        assert_eq!(minimal(&json!({"$ref": "#"})), Value::Null);
        assert_eq!(minimal(&json!(true)), Value::Null);
        let twice = json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]});
        assert_eq!(minimal(&twice), Value::Null);
        let wide = json!({"type": "object", "required": ["a", "b"], "properties": {
                          "a": {"$ref": "#"}, "b": {"$ref": "#"}}});
        assert!(minimal(&wide).to_string().len() < 1_000_000);
        let huge = json!({"type": "string", "pattern": "(a{1000}){1000}", "minLength": 2});
        assert_eq!(minimal(&huge), "text");
    }

    /// Schemas of what the builder looks at, none of them impossible.
    fn schemas() -> impl Strategy<Value = Value> {
        let text = (0..9_u64, 0..9_u64).prop_map(|(least, more)| {
            json!({"type": "string", "minLength": least, "maxLength": least + more})
        });
        let format = prop_oneof![Just("date"), Just("uuid"), Just("email"), Just("ipv4")]
            .prop_map(|name| json!({"type": "string", "format": name}));
        let pattern = prop_oneof![
            Just("^[a-c]{1,3}(-[0-9]{2}|x)?$"),
            Just("^\\d{4}-\\d{2}$"),
            Just("[^a]+b*"),
            Just("^(yes|no)$"),
        ]
        .prop_map(|pattern| json!({"type": "string", "pattern": pattern}));
        let whole = (-50..50_i64, 0..9_i64, 1..5_i64).prop_map(|(low, more, step)| {
            json!({"type": "integer", "minimum": low, "maximum": low + more + step,
                   "multipleOf": step})
        });
        let between = (-9..9_i64, 1..4_i64).prop_map(|(low, more)| {
            json!({"type": "number", "exclusiveMinimum": low, "exclusiveMaximum": low + more})
        });
        let fixed = prop_oneof![
            Just(json!({"type": "boolean"})),
            Just(json!({"type": ["null", "string"]})),
            Just(json!({"enum": ["a", 2, null]})),
            Just(json!({"const": {"a": [1]}})),
        ];
        let leaf = prop_oneof![text, format, pattern, whole, between, fixed];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let properties = proptest::collection::btree_map("[a-z]{1,4}", inner.clone(), 0..4);
            let object = (properties, any::<prop::sample::Index>()).prop_map(|(all, at)| {
                let known: Vec<&String> = all.keys().collect();
                let required = &known[..at.index(known.len() + 1)];
                json!({"type": "object", "properties": all, "required": required,
                       "minProperties": known.len().min(2), "additionalProperties": false})
            });
            let array = (inner.clone(), 0..3_u64).prop_map(
                |(items, least)| json!({"type": "array", "items": items, "minItems": least}),
            );
            let any = proptest::collection::vec(inner.clone(), 1..3)
                .prop_map(|any| json!({"anyOf": any}));
            let referred = inner.prop_map(|schema| {
                json!({"allOf": [{"type": "object", "required": ["r"]},
                                 {"properties": {"r": schema}}]})
            });
            prop_oneof![object, array, any, referred]
        })
    }

    proptest! {
        #[test]
        fn every_instance_is_valid(schema in schemas()) {
            let instance = minimal(&schema);
            let outcome = jsonschema::validate(&schema, &instance).map_err(|e| e.to_string());
            prop_assert_eq!(outcome, Ok(()), "{} of {}", instance, schema);
        }
    }
}

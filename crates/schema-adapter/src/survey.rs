//! A first, bounded look at a schema from outside: everything after it may recurse.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::error::{SchemaError, SchemaFault};
use crate::pointer::{self, child};

/// Most JSON values in a schema. A thousand times the usual; 250 real schemas of up to 6 kB have
/// fewer than 1,500.
pub(crate) const MOST_NODES: usize = 50_000;
/// Deepest nesting of a schema's JSON, as deep as `serde_json` reads by default.
pub(crate) const MOST_DEPTH: usize = 127;
/// Most values in one enum.
pub(crate) const MOST_ENUM_VALUES: usize = 10_000;
/// Most references from one to the next.
pub(crate) const MOST_HOPS: usize = 128;

/// A dialect of JSON Schema itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Draft {
    Draft4,
    Draft6,
    Draft7,
    Draft2019,
    Draft2020,
}

impl Draft {
    /// The draft that `$schema` names; none for one that is not known.
    fn named(url: &str) -> Option<Self> {
        [
            ("draft-04", Self::Draft4),
            ("draft-06", Self::Draft6),
            ("draft-07", Self::Draft7),
            ("2019-09", Self::Draft2019),
            ("2020-12", Self::Draft2020),
        ]
        .into_iter()
        .find_map(|(mark, draft)| url.contains(mark).then_some(draft))
    }

    /// Whether keywords beside `$ref` count.
    pub(crate) fn reads_beside_ref(self) -> bool {
        matches!(self, Self::Draft2019 | Self::Draft2020)
    }

    /// Whether a list in `items` describes a tuple.
    pub(crate) fn has_item_lists(self) -> bool {
        self != Self::Draft2020
    }
}

/// Whether a value nests no deeper than is looked at; it allocates one stack and nothing else.
pub(crate) fn is_shallow(value: &Value) -> bool {
    let mut open = vec![(value, 0)];
    while let Some((value, depth)) = open.pop() {
        if depth > MOST_DEPTH {
            return false;
        }
        match value {
            Value::Object(map) => open.extend(map.values().map(|v| (v, depth + 1))),
            Value::Array(items) => open.extend(items.iter().map(|v| (v, depth + 1))),
            _ => {}
        }
    }
    true
}

/// What is known of a schema before it is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Survey {
    pub(crate) draft: Draft,
    /// Parts have addresses of their own, so that a reference means what its part says it means.
    pub(crate) has_addresses: bool,
}

/// Looks at a schema, and refuses what must not be compiled.
pub(crate) fn survey(schema: &Value) -> Result<Survey, SchemaError> {
    let seen = walk(schema)?;
    let has_addresses = seen.addresses > 0;
    if !has_addresses {
        if let Some(at) = seen.remote {
            return Err(SchemaError::new(at, SchemaFault::RemoteReference));
        }
        check_references(schema, &seen.references)?;
    }
    let named = schema
        .get("$schema")
        .and_then(Value::as_str)
        .and_then(Draft::named);
    let draft = named.unwrap_or(if seen.older_words {
        Draft::Draft7
    } else {
        Draft::Draft2020
    });
    Ok(Survey {
        draft,
        has_addresses,
    })
}

#[derive(Default)]
struct Seen {
    /// Where each local reference stands, and what it says.
    references: Vec<(String, String)>,
    /// Where the first reference to another document stands.
    remote: Option<String>,
    /// Parts below the root with an address.
    addresses: usize,
    /// The root's own address; one that begins no reference where it has none.
    root_address: String,
    /// Words that only drafts before 2020-12 know.
    older_words: bool,
}

/// What a value in a schema is.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Schema,
    /// A map from names to schemas.
    Named,
    /// A list of schemas, or one schema.
    Listed,
    /// Anything else: constants, defaults, words of other vocabularies.
    Data,
}

impl Place {
    fn of_keyword(keyword: &str) -> Self {
        match keyword {
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
            | "dependencies" => Self::Named,
            "anyOf" | "oneOf" | "allOf" | "prefixItems" | "items" => Self::Listed,
            "additionalProperties"
            | "additionalItems"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contains"
            | "propertyNames"
            | "unevaluatedProperties"
            | "unevaluatedItems" => Self::Schema,
            _ => Self::Data,
        }
    }

    /// Whether an object in this place is a schema.
    pub(crate) fn is_schema(self) -> bool {
        matches!(self, Self::Schema | Self::Listed)
    }

    /// The place of an object's member.
    pub(crate) fn of_member(self, name: &str) -> Self {
        match self {
            Self::Schema | Self::Listed => Self::of_keyword(name),
            Self::Named => Self::Schema,
            Self::Data => Self::Data,
        }
    }

    /// The place of a list's item.
    pub(crate) fn of_item(self) -> Self {
        match self {
            Self::Listed => Self::Schema,
            _ => Self::Data,
        }
    }
}

/// Walks every value once, with a stack of its own.
fn walk(schema: &Value) -> Result<Seen, SchemaError> {
    if !schema.is_object() && !schema.is_boolean() {
        let found = crate::kind::name_of(schema);
        return Err(SchemaError::new("", SchemaFault::NotASchema { found }));
    }
    let address = schema.get("$id").and_then(Value::as_str);
    let mut seen = Seen {
        root_address: address
            .map_or("\0", |id| id.trim_end_matches('#'))
            .to_owned(),
        ..Seen::default()
    };
    let mut count = 0_usize;
    let mut open = vec![(schema, String::new(), 0_usize, Place::Schema)];
    while let Some((value, at, depth, place)) = open.pop() {
        count += 1;
        too_large(&at, "values", count, MOST_NODES)?;
        too_large(&at, "levels", depth, MOST_DEPTH)?;
        match value {
            Value::Object(map) => {
                if place.is_schema() {
                    look(map, &at, &mut seen);
                }
                open.extend(
                    map.iter()
                        .map(|(k, v)| (v, child(&at, k), depth + 1, place.of_member(k))),
                );
            }
            Value::Array(items) => {
                too_large(&at, "values in one list", items.len(), MOST_ENUM_VALUES)?;
                let inner = place.of_item();
                open.extend(
                    items
                        .iter()
                        .enumerate()
                        .map(|(i, v)| (v, child(&at, &i.to_string()), depth + 1, inner)),
                );
            }
            _ => {}
        }
    }
    Ok(seen)
}

fn too_large(at: &str, what: &'static str, found: usize, limit: usize) -> Result<(), SchemaError> {
    if found > limit {
        return Err(SchemaError::new(
            shortened(at),
            SchemaFault::TooLarge { what, limit },
        ));
    }
    Ok(())
}

/// A pointer that is fit for a message.
fn shortened(at: &str) -> String {
    const LONGEST: usize = 120;
    match at.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}…", &at[..cut]),
        None => at.to_owned(),
    }
}

fn look(map: &Map<String, Value>, at: &str, seen: &mut Seen) {
    if let Some(Value::String(target)) = map.get("$ref") {
        if target.starts_with('#') {
            seen.references.push((at.to_owned(), target.clone()));
        } else if is_remote(target) && !target.starts_with(&seen.root_address) {
            seen.remote.get_or_insert_with(|| at.to_owned());
        }
    }
    let address = map.get("$id").or_else(|| map.get("id"));
    let address = address.and_then(Value::as_str);
    if address.is_some_and(|id| !id.starts_with('#')) && !at.is_empty() {
        seen.addresses += 1;
    }
    if map.get("items").is_some_and(Value::is_array) || map.contains_key("additionalItems") {
        seen.older_words = true;
    }
}

/// Whether a reference names a document by address. A relative one may be the `$id` of a part of
/// this schema, which the validator knows.
fn is_remote(target: &str) -> bool {
    ["http://", "https://", "file:"]
        .iter()
        .any(|scheme| target.starts_with(scheme))
        && !target.contains("json-schema.org/")
}

/// Refuses references to nothing, and chains that are too long or endless.
fn check_references(schema: &Value, references: &[(String, String)]) -> Result<(), SchemaError> {
    let mut fine: HashSet<&str> = HashSet::new();
    for (at, target) in references {
        let mut chain: Vec<&str> = Vec::new();
        let mut next = target.as_str();
        while !fine.contains(next) {
            if chain.contains(&next) {
                return Err(SchemaError::new(at, SchemaFault::EndlessReference));
            }
            chain.push(next);
            too_large(at, "references in a row", chain.len(), MOST_HOPS)?;
            if !next.starts_with("#/") && next != "#" {
                break; // a name (`$anchor`), which the validator looks up
            }
            let Some(found) = pointer::resolve(schema, next) else {
                return Err(SchemaError::new(at, SchemaFault::DanglingReference));
            };
            match found.get("$ref").and_then(Value::as_str) {
                Some(further) if further.starts_with('#') => next = further,
                _ => break,
            }
        }
        fine.extend(chain);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ten_thousand_levels_are_refused_without_recursing() {
        let mut schema = Value::Object(Map::new());
        for _ in 0..10_000 {
            // Not by `json!`, which copies, and recurses.
            schema = Value::Object(Map::from_iter([("items".to_owned(), schema)]));
        }
        let error = survey(&schema).unwrap_err();
        assert!(
            matches!(
                error.fault,
                SchemaFault::TooLarge {
                    what: "levels",
                    limit: 127
                }
            ),
            "{error}"
        );
        assert!(error.pointer.starts_with("/items/items"), "{error}");
        // The value's own drop is recursive in serde_json; taken apart here for the test's stack.
        while let Some(inner) = schema.get_mut("items").map(Value::take) {
            schema = inner;
        }
    }

    #[test]
    fn references_lead_somewhere_or_are_refused_where_they_stand() {
        let fault = |schema| survey(&schema).unwrap_err();
        let dangling = fault(json!({"properties": {"a": {"$ref": "#/$defs/b"}}}));
        assert_eq!(dangling.pointer, "/properties/a");
        assert_eq!(dangling.fault, SchemaFault::DanglingReference);
        let endless = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}});
        assert_eq!(fault(endless).fault, SchemaFault::EndlessReference);
        let remote = fault(json!({"items": {"$ref": "https://example.test/a.json"}}));
        assert_eq!(
            (remote.pointer.as_str(), remote.fault),
            ("/items", SchemaFault::RemoteReference)
        );
    }

    #[test]
    fn a_chain_of_ten_thousand_references_is_refused() {
        let mut defs = Map::new();
        for i in 0..10_000 {
            defs.insert(
                format!("d{i}"),
                json!({"$ref": format!("#/$defs/d{}", i + 1)}),
            );
        }
        defs.insert("d10000".to_owned(), json!({"type": "string"}));
        let error = survey(&json!({"$ref": "#/$defs/d0", "$defs": defs})).unwrap_err();
        assert!(
            matches!(
                error.fault,
                SchemaFault::TooLarge {
                    limit: MOST_HOPS,
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn the_draft_is_the_named_one_or_the_one_whose_words_are_used() {
        let draft = |schema| survey(&schema).unwrap().draft;
        assert_eq!(draft(json!({})), Draft::Draft2020);
        assert_eq!(draft(json!({"items": [{}]})), Draft::Draft7);
        let named = json!({"$schema": "http://json-schema.org/draft-06/schema#"});
        assert_eq!(draft(named), Draft::Draft6);
    }
}

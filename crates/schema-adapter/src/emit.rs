//! A tree in the words of its dialect, and whether it is within the dialect's limits.

use serde_json::{Map, Value, json};

use crate::dialect::{EnumValues, Limits, NullForm, Rules};
use crate::error::Reason;
use crate::kind::Kinds;
use crate::node::{Array, Node, NodeId, Object, Rest, Tree};

/// The schema to send.
pub(crate) fn emit(tree: &Tree, rules: &Rules) -> Value {
    let writer = Writer { tree, rules };
    let mut root = writer.schema(tree.root);
    let mut definitions = Map::new();
    for definition in &tree.definitions {
        if let Some(node) = definition.node {
            definitions.insert(definition.name.clone(), Value::Object(writer.schema(node)));
        }
    }
    if !definitions.is_empty() {
        root.insert("$defs".to_owned(), Value::Object(definitions));
    }
    Value::Object(root)
}

struct Writer<'a> {
    tree: &'a Tree,
    rules: &'a Rules,
}

impl Writer<'_> {
    fn schema(&self, id: NodeId) -> Map<String, Value> {
        let node = &self.tree.nodes[id];
        if let Some(target) = node.target {
            let name = &self.tree.definitions[target].name;
            return Map::from_iter([("$ref".to_owned(), format!("#/$defs/{name}").into())]);
        }
        let mut map = Map::new();
        if let Some(title) = &node.title {
            map.insert("title".to_owned(), title.as_str().into());
        }
        if let Some(text) = description(node) {
            map.insert("description".to_owned(), text.into());
        }
        if node.branches.is_empty() {
            self.typed(node, &mut map);
        } else {
            self.union(node, &mut map);
        }
        map
    }

    fn union(&self, node: &Node, map: &mut Map<String, Value>) {
        let mut branches = node.branches.clone();
        if self.rules.null == NullForm::Flag {
            branches.retain(|id| !self.tree.nodes[*id].is_null());
            if branches.is_empty() {
                map.insert("type".to_owned(), self.type_of(Kinds::STRING));
            }
            if branches.len() < node.branches.len() {
                map.insert("nullable".to_owned(), Value::Bool(true));
            }
            if branches.is_empty() {
                return;
            }
            if let [only] = branches.as_slice() {
                for (keyword, value) in self.schema(*only) {
                    map.entry(keyword).or_insert(value);
                }
                return;
            }
        }
        let branches = branches.into_iter().map(|id| self.schema(id).into());
        map.insert("anyOf".to_owned(), Value::Array(branches.collect()));
        map.extend(node.bounds.clone());
    }

    fn typed(&self, node: &Node, map: &mut Map<String, Value>) {
        let solid = node.kinds.without(Kinds::NULL);
        let with_null = node.kinds.meets(Kinds::NULL) && !solid.is_empty();
        let enum_takes_null = self.rules.enum_values == EnumValues::Primitives;
        let beside = match self.rules.null {
            NullForm::TypeArray => with_null && node.values.is_some() && !enum_takes_null,
            NullForm::AnyOf => with_null,
            NullForm::Flag => false,
        };
        if beside {
            let inner = Node {
                kinds: solid,
                title: None,
                description: None,
                told: Vec::new(),
                ..node.clone()
            };
            let mut schema = Map::new();
            self.typed(&inner, &mut schema);
            map.insert(
                "anyOf".to_owned(),
                json!([schema, {"type": self.type_of(Kinds::NULL)}]),
            );
            return;
        }
        if self.rules.null == NullForm::Flag && node.kinds.meets(Kinds::NULL) {
            // Null is no type there; of null alone, the builder has told in words.
            let kinds = if with_null { solid } else { Kinds::STRING };
            map.insert("type".to_owned(), self.type_of(kinds));
            map.insert("nullable".to_owned(), Value::Bool(true));
        } else if !node.kinds.is_empty() {
            map.insert("type".to_owned(), self.type_of(node.kinds));
        }
        if let Some(values) = &node.values {
            self.values(node, values, with_null, map);
        }
        map.extend(node.bounds.clone());
        if let Some(object) = &node.object {
            self.object(object, map);
        }
        if let Some(array) = &node.array {
            self.array(array, map);
        }
    }

    fn type_of(&self, kinds: Kinds) -> Value {
        let written = kinds.to_json();
        match written {
            Value::String(name) if self.rules.capital_types => name.to_uppercase().into(),
            other => other,
        }
    }

    fn values(&self, node: &Node, values: &[Value], null: bool, map: &mut Map<String, Value>) {
        if let ([only], true) = (values, node.is_const) {
            map.insert("const".to_owned(), only.clone());
            return;
        }
        let mut values = values.to_vec();
        if null && self.rules.null == NullForm::TypeArray {
            values.push(Value::Null);
        }
        map.insert("enum".to_owned(), Value::Array(values));
    }

    fn object(&self, object: &Object, map: &mut Map<String, Value>) {
        let names = |all: bool| -> Vec<Value> {
            let kept = object.properties.iter().filter(|p| all || p.required);
            kept.map(|p| p.name.as_str().into()).collect()
        };
        if !object.properties.is_empty() || object.rest == Rest::Closed {
            let properties = object.properties.iter();
            let properties: Map<String, Value> = properties
                .map(|p| (p.name.clone(), self.schema(p.node).into()))
                .collect();
            map.insert("properties".to_owned(), properties.into());
        }
        let required = names(false);
        if !required.is_empty() || self.rules.all_required {
            map.insert("required".to_owned(), required.into());
        }
        if !self.rules.capital_types {
            let rest = match object.rest {
                Rest::Closed => Value::Bool(false),
                Rest::Open => Value::Bool(true),
                Rest::Schema(id) => self.schema(id).into(),
            };
            map.insert("additionalProperties".to_owned(), rest);
        }
        if self.rules.property_ordering && object.properties.len() > 1 {
            map.insert("propertyOrdering".to_owned(), names(true).into());
        }
    }

    fn array(&self, array: &Array, map: &mut Map<String, Value>) {
        if !array.prefix.is_empty() {
            let prefix = array.prefix.iter().map(|id| self.schema(*id).into());
            map.insert("prefixItems".to_owned(), Value::Array(prefix.collect()));
        }
        if let Some(items) = array.items {
            map.insert("items".to_owned(), self.schema(items).into());
        }
    }
}

/// The caller's description, then what is told in words.
fn description(node: &Node) -> Option<String> {
    if node.told.is_empty() {
        return node.description.clone();
    }
    let told = format!("({})", node.told.join("; "));
    Some(match &node.description {
        Some(description) => format!("{description} {told}"),
        None => told,
    })
}

/// What the limits of a dialect speak of.
#[derive(Default)]
struct Size {
    properties: usize,
    depth: usize,
    characters: usize,
    enum_values: usize,
    longest_enum: Option<(usize, usize)>,
    optional: usize,
    unions: usize,
}

/// Refuses a schema that is beyond one of the dialect's limits.
pub(crate) fn check_limits(
    schema: &Value,
    limits: &Limits,
    dialect: &'static str,
) -> Result<(), Reason> {
    let size = Size::of(schema);
    let most = [
        ("properties", size.properties, limits.properties),
        ("levels", size.depth, limits.depth),
        (
            "characters of names and enum values",
            size.characters,
            limits.characters,
        ),
        ("enum values", size.enum_values, limits.enum_values),
        ("optional properties", size.optional, limits.optional),
        ("values of several types", size.unions, limits.unions),
    ];
    let long =
        limits
            .long_enum
            .zip(size.longest_enum)
            .and_then(|((count, characters), longest)| {
                (longest.0 > count).then_some((
                    "characters in one enum",
                    longest.1,
                    Some(characters),
                ))
            });
    for (what, found, limit) in most.into_iter().chain(long) {
        if let Some(limit) = limit.filter(|limit| found > *limit) {
            return Err(Reason::TooLarge {
                what,
                found,
                limit,
                dialect,
            });
        }
    }
    Ok(())
}

impl Size {
    /// Counts a schema of ours: every object in it but `properties` and `$defs` is a schema.
    fn of(schema: &Value) -> Self {
        let mut size = Self::default();
        let mut open = vec![(schema, 0)];
        while let Some((schema, depth)) = open.pop() {
            size.depth = size.depth.max(depth);
            size.count(schema);
            let nests = ["properties", "items", "prefixItems", "additionalProperties"];
            for (keyword, value) in schema.as_object().into_iter().flatten() {
                let depth = depth + usize::from(nests.contains(&keyword.as_str()));
                match (keyword.as_str(), value) {
                    ("properties" | "$defs", Value::Object(map)) => {
                        size.characters += map.keys().map(|k| k.chars().count()).sum::<usize>();
                        open.extend(map.values().map(|v| (v, depth)));
                    }
                    ("anyOf" | "prefixItems", Value::Array(list)) => {
                        open.extend(list.iter().map(|v| (v, depth)));
                    }
                    ("items" | "additionalProperties", Value::Object(_)) => {
                        open.push((value, depth));
                    }
                    _ => {}
                }
            }
        }
        size
    }

    fn count(&mut self, schema: &Value) {
        let length = |key: &str| match schema.get(key) {
            Some(Value::Object(map)) => map.len(),
            Some(Value::Array(list)) => list.len(),
            _ => 0,
        };
        self.properties += length("properties");
        self.optional += length("properties").saturating_sub(length("required"));
        self.unions += usize::from(length("anyOf") > 1 || length("type") > 1);
        let Some(Value::Array(values)) = schema.get("enum") else {
            return;
        };
        self.enum_values += values.len();
        let texts = values.iter().filter_map(Value::as_str);
        let characters = texts.map(|t| t.chars().count()).sum();
        self.characters += characters;
        if self
            .longest_enum
            .is_none_or(|longest| longest.0 < values.len())
        {
            self.longest_enum = Some((values.len(), characters));
        }
    }
}

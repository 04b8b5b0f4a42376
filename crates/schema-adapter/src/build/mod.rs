//! From the caller's schema to the tree that one dialect can be told.
//!
//! What the tree lets in is at most what the schema lets in, plus what is checked on return; what it
//! shuts out although the schema lets it in is a [`Treatment::Narrowed`] loss, or the dialect
//! refuses the schema.

mod leaf;
mod list;
mod object;
mod reference;
mod union;

use serde_json::{Map, Value};

use crate::dialect::{Dialect, Keyword, NullForm, Rule, Rules};
use crate::error::Reason;
use crate::kind::Kinds;
use crate::loss::{Loss, Treatment};
use crate::merge::ANNOTATIONS;
use crate::node::{Definition, Node, NodeId, Object, Property, Rest, Tree};
use crate::survey::Survey;

/// Most nodes of one tree, references that are put in place counted each time.
pub(crate) const MOST_NODES: usize = 20_000;
/// Deepest tree.
const MOST_LEVELS: usize = 64;
/// What a schema is called that nothing obeys.
const NOTHING: &str = "a schema that nothing obeys";
/// The property that holds an answer whose provider takes objects only.
const WRAPPER: &str = "value";

/// A tree, and what was lost on the way to it.
pub(crate) struct Built {
    pub(crate) tree: Tree,
    pub(crate) losses: Vec<Loss>,
}

/// Builds the tree of `schema` for `dialect`; with `core_only` for the core that every dialect enforces.
pub(crate) fn build(
    schema: &Value,
    survey: Survey,
    dialect: Dialect,
    core_only: bool,
) -> Result<Built, Reason> {
    let mut builder = Builder {
        source: schema,
        survey,
        dialect,
        rules: dialect.rules(),
        core_only,
        nodes: Vec::new(),
        definitions: Vec::new(),
        building: Vec::new(),
        inlined: Vec::new(),
        optional_edges: 0,
        depth: 0,
        steps: 0,
        losses: Vec::new(),
    };
    let mut root = builder.root(schema)?;
    let wrapped = builder.rules.object_root && !builder.is_plain_object(root);
    if wrapped {
        root = builder.wrap(root);
    }
    Ok(Built {
        tree: Tree {
            nodes: builder.nodes,
            definitions: builder.definitions,
            root,
            wrapped,
        },
        losses: builder.losses,
    })
}

struct Builder<'a> {
    source: &'a Value,
    survey: Survey,
    dialect: Dialect,
    rules: &'static Rules,
    core_only: bool,
    nodes: Vec<Node>,
    definitions: Vec<Definition>,
    /// Definitions that are being built, with the optional edges passed before each.
    building: Vec<Building>,
    /// References that were put in place above here.
    inlined: Vec<String>,
    /// Properties above here that need not be there.
    optional_edges: usize,
    depth: usize,
    /// Schemas looked at, also those that leave no node.
    steps: usize,
    losses: Vec<Loss>,
}

struct Building {
    definition: usize,
    optional_edges: usize,
    /// Whether anything but a reference was met in it.
    entered: bool,
}

/// What a schema is once its references and `allOf` are resolved.
enum Flat {
    Any,
    Never,
    Reference(usize),
    Map(Map<String, Value>),
}

impl<'a> Builder<'a> {
    fn rule(&self, keyword: Keyword) -> Rule {
        let rule = self.dialect.rule(keyword);
        let in_core = matches!(
            keyword,
            Keyword::Const | Keyword::Ref | Keyword::Title | Keyword::Description
        ) || self.dialect == Dialect::Mistral
            || Dialect::Mistral.rule(keyword) != Rule::Unknown;
        if self.core_only && !in_core && rule == Rule::Enforced {
            Rule::Removed
        } else {
            rule
        }
    }

    fn lose(&mut self, at: &str, keyword: &'static str, treatment: Treatment) {
        let loss = Loss {
            pointer: at.to_owned(),
            keyword,
            treatment,
        };
        if !self.losses.contains(&loss) {
            self.losses.push(loss);
        }
    }

    fn inexpressible<T>(&self, what: &'static str, at: &str) -> Result<T, Reason> {
        Err(Reason::Inexpressible {
            what,
            pointer: at.to_owned(),
            dialect: self.dialect.as_str(),
        })
    }

    fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn root(&mut self, schema: &'a Value) -> Result<NodeId, Reason> {
        let mark = self.inlined.len();
        let flat = self.flatten(schema, "", true)?;
        let id = self.flat(flat, "")?;
        self.inlined.truncate(mark);
        Ok(self.null_alone(id, ""))
    }

    /// The node of the schema at `at`.
    fn schema(&mut self, schema: &Value, at: &str) -> Result<NodeId, Reason> {
        self.depth += 1;
        if self.depth > MOST_LEVELS {
            return Err(self.too_large("levels", self.depth, MOST_LEVELS));
        }
        let mark = self.inlined.len();
        let flat = self.flatten(schema, at, false)?;
        let id = self.flat(flat, at)?;
        self.inlined.truncate(mark);
        self.depth -= 1;
        Ok(id)
    }

    /// The node of the schema at `at`; none where nothing obeys it.
    fn possible(&mut self, schema: &Value, at: &str) -> Result<Option<NodeId>, Reason> {
        let before = (self.depth, self.inlined.len(), self.building.len());
        let outcome = self.schema(schema, at);
        self.unless_nothing(outcome, before, at)
    }

    /// Forgives that nothing obeys the schema at `at` itself, as long as no definition was left half
    /// done on the way.
    fn unless_nothing(
        &mut self,
        outcome: Result<NodeId, Reason>,
        (depth, inlined, building): (usize, usize, usize),
        at: &str,
    ) -> Result<Option<NodeId>, Reason> {
        match outcome {
            Err(Reason::Inexpressible {
                what: NOTHING,
                pointer,
                ..
            }) if pointer == at && self.building.len() == building => {
                self.depth = depth;
                self.inlined.truncate(inlined);
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }

    fn flat(&mut self, flat: Flat, at: &str) -> Result<NodeId, Reason> {
        match flat {
            Flat::Any => self.any(at),
            Flat::Never => self.inexpressible(NOTHING, at),
            Flat::Reference(definition) => Ok(self.push(Node {
                target: Some(definition),
                ..Node::default()
            })),
            Flat::Map(map) => {
                if let Some(building) = self.building.last_mut() {
                    building.entered = true;
                }
                self.node(map, at)
            }
        }
    }

    fn too_large(&self, what: &'static str, found: usize, limit: usize) -> Reason {
        Reason::TooLarge {
            what,
            found,
            limit,
            dialect: self.dialect.as_str(),
        }
    }

    fn step(&mut self) -> Result<(), Reason> {
        self.steps += 1;
        if self.steps > MOST_NODES {
            return Err(self.too_large(
                "schemas with references put in place",
                self.steps,
                MOST_NODES,
            ));
        }
        Ok(())
    }

    fn any(&mut self, at: &str) -> Result<NodeId, Reason> {
        if self.rules.any_value {
            Ok(self.push(Node::default()))
        } else {
            self.inexpressible("a value of any type", at)
        }
    }

    /// The node of a schema without `$ref` and `allOf`.
    fn node(&mut self, mut map: Map<String, Value>, at: &str) -> Result<NodeId, Reason> {
        self.step()?;
        if map.contains_key("anyOf") || map.contains_key("oneOf") {
            return self.union(map, at);
        }
        self.lose_unsaid(&map, at);
        let written = map.get("type").map_or(Kinds::NONE, Kinds::written);
        let kinds = if written.is_empty() {
            self.inferred(&map, at)
        } else {
            written
        };
        let Some(kinds) = of_values(kinds, &map) else {
            return self.inexpressible(NOTHING, at);
        };
        let kinds = if kinds.meets(Kinds::NUMBER) {
            kinds.without(Kinds::INTEGER)
        } else {
            kinds
        };
        if kinds.is_empty() {
            let id = self.any(at)?;
            self.annotate(id, &map);
            return Ok(id);
        }
        if self.must_split(kinds) {
            return self.split(map, kinds, at);
        }
        map.shift_remove("type");
        let mut node = Node {
            kinds,
            ..Node::default()
        };
        self.values(&mut node, &map, at)?;
        if node.values.is_none() {
            self.bounds(&mut node, &map, at);
        }
        if node.kinds.meets(Kinds::OBJECT) {
            node.object = Some(self.object(&map, at)?);
        }
        if node.kinds.meets(Kinds::ARRAY) {
            node.array = Some(self.list(&mut node, &map, at)?);
        }
        let id = self.push(node);
        self.annotate(id, &map);
        Ok(id)
    }

    /// Types that must not stand in one schema: lists and objects beside others, and, where types
    /// cannot be listed, any two (null has a form of its own).
    fn must_split(&self, kinds: Kinds) -> bool {
        let solid = kinds.without(Kinds::NULL);
        solid.len() > 1
            && (solid.meets(Kinds::OBJECT.with(Kinds::ARRAY))
                || self.rules.null != NullForm::TypeArray)
    }

    fn split(
        &mut self,
        mut map: Map<String, Value>,
        kinds: Kinds,
        at: &str,
    ) -> Result<NodeId, Reason> {
        let notes = take_annotations(&mut map);
        let mut branches = Vec::new();
        for (name, _) in kinds.each() {
            let mut single = map.clone();
            single.insert("type".to_owned(), name.into());
            if of_values(Kinds::written(&name.into()), &single).is_some() {
                branches.push(self.node(single, at)?);
            }
        }
        let id = self.joined(branches);
        self.annotate(id, &notes);
        Ok(id)
    }

    /// Types by the words a schema without `type` uses.
    fn inferred(&mut self, map: &Map<String, Value>, at: &str) -> Kinds {
        if map.contains_key("enum") || map.contains_key("const") {
            return Kinds::NONE;
        }
        let kinds = map.keys().fold(Kinds::NONE, |all, keyword| {
            all.with(kind_of_keyword(keyword))
        });
        if kinds.is_empty() {
            return kinds;
        }
        self.lose(at, "type", Treatment::Narrowed);
        if map.get("nullable") == Some(&Value::Bool(true)) {
            return kinds.with(Kinds::NULL);
        }
        kinds
    }

    /// Notes the keywords that no dialect is told.
    fn lose_unsaid(&mut self, map: &Map<String, Value>, at: &str) {
        for keyword in map.keys().filter_map(|k| Keyword::named(k)) {
            if matches!(
                keyword,
                Keyword::Not
                    | Keyword::If
                    | Keyword::Dependent
                    | Keyword::Unevaluated
                    | Keyword::PropertyNames
                    | Keyword::Contains
            ) {
                self.lose(at, keyword.as_str(), Treatment::Checked);
            }
        }
    }

    /// The node of a place that takes null alone, where null is no type of its own: a nullable value
    /// of another type, which is told. Any other node stays.
    fn null_alone(&mut self, id: NodeId, at: &str) -> NodeId {
        if self.rules.null != NullForm::Flag || !self.nodes[id].is_null() {
            return id;
        }
        self.lose(at, "type", Treatment::Told);
        let mut node = self.nodes[id].clone();
        node.told.push("null".to_owned());
        self.push(node)
    }

    /// Whether a root needs nothing put around it.
    fn is_plain_object(&self, id: NodeId) -> bool {
        let node = &self.nodes[id];
        node.kinds == Kinds::OBJECT && node.object.is_some()
    }

    fn wrap(&mut self, inner: NodeId) -> NodeId {
        self.push(Node {
            kinds: Kinds::OBJECT,
            object: Some(Object {
                properties: vec![Property {
                    name: WRAPPER.to_owned(),
                    node: inner,
                    required: true,
                    null_is_absence: false,
                }],
                rest: Rest::Closed,
            }),
            ..Node::default()
        })
    }
}

/// The types of `kinds` of which `enum` or `const` has a value; none where that leaves no value.
fn of_values(kinds: Kinds, map: &Map<String, Value>) -> Option<Kinds> {
    let Some(values) = leaf::values_of(map) else {
        return Some(kinds);
    };
    let held = values
        .iter()
        .map(Kinds::of)
        .filter(|kind| kinds.admits(*kind))
        .fold(Kinds::NONE, Kinds::with);
    (!held.is_empty()).then_some(if held.meets(Kinds::NUMBER) {
        held.without(Kinds::INTEGER)
    } else {
        held
    })
}

/// The type that a keyword speaks of.
fn kind_of_keyword(keyword: &str) -> Kinds {
    match keyword {
        "properties"
        | "required"
        | "additionalProperties"
        | "patternProperties"
        | "propertyNames"
        | "minProperties"
        | "maxProperties"
        | "dependentRequired"
        | "dependentSchemas"
        | "dependencies"
        | "unevaluatedProperties" => Kinds::OBJECT,
        "items" | "prefixItems" | "minItems" | "maxItems" | "uniqueItems" | "contains"
        | "unevaluatedItems" => Kinds::ARRAY,
        "minLength" | "maxLength" | "pattern" | "format" => Kinds::STRING,
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
            Kinds::NUMBER
        }
        _ => Kinds::NONE,
    }
}

/// Takes what says nothing about validity out of `map`.
fn take_annotations(map: &mut Map<String, Value>) -> Map<String, Value> {
    ANNOTATIONS
        .iter()
        .filter_map(|name| map.shift_remove_entry(*name))
        .collect()
}

//! The way back: from an answer to the rewritten schema to one to the caller's.

use serde_json::Value;

use crate::kind::{Kinds, equal};
use crate::node::{NodeId, Object, Property, Rest, Tree};

/// Most steps spent on finding the branches that an answer took. Nested unions can make that
/// exponential; an answer that needs more stays as it is, and validation judges it.
const MOST_STEPS: usize = 200_000;
/// Deepest look into an answer: as deep as `serde_json` reads, with unions between.
const MOST_DEPTH: usize = 512;

/// Takes off the object that was put around an answer. A model that left it out answered in the
/// caller's terms. Whether anything changed.
pub(crate) fn unwrap(tree: &Tree, value: &mut Value) -> bool {
    let Some(property) = wrapper(tree) else {
        return false;
    };
    let map = value.as_object_mut().filter(|map| map.len() == 1);
    match map.and_then(|map| map.shift_remove(&property.name)) {
        Some(inner) => {
            *value = inner;
            true
        }
        None => false,
    }
}

/// Takes the nulls that stand for absence out of a value that has nothing around it. Whether
/// anything changed.
pub(crate) fn without_absences(tree: &Tree, value: &mut Value) -> bool {
    let mut way = Way {
        tree,
        steps: 0,
        changed: false,
    };
    let root = wrapper(tree).map_or(tree.root, |property| property.node);
    way.back(root, value, 0);
    way.changed
}

/// Whether an answer to this schema may have anything to be taken off or out.
pub(crate) fn changes_any(tree: &Tree) -> bool {
    let objects = tree.nodes.iter().filter_map(|node| node.object.as_ref());
    tree.wrapped
        || objects
            .flat_map(|object| &object.properties)
            .any(|property| property.null_is_absence)
}

fn wrapper(tree: &Tree) -> Option<&Property> {
    if !tree.wrapped {
        return None;
    }
    tree.nodes[tree.root].object.as_ref()?.properties.first()
}

struct Way<'a> {
    tree: &'a Tree,
    steps: usize,
    changed: bool,
}

impl Way<'_> {
    fn back(&mut self, id: NodeId, value: &mut Value, depth: usize) {
        if depth > MOST_DEPTH {
            return;
        }
        let tree = self.tree;
        let node = &tree.nodes[tree.follow(id)];
        if !node.branches.is_empty() {
            let taken = node
                .branches
                .iter()
                .find(|id| self.fits(**id, value, depth));
            if let Some(id) = taken {
                self.back(*id, value, depth + 1);
            }
            return;
        }
        match value {
            Value::Object(map) => {
                let Some(object) = &node.object else { return };
                for property in &object.properties {
                    if property.null_is_absence && map.get(&property.name) == Some(&Value::Null) {
                        map.shift_remove(&property.name);
                        self.changed = true;
                    }
                }
                for (name, value) in map.iter_mut() {
                    if let Some(id) = node_of(object, name) {
                        self.back(id, value, depth + 1);
                    }
                }
            }
            Value::Array(items) => {
                let Some(array) = &node.array else { return };
                for (i, value) in items.iter_mut().enumerate() {
                    if let Some(id) = array.prefix.get(i).copied().or(array.items) {
                        self.back(id, value, depth + 1);
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether a value has the shape of a node: types, values, names and nothing finer.
    fn fits(&mut self, id: NodeId, value: &Value, depth: usize) -> bool {
        self.steps += 1;
        if self.steps > MOST_STEPS || depth > MOST_DEPTH {
            return false;
        }
        let tree = self.tree;
        let node = &tree.nodes[tree.follow(id)];
        if !node.branches.is_empty() {
            return node
                .branches
                .iter()
                .any(|id| self.fits(*id, value, depth + 1));
        }
        if !node.kinds.admits(Kinds::of(value)) {
            return false;
        }
        if let Some(values) = &node.values
            && !value.is_null()
            && !values.iter().any(|v| equal(v, value))
        {
            return false;
        }
        match (value, &node.object, &node.array) {
            (Value::Object(map), Some(object), _) => {
                object
                    .properties
                    .iter()
                    .all(|p| !p.required || map.contains_key(&p.name))
                    && map.iter().all(|(name, value)| match node_of(object, name) {
                        Some(id) => self.fits(id, value, depth + 1),
                        None => object.rest == Rest::Open,
                    })
            }
            (Value::Array(items), _, Some(array)) => items.iter().enumerate().all(|(i, value)| {
                match array.prefix.get(i).copied().or(array.items) {
                    Some(id) => self.fits(id, value, depth + 1),
                    None => true,
                }
            }),
            _ => true,
        }
    }
}

fn node_of(object: &Object, name: &str) -> Option<NodeId> {
    let named = object.properties.iter().find(|p| p.name == name);
    named.map(|p| p.node).or(match object.rest {
        Rest::Schema(id) => Some(id),
        Rest::Closed | Rest::Open => None,
    })
}

//! `anyOf` and `oneOf`.

use serde_json::{Map, Value};

use super::{Builder, Flat, take_annotations};
use crate::dialect::NullForm;
use crate::error::Reason;
use crate::kind::Kinds;
use crate::loss::Treatment;
use crate::node::{Node, NodeId};
use crate::pointer::child;

impl Builder<'_> {
    /// A schema with `anyOf` or `oneOf`: each branch with what stands beside the union.
    pub(super) fn union(
        &mut self,
        mut map: Map<String, Value>,
        at: &str,
    ) -> Result<NodeId, Reason> {
        let one_of = map.shift_remove("oneOf");
        let (keyword, list) = match (map.shift_remove("anyOf"), one_of) {
            (Some(list), one_of) => {
                if one_of.is_some() {
                    self.lose(at, "oneOf", Treatment::Checked);
                }
                ("anyOf", list)
            }
            (None, Some(list)) => {
                self.lose(at, "oneOf", Treatment::AsAnyOf);
                ("oneOf", list)
            }
            (None, None) => return self.node(map, at),
        };
        let Value::Array(list) = list else {
            return self.node(map, at);
        };
        let notes = take_annotations(&mut map);
        let mut branches = Vec::new();
        for (i, schema) in list.iter().enumerate() {
            let at = child(&child(at, keyword), &i.to_string());
            branches.extend(self.branch(&map, schema, &at)?);
        }
        if branches.is_empty() {
            return self.inexpressible(super::NOTHING, at);
        }
        let id = self.joined(branches);
        // A union that came down to one schema may be shared; what is said here is said of a copy.
        let id = if notes.is_empty() {
            id
        } else {
            let copy = match self.nodes[id].target {
                Some(_) => Node {
                    branches: vec![id],
                    ..Node::default()
                },
                None => self.nodes[id].clone(),
            };
            self.push(copy)
        };
        self.annotate(id, &notes);
        Ok(id)
    }

    /// One branch; none where it contradicts what stands beside the union.
    fn branch(
        &mut self,
        beside: &Map<String, Value>,
        schema: &Value,
        at: &str,
    ) -> Result<Option<NodeId>, Reason> {
        if beside.is_empty() {
            return self.possible(schema, at);
        }
        let before = (self.depth, self.inlined.len(), self.building.len());
        self.depth += 1;
        if self.depth > super::MOST_LEVELS {
            return Err(self.too_large("levels", self.depth, super::MOST_LEVELS));
        }
        let flat = self.flatten(schema, at, true)?;
        // The branch's own title and description are the nearer ones.
        let merged = match flat {
            Flat::Map(branch) => self.both(branch, Flat::Map(beside.clone()), at)?,
            Flat::Any => Flat::Map(beside.clone()),
            other => other,
        };
        let outcome = self.flat(merged, at);
        let id = self.unless_nothing(outcome, before, at)?;
        self.inlined.truncate(before.1);
        self.depth = before.0;
        Ok(id)
    }

    /// One of `ids`: without repetition, unions within it taken up, enums joined to one.
    pub(super) fn joined(&mut self, ids: Vec<NodeId>) -> NodeId {
        let mut flat: Vec<NodeId> = Vec::new();
        for id in ids {
            let node = &self.nodes[id];
            if node.is_bare_union() {
                flat.extend(node.branches.clone());
            } else {
                flat.push(id);
            }
        }
        let mut branches: Vec<NodeId> = Vec::new();
        for id in flat {
            if !branches.iter().any(|kept| self.same(*kept, id)) {
                branches.push(id);
            }
        }
        self.join_enums(&mut branches);
        match branches.as_slice() {
            [only] => *only,
            _ => self.push(Node {
                branches,
                ..Node::default()
            }),
        }
    }

    /// Whether two branches are plainly the same: leaves that say the same, or one definition.
    fn same(&self, a: NodeId, b: NodeId) -> bool {
        let (a, b) = (&self.nodes[a], &self.nodes[b]);
        let leaf = |n: &Node| n.object.is_none() && n.array.is_none() && n.branches.is_empty();
        leaf(a)
            && leaf(b)
            && a.kinds == b.kinds
            && a.target == b.target
            && a.values == b.values
            && a.bounds == b.bounds
            && a.title == b.title
            && a.description == b.description
            && a.told == b.told
    }

    /// Enums of one type, with nothing else said of them, become one enum in the place of the first.
    fn join_enums(&mut self, branches: &mut Vec<NodeId>) {
        let mut joined: Option<NodeId> = None;
        let mut kept = Vec::new();
        for id in branches.drain(..) {
            let node = &self.nodes[id];
            let plain = node.values.is_some()
                && node.title.is_none()
                && node.description.is_none()
                && node.told.is_empty()
                && node.bounds.is_empty();
            if !plain {
                kept.push(id);
                continue;
            }
            let Some(first) = joined else {
                joined = Some(id);
                kept.push(id);
                continue;
            };
            let kinds = self.nodes[first].kinds.with(node.kinds);
            let one_type = kinds.without(Kinds::NULL).len() == 1;
            if !one_type && self.rules.null != NullForm::TypeArray {
                kept.push(id);
                continue;
            }
            let mut both = self.nodes[first].clone();
            let values = both.values.get_or_insert_default();
            for value in node.values.iter().flatten() {
                if !values.contains(value) {
                    values.push(value.clone());
                }
            }
            both.kinds = kinds;
            both.is_const = false;
            let both = self.push(both);
            for id in kept.iter_mut().filter(|id| **id == first) {
                *id = both;
            }
            joined = Some(both);
        }
        *branches = kept;
    }
}

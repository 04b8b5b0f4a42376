//! A schema in the form between the caller's and the provider's: what is written out, and the map
//! by which an answer finds its way back.

use serde_json::{Map, Value};

use crate::kind::Kinds;

/// Index of a node.
pub(crate) type NodeId = usize;

/// One schema.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    /// Its types; empty for a value of any type, and where `branches` or `target` say it.
    pub(crate) kinds: Kinds,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    /// Bounds that are put into the description.
    pub(crate) told: Vec<String>,
    /// The only values, null left out.
    pub(crate) values: Option<Vec<Value>>,
    /// `values` is written as `const`.
    pub(crate) is_const: bool,
    /// Keywords that are sent as they are.
    pub(crate) bounds: Map<String, Value>,
    pub(crate) object: Option<Object>,
    pub(crate) array: Option<Array>,
    /// One of these, if there are any.
    pub(crate) branches: Vec<NodeId>,
    /// Another schema, by its place in the definitions.
    pub(crate) target: Option<usize>,
}

impl Node {
    /// A schema for null alone.
    pub(crate) fn null() -> Self {
        Self {
            kinds: Kinds::NULL,
            ..Self::default()
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.kinds == Kinds::NULL
    }

    /// Whether nothing but its branches is said.
    pub(crate) fn is_bare_union(&self) -> bool {
        !self.branches.is_empty()
            && self.title.is_none()
            && self.description.is_none()
            && self.told.is_empty()
    }
}

/// What is said of an object.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) properties: Vec<Property>,
    pub(crate) rest: Rest,
}

/// One property, in the order of the caller's schema.
#[derive(Debug, Clone)]
pub(crate) struct Property {
    pub(crate) name: String,
    pub(crate) node: NodeId,
    pub(crate) required: bool,
    /// The provider demands the property, so null stands for its absence.
    pub(crate) null_is_absence: bool,
}

/// Properties that are not named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    Closed,
    Open,
    Schema(NodeId),
}

/// What is said of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Array {
    pub(crate) prefix: Vec<NodeId>,
    pub(crate) items: Option<NodeId>,
}

/// A schema that others refer to.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    /// The reference in the caller's schema.
    pub(crate) reference: String,
    /// The name in `$defs`.
    pub(crate) name: String,
    /// None while it is being built.
    pub(crate) node: Option<NodeId>,
}

/// A whole schema, rewritten.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
    pub(crate) definitions: Vec<Definition>,
    pub(crate) root: NodeId,
    /// The answer stands in the one property of an object that was put around it.
    pub(crate) wrapped: bool,
}

impl Tree {
    /// The node itself, or the definition it refers to.
    pub(crate) fn follow(&self, id: NodeId) -> NodeId {
        let mut at = id;
        // Chains of references are bounded by their number.
        for _ in 0..=self.definitions.len() {
            let next = self.nodes[at]
                .target
                .and_then(|target| self.definitions[target].node);
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        at
    }
}

//! Objects.

use serde_json::{Map, Value};

use super::{Builder, NodeId};
use crate::dialect::{Keyword, Rule};
use crate::error::Reason;
use crate::kind::Kinds;
use crate::loss::Treatment;
use crate::node::{Node, Object, Property, Rest};
use crate::pointer::child;

impl Builder<'_> {
    pub(super) fn object(&mut self, map: &Map<String, Value>, at: &str) -> Result<Object, Reason> {
        let required: Vec<&str> = match map.get("required") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let mut properties = Vec::new();
        if let Some(Value::Object(schemas)) = map.get("properties") {
            let below = child(at, "properties");
            for (name, schema) in schemas {
                let is_required = required.contains(&name.as_str());
                properties.extend(self.property(
                    name,
                    schema,
                    is_required,
                    &child(&below, name),
                )?);
            }
        }
        for name in required {
            if !properties.iter().any(|p| p.name == name) {
                let schema = map
                    .get("additionalProperties")
                    .unwrap_or(&Value::Bool(true));
                properties.extend(self.property(name, schema, true, at)?);
            }
        }
        let rest = self.rest(map, properties.is_empty(), at)?;
        if properties.is_empty() && rest == Rest::Closed && !self.rules.empty_objects {
            return self.inexpressible("an object without properties", at);
        }
        Ok(Object { properties, rest })
    }

    /// None where the property cannot be there, and need not.
    fn property(
        &mut self,
        name: &str,
        schema: &Value,
        required: bool,
        at: &str,
    ) -> Result<Option<Property>, Reason> {
        self.optional_edges += usize::from(!required);
        let node = if required {
            Some(self.schema(schema, at)?)
        } else {
            self.possible(schema, at)?
        };
        self.optional_edges -= usize::from(!required);
        let Some(node) = node else {
            return Ok(None);
        };
        let node = self.null_alone(node, at);
        let mut property = Property {
            name: name.to_owned(),
            node,
            required,
            null_is_absence: false,
        };
        if !required && self.rules.all_required {
            property.required = true;
            if !self.admits_null(node) {
                property.null_is_absence = true;
                property.node = self.nullable(node);
            }
        }
        Ok(Some(property))
    }

    /// What is said of properties that are not named.
    fn rest(&mut self, map: &Map<String, Value>, no_names: bool, at: &str) -> Result<Rest, Reason> {
        let patterns =
            matches!(map.get("patternProperties"), Some(Value::Object(p)) if !p.is_empty());
        let written = map.get("additionalProperties");
        let is_free = matches!(written, Some(Value::Bool(true)))
            || matches!(written, Some(Value::Object(o)) if o.is_empty());
        let sends = self.rule(Keyword::AdditionalProperties) == Rule::Enforced;
        if patterns {
            self.lose(at, "patternProperties", Treatment::Checked);
        }
        match written {
            Some(Value::Bool(false)) if !patterns => Ok(Rest::Closed),
            None if !patterns && !no_names => {
                self.lose(at, "additionalProperties", Treatment::Closed);
                Ok(Rest::Closed)
            }
            _ if self.rules.closed_only || !sends => {
                if no_names {
                    return self.inexpressible("an object of free properties", at);
                }
                self.lose(at, "additionalProperties", Treatment::Narrowed);
                Ok(Rest::Closed)
            }
            Some(schema @ Value::Object(_)) if !is_free && !patterns => {
                let id = self.schema(schema, &child(at, "additionalProperties"))?;
                Ok(Rest::Schema(id))
            }
            _ if no_names && !self.rules.empty_objects => {
                self.inexpressible("an object of free properties", at)
            }
            _ => Ok(Rest::Open),
        }
    }

    /// Whether null is let in by the node, directly or through what it refers to.
    fn admits_null(&self, id: NodeId) -> bool {
        let mut open = vec![id];
        let mut seen = Vec::new();
        while let Some(id) = open.pop() {
            if seen.contains(&id) {
                continue;
            }
            seen.push(id);
            let node = &self.nodes[id];
            if node.kinds.meets(Kinds::NULL) {
                return true;
            }
            open.extend(&node.branches);
            // A definition that is not finished is one that contains this property: whether null
            // is among its own branches is not known, and it is asked for in addition.
            open.extend(node.target.and_then(|t| self.definitions[t].node));
        }
        false
    }

    /// The node with null beside.
    fn nullable(&mut self, id: NodeId) -> NodeId {
        let mut node = self.nodes[id].clone();
        if node.target.is_some() {
            let null = self.push(Node::null());
            return self.push(Node {
                branches: vec![id, null],
                ..Node::default()
            });
        }
        if node.branches.is_empty() {
            node.kinds = node.kinds.with(Kinds::NULL);
            node.is_const = false;
        } else {
            let null = self.push(Node::null());
            node.branches.push(null);
        }
        self.push(node)
    }
}

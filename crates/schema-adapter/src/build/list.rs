//! Lists.

use serde_json::{Map, Value, json};

use super::{Builder, NodeId};
use crate::dialect::{Keyword, Rule};
use crate::error::Reason;
use crate::loss::Treatment;
use crate::node::{Array, Node};
use crate::pointer::child;

impl Builder<'_> {
    pub(super) fn list(
        &mut self,
        node: &mut Node,
        map: &Map<String, Value>,
        at: &str,
    ) -> Result<Array, Reason> {
        let prefix = match map.get("prefixItems") {
            Some(Value::Array(prefix)) if !prefix.is_empty() => prefix.as_slice(),
            _ => return self.plain_list(map, at),
        };
        let mut members = Vec::new();
        for (i, schema) in prefix.iter().enumerate() {
            members.push(self.schema(schema, &child(&child(at, "prefixItems"), &i.to_string()))?);
        }
        let further = match map.get("items") {
            Some(Value::Bool(false)) => None,
            Some(schema @ Value::Object(_)) => Some(self.schema(schema, &child(at, "items"))?),
            _ => {
                if !is_full(map, prefix.len()) {
                    self.lose(at, "prefixItems", Treatment::Narrowed);
                }
                None
            }
        };
        if further.is_none() && map.get("maxItems").is_none() {
            self.bounds(
                node,
                &Map::from_iter([("maxItems".to_owned(), json!(prefix.len()))]),
                at,
            );
        }
        let in_order = self.rule(Keyword::PrefixItems) == Rule::Enforced;
        if !in_order {
            self.lose(at, "prefixItems", Treatment::Checked);
        }
        let all: Vec<NodeId> = members.iter().copied().chain(further).collect();
        let items = self.joined(all);
        Ok(Array {
            prefix: if in_order { members } else { Vec::new() },
            items: Some(self.null_alone(items, &child(at, "items"))),
        })
    }

    fn plain_list(&mut self, map: &Map<String, Value>, at: &str) -> Result<Array, Reason> {
        let items = match map.get("items") {
            Some(schema @ Value::Object(_)) => {
                let at = child(at, "items");
                let items = self.schema(schema, &at)?;
                Some(self.null_alone(items, &at))
            }
            Some(Value::Bool(false)) => {
                return self.inexpressible("a list that must be empty", at);
            }
            _ if self.rules.any_value => None,
            _ => return self.inexpressible("a list of anything", at),
        };
        Ok(Array {
            prefix: Vec::new(),
            items,
        })
    }
}

/// Whether the list cannot be longer than its prefix.
fn is_full(map: &Map<String, Value>, length: usize) -> bool {
    let most = map.get("maxItems").and_then(Value::as_u64);
    most.is_some_and(|most| usize::try_from(most).is_ok_and(|most| most <= length))
}

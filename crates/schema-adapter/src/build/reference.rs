//! `$ref` and `allOf`: put in place, or kept as definitions.

use serde_json::{Map, Value};

use super::{Builder, Building, Flat};
use crate::dialect::{Keyword, Recursion, Rule};
use crate::error::Reason;
use crate::loss::Treatment;
use crate::merge::{ANNOTATIONS, merge};
use crate::node::{Definition, Node};
use crate::pointer;

/// Words that only name, place or comment.
const NAMES: [&str; 11] = [
    "$schema",
    "$id",
    "id",
    "$anchor",
    "$dynamicAnchor",
    "$comment",
    "$vocabulary",
    "$defs",
    "definitions",
    "contentMediaType",
    "contentEncoding",
];

impl Builder<'_> {
    /// The schema at `at` with its references and `allOf` resolved; a reference alone stays one
    /// where the dialect has references, unless `in_place`.
    pub(super) fn flatten(
        &mut self,
        schema: &Value,
        at: &str,
        in_place: bool,
    ) -> Result<Flat, Reason> {
        self.step()?;
        let map = match schema {
            Value::Bool(false) => return Ok(Flat::Never),
            Value::Object(map) => map,
            _ => return Ok(Flat::Any),
        };
        if map.contains_key("$dynamicRef") || map.contains_key("$recursiveRef") {
            return self.inexpressible("a dynamic reference", at);
        }
        let mut map = self.modern(map);
        let reference = map.get("$ref").and_then(Value::as_str).map(str::to_owned);
        let mut flat = match reference {
            Some(reference) => {
                map.shift_remove("$ref");
                if !self.survey.draft.reads_beside_ref() {
                    map.retain(|keyword, _| ANNOTATIONS.contains(&keyword.as_str()));
                }
                self.referred(&reference, map, at, in_place)?
            }
            None => Flat::Map(map),
        };
        if let Flat::Map(map) = &mut flat
            && let Some(Value::Array(parts)) = map.shift_remove("allOf")
        {
            flat = self.all_of(std::mem::take(map), &parts, at, in_place)?;
        }
        Ok(match flat {
            Flat::Map(map) if map.is_empty() => Flat::Any,
            other => other,
        })
    }

    /// `allOf` as one schema.
    fn all_of(
        &mut self,
        map: Map<String, Value>,
        parts: &[Value],
        at: &str,
        in_place: bool,
    ) -> Result<Flat, Reason> {
        if let ([only], true) = (parts, map.is_empty()) {
            return self.flatten(only, at, in_place);
        }
        let mut merged = map;
        for part in parts {
            let flat = self.flatten(part, at, true)?;
            match self.both(merged, flat, at)? {
                Flat::Map(map) => merged = map,
                other => return Ok(other),
            }
        }
        Ok(Flat::Map(merged))
    }

    /// `map` and `other` at once.
    pub(super) fn both(
        &mut self,
        map: Map<String, Value>,
        other: Flat,
        at: &str,
    ) -> Result<Flat, Reason> {
        let other = match other {
            Flat::Any => return Ok(Flat::Map(map)),
            Flat::Never => return Ok(Flat::Never),
            Flat::Reference(_) => {
                return self.inexpressible("a reference beside other keywords", at);
            }
            Flat::Map(other) => other,
        };
        let Some(merged) = merge(map, other) else {
            return Ok(Flat::Never);
        };
        for keyword in merged.dropped.iter().filter_map(|k| Keyword::named(k)) {
            self.lose(at, keyword.as_str(), Treatment::Checked);
        }
        Ok(Flat::Map(merged.map))
    }

    /// What `reference` with `beside` next to it is.
    fn referred(
        &mut self,
        reference: &str,
        beside: Map<String, Value>,
        at: &str,
        in_place: bool,
    ) -> Result<Flat, Reason> {
        let keeps = self.rule(Keyword::Ref) == Rule::Enforced;
        let open = self.inlined.iter().any(|r| r == reference)
            || self
                .building
                .iter()
                .any(|b| self.definitions[b.definition].reference == reference);
        if keeps && !in_place && beside.is_empty() {
            return self.definition(reference, at).map(Flat::Reference);
        }
        if open {
            if !keeps || in_place {
                return self.recursive(at);
            }
            for keyword in beside.keys().filter_map(|k| Keyword::named(k)) {
                if !ANNOTATIONS.contains(&keyword.as_str()) {
                    self.lose(at, keyword.as_str(), Treatment::Checked);
                }
            }
            return self.definition(reference, at).map(Flat::Reference);
        }
        let target = self.target(reference, at)?;
        self.inlined.push(reference.to_owned());
        let flat = self.flatten(&target, at, true)?;
        if beside.is_empty() {
            return Ok(flat);
        }
        self.both(beside, flat, at)
    }

    fn recursive<T>(&self, at: &str) -> Result<T, Reason> {
        Err(Reason::Recursive {
            pointer: at.to_owned(),
            dialect: self.dialect.as_str(),
        })
    }

    fn target(&self, reference: &str, at: &str) -> Result<Value, Reason> {
        let found = match reference.strip_prefix('#') {
            Some(name) if !name.is_empty() && !name.starts_with('/') => anchored(self.source, name),
            _ => pointer::resolve(self.source, reference),
        };
        match found {
            Some(target) if !self.survey.has_addresses => Ok(target.clone()),
            _ => self.inexpressible("a reference to a part with an address of its own", at),
        }
    }

    /// The definition that `reference` leads to, built when it is met first.
    fn definition(&mut self, reference: &str, at: &str) -> Result<usize, Reason> {
        if let Some(known) = self
            .definitions
            .iter()
            .position(|d| d.reference == reference)
        {
            self.check_recursion(known, at)?;
            return Ok(known);
        }
        let target = self.target(reference, at)?;
        let definition = self.definitions.len();
        let name = self.name_for(reference);
        self.definitions.push(Definition {
            reference: reference.to_owned(),
            name,
            node: None,
        });
        self.building.push(Building {
            definition,
            optional_edges: self.optional_edges,
            entered: false,
        });
        // A definition stands alone: what was put in place around its use is not around it.
        let around = std::mem::take(&mut self.inlined);
        let flat = self.flatten(&target, at, false)?;
        let node = match flat {
            Flat::Reference(further) if further == definition => return self.recursive(at),
            Flat::Reference(further) => self.push(Node {
                target: Some(further),
                ..Node::default()
            }),
            flat => {
                self.depth += 1;
                if self.depth > super::MOST_LEVELS {
                    return Err(self.too_large("levels", self.depth, super::MOST_LEVELS));
                }
                let node = self.flat(flat, at)?;
                self.depth -= 1;
                node
            }
        };
        self.inlined = around;
        self.building.pop();
        self.definitions[definition].node = Some(node);
        Ok(definition)
    }

    /// Whether a reference back to a definition that is being built may stand.
    fn check_recursion(&self, definition: usize, at: &str) -> Result<(), Reason> {
        let Some(open) = self.building.iter().find(|b| b.definition == definition) else {
            return Ok(());
        };
        let fine = open.entered
            && match self.rules.recursion {
                Recursion::Accepted => true,
                Recursion::ThroughOptional => self.optional_edges > open.optional_edges,
                Recursion::Refused => false,
            };
        if fine { Ok(()) } else { self.recursive(at) }
    }

    /// A name for `$defs`: the reference's last word, made plain and unique.
    fn name_for(&self, reference: &str) -> String {
        let last = reference.rsplit('/').next().unwrap_or_default();
        let plain: String = last
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .take(48)
            .collect();
        let plain = if last == "#" || plain.is_empty() {
            "root".to_owned()
        } else {
            plain
        };
        let taken = |name: &str| self.definitions.iter().any(|d| d.name == name);
        if !taken(&plain) {
            return plain;
        }
        (2..=self.definitions.len() + 2)
            .map(|n| format!("{plain}_{n}"))
            .find(|name| !taken(name))
            .unwrap_or(plain)
    }

    /// A copy without names, with older words as the newest draft has them.
    fn modern(&self, map: &Map<String, Value>) -> Map<String, Value> {
        let mut map: Map<String, Value> = map
            .iter()
            .filter(|(keyword, _)| !NAMES.contains(&keyword.as_str()))
            .map(|(keyword, value)| (keyword.clone(), value.clone()))
            .collect();
        if self.survey.draft.has_item_lists() {
            let rest = map.shift_remove("additionalItems");
            if map.get("items").is_some_and(Value::is_array)
                && let Some(list) = map.shift_remove("items")
            {
                map.insert("prefixItems".to_owned(), list);
                if let Some(rest) = rest {
                    map.insert("items".to_owned(), rest);
                }
            }
        }
        for (flag, bound) in [
            ("exclusiveMinimum", "minimum"),
            ("exclusiveMaximum", "maximum"),
        ] {
            match map.get(flag) {
                Some(Value::Bool(true)) => {
                    map.shift_remove(flag);
                    if let Some(value) = map.shift_remove(bound) {
                        map.insert(flag.to_owned(), value);
                    }
                }
                Some(Value::Bool(false)) => {
                    map.shift_remove(flag);
                }
                _ => {}
            }
        }
        map
    }
}

/// The part of `schema` with that `$anchor`, in the order of the document.
fn anchored<'v>(schema: &'v Value, name: &str) -> Option<&'v Value> {
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(map) => {
                if map.get("$anchor").and_then(Value::as_str) == Some(name) {
                    return Some(value);
                }
                open.extend(map.values().rev());
            }
            Value::Array(items) => open.extend(items.iter().rev()),
            _ => {}
        }
    }
    None
}

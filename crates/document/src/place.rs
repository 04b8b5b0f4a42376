//! Where something stands.

use std::rc::Rc;

use crate::node::{Table, Value};

/// A file, a line and a key path.
#[derive(Clone, Debug)]
pub struct Place {
    /// The file's name as it was given.
    pub file: Rc<str>,
    /// Line in the file, from 1; 0 for the file as a whole.
    pub line: usize,
    /// Key path; empty for the file as a whole.
    pub key: String,
}

impl Place {
    /// The file as a whole.
    pub fn file(name: &str) -> Self {
        Self {
            file: Rc::from(name),
            line: 0,
            key: String::new(),
        }
    }

    /// `key` below this place.
    #[must_use]
    pub fn below(&self, key: &str, line: usize) -> Self {
        let mut path = self.key.clone();
        if !path.is_empty() {
            path.push('.');
        }
        if is_bare(key) {
            path.push_str(key);
        } else {
            let quoted = format!("{key:?}");
            path.push_str(&quoted);
        }
        Self {
            file: Rc::clone(&self.file),
            line,
            key: path,
        }
    }

    /// The list item `index` at this place.
    #[must_use]
    pub fn item(&self, index: usize, line: usize) -> Self {
        Self {
            file: Rc::clone(&self.file),
            line,
            key: format!("{}[{index}]", self.key),
        }
    }

    /// `file:line`, for messages about two places.
    pub fn address(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

fn is_bare(key: &str) -> bool {
    !key.is_empty()
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// A table and where it stands.
#[derive(Clone, Debug)]
pub struct Scope<'a> {
    /// Where.
    pub place: Place,
    /// The table.
    pub table: &'a Table,
}

impl Scope<'_> {
    /// Where a dotted key such as `restore.canary` is set in this table.
    pub fn locate(&self, dotted: &str) -> Option<Place> {
        let mut table = self.table;
        let mut place = self.place.clone();
        let mut parts = dotted.split('.').peekable();
        while let Some(part) = parts.next() {
            let entry = table.get(part)?;
            place = place.below(part, entry.line);
            if parts.peek().is_some() {
                let Value::Table(inner) = &entry.node.value else {
                    return None;
                };
                table = inner;
            }
        }
        Some(place)
    }
}

/// Where the first of `keys` that is set anywhere is set, the last layer first, and which it is.
pub fn locate_any<'k>(layers: &[&Scope<'_>], keys: &[&'k str]) -> Option<(Place, &'k str)> {
    keys.iter().find_map(|key| {
        let place = layers.iter().rev().find_map(|layer| layer.locate(key))?;
        Some((place, *key))
    })
}

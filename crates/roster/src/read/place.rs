//! Where something stands, and what is wrong there.

use std::collections::HashSet;
use std::rc::Rc;

use super::node::{Table, Value};
use crate::problem::{Problem, Severity};

/// A file, a line and a key path.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) file: Rc<str>,
    pub(crate) line: usize,
    pub(crate) key: String,
}

impl Place {
    /// The file as a whole.
    pub(crate) fn file(name: &str) -> Self {
        Self {
            file: Rc::from(name),
            line: 0,
            key: String::new(),
        }
    }

    /// `key` below this place.
    pub(crate) fn below(&self, key: &str, line: usize) -> Self {
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
    pub(crate) fn item(&self, index: usize, line: usize) -> Self {
        Self {
            file: Rc::clone(&self.file),
            line,
            key: format!("{}[{index}]", self.key),
        }
    }

    /// `file:line`, for messages about two places.
    pub(crate) fn address(&self) -> String {
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
#[derive(Clone)]
pub(crate) struct Scope<'a> {
    pub(crate) place: Place,
    pub(crate) table: &'a Table,
}

impl Scope<'_> {
    /// Where a dotted key such as `restore.canary` is set in this table.
    pub(crate) fn locate(&self, dotted: &str) -> Option<Place> {
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
pub(crate) fn locate_any<'k>(layers: &[&Scope<'_>], keys: &[&'k str]) -> Option<(Place, &'k str)> {
    keys.iter().find_map(|key| {
        let place = layers.iter().rev().find_map(|layer| layer.locate(key))?;
        Some((place, *key))
    })
}

/// The problems found so far.
#[derive(Default)]
pub(crate) struct Findings(HashSet<Problem>);

impl Findings {
    pub(crate) fn error(&mut self, at: &Place, message: String, suggestion: Option<String>) {
        self.add(at, message, suggestion, Severity::Error);
    }

    pub(crate) fn warning(&mut self, at: &Place, message: String, suggestion: Option<String>) {
        self.add(at, message, suggestion, Severity::Warning);
    }

    fn add(&mut self, at: &Place, message: String, suggestion: Option<String>, severity: Severity) {
        let problem = Problem {
            file: at.file.to_string(),
            line: at.line,
            key: at.key.clone(),
            message,
            suggestion,
            severity,
        };
        // A value in [defaults] is met once for each role; the set keeps it once.
        self.0.insert(problem);
    }

    /// How many problems there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.0.iter().any(|p| p.severity == Severity::Error)
    }

    /// In the order of files, lines and keys.
    pub(crate) fn into_sorted(self) -> Vec<Problem> {
        let mut problems: Vec<Problem> = self.0.into_iter().collect();
        problems.sort_by(|a, b| {
            (&a.file, a.line, &a.key, a.severity, &a.message)
                .cmp(&(&b.file, b.line, &b.key, b.severity, &b.message))
        });
        problems
    }
}

/// The candidate most like `word`, if any is like it at all.
pub(crate) fn nearest<'c>(
    word: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    /// Below this, two keys of the files have little in common.
    const ALIKE: f64 = 0.6;
    let mut best: Option<(f64, &str)> = None;
    for candidate in candidates {
        let score = strsim::normalized_damerau_levenshtein(word, candidate);
        if score >= ALIKE && best.is_none_or(|(top, _)| score > top) {
            best = Some((score, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

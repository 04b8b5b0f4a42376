//! What is wrong, collected.

use std::collections::HashSet;

use crate::place::Place;
use crate::problem::{Problem, Severity};

/// The problems found so far.
#[derive(Debug, Default)]
pub struct Findings(HashSet<Problem>);

impl Findings {
    /// Notes an error at `at`; `suggestion` is a clause of its own.
    pub fn error(&mut self, at: &Place, message: String, suggestion: Option<String>) {
        self.add(at, message, suggestion, Severity::Error);
    }

    /// Notes a warning at `at`.
    pub fn warning(&mut self, at: &Place, message: String, suggestion: Option<String>) {
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
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is wrong so far.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them is an error.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|p| p.severity == Severity::Error)
    }

    /// In the order of files, lines and keys.
    pub fn into_sorted(self) -> Vec<Problem> {
        let mut problems: Vec<Problem> = self.0.into_iter().collect();
        problems.sort_by(|a, b| {
            (&a.file, a.line, &a.key, a.severity, &a.message)
                .cmp(&(&b.file, b.line, &b.key, b.severity, &b.message))
        });
        problems
    }
}

/// The candidate most like `word`, if any is like it at all.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
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

//! Reads a table key by key: types, missing keys, and keys nobody asked for.

use std::time::Duration;

use crate::findings::{Findings, nearest};
use crate::node::{Node, Value};
use crate::place::{Place, Scope};

/// Puts `value` into `slot` if there is one.
pub fn assign<T>(slot: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *slot = value;
    }
}

/// One string of a list.
#[derive(Clone, Debug)]
pub struct Item<'a> {
    /// The string.
    pub text: &'a str,
    /// Where it stands.
    pub place: Place,
    /// The environment variables it was filled from.
    pub variables: &'a [String],
}

/// Reads one table. Every key asked for is a known key; [`finish`](Self::finish)
/// reports the others.
#[derive(Debug)]
pub struct TableReader<'a, 'f> {
    scope: Scope<'a>,
    /// Where problems go.
    pub findings: &'f mut Findings,
    known: Vec<&'static str>,
}

impl<'a, 'f> TableReader<'a, 'f> {
    /// Reads the table of `scope`; problems go to `findings`.
    pub fn new(scope: Scope<'a>, findings: &'f mut Findings) -> Self {
        Self {
            scope,
            findings,
            known: Vec::new(),
        }
    }

    /// The table being read.
    pub fn scope(&self) -> &Scope<'a> {
        &self.scope
    }

    /// Makes `key` a known key without reading it.
    pub fn know(&mut self, key: &'static str) {
        self.known.push(key);
    }

    /// Every key asked for so far.
    pub fn known(&self) -> &[&'static str] {
        &self.known
    }

    /// Where `key` is, or would be.
    pub fn place(&self, key: &str) -> Place {
        let line = self
            .scope
            .table
            .get(key)
            .map_or(self.scope.place.line, |e| e.line);
        self.scope.place.below(key, line)
    }

    /// The value at `key`, with its place; `None` where absent, null or already reported.
    fn value(&mut self, key: &'static str) -> Option<(&'a Node, Place)> {
        self.known.push(key);
        let entry = self.scope.table.get(key)?;
        if matches!(entry.node.value, Value::Null | Value::Unusable) {
            return None;
        }
        Some((&entry.node, self.scope.place.below(key, entry.line)))
    }

    fn wrong(&mut self, at: &Place, expected: &str, found: &Value) {
        let message = format!("expected {expected}, found {}", found.kind());
        self.findings.error(at, message, None);
    }

    /// Whether `key` is there with a value, usable or not.
    pub fn has(&self, key: &str) -> bool {
        let entry = self.scope.table.get(key);
        entry.is_some_and(|entry| !matches!(entry.node.value, Value::Null))
    }

    /// A whole number from 0 to `most`; `unit` says of what.
    fn whole(&mut self, key: &'static str, unit: &str, most: u64) -> Option<u64> {
        let (node, at) = self.value(key)?;
        let Value::Integer(number) = node.value else {
            self.wrong(&at, &format!("a whole number{unit}"), &node.value);
            return None;
        };
        match u64::try_from(number) {
            Ok(number) if number <= most => return Some(number),
            Ok(number) => {
                let message = format!("is {number}, expected at most {most}");
                self.findings.error(&at, message, None);
            }
            Err(_) => {
                let message = format!("is {number}, expected 0 or more");
                self.findings.error(&at, message, None);
            }
        }
        None
    }

    /// A count.
    pub fn count(&mut self, key: &'static str) -> Option<u32> {
        let number = self.whole(key, "", u64::from(u32::MAX))?;
        u32::try_from(number).ok()
    }

    /// A large count, e.g. of tokens or bytes. The bound is that of a TOML integer.
    pub fn large_count(&mut self, key: &'static str) -> Option<u64> {
        self.whole(key, "", i64::MAX.unsigned_abs())
    }

    /// Whole milliseconds.
    pub fn ms(&mut self, key: &'static str) -> Option<Duration> {
        self.whole(key, " of milliseconds", u64::from(u32::MAX))
            .map(Duration::from_millis)
    }

    /// Whole seconds.
    pub fn seconds(&mut self, key: &'static str) -> Option<Duration> {
        self.whole(key, " of seconds", u64::from(u32::MAX))
            .map(Duration::from_secs)
    }

    /// Any finite number.
    pub fn number(&mut self, key: &'static str) -> Option<f64> {
        let (node, at) = self.value(key)?;
        self.finite(node, &at)
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "settings are shares, rates and prices; none needs more than 53 bits"
    )]
    fn finite(&mut self, node: &Node, at: &Place) -> Option<f64> {
        match node.value {
            Value::Float(number) if number.is_finite() => Some(number),
            Value::Integer(number) => Some(number as f64),
            Value::Unusable => None,
            ref other => {
                self.wrong(at, "a number", other);
                None
            }
        }
    }

    /// A list of finite numbers.
    pub fn numbers(&mut self, key: &'static str) -> Option<Vec<f64>> {
        let (items, at) = self.items(key, "a list of numbers")?;
        items
            .iter()
            .enumerate()
            .map(|(index, item)| self.finite(item, &at.item(index, item.line)))
            .collect()
    }

    /// `true` or `false`.
    pub fn flag(&mut self, key: &'static str) -> Option<bool> {
        let (node, at) = self.value(key)?;
        if let Value::Bool(value) = node.value {
            return Some(value);
        }
        self.wrong(&at, "true or false", &node.value);
        None
    }

    /// A string.
    pub fn text(&mut self, key: &'static str) -> Option<&'a str> {
        let (node, at) = self.value(key)?;
        self.string(node, &at)
    }

    fn string(&mut self, node: &'a Node, at: &Place) -> Option<&'a str> {
        match &node.value {
            Value::String(text) => Some(text),
            Value::Unusable => None,
            other => {
                self.wrong(at, "a string", other);
                None
            }
        }
    }

    /// The environment variables that the string at `key` was filled from.
    pub fn variables(&self, key: &str) -> &'a [String] {
        let entry = self.scope.table.get(key);
        entry.map_or(&[], |entry| entry.node.variables.as_slice())
    }

    /// A list of strings, each with its place.
    pub fn texts(&mut self, key: &'static str) -> Option<Vec<Item<'a>>> {
        let (items, at) = self.items(key, "a list of strings")?;
        let mut texts = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let place = at.item(index, item.line);
            if let Some(text) = self.string(item, &place) {
                let variables = &item.variables;
                texts.push(Item {
                    text,
                    place,
                    variables,
                });
            }
        }
        Some(texts)
    }

    fn items(&mut self, key: &'static str, expected: &str) -> Option<(&'a [Node], Place)> {
        let (node, at) = self.value(key)?;
        if let Value::Array(items) = &node.value {
            return Some((items, at));
        }
        self.wrong(&at, expected, &node.value);
        None
    }

    /// One of a few words.
    pub fn word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(key)?;
        if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*meaning);
        }
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let message = format!("`{text}` is not one of {}", all.join(", "));
        let at = self.place(key);
        self.findings
            .error(&at, message, did_you_mean(nearest(text, all)));
        None
    }

    /// A calendar date as it is written: a TOML date, or a string that `expect` takes.
    /// What cannot be read by `expect` is reported as no date of the calendar.
    pub fn date<T>(
        &mut self,
        key: &'static str,
        expect: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let (node, at) = self.value(key)?;
        let text = match &node.value {
            Value::String(text) | Value::Date(text) => text,
            other => {
                self.wrong(&at, "a date", other);
                return None;
            }
        };
        let date = expect(text);
        if date.is_none() {
            let message = format!("`{text}` is no date of the calendar");
            let how = "write it as YYYY-MM-DD".to_owned();
            self.findings.error(&at, message, Some(how));
        }
        date
    }

    /// The table at `key`.
    pub fn table(&mut self, key: &'static str) -> Option<Scope<'a>> {
        let (node, at) = self.value(key)?;
        self.scope_of(node, at)
    }

    fn scope_of(&mut self, node: &'a Node, place: Place) -> Option<Scope<'a>> {
        match &node.value {
            Value::Table(table) => Some(Scope { place, table }),
            Value::Unusable => None,
            other => {
                self.wrong(&place, "a table", other);
                None
            }
        }
    }

    /// Reads the table at `key` with `read`, then reports its unknown keys.
    pub fn within<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut TableReader<'a, '_>) -> T,
    ) -> Option<T> {
        let scope = self.table(key)?;
        let mut inner = TableReader::new(scope, self.findings);
        let result = read(&mut inner);
        inner.finish();
        Some(result)
    }

    /// The named tables below `key`, e.g. roles or providers.
    pub fn named_tables(&mut self, key: &'static str) -> Vec<(&'a str, Scope<'a>)> {
        let Some(scope) = self.table(key) else {
            return Vec::new();
        };
        let mut tables = Vec::with_capacity(scope.table.entries.len());
        for entry in &scope.table.entries {
            let place = scope.place.below(&entry.key, entry.line);
            if let Some(inner) = self.scope_of(&entry.node, place) {
                tables.push((entry.key.as_str(), inner));
            }
        }
        tables
    }

    /// The finite numbers below `key`, each with its key, in the order of lines.
    pub fn named_numbers(&mut self, key: &'static str) -> Vec<(&'a str, f64)> {
        let Some(scope) = self.table(key) else {
            return Vec::new();
        };
        let mut numbers = Vec::with_capacity(scope.table.entries.len());
        for entry in &scope.table.entries {
            let place = scope.place.below(&entry.key, entry.line);
            if let Some(number) = self.finite(&entry.node, &place) {
                numbers.push((entry.key.as_str(), number));
            }
        }
        numbers
    }

    /// The strings below `key`, each with its key, in the order of lines; `None` where
    /// there is no table.
    pub fn named_texts(&mut self, key: &'static str) -> Option<Vec<(&'a str, Item<'a>)>> {
        let scope = self.table(key)?;
        let mut texts = Vec::with_capacity(scope.table.entries.len());
        for entry in &scope.table.entries {
            let place = scope.place.below(&entry.key, entry.line);
            if let Some(text) = self.string(&entry.node, &place) {
                let variables = &entry.node.variables;
                let item = Item {
                    text,
                    place,
                    variables,
                };
                texts.push((entry.key.as_str(), item));
            }
        }
        Some(texts)
    }

    /// The tables of the list at `key`; `None` where there is no list.
    pub fn listed_tables(&mut self, key: &'static str) -> Option<Vec<Scope<'a>>> {
        let (items, at) = self.items(key, "a list of tables")?;
        let mut tables = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            if let Some(inner) = self.scope_of(item, at.item(index, item.line)) {
                tables.push(inner);
            }
        }
        Some(tables)
    }

    /// Reports every key that nobody asked for.
    pub fn finish(self) {
        self.finish_knowing(&[], "");
    }

    /// As [`finish`](Self::finish); a key in `elsewhere` belongs into `file`.
    pub fn finish_knowing(self, elsewhere: &[&'static str], file: &str) {
        let Self {
            scope,
            known,
            findings,
        } = self;
        for entry in &scope.table.entries {
            let key = entry.key.as_str();
            if known.contains(&key) {
                continue;
            }
            let at = scope.place.below(key, entry.line);
            let suggestion = if elsewhere.contains(&key) {
                Some(format!("it belongs into {file}"))
            } else {
                did_you_mean(nearest(key, known.iter().copied()))
            };
            findings.error(&at, "unknown key".to_owned(), suggestion);
        }
    }
}

fn did_you_mean(word: Option<&str>) -> Option<String> {
    word.map(|word| format!("did you mean `{word}`?"))
}

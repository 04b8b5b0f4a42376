//! The keys of a JSON object, taken one by one, so that what is left is unknown.

use evenkeel_document::nearest;
use serde_json::{Map, Value};

/// A text shortened for a message.
pub(crate) fn brief(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The keys of an object. What is wrong with one is added to the faults. A key
/// whose value is null is absent, as in exports of tables, except where
/// [`value`](Self::value) takes it.
#[derive(Debug)]
pub(crate) struct Keys<'f> {
    map: Map<String, Value>,
    known: Vec<&'static str>,
    place: String,
    faults: &'f mut Vec<String>,
}

impl<'f> Keys<'f> {
    /// Those of `map`, which stands at `place` (empty: the line itself).
    pub(crate) fn new(map: Map<String, Value>, place: &str, faults: &'f mut Vec<String>) -> Self {
        Self {
            map,
            known: Vec::new(),
            place: place.to_owned(),
            faults,
        }
    }

    /// Adds a fault of this object.
    pub(crate) fn fault(&mut self, what: impl Into<String>) {
        let what = what.into();
        self.faults.push(match self.place.as_str() {
            "" => what,
            place => format!("`{place}`: {what}"),
        });
    }

    /// Adds a fault of one key: "`key` what".
    pub(crate) fn fault_of(&mut self, key: &str, what: &str) {
        let path = self.path(key);
        self.faults.push(format!("`{path}` {what}"));
    }

    fn path(&self, key: &str) -> String {
        match self.place.as_str() {
            "" => key.to_owned(),
            place => format!("{place}.{key}"),
        }
    }

    fn wrong(&mut self, key: &str, expected: &str, seen: &Value) {
        self.fault_of(key, &format!("must be {expected}, got {}", kind(seen)));
    }

    /// Whether the key is there and not null.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.map.get(key).is_some_and(|value| !value.is_null())
    }

    /// The value, null included.
    pub(crate) fn value(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.map.shift_remove(key)
    }

    fn given(&mut self, key: &'static str) -> Option<Value> {
        self.value(key).filter(|value| !value.is_null())
    }

    /// A text that is not empty.
    pub(crate) fn text(&mut self, key: &'static str) -> Option<String> {
        match self.given(key)? {
            Value::String(text) if text.trim().is_empty() => {
                self.fault_of(key, "must not be empty");
                None
            }
            Value::String(text) => Some(text),
            other => {
                self.wrong(key, "a string", &other);
                None
            }
        }
    }

    /// Texts that are not empty.
    pub(crate) fn texts(&mut self, key: &'static str) -> Option<Vec<String>> {
        const EXPECTED: &str = "a list of strings that are not empty";
        match self.given(key)? {
            Value::Array(items) => {
                let mut texts = Vec::with_capacity(items.len());
                for item in items {
                    match item {
                        Value::String(text) if !text.trim().is_empty() => texts.push(text),
                        other => {
                            self.wrong(key, EXPECTED, &other);
                            return None;
                        }
                    }
                }
                Some(texts)
            }
            other => {
                self.wrong(key, EXPECTED, &other);
                None
            }
        }
    }

    /// A flag; false where absent.
    pub(crate) fn flag(&mut self, key: &'static str) -> bool {
        match self.given(key) {
            None => false,
            Some(Value::Bool(flag)) => flag,
            Some(other) => {
                self.wrong(key, "true or false", &other);
                false
            }
        }
    }

    /// A whole number from 1.
    pub(crate) fn count(&mut self, key: &'static str) -> Option<u64> {
        let value = self.given(key)?;
        let count = value.as_u64().filter(|count| *count > 0);
        if count.is_none() {
            let what = format!("must be a whole number from 1, got {}", shown(&value));
            self.fault_of(key, &what);
        }
        count
    }

    /// A number that `fits`, which `expected` words.
    pub(crate) fn number(
        &mut self,
        key: &'static str,
        expected: &str,
        fits: impl Fn(f64) -> bool,
    ) -> Option<f64> {
        let value = self.given(key)?;
        let number = value.as_f64().filter(|n| n.is_finite() && fits(*n));
        if number.is_none() {
            self.fault_of(key, &format!("must be {expected}, got {}", shown(&value)));
        }
        number
    }

    /// An array.
    pub(crate) fn array(&mut self, key: &'static str) -> Option<Vec<Value>> {
        match self.given(key)? {
            Value::Array(items) => Some(items),
            other => {
                self.wrong(key, "a list", &other);
                None
            }
        }
    }

    /// One of some words.
    pub(crate) fn word<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&'static str, T)],
    ) -> Option<T> {
        let text = self.text(key)?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let what = format!("is `{}`{}", brief(&text), meant(&text, &known));
            self.fault_of(key, &what);
        }
        found.map(|(_, meaning)| *meaning)
    }

    /// Tells of every key that nobody asked for.
    pub(crate) fn finish(mut self) {
        let unknown: Vec<String> = self.map.keys().cloned().collect();
        for key in unknown {
            let meant = meant(&key, &self.known);
            self.fault(format!("unknown key `{}`{meant}", brief(&key)));
        }
    }
}

/// What may have been meant.
pub(crate) fn meant(word: &str, known: &[&'static str]) -> String {
    // Nothing that is known is long.
    let like = (word.len() <= 60)
        .then(|| nearest(word, known.iter().copied()))
        .flatten();
    match like {
        Some(like) => format!("; did you mean `{like}`?"),
        None => format!("; known are {}", known.join(", ")),
    }
}

/// The JSON type, with its article.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        other => kind(other).to_owned(),
    }
}

//! One tree for both syntaxes.

use std::fmt;

/// A value and the line it stands in.
#[derive(Clone, Debug)]
pub struct Node {
    /// Line in the file, from 1.
    pub line: usize,
    /// The value.
    pub value: Value,
    /// The environment variables that a string was filled from, for messages that
    /// must not show the string.
    pub variables: Vec<String>,
}

impl Node {
    pub(crate) fn new(line: usize, value: Value) -> Self {
        Self {
            line,
            value,
            variables: Vec::new(),
        }
    }
}

/// A value of either syntax. `Debug` shows no string: it may be a secret.
#[derive(Clone)]
pub enum Value {
    /// YAML only; taken as absent.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number; infinite for a whole number beyond `i64`.
    Float(f64),
    /// A string, its placeholders filled in.
    String(String),
    /// A TOML date or time, as text.
    Date(String),
    /// A list.
    Array(Vec<Node>),
    /// Keys and values.
    Table(Table),
    /// Present, and already reported as unusable.
    Unusable,
}

/// Keys and values; no key twice.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// In the order of their lines.
    pub entries: Vec<Entry>,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The key's line, from 1.
    pub line: usize,
    /// The value.
    pub node: Node,
}

impl Table {
    /// The entry of `key`.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }
}

impl Value {
    /// What the value is, for messages. Strings are not shown: they may be secrets.
    pub fn kind(&self) -> String {
        match self {
            Self::Null => "nothing".to_owned(),
            Self::Bool(value) => format!("`{value}`"),
            Self::Integer(value) => format!("`{value}`"),
            Self::Float(value) => format!("`{value:?}`"),
            Self::String(_) => "a string".to_owned(),
            Self::Date(_) => "a date".to_owned(),
            Self::Array(_) => "a list".to_owned(),
            Self::Table(_) => "a table".to_owned(),
            Self::Unusable => "an unusable value".to_owned(),
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Array(items) => f.debug_list().entries(items).finish(),
            Self::Table(table) => table.fmt(f),
            other => f.write_str(&other.kind()),
        }
    }
}

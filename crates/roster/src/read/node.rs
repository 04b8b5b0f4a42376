//! One tree for both syntaxes.

/// A value and the line it stands in.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) line: usize,
    pub(crate) value: Value,
    /// The environment variables that a string was filled from, for messages that
    /// must not show the string.
    pub(crate) variables: Vec<String>,
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

#[derive(Clone)]
pub(crate) enum Value {
    /// YAML only; taken as absent.
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    String(String),
    /// A TOML date or time, as text.
    Date(String),
    Array(Vec<Node>),
    Table(Table),
    /// Present, and already reported as unusable.
    Unusable,
}

/// Keys and values; no key twice.
#[derive(Clone, Default)]
pub(crate) struct Table {
    pub(crate) entries: Vec<Entry>,
}

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// The key's line.
    pub(crate) line: usize,
    pub(crate) node: Node,
}

impl Table {
    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }
}

impl Value {
    /// What the value is, for messages. Strings are not shown: they may be secrets.
    pub(crate) fn kind(&self) -> String {
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

//! The seven types of JSON Schema, as a set.

use serde_json::Value;

/// A set of types; empty where a schema says none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Kinds(u8);

impl Kinds {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const NULL: Self = Self(1);
    pub(crate) const BOOLEAN: Self = Self(2);
    pub(crate) const INTEGER: Self = Self(4);
    pub(crate) const NUMBER: Self = Self(8);
    pub(crate) const STRING: Self = Self(16);
    pub(crate) const ARRAY: Self = Self(32);
    pub(crate) const OBJECT: Self = Self(64);

    /// Name and set of each type; scalars first.
    const EACH: [(&'static str, Self); 7] = [
        ("string", Self::STRING),
        ("integer", Self::INTEGER),
        ("number", Self::NUMBER),
        ("boolean", Self::BOOLEAN),
        ("array", Self::ARRAY),
        ("object", Self::OBJECT),
        ("null", Self::NULL),
    ];

    /// What `type` says: a name or a list of names; empty where it says nothing known.
    pub(crate) fn written(value: &Value) -> Self {
        match value {
            Value::String(name) => Self::named(name),
            Value::Array(names) => names
                .iter()
                .filter_map(Value::as_str)
                .fold(Self::NONE, |all, name| all.with(Self::named(name))),
            _ => Self::NONE,
        }
    }

    fn named(name: &str) -> Self {
        let found = Self::EACH.iter().find(|(n, _)| *n == name);
        found.map_or(Self::NONE, |(_, kind)| *kind)
    }

    /// The narrowest type of a value.
    pub(crate) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(n) if n.is_i64() || n.is_u64() => Self::INTEGER,
            Value::Number(n) if n.as_f64().is_some_and(|f| f.fract() == 0.0) => Self::INTEGER,
            Value::Number(_) => Self::NUMBER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the two have a type in common.
    pub(crate) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether a value of type `kind` (of one type) is let in.
    pub(crate) const fn admits(self, kind: Self) -> bool {
        self.is_empty()
            || self.meets(kind)
            || (kind.0 == Self::INTEGER.0 && self.meets(Self::NUMBER))
    }

    /// Types in both; an integer is a number too. None where there is none.
    pub(crate) fn common(self, other: Self) -> Option<Self> {
        if self.is_empty() {
            return Some(other);
        }
        if other.is_empty() {
            return Some(self);
        }
        let mut both = Self(self.0 & other.0);
        if !both.meets(Self::NUMBER)
            && (self.meets(Self::INTEGER) || other.meets(Self::INTEGER))
            && self.meets(Self::NUMBER.with(Self::INTEGER))
            && other.meets(Self::NUMBER.with(Self::INTEGER))
        {
            both = both.with(Self::INTEGER);
        }
        (!both.is_empty()).then_some(both)
    }

    /// Each type of the set, in a fixed order.
    pub(crate) fn each(self) -> impl Iterator<Item = (&'static str, Self)> {
        Self::EACH
            .into_iter()
            .filter(move |(_, kind)| self.meets(*kind))
    }

    /// As `type` is written: one name, or a list.
    pub(crate) fn to_json(self) -> Value {
        let mut names: Vec<Value> = self.each().map(|(name, _)| name.into()).collect();
        match names.len() {
            1 => names.remove(0),
            _ => Value::Array(names),
        }
    }
}

/// Whether two scalars are one value: 1 and 1.0 are.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

/// The type's name, for messages.
pub(crate) fn name_of(value: &Value) -> &'static str {
    Kinds::of(value)
        .each()
        .next()
        .map_or("nothing", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_integer_is_a_number_and_common_types_know_it() {
        let number = Kinds::written(&json!("number"));
        let integer = Kinds::written(&json!(["integer", "null"]));
        assert_eq!(number.common(integer), Some(Kinds::INTEGER));
        assert_eq!(Kinds::STRING.common(Kinds::NUMBER), None);
        assert_eq!(Kinds::NONE.common(Kinds::STRING), Some(Kinds::STRING));
        assert!(number.admits(Kinds::of(&json!(3))));
        assert!(!Kinds::INTEGER.admits(Kinds::of(&json!(3.5))));
        assert_eq!(Kinds::of(&json!(3.0)), Kinds::INTEGER);
        assert_eq!(integer.to_json(), json!(["integer", "null"]));
        assert_eq!(name_of(&json!([])), "array");
    }
}

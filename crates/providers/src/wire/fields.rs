//! Typed reading of an object's fields, with the path of each in every error.

use crate::wire::RequestError;
use serde_json::{Map, Value};

/// An object whose known fields are taken one by one; what is left is unknown.
pub(crate) struct Fields {
    map: Map<String, Value>,
    path: String,
}

impl Fields {
    pub(crate) fn new(map: Map<String, Value>, path: impl Into<String>) -> Self {
        Self {
            map,
            path: path.into(),
        }
    }

    /// The object in `value`.
    pub(crate) fn of(value: Value, path: impl Into<String>) -> Result<Self, RequestError> {
        let path = path.into();
        match value {
            Value::Object(map) => Ok(Self::new(map, path)),
            other => Err(RequestError::wrong_type(path, "an object", &other)),
        }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// What was not taken.
    pub(crate) fn rest(self) -> Map<String, Value> {
        self.map
    }

    pub(crate) fn keep(&mut self, name: &str, value: Value) {
        self.map.insert(name.to_owned(), value);
    }

    pub(crate) fn peek(&self, name: &str) -> Option<&Value> {
        self.map.get(name).filter(|v| !v.is_null())
    }

    /// The field; null counts as absent.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.map.shift_remove(name).filter(|v| !v.is_null())
    }

    fn typed<T>(
        &mut self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, RequestError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        match read(&value) {
            Some(read) => Ok(Some(read)),
            None => Err(RequestError::wrong_type(self.path(name), expected, &value)),
        }
    }

    pub(crate) fn string(&mut self, name: &str) -> Result<Option<String>, RequestError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(RequestError::wrong_type(
                self.path(name),
                "a string",
                &other,
            )),
        }
    }

    pub(crate) fn required_string(&mut self, name: &str) -> Result<String, RequestError> {
        self.string(name)?
            .ok_or_else(|| RequestError::missing(self.path(name)))
    }

    pub(crate) fn number(&mut self, name: &str) -> Result<Option<f64>, RequestError> {
        self.typed(name, "a number", Value::as_f64)
    }

    pub(crate) fn integer(&mut self, name: &str) -> Result<Option<i64>, RequestError> {
        self.typed(name, "an integer", Value::as_i64)
    }

    pub(crate) fn count(&mut self, name: &str) -> Result<Option<u64>, RequestError> {
        self.typed(name, "an integer of 0 or more", Value::as_u64)
    }

    pub(crate) fn boolean(&mut self, name: &str) -> Result<Option<bool>, RequestError> {
        self.typed(name, "a boolean", Value::as_bool)
    }

    pub(crate) fn object(
        &mut self,
        name: &str,
    ) -> Result<Option<Map<String, Value>>, RequestError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(other) => Err(RequestError::wrong_type(
                self.path(name),
                "an object",
                &other,
            )),
        }
    }

    pub(crate) fn array(&mut self, name: &str) -> Result<Option<Vec<Value>>, RequestError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(RequestError::wrong_type(
                self.path(name),
                "an array",
                &other,
            )),
        }
    }
}

//! What a configuration is refused for.

use std::fmt;

/// A setting outside its range: names the field, what was found and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    field: &'static str,
    found: String,
    allowed: String,
}

impl ConfigError {
    pub(crate) fn new(
        field: &'static str,
        found: &impl fmt::Debug,
        allowed: impl Into<String>,
    ) -> Self {
        Self {
            field,
            found: format!("{found:?}"),
            allowed: allowed.into(),
        }
    }

    /// The field that was refused, as it is spelled in this crate.
    pub const fn field(&self) -> &'static str {
        self.field
    }

    /// The range the field must lie in, in words.
    pub fn allowed(&self) -> &str {
        &self.allowed
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            found,
            allowed,
        } = self;
        write!(f, "{field} is {found}, but must be {allowed}")
    }
}

impl std::error::Error for ConfigError {}

//! What is wrong with a setting.

use std::{
    fmt::{self, Debug, Display, Formatter},
    ops::RangeBounds,
    time::Duration,
};

/// Longest duration a setting may hold: a year, so that no sum of settings and readings overflows.
pub(crate) const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// A setting outside its allowed range; found when the thing is built, never later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    field: &'static str,
    seen: String,
    allowed: String,
}

impl ConfigError {
    pub(crate) fn new(field: &'static str, seen: &impl Debug, allowed: impl Into<String>) -> Self {
        Self {
            field,
            seen: format!("{seen:?}"),
            allowed: allowed.into(),
        }
    }

    /// Name of the field or argument that is wrong.
    pub const fn field(&self) -> &'static str {
        self.field
    }

    /// The range that would have been accepted, in words.
    pub fn allowed(&self) -> &str {
        &self.allowed
    }

    /// Passes a value that lies in `range`; NaN lies in none.
    pub(crate) fn unless_in<T: PartialOrd + Debug>(
        field: &'static str,
        seen: T,
        range: impl RangeBounds<T> + Debug,
    ) -> Result<T, Self> {
        if range.contains(&seen) {
            Ok(seen)
        } else {
            Err(Self::new(field, &seen, format!("{range:?}")))
        }
    }

    /// Passes a share that is at least one per mille.
    pub(crate) fn unless_share(field: &'static str, seen: f64) -> Result<f64, Self> {
        Self::unless_in(field, seen, 0.001..=1.0)
    }
}

impl Display for ConfigError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            seen,
            allowed,
        } = self;
        write!(f, "{field} is {seen}, allowed is {allowed}")
    }
}

impl std::error::Error for ConfigError {}

//! Which build of a model an answer comes from.

use std::fmt;
use std::sync::Arc;

/// What an answer says of the build that gave it. A provider may put another one
/// behind the same name at any time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Snapshot {
    /// The model that the answer names, e.g. `gpt-5-2026-01-12`.
    pub model: Arc<str>,
    /// Its `system_fingerprint`, where it has one.
    pub fingerprint: Option<Arc<str>>,
}

impl fmt::Display for Snapshot {
    /// The model, and behind a space the fingerprint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.model)?;
        match &self.fingerprint {
            Some(fingerprint) => write!(f, " {fingerprint}"),
            None => Ok(()),
        }
    }
}

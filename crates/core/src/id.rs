//! Names: models and calls.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A model as evenkeel names it: `provider/model`.
///
/// The provider is the part before the first slash (a configured endpoint with
/// credentials and a wire dialect); the rest is the name sent to it and may
/// itself contain slashes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelId {
    text: Arc<str>,
    slash: usize,
}

/// A model name that is not `provider/model`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a model: expected `provider/model`, both parts non-empty",
    _0.escape_debug()
)]
pub struct InvalidModelId(pub String);

impl ModelId {
    /// Reads `provider/model`.
    ///
    /// # Errors
    /// [`InvalidModelId`] when there is no slash, a part is empty, or there is a control
    /// character: names come from clients and stand in log lines.
    pub fn new(text: &str) -> Result<Self, InvalidModelId> {
        match text.find('/') {
            Some(slash) if is_name(&text[..slash]) && is_name(&text[slash + 1..]) => Ok(Self {
                text: Arc::from(text),
                slash,
            }),
            _ => Err(InvalidModelId(text.to_owned())),
        }
    }

    /// The whole name, `provider/model`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The configured provider's name.
    pub fn provider(&self) -> &str {
        &self.text[..self.slash]
    }

    /// The name sent to the provider.
    pub fn model(&self) -> &str {
        &self.text[self.slash + 1..]
    }
}

fn is_name(part: &str) -> bool {
    !part.is_empty() && !part.chars().any(char::is_control)
}

impl FromStr for ModelId {
    type Err = InvalidModelId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, f)
    }
}

/// Identifies one call within this process; unique, not secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(u64);

static NEXT_CALL: AtomicU64 = AtomicU64::new(1);

impl CallId {
    /// The next unused id of this process.
    pub fn next() -> Self {
        Self(NEXT_CALL.fetch_add(1, Ordering::Relaxed))
    }

    /// The number behind the id.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_name_keeps_slashes_after_the_first() {
        let id = ModelId::new("openrouter/vendor/model:free").unwrap();
        assert_eq!(id.provider(), "openrouter");
        assert_eq!(id.model(), "vendor/model:free");
        assert_eq!(id.to_string(), "openrouter/vendor/model:free");
    }

    #[test]
    fn a_model_name_without_both_parts_is_refused() {
        for bad in ["", "gpt", "/gpt", "openai/"] {
            assert!(ModelId::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_model_name_that_would_break_a_line_is_refused_and_told_without_breaking_one() {
        for bad in ["a/b\nc", "a/\u{1b}[2J", "a\r/b", "a/\u{9b}"] {
            let told = ModelId::new(bad).unwrap_err().to_string();
            assert!(!told.chars().any(char::is_control), "{told:?}");
        }
    }

    #[test]
    fn call_ids_are_unique() {
        assert_ne!(CallId::next(), CallId::next());
    }
}

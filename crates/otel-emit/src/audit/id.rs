//! Names as a record may hold them: short, of few characters, never free text.

use serde::{Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// Longest name of a role, a model and the like, characters.
const LONGEST_ID: usize = 96;
/// Longest id of a request, a process or a version, characters.
const LONGEST_SHORT: usize = 64;
/// Longest text that a caller or a provider gave, characters.
const LONGEST_TEXT: usize = 128;

/// A name of ours: a role, a model, a provider, a task, a workflow, a tenant.
///
/// It is made of any text: a character that the schema does not take becomes `_`,
/// and what is past 96 characters is cut.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AuditId(Arc<str>);

impl AuditId {
    /// The name as a record may hold it; none of an empty text.
    pub fn new(text: &str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        if is_id(text) {
            return Some(Self(Arc::from(text)));
        }
        let taken = text.chars().take(LONGEST_ID);
        let fit = taken.enumerate().map(|(at, sign)| {
            let fits = u8::try_from(sign).is_ok_and(|byte| fits(at, byte));
            if fits { sign } else { '_' }
        });
        Some(Self(fit.collect::<String>().into()))
    }

    /// The same of a shared text, which is not copied where it fits as it is.
    pub fn shared(text: &Arc<str>) -> Option<Self> {
        if is_id(text) {
            return Some(Self(text.clone()));
        }
        Self::new(text)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The schema's `id`: a letter, digit or `_`, then these and `.:/@-`.
fn is_id(text: &str) -> bool {
    let bytes = text.as_bytes();
    !bytes.is_empty()
        && bytes.len() <= LONGEST_ID
        && bytes.iter().enumerate().all(|(at, byte)| fits(at, *byte))
}

fn fits(at: usize, byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || at > 0 && b".:/@-".contains(&byte)
}

impl fmt::Display for AuditId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for AuditId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// The id of a request, a process or a version, cut to 64 characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Text64(Arc<str>);

impl Text64 {
    /// The text as a record holds it.
    pub fn new(text: &str) -> Self {
        Self(Arc::from(cut(text, LONGEST_SHORT)))
    }

    /// The same of a shared text, which is not copied where it is short enough.
    pub fn shared(text: &Arc<str>) -> Self {
        if text.len() <= LONGEST_SHORT {
            return Self(text.clone());
        }
        Self::new(text)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Serialize for Text64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// What a caller asked for or a provider reported, cut to 128 characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text128(Arc<str>);

impl Text128 {
    /// The text as a record holds it; none of an empty one.
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self(Arc::from(cut(text, LONGEST_TEXT))))
    }

    /// The same of a shared text, which is not copied where it is short enough.
    pub fn shared(text: &Arc<str>) -> Option<Self> {
        if text.is_empty() || text.len() > LONGEST_TEXT {
            return Self::new(text);
        }
        Some(Self(text.clone()))
    }
}

impl Serialize for Text128 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// The first `most` characters.
fn cut(text: &str, most: usize) -> &str {
    match text.char_indices().nth(most) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_fits_is_kept_and_another_made_to_fit() {
        let long = "x".repeat(97);
        for (text, id) in [
            ("openai/gpt-4o", "openai/gpt-4o"),
            ("_x", "_x"),
            ("-x", "_x"),
            ("a b\"c\n", "a_b_c_"),
            ("größe", "gr__e"),
            (long.as_str(), &long[..96]),
        ] {
            let made = AuditId::new(text).unwrap();
            assert_eq!(made.as_str(), id);
            assert!(is_id(made.as_str()));
            assert_eq!(AuditId::shared(&Arc::from(text)), Some(made));
        }
        assert_eq!(AuditId::new(""), None);
    }

    #[test]
    fn texts_are_cut_by_characters() {
        let long = "ü".repeat(200);
        assert_eq!(Text64::new(&long).as_str().chars().count(), 64);
        assert_eq!(Text64::shared(&long.as_str().into()).as_str().len(), 128);
        assert_eq!(Text128::new(&long).unwrap().0.chars().count(), 128);
        assert_eq!(Text128::shared(&Arc::from("")), None);
    }
}

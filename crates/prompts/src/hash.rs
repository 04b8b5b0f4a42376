//! What tells one prompt from another.

use std::collections::BTreeMap;
use std::fmt;

use sha2::{Digest as _, Sha256};

/// SHA-256 of a variant: of its file's bytes, as `sha256sum` gives it, followed by
/// the variables that it uses, each as a zero byte, its name, a zero byte and its
/// value from the files, in the order of names.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    pub(crate) fn of(file: &[u8], variables: &BTreeMap<&str, &str>) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(file);
        for (name, value) in variables {
            hasher.update([0]);
            hasher.update(name.as_bytes());
            hasher.update([0]);
            hasher.update(value.as_bytes());
        }
        Self(hasher.finalize().into())
    }
}

impl fmt::Display for ContentHash {
    /// 64 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_variables_it_is_the_hash_of_the_file() {
        // `printf abc | sha256sum`, the first example of FIPS 180-2.
        let hash = ContentHash::of(b"abc", &BTreeMap::new());
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), hex);
    }

    #[test]
    fn a_value_changes_it_and_cannot_be_mistaken_for_text() {
        let with = |name, value| ContentHash::of(b"abc", &BTreeMap::from([(name, value)]));
        assert_ne!(with("a", "1"), with("a", "2"));
        assert_ne!(with("a", "1"), with("a1", ""));
        assert_ne!(with("a", "1"), ContentHash::of(b"abca1", &BTreeMap::new()));
    }
}

//! What is taken out of texts before they are kept.

use std::borrow::Cow;

use evenkeel_validators::pattern_of;
use regex::Regex;

/// What stands where something was taken out.
const REDACTED: &str = "[redacted]";

/// `redact`: patterns of what is taken out of prompts and answers before telemetry keeps
/// them. None of them matches the empty text.
#[derive(Debug, Clone, Default)]
pub struct Redactions(Vec<Regex>);

impl PartialEq for Redactions {
    fn eq(&self, other: &Self) -> bool {
        let patterns = |redactions: &Self| -> Vec<String> {
            let all = redactions.0.iter();
            all.map(|pattern| pattern.as_str().to_owned()).collect()
        };
        patterns(self) == patterns(other)
    }
}

impl Redactions {
    /// Takes out what matches `pattern` too, after all others.
    ///
    /// # Errors
    /// A pattern that is none, or that matches the empty text: nothing would be left of
    /// any text but what stands for it.
    pub(crate) fn add(&mut self, pattern: &str) -> Result<(), String> {
        let read = pattern_of(pattern).map_err(|error| error.to_string())?;
        if read.is_match("") {
            return Err("matches the empty text, which is everywhere".to_owned());
        }
        self.0.push(read);
        Ok(())
    }

    /// Whether nothing is taken out.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text with `[redacted]` for every match of every pattern, in their order. Takes
    /// time in proportion to the text, whatever the patterns.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut kept = Cow::Borrowed(text);
        for pattern in &self.0 {
            let changed = match pattern.replace_all(&kept, REDACTED) {
                Cow::Owned(changed) => changed,
                Cow::Borrowed(_) => continue,
            };
            kept = Cow::Owned(changed);
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(patterns: &[&str]) -> Redactions {
        let mut redactions = Redactions::default();
        for pattern in patterns {
            redactions.add(pattern).unwrap();
        }
        redactions
    }

    #[test]
    fn every_match_of_every_pattern_is_taken_out() {
        let redactions = of(&[r"\b\d{3}-\d{4}\b", "(?i)ada lovelace"]);
        assert_eq!(
            redactions.redact("Ada Lovelace, 555-1234, and 555-9999: $1"),
            "[redacted], [redacted], and [redacted]: $1"
        );
        assert!(matches!(
            redactions.redact("nothing here"),
            Cow::Borrowed(_)
        ));
        assert!(Redactions::default().is_empty() && !redactions.is_empty());
    }

    #[test]
    fn a_pattern_that_is_none_or_matches_nothing_is_refused() {
        let mut redactions = Redactions::default();
        assert!(redactions.add("(").unwrap_err().contains("unclosed group"));
        for everywhere in ["", "x*", "a|"] {
            let refused = redactions.add(everywhere).unwrap_err();
            assert!(refused.contains("empty"), "{everywhere}: {refused}");
        }
        assert!(redactions.is_empty());
    }

    #[test]
    fn two_are_the_same_by_their_patterns() {
        assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
        assert_ne!(of(&["a", "b"]), of(&["b", "a"]));
    }
}

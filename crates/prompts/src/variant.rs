//! For which models a variant is.

use evenkeel_core::{InvalidModelId, ModelId};

/// The key of a variant: which rungs it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    /// `default`: any rung that no other key fits.
    Default,
    /// `simple`: rungs in simplify mode.
    Simple,
    /// `provider/model`.
    Model(ModelId),
    /// A pattern over `provider/model`: `*` is any run of characters, `?` any one.
    Family(String),
    /// A provider's name.
    Provider(String),
}

/// How closely a key fits a model: the greater, the closer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Closeness {
    Any,
    Provider,
    /// With the number of characters that are no wildcards.
    Family(usize),
    Exact,
}

impl Key {
    /// Reads a key as it is written.
    ///
    /// # Errors
    /// A name with a slash that is no `provider/model`.
    pub(crate) fn read(text: &str) -> Result<Self, InvalidModelId> {
        Ok(match text {
            "default" => Self::Default,
            "simple" => Self::Simple,
            _ if text.contains(['*', '?']) => Self::Family(text.to_owned()),
            _ if text.contains('/') || text.is_empty() => Self::Model(ModelId::new(text)?),
            _ => Self::Provider(text.to_owned()),
        })
    }

    /// How closely it fits `model` outside of simplify mode, if it does.
    pub(crate) fn closeness(&self, model: &ModelId) -> Option<Closeness> {
        match self {
            Self::Default => Some(Closeness::Any),
            Self::Simple => None,
            Self::Model(own) => (own == model).then_some(Closeness::Exact),
            Self::Provider(own) => (own == model.provider()).then_some(Closeness::Provider),
            Self::Family(pattern) => {
                let literal = pattern.chars().filter(|c| !matches!(c, '*' | '?')).count();
                fits(pattern, model.as_str()).then_some(Closeness::Family(literal))
            }
        }
    }
}

/// Whether `text` is of the form `pattern`. Time is at most the product of the two
/// lengths: only the last `*` met is ever tried again.
fn fits(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // Behind the last star, and how far it reaches.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(&c) if c == '?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((after, reach)) = star else {
                    return false;
                };
                star = Some((after, reach + 1));
                p = after;
                t = reach + 1;
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_run_of_characters() {
        for (pattern, text, expected) in [
            ("anthropic/claude-*", "anthropic/claude-4-sonnet", true),
            ("anthropic/claude-*", "anthropic/claude-", true),
            ("anthropic/claude-*", "anthropic/opus", false),
            ("*/claude-*", "openrouter/anthropic/claude-4", true),
            ("*-mini", "openai/gpt-5-mini", true),
            ("*-mini", "openai/gpt-5-mini-2", false),
            ("a/?b", "a/xb", true),
            ("a/?b", "a/b", false),
            ("*", "a/b", true),
            ("a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaa", false),
            ("a/b", "a/bc", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn the_kind_of_a_key_is_told_by_its_form() {
        let model = ModelId::new("acme/big").unwrap();
        assert_eq!(Key::read("default"), Ok(Key::Default));
        assert_eq!(Key::read("simple"), Ok(Key::Simple));
        assert_eq!(Key::read("acme"), Ok(Key::Provider("acme".to_owned())));
        assert_eq!(Key::read("acme/big"), Ok(Key::Model(model.clone())));
        assert_eq!(Key::read("acme/*"), Ok(Key::Family("acme/*".to_owned())));
        assert!(Key::read("acme/").is_err());
        assert!(Key::read("").is_err());
        let close = |key: &str| Key::read(key).unwrap().closeness(&model);
        assert!(close("acme/big") > close("acme/bi*"));
        assert!(close("acme/bi*") > close("acme/*"));
        assert!(close("acme/*") > close("acme"));
        assert!(close("acme") > close("default"));
        assert!(close("default") > None);
        assert_eq!(close("simple"), None);
    }
}

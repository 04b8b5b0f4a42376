//! The validators that a configuration can name.

use crate::refusal::is_refusal;
use evenkeel_core::{Finish, Judged, Part, Validator, ValidatorError, Value, Verdict};
use regex::Regex;
use serde_json_path::JsonPath;
use std::fmt;

/// Answers from this size on, in bytes, are judged off the runtime's threads.
const LARGE: usize = 64 * 1024;

/// A rule that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidRule(String);

impl fmt::Display for InvalidRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidRule {}

/// What is wrong with a text, and what to tell the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// In one line, without a word of the text.
    pub message: String,
    /// For the model; none where it would not help.
    pub hint: Option<String>,
}

/// Reads a regular expression.
///
/// # Errors
/// A pattern that is none: what is wrong in one line, without the drawing of where.
pub fn pattern_of(text: &str) -> Result<Regex, InvalidRule> {
    Regex::new(text).map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default();
        let last = last.strip_prefix("error: ").unwrap_or(last);
        InvalidRule(format!("is no regular expression: {last}"))
    })
}

/// A ready-made validator. It judges the text of an answer; one that calls tools
/// passes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum BuiltIn {
    /// `regex`.
    Regex(PatternRule),
    /// `json_path`.
    JsonPath(Box<JsonRule>),
    /// `min_length`: at least so many characters.
    MinLength(u64),
    /// `refusal`: the model does not refuse.
    Refusal,
}

/// A pattern that a text must or must not match.
#[derive(Debug, Clone)]
pub struct PatternRule {
    regex: Regex,
    must_match: bool,
}

impl PartialEq for PatternRule {
    fn eq(&self, other: &Self) -> bool {
        self.regex.as_str() == other.regex.as_str() && self.must_match == other.must_match
    }
}

/// What the JSON of an answer must hold.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonRule {
    path: JsonPath,
    wanted: Wanted,
}

#[derive(Debug, Clone, PartialEq)]
enum Wanted {
    Equals(Value),
    Exists(bool),
}

impl BuiltIn {
    /// The names of all kinds.
    pub const KINDS: [&'static str; 4] = ["regex", "json_path", "min_length", "refusal"];

    /// `regex`: a match of `pattern` anywhere in the text, or none of it.
    ///
    /// # Errors
    /// A pattern that is none.
    pub fn regex(pattern: &str, must_match: bool) -> Result<Self, InvalidRule> {
        let regex = pattern_of(pattern)?;
        Ok(Self::Regex(PatternRule { regex, must_match }))
    }

    /// `json_path`: something at `path` equals `value`.
    ///
    /// # Errors
    /// A path that is none (RFC 9535).
    pub fn json_equals(path: &str, value: Value) -> Result<Self, InvalidRule> {
        Self::json(path, Wanted::Equals(value))
    }

    /// `json_path`: something is at `path`, or nothing.
    ///
    /// # Errors
    /// A path that is none (RFC 9535).
    pub fn json_exists(path: &str, exists: bool) -> Result<Self, InvalidRule> {
        Self::json(path, Wanted::Exists(exists))
    }

    fn json(path: &str, wanted: Wanted) -> Result<Self, InvalidRule> {
        let path = JsonPath::parse(path)
            .map_err(|error| InvalidRule(format!("is no JSON path: {error}")))?;
        Ok(Self::JsonPath(Box::new(JsonRule { path, wanted })))
    }

    /// Judges a text on its own.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_text(&self, text: &str) -> Result<(), Fault> {
        match self {
            Self::Regex(rule) => rule.check(text),
            Self::JsonPath(rule) => rule.check(text),
            Self::MinLength(least) => min_length(text, *least),
            Self::Refusal if is_refusal(text) => Err(refused()),
            Self::Refusal => Ok(()),
        }
    }
}

fn fault(message: impl Into<String>, hint: impl Into<String>) -> Fault {
    Fault {
        message: message.into(),
        hint: Some(hint.into()),
    }
}

/// Asking the same model again does not change its mind.
fn refused() -> Fault {
    Fault {
        message: "the model refused".to_owned(),
        hint: None,
    }
}

fn min_length(text: &str, least: u64) -> Result<(), Fault> {
    let long_enough = usize::try_from(least)
        .ok()
        .is_some_and(|least| least == 0 || text.trim().chars().nth(least - 1).is_some());
    if long_enough {
        return Ok(());
    }
    Err(fault(
        format!("the answer is shorter than {least} characters"),
        format!("Your last answer was too short. Answer again with at least {least} characters."),
    ))
}

impl PatternRule {
    fn check(&self, text: &str) -> Result<(), Fault> {
        if self.regex.is_match(text) == self.must_match {
            return Ok(());
        }
        let pattern = self.regex.as_str();
        Err(if self.must_match {
            fault(
                format!("the answer does not match `{pattern}`"),
                format!(
                    "Your last answer must match the regular expression `{pattern}` and does not. Answer again so that it does."
                ),
            )
        } else {
            fault(
                format!("the answer matches `{pattern}`"),
                format!(
                    "Your last answer must not match the regular expression `{pattern}` and does. Answer again so that it does not."
                ),
            )
        })
    }
}

impl JsonRule {
    fn check(&self, text: &str) -> Result<(), Fault> {
        let Ok(value) = serde_json::from_str::<Value>(text.trim()) else {
            return Err(fault(
                "the answer is no JSON",
                "Your last answer was no JSON. Answer again with one JSON value and nothing else.",
            ));
        };
        let found = self.path.query(&value);
        let holds = match &self.wanted {
            Wanted::Equals(wanted) => found.iter().any(|node| *node == wanted),
            Wanted::Exists(wanted) => found.is_empty() != *wanted,
        };
        if holds {
            return Ok(());
        }
        let path = &self.path;
        let what = match &self.wanted {
            Wanted::Equals(wanted) => format!("nothing at `{path}` is {wanted}"),
            Wanted::Exists(true) => format!("nothing is at `{path}`"),
            Wanted::Exists(false) => format!("something is at `{path}`"),
        };
        let hint = format!(
            "In your last answer {what}. Answer again with corrected JSON and nothing else."
        );
        Err(fault(what, hint))
    }
}

#[async_trait::async_trait]
impl Validator for BuiltIn {
    fn name(&self) -> &str {
        match self {
            Self::Regex(_) => Self::KINDS[0],
            Self::JsonPath(_) => Self::KINDS[1],
            Self::MinLength(_) => Self::KINDS[2],
            Self::Refusal => Self::KINDS[3],
        }
    }

    fn blocks(&self, answer: &Judged) -> bool {
        let sizes = answer.response.parts.iter().map(|part| match part {
            Part::Text(text) => text.len(),
            _ => 0,
        });
        sizes.sum::<usize>() >= LARGE
    }

    async fn validate(&self, answer: &Judged) -> Result<Verdict, ValidatorError> {
        let response = &answer.response;
        let says_so = response.finish == Finish::Refusal
            || response.parts.iter().any(|p| matches!(p, Part::Refusal(_)));
        let fault = if *self == Self::Refusal && says_so {
            Err(refused())
        } else if response.tool_calls().next().is_some() {
            Ok(())
        } else {
            self.check_text(&response.plain_text())
        };
        Ok(match fault {
            Ok(()) => Verdict::Valid,
            Err(Fault { message, hint }) => Verdict::Invalid { message, hint },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(rule: &BuiltIn, text: &str) -> Option<String> {
        rule.check_text(text).err().map(|fault| fault.message)
    }

    #[test]
    fn a_pattern_must_or_must_not_occur() {
        let must = BuiltIn::regex(r"^\d+$", true).unwrap();
        assert_eq!(message(&must, "42"), None);
        assert_eq!(
            message(&must, "forty-two").unwrap(),
            r"the answer does not match `^\d+$`"
        );
        let never = BuiltIn::regex("(?i)lorem ipsum", false).unwrap();
        assert_eq!(message(&never, "dolor"), None);
        assert!(message(&never, "LOREM ipsum").is_some());
    }

    #[test]
    fn a_pattern_takes_linear_time_over_a_huge_answer() {
        let rule = BuiltIn::regex("(a+)+$", true).unwrap();
        let huge = format!("{}b", "a".repeat(1_000_000));
        assert!(message(&rule, &huge).is_some());
    }

    #[test]
    fn what_is_at_a_path_is_compared_or_only_looked_for() {
        let equals = BuiltIn::json_equals("$.status", "ok".into()).unwrap();
        assert_eq!(message(&equals, r#" {"status":"ok"} "#), None);
        assert_eq!(
            message(&equals, r#"{"status":"no"}"#).unwrap(),
            r#"nothing at `$.status` is "ok""#
        );
        assert_eq!(message(&equals, "ok").unwrap(), "the answer is no JSON");
        let some = BuiltIn::json_exists("$.items[*]", true).unwrap();
        assert_eq!(message(&some, r#"{"items":[1]}"#), None);
        assert!(message(&some, r#"{"items":[]}"#).is_some());
        let none = BuiltIn::json_exists("$.error", false).unwrap();
        assert_eq!(message(&none, "{}"), None);
        assert!(message(&none, r#"{"error":null}"#).is_some());
    }

    #[test]
    fn a_length_is_in_characters_without_white_space_around() {
        let rule = BuiltIn::MinLength(3);
        assert_eq!(message(&rule, "äöü"), None);
        assert!(message(&rule, " ab \n").is_some());
        assert_eq!(message(&BuiltIn::MinLength(0), ""), None);
        assert!(message(&BuiltIn::MinLength(u64::MAX), "a").is_some());
    }

    #[test]
    fn a_rule_that_cannot_be_read_says_what_is_wrong_with_it() {
        for bad in [
            BuiltIn::regex("(", true),
            BuiltIn::json_exists("status", true),
        ] {
            let message = bad.unwrap_err().to_string();
            assert!(message.starts_with("is no "), "{message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }
}

//! From what a model wrote to the one JSON value in it.
//!
//! Each repair is one that can mean only one thing, and is recorded. Where a text could be read in
//! two ways there is no repair: an error can be answered by asking again, a wrong value cannot.

mod scan;

use serde_json::Value;

use crate::error::{AnswerError, AnswerFault};
use crate::kind::Kinds;
use scan::Found;

/// What was done to an answer beyond the way back that the request itself made necessary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Repair {
    /// Thinking that stood before the answer was taken off it.
    Thinking,
    /// A code fence around the whole answer was taken off.
    Fence,
    /// Prose around the one JSON value was taken off.
    Prose,
    /// Commas before a closing bracket were taken out.
    TrailingCommas,
    /// The last of properties with the same name was kept.
    DuplicateNames,
    /// The answer stood in text although a tool call was asked for.
    TextForCall,
}

impl Repair {
    /// One line for `adapted`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Thinking => "answer: thinking before it taken off",
            Self::Fence => "answer: code fence taken off",
            Self::Prose => "answer: prose around it taken off",
            Self::TrailingCommas => "answer: trailing commas taken out",
            Self::DuplicateNames => "answer: of properties named alike the last kept",
            Self::TextForCall => "answer: taken from text, not from the call asked for",
        }
    }
}

/// The value in a text.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) value: Value,
    /// The value's own text, where it can be handed on as the model wrote it.
    pub(crate) verbatim: Option<String>,
    /// Thinking that stood before it.
    pub(crate) thinking: Option<String>,
    pub(crate) repairs: Vec<Repair>,
}

impl Reading {
    fn new(parsed: Parsed, verbatim: &str) -> Self {
        let mut repairs = Vec::new();
        if parsed.duplicates {
            repairs.push(Repair::DuplicateNames);
        }
        Self {
            value: parsed.value,
            verbatim: (!parsed.duplicates).then(|| verbatim.to_owned()),
            thinking: None,
            repairs,
        }
    }

    fn with(mut self, repair: Repair) -> Self {
        self.repairs.insert(0, repair);
        self
    }
}

/// A parsed value, and whether it lost anything by parsing.
struct Parsed {
    value: Value,
    duplicates: bool,
}

fn parse(text: &str) -> Result<Parsed, serde_json::Error> {
    let value = serde_json::from_str(text)?;
    let duplicates = scan::repeats_a_name(text);
    Ok(Parsed { value, duplicates })
}

/// Reads `text`. `roots` are the types that the value may have (empty: any); `cut` says that the
/// answer was ended by a limit.
pub(crate) fn read(text: &str, roots: Kinds, cut: bool) -> Result<Reading, AnswerError> {
    let trimmed = text.trim_start_matches('\u{feff}').trim();
    if trimmed.is_empty() {
        let (fault, message) = if cut {
            (
                AnswerFault::Cut,
                "the answer was cut by the token limit before it began",
            )
        } else {
            (
                AnswerFault::NoJson,
                "the answer is empty, expected one JSON value",
            )
        };
        return Err(AnswerError::new(fault, message, text));
    }
    let whole = match parse(trimmed) {
        Ok(parsed) if cut && !ends_itself(&parsed.value) => return Err(was_cut(text)),
        Ok(parsed) => return Ok(Reading::new(parsed, trimmed)),
        Err(error) => error,
    };
    if cut {
        return Err(was_cut(text));
    }
    let (thinking, rest) = match scan::after_thinking(trimmed) {
        Some((thinking, rest)) => (Some(thinking), rest.trim()),
        None => (None, trimmed),
    };
    if rest.starts_with("<think>") {
        let message = "the answer ends within its thinking, expected one JSON value";
        return Err(AnswerError::new(AnswerFault::NoJson, message, text));
    }
    let mut reading = repaired(rest, roots, &whole, text)?;
    if let Some(thinking) = thinking {
        reading.thinking = Some(thinking.to_owned());
        reading = reading.with(Repair::Thinking);
    }
    Ok(reading)
}

/// Whether a value shows by its own last character that it is whole.
fn ends_itself(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Array(_) | Value::String(_))
}

fn was_cut(text: &str) -> AnswerError {
    AnswerError::new(
        AnswerFault::Cut,
        "the answer was cut by the token limit before its JSON ended",
        text,
    )
}

/// The value in a text that does not parse as it stands.
fn repaired(
    text: &str,
    roots: Kinds,
    whole: &serde_json::Error,
    original: &str,
) -> Result<Reading, AnswerError> {
    if let Some(reading) = exact(text) {
        return Ok(reading);
    }
    if let Some(inner) = scan::unfenced(text) {
        if let Some(reading) = exact(inner.trim()) {
            return Ok(reading.with(Repair::Fence));
        }
        if inner.trim().is_empty() {
            let message = "the code fence is empty, expected one JSON value";
            return Err(AnswerError::new(AnswerFault::NoJson, message, original));
        }
    }
    match scan::values_in(text, roots) {
        Found::One(inner) => match exact(inner) {
            Some(reading) => Ok(reading.with(Repair::Prose)),
            None => Err(broken(whole, original)),
        },
        Found::None => {
            let message = "no JSON value in the answer";
            Err(AnswerError::new(AnswerFault::NoJson, message, original))
        }
        Found::Several => {
            let message = "several JSON values in the answer, expected one";
            Err(AnswerError::new(AnswerFault::Ambiguous, message, original))
        }
        Found::Broken => Err(broken(whole, original)),
    }
}

fn broken(error: &serde_json::Error, text: &str) -> AnswerError {
    let message = format!("the JSON does not parse: {error}");
    AnswerError::new(AnswerFault::Broken, message, text)
}

/// A text that is one value, but for commas before closing brackets.
fn exact(text: &str) -> Option<Reading> {
    if let Ok(parsed) = parse(text) {
        return Some(Reading::new(parsed, text));
    }
    let mended = scan::without_trailing_commas(text)?;
    let parsed = parse(&mended).ok()?;
    Some(Reading::new(parsed, &mended).with(Repair::TrailingCommas))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(text: &str) -> Result<(Value, Vec<Repair>), AnswerFault> {
        read(text, Kinds::OBJECT, false)
            .map(|r| (r.value, r.repairs))
            .map_err(|e| e.fault)
    }

    #[test]
    fn each_repair_is_made_and_named() {
        for (text, repairs) in [
            (r#" {"a":1} "#, vec![]),
            ("```json\n{\"a\":1}\n```", vec![Repair::Fence]),
            (
                "Here you are:\n```json\n{\"a\":1}\n```\nBye",
                vec![Repair::Prose],
            ),
            (r#"Sure! {"a":1} as [1] says."#, vec![Repair::Prose]),
            (r#"{"a":1,}"#, vec![Repair::TrailingCommas]),
            (
                "```\n{\"a\":1,\n}\n```",
                vec![Repair::Fence, Repair::TrailingCommas],
            ),
            (r#"{"a":2,"a":1}"#, vec![Repair::DuplicateNames]),
            (r#"{"a":1} or, again, {"a": 1}"#, vec![Repair::Prose]),
            (r#"<think>{"a":0}?</think>{"a":1}"#, vec![Repair::Thinking]),
        ] {
            assert_eq!(value(text), Ok((json!({"a": 1}), repairs)), "{text}");
        }
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_not_read() {
        for (text, fault) in [
            (r#"{"a":1} or {"a":2}"#, AnswerFault::Ambiguous),
            (r#"{"a":1}{"a":2}"#, AnswerFault::Ambiguous),
            // An inner value is never taken for the whole.
            (r#"{"a":1,"b":{"a":2}"#, AnswerFault::Broken),
            (r#"{x:1,"b":{"a":2}}"#, AnswerFault::Broken),
            (r#"{"a":[1,,2]}"#, AnswerFault::Broken),
            (r#"{"a":1,"b":"unfinished"#, AnswerFault::Broken),
            ("I cannot do that.", AnswerFault::NoJson),
            (r#"<think>maybe {"a":1}"#, AnswerFault::NoJson),
            ("```json\n```", AnswerFault::NoJson),
            ("", AnswerFault::NoJson),
        ] {
            assert_eq!(value(text), Err(fault), "{text}");
        }
    }

    /// Case C085.
    #[test]
    fn fences_within_strings_and_other_fences_do_not_mislead() {
        let what = |text: &str| value(text).map(|(v, _)| v["what"].clone());
        let shown = "```json\n{\"what\": \"shown as ```json blocks```\"}\n```";
        assert_eq!(what(shown), Ok(json!("shown as ```json blocks```")));
        assert_eq!(what(r#"{"what": "```x```"}"#), Ok(json!("```x```")));
        assert_eq!(what("```json\n```"), Err(AnswerFault::NoJson));
        assert_eq!(
            what("```bash\nls\n```\n{\"what\": \"later\"}"),
            Ok(json!("later"))
        );
    }

    /// Case C089.
    #[test]
    fn thinking_in_the_text_is_set_apart_from_it() {
        for (text, thinking) in [
            (
                "<think>maybe {\"a\":0}?</think>{\"a\":1}",
                Some("maybe {\"a\":0}?"),
            ),
            (
                "maybe {\"a\":0}?\n</think>\n\n{\"a\":1}",
                Some("maybe {\"a\":0}?"),
            ),
            ("<think>\n\n</think>\n{\"a\":1}", Some("")),
            ("{\"a\":1,\"s\":\"<think>not a tag</think>\"}", None),
        ] {
            let reading = read(text, Kinds::OBJECT, false).unwrap();
            assert_eq!(reading.value["a"], json!(1), "{text}");
            assert_eq!(reading.thinking.as_deref(), thinking, "{text}");
        }
    }

    /// Case C091.
    #[test]
    fn nothing_that_was_cut_is_repaired() {
        for text in [
            r#"{"name":"K","items":["one","tw"#,
            "```json\n{\"a\":1}\n```",
            r#"Sure: {"a":1}"#,
            "12",
            "",
        ] {
            let error = read(text, Kinds::NONE, true).unwrap_err();
            assert_eq!(error.fault, AnswerFault::Cut, "{text}");
            assert_eq!(error.text, text);
        }
        // A value that is whole is whole, whatever came after it.
        assert!(read("{\"a\":1}  \n\n", Kinds::NONE, true).is_ok());
    }

    #[test]
    fn deep_and_long_texts_are_read_in_bounded_time() {
        for text in [
            "[".repeat(1_000_000),
            "{\"a\":".repeat(200_000),
            "[\"".repeat(300_000),
            format!("x {}", "{ ".repeat(300_000)),
            "[0,".repeat(300_000),
            "``` {x} [ ] ".repeat(100_000),
        ] {
            assert!(read(&text, Kinds::OBJECT, false).is_err());
        }
    }
}

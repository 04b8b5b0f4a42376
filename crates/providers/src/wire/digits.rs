//! Numbers with more digits than a parsed document keeps: integers beyond 64
//! bits, and fractions of more than 17 digits.
//!
//! `serde_json` rounds them. Where they stand in the arguments of a call, the
//! document is read a second time with each of them as a marked text, and the
//! arguments, which are text themselves, get their digits back.

use super::json;
use evenkeel_core::{Part, ToolCall};
use serde_json::Value;
use std::ops::Range;

/// Digits that a number with a fraction keeps for certain.
const EXACT_DIGITS: usize = 17;
/// What stands before a number that is written as a text: the last character
/// for private use. A document that has it already is not marked.
const MARK: char = '\u{10FFFD}';
/// How such a document may write it otherwise begins so, in lower case.
const ESCAPED_MARK: &str = "\\udbff";

/// Whether reading the JSON in `text` rounds one of its numbers.
pub(crate) fn rounds_numbers(text: &str) -> bool {
    rounded(text).next().is_some()
}

/// Where the numbers of the JSON in `text` stand that reading it rounds.
fn rounded(text: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while let Some(&byte) = bytes.get(at) {
            let start = at;
            match byte {
                b'"' => at += string_length(&bytes[at..]),
                b'-' | b'0'..=b'9' => {
                    at += number_length(&bytes[at..]);
                    if is_rounded(&text[start..at]) {
                        return Some(start..at);
                    }
                }
                _ => at += 1,
            }
        }
        None
    })
}

fn number_length(rest: &[u8]) -> usize {
    let in_number = |b: &&u8| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
    rest.iter().take_while(in_number).count()
}

/// The bytes of the string that `rest` begins with, its quotes included.
fn string_length(rest: &[u8]) -> usize {
    let mut escaped = false;
    let inner = rest[1..].iter().take_while(|byte| {
        let ends = !escaped && **byte == b'"';
        escaped = !escaped && **byte == b'\\';
        !ends
    });
    (inner.count() + 2).min(rest.len())
}

fn is_rounded(number: &str) -> bool {
    if number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok() {
        return false;
    }
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let is_integer = mantissa.len() == number.len() && !mantissa.contains('.');
    let digits = mantissa.bytes().filter(u8::is_ascii_digit);
    is_integer || digits.skip_while(|digit| *digit == b'0').count() > EXACT_DIGITS
}

/// The document `text` with each number that would be rounded as a marked
/// text; none where there are none.
pub(crate) fn marked(text: &str) -> Option<Value> {
    let mut out = String::new();
    let mut copied = 0;
    for number in rounded(text) {
        out.push_str(&text[copied..number.start]);
        out.extend(['"', MARK]);
        out.push_str(&text[number.clone()]);
        out.push('"');
        copied = number.end;
    }
    let has_mark = || text.contains(MARK) || text.to_ascii_lowercase().contains(ESCAPED_MARK);
    if copied == 0 || has_mark() {
        return None;
    }
    out.push_str(&text[copied..]);
    json::parse(out.as_bytes()).ok()
}

/// JSON that was written from a marked document, with its numbers again.
pub(crate) fn unmarked(json: &str) -> String {
    let begin = ['"', MARK].into_iter().collect::<String>();
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some((before, marked)) = rest.split_once(begin.as_str()) {
        let (number, after) = marked.split_once('"').unwrap_or((marked, ""));
        out.push_str(before);
        out.push_str(number);
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Gives the calls among `parts`, which were read from the document `text`,
/// arguments with all their digits. `read` reads the same document again.
pub(crate) fn restore(
    text: &[u8],
    parts: &mut [Part],
    read: impl FnOnce(Value) -> Option<Vec<Part>>,
) {
    let calls = parts.iter_mut().filter_map(|part| match part {
        Part::ToolCall(call) => Some(call),
        _ => None,
    });
    let mut calls: Vec<&mut ToolCall> = calls.collect();
    if calls.is_empty() {
        return;
    }
    let marked = std::str::from_utf8(text).ok().and_then(marked);
    let Some(again) = marked.and_then(read) else {
        return;
    };
    let exact: Vec<String> = arguments(&again).map(unmarked).collect();
    if exact.len() == calls.len() {
        for (call, exact) in calls.iter_mut().zip(exact) {
            call.arguments = exact;
        }
    }
}

/// The arguments of each call.
pub(crate) fn arguments(parts: &[Part]) -> impl Iterator<Item = &str> {
    parts.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(call.arguments.as_str()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_would_be_rounded_are_seen_and_texts_are_not() {
        for exact in [
            r#"{"a":18446744073709551615,"b":-9223372036854775808,"c":0.1,"d":1e300}"#,
            r#"{"a":"123456789012345678901234567890","b":"\\\"99999999999999999999999"}"#,
            r#"{"a":0.00000000000000000000012345}"#,
            "",
            "\"never closed 123456789012345678901234567890",
        ] {
            assert!(!rounds_numbers(exact), "{exact}");
            assert_eq!(marked(exact), None);
        }
        for rounded in [
            r#"{"a":123456789012345678901234567890}"#,
            r#"{"s":"\\","a":[1,-99999999999999999999]}"#,
            r#"{"a":0.1234567890123456789,"b":"ü 1"}"#,
        ] {
            assert!(rounds_numbers(rounded), "{rounded}");
            let marked = marked(rounded).unwrap();
            assert_eq!(unmarked(&marked.to_string()), rounded);
        }
    }

    #[test]
    fn a_document_with_the_mark_of_its_own_is_left_alone() {
        for own in ["\u{10FFFD}", r"\uDBFF\udffd"] {
            let text = format!(r#"{{"a":"{own}1","b":123456789012345678901234567890}}"#);
            assert_eq!(marked(&text), None, "{text}");
        }
    }
}

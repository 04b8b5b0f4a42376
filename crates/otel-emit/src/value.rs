//! Attributes: what values they may have.

use evenkeel_core::ModelId;
use opentelemetry::{Array, KeyValue, StringValue, Value};
use std::sync::Arc;
use std::time::Duration;

/// Longest text that a caller or a provider chooses, in bytes.
const LONGEST: usize = 256;

/// Whole numbers are signed in OTLP: one beyond its range is told as the largest.
pub(crate) fn int(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// Milliseconds, as a double.
pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// An attribute with a text of ours or of the configuration's.
pub(crate) fn text(key: &'static str, value: impl Into<StringValue>) -> KeyValue {
    KeyValue::new(key, value.into())
}

/// An attribute with a text that comes from outside: at most 256 bytes of it.
pub(crate) fn foreign(key: &'static str, value: &Arc<str>) -> KeyValue {
    if value.len() <= LONGEST {
        return KeyValue::new(key, Value::String(value.clone().into()));
    }
    KeyValue::new(key, short(value).to_owned())
}

/// As much of a text from outside as an attribute holds: 256 bytes.
pub(crate) fn short(text: &str) -> &str {
    cut(text, LONGEST)
}

/// At most the first `most` bytes of a text, cut between two characters.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// An attribute with a model's id, which may be one that a caller has made up.
pub(crate) fn model(key: &'static str, id: &ModelId) -> KeyValue {
    KeyValue::new(key, short(id.as_str()).to_owned())
}

/// An attribute with several texts.
pub(crate) fn texts(key: &'static str, values: Vec<StringValue>) -> KeyValue {
    KeyValue::new(key, Value::Array(Array::String(values)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_from_outside_is_cut_between_two_characters() {
        let long: Arc<str> = "ä".repeat(200).into();
        let Value::String(cut) = foreign("k", &long).value else {
            unreachable!("it is a text");
        };
        assert_eq!(cut.as_str(), "ä".repeat(128));
        let short: Arc<str> = "a".into();
        assert_eq!(foreign("k", &short).value.as_str(), "a");
        let id = ModelId::new(&format!("p/{}", "m".repeat(1_000))).unwrap();
        assert_eq!(model("k", &id).value.as_str().len(), LONGEST);
    }

    #[test]
    fn a_number_beyond_the_range_is_the_largest() {
        assert_eq!(int(u64::MAX), i64::MAX);
        assert_eq!(int(7_usize), 7);
    }
}

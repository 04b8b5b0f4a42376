//! JSON as providers really send it.
//!
//! A character outside the basic plane is sometimes written as an escape pair
//! that is cut between two deltas. `serde_json` refuses each half. Here the
//! strict parse comes first; where it fails and lone halves are the reason,
//! they are put in a form that can be joined with their other half, or replaced.

use serde_json::{Error, Map, Value};
use std::borrow::Cow;

/// A half stands as this character plus its offset from U+D800, in private
/// use plane 16, while a stream waits for the other half.
const HALF_BASE: u32 = 0x10_F000;
/// First and last surrogate.
const SURROGATES: std::ops::RangeInclusive<u16> = 0xD800..=0xDFFF;
/// First of the second halves.
const LOW: u16 = 0xDC00;

/// A parsed document, and whether it holds halves of characters.
pub(crate) struct Parsed {
    pub(crate) value: Value,
    pub(crate) has_halves: bool,
}

/// Parses one document; a lone half of a character becomes U+FFFD.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, Error> {
    match serde_json::from_slice(bytes) {
        Ok(value) => Ok(value),
        Err(e) => match std::str::from_utf8(bytes).ok().and_then(|t| mend(t, false)) {
            Some(mended) => serde_json::from_str(&mended),
            None => Err(e),
        },
    }
}

/// Parses one event of a stream; lone halves are kept for [`Joiner`].
pub(crate) fn parse_event(text: &str) -> Result<Parsed, Error> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(Parsed {
            value,
            has_halves: false,
        }),
        Err(e) => {
            let keep = !text.chars().any(|c| half_of(c).is_some());
            let mended = mend(text, keep).ok_or(e)?;
            Ok(Parsed {
                value: serde_json::from_str(&mended)?,
                has_halves: keep,
            })
        }
    }
}

/// A field of an object of a few fields: looking at each is quicker than hashing the name.
pub(crate) fn field<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    object
        .iter()
        .find_map(|(key, value)| (key == name).then_some(value))
}

/// About how many bytes a value takes. Its depth is bounded by the parser's.
pub(crate) fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(size).sum::<usize>(),
        Value::Object(map) => {
            let fields = map.iter();
            2 + fields
                .map(|(name, value)| name.len() + size(value))
                .sum::<usize>()
        }
    }
}

/// `text` with its lone `\uD8xx` escapes rewritten; none if it has none.
fn mend(text: &str, keep: bool) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = bytes[at..].iter().position(|b| *b == b'\\') {
        at += found;
        let Some(unit) = escape(bytes, at).filter(|u| SURROGATES.contains(u)) else {
            at += 2;
            if at > bytes.len() {
                break;
            }
            continue;
        };
        let pair =
            unit < LOW && escape(bytes, at + 6).is_some_and(|low| (LOW..=0xDFFF).contains(&low));
        if pair {
            at += 12;
            continue;
        }
        out.push_str(&text[copied..at]);
        out.push(if keep { placeholder(unit) } else { '\u{FFFD}' });
        at += 6;
        copied = at;
    }
    if copied == 0 {
        return None;
    }
    out.push_str(&text[copied..]);
    Some(out)
}

/// The code unit of the `\uXXXX` escape at `at`.
fn escape(bytes: &[u8], at: usize) -> Option<u16> {
    let text = bytes.get(at..at + 6)?;
    let digits = text.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(digits).ok()?;
    digits
        .bytes()
        .all(|b| b.is_ascii_hexdigit())
        .then(|| u16::from_str_radix(digits, 16).ok())?
}

fn placeholder(unit: u16) -> char {
    char::from_u32(HALF_BASE + u32::from(unit - SURROGATES.start())).unwrap_or('\u{FFFD}')
}

fn half_of(c: char) -> Option<u16> {
    let offset = u32::from(c).checked_sub(HALF_BASE)?;
    let unit = u16::try_from(offset)
        .ok()?
        .checked_add(*SURROGATES.start())?;
    SURROGATES.contains(&unit).then_some(unit)
}

/// Joins the halves of characters that a stream's pieces of one text bring.
#[derive(Debug, Default)]
pub(crate) struct Joiner {
    high: Option<u16>,
}

impl Joiner {
    /// The next piece, with its halves joined; the last half is held back.
    pub(crate) fn join<'a>(&mut self, piece: &'a str, has_halves: bool) -> Cow<'a, str> {
        if self.high.is_none() && !has_halves || piece.is_empty() {
            return Cow::Borrowed(piece);
        }
        let mut out = String::with_capacity(piece.len());
        for c in piece.chars() {
            match (self.high.take(), half_of(c).filter(|_| has_halves)) {
                (None, None) => out.push(c),
                (None, Some(unit)) if unit < LOW => self.high = Some(unit),
                (None, Some(_)) => out.push('\u{FFFD}'),
                (Some(high), Some(low)) if low >= LOW => {
                    out.extend(char::decode_utf16([high, low]).map(|c| c.unwrap_or('\u{FFFD}')));
                }
                (Some(_), Some(high)) => {
                    out.push('\u{FFFD}');
                    self.high = Some(high);
                }
                (Some(_), None) => {
                    out.push('\u{FFFD}');
                    out.push(c);
                }
            }
        }
        Cow::Owned(out)
    }

    /// What is left of a character whose other half never came.
    pub(crate) fn finish(&mut self) -> Option<char> {
        self.high.take().map(|_| '\u{FFFD}')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_a_character_join_across_events() {
        let mut joiner = Joiner::default();
        let mut text = String::new();
        for event in [
            r#"{"a":"wave \ud83c"}"#,
            r#"{"a":"\udf0a ok \ud83c\udf0a"}"#,
        ] {
            let parsed = parse_event(event).unwrap();
            let piece = parsed.value["a"].as_str().unwrap();
            text.push_str(&joiner.join(piece, parsed.has_halves));
        }
        assert_eq!(text, "wave 🌊 ok 🌊");
        assert_eq!(joiner.finish(), None);
    }

    #[test]
    fn a_half_without_its_other_half_is_replaced() {
        let mut joiner = Joiner::default();
        let parsed = parse_event(r#"["\udf0a.\ud83c\ud83c."]"#).unwrap();
        let piece = parsed.value[0].as_str().unwrap();
        assert_eq!(joiner.join(piece, true), "\u{FFFD}.\u{FFFD}\u{FFFD}.");
        assert_eq!(parse(br#"["x\ud83c"]"#).unwrap()[0], "x\u{FFFD}");
    }

    #[test]
    fn an_escaped_backslash_before_u_is_no_escape() {
        assert_eq!(parse(br#"["\\ud83c"]"#).unwrap()[0], "\\ud83c");
        assert!(mend(r#"["\\ud83c"]"#, true).is_none());
        assert!(parse(br#"{"a":"#).is_err());
        assert!(parse(b"\"\\").is_err());
        assert!(parse(b"\"\\u12").is_err());
    }

    #[test]
    fn private_use_characters_of_the_text_itself_survive() {
        let own = char::from_u32(HALF_BASE + 5).unwrap();
        let parsed = parse_event(&format!(r#"["{own}"]"#)).unwrap();
        assert!(!parsed.has_halves);
        let both = parse_event(&format!(r#"["{own}\ud83c"]"#)).unwrap();
        assert!(!both.has_halves);
        assert_eq!(both.value[0], format!("{own}\u{FFFD}"));
    }

    #[test]
    fn deep_nesting_is_refused_and_not_followed() {
        let deep = "[".repeat(100_000);
        assert!(parse(deep.as_bytes()).is_err());
        assert!(parse_event(&deep).is_err());
    }
}

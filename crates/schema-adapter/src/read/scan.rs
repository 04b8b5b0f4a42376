//! Looking for JSON in a text, in one pass over its characters.

use std::collections::HashSet;

use serde_json::Value;

use crate::kind::Kinds;

/// What was found in a text with prose around.
pub(super) enum Found<'a> {
    /// Nothing that looks like a value of the types asked for.
    None,
    /// The text of one value, or of several that are equal.
    One(&'a str),
    /// Values that differ.
    Several,
    /// Something that looks like JSON and is none, so that what stands in it means nothing.
    Broken,
}

/// The parts of a text before and after thinking: `<think>…</think>`, or only its end, which some
/// servers leave where the beginning was in the prompt.
pub(super) fn after_thinking(text: &str) -> Option<(&str, &str)> {
    let (before, after) = text.split_once("</think>")?;
    let thinking = before
        .trim_start()
        .strip_prefix("<think>")
        .unwrap_or(before);
    Some((thinking.trim(), after))
}

/// What is in a code fence that is around the whole text.
pub(super) fn unfenced(text: &str) -> Option<&str> {
    let inner = text.strip_prefix("```")?.strip_suffix("```")?;
    let (language, inner) = inner.split_once('\n')?;
    let is_language = language.trim().chars().all(|c| c.is_ascii_alphanumeric());
    is_language.then_some(inner)
}

/// Commas that have a value before and a closing bracket after them, taken out; none if there are
/// none.
pub(super) fn without_trailing_commas(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut kept_to = 0;
    let mut in_string = false;
    let mut at = 0;
    let mut before = b'[';
    while at < bytes.len() {
        let byte = bytes[at];
        match byte {
            b'\\' if in_string => at += 1,
            b'"' => in_string = !in_string,
            b',' if !in_string && !matches!(before, b'[' | b'{' | b',' | b':') => {
                let after = bytes[at + 1..].iter().find(|b| !b.is_ascii_whitespace());
                if matches!(after, Some(b']' | b'}')) {
                    out.push_str(&text[kept_to..at]);
                    kept_to = at + 1;
                }
            }
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            before = byte;
        }
        at += 1;
    }
    if kept_to == 0 {
        return None;
    }
    out.push_str(&text[kept_to..]);
    Some(out)
}

/// Finds the JSON objects and lists that stand in a text, the outermost ones only.
pub(super) fn values_in(text: &str, roots: Kinds) -> Found<'_> {
    let bytes = text.as_bytes();
    let mut found: Option<(&str, Value)> = None;
    let mut at = 0;
    while let Some(next) = bytes[at..].iter().position(|b| matches!(b, b'{' | b'[')) {
        at += next;
        let Some(length) = closed(&bytes[at..]) else {
            // Never closed. In prose a lone bracket means nothing; one with quotes or further
            // values behind it may be the beginning of the answer.
            return match found {
                None if !looks_like_json(&text[at..]) => Found::None,
                _ => Found::Broken,
            };
        };
        let piece = &text[at..at + length];
        at += length;
        let Some(value) = parsed(piece) else {
            if looks_like_json(piece) {
                return Found::Broken;
            }
            continue; // `{curly}` or `[sic]` in prose
        };
        if !roots.admits(Kinds::of(&value)) {
            continue;
        }
        match &found {
            Some((_, first)) if *first != value => return Found::Several,
            Some(_) => {}
            None => found = Some((piece, value)),
        }
    }
    found.map_or(Found::None, |(piece, _)| Found::One(piece))
}

fn parsed(piece: &str) -> Option<Value> {
    serde_json::from_str(piece).ok().or_else(|| {
        let mended = without_trailing_commas(piece)?;
        serde_json::from_str(&mended).ok()
    })
}

/// Whether a piece has a quoted name or value in it.
fn looks_like_json(piece: &str) -> bool {
    piece.contains('"')
}

/// The length up to the bracket that closes the first one, strings passed over; none if none does.
fn closed(bytes: &[u8]) -> Option<usize> {
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_string => at += 1,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Whether some object of a valid JSON text names a property twice.
pub(super) fn repeats_a_name(text: &str) -> bool {
    let mut names = Names { repeated: false };
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = serde::de::DeserializeSeed::deserialize(&mut names, &mut reader);
    read.is_ok() && names.repeated
}

/// Looks at the names of every object, and keeps nothing.
struct Names {
    repeated: bool,
}

impl<'de> serde::de::DeserializeSeed<'de> for &mut Names {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> serde::de::Visitor<'de> for &mut Names {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(&mut *self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            self.repeated |= !seen.insert(name);
            map.next_value_seed(&mut *self)?;
        }
        Ok(())
    }
}

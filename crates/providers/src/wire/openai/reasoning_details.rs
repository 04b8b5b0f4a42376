//! `reasoning_details`: reasoning with its signature, and blocks that only
//! their provider can read, as `OpenRouter` publishes them.

use evenkeel_core::{Extra, Part, ReasoningPart};
use serde_json::{Map, Value, json};

/// Names of `format`, and the wire format each signature belongs to.
const FORMATS: [(&str, &str); 3] = [
    ("anthropic-claude-v1", "anthropic"),
    ("google-gemini-v1", "gemini"),
    ("mistral-v1", "mistral"),
];
/// The `format` of a signature that belongs to no other.
const UNKNOWN: &str = "unknown";
/// The type of Anthropic's blocks that only Anthropic can read.
const REDACTED: &str = "redacted_thinking";

fn dialect(entry: &Value) -> &'static str {
    let format = entry.get("format").and_then(Value::as_str);
    FORMATS
        .iter()
        .find(|(name, _)| Some(*name) == format)
        .map_or(super::DIALECT, |(_, dialect)| dialect)
}

fn format(dialect: &str) -> &'static str {
    FORMATS
        .iter()
        .find(|(_, of)| *of == dialect)
        .map_or(UNKNOWN, |(name, _)| name)
}

/// Whether a part is a block of reasoning that only its provider can read.
pub(super) fn is_opaque(extra: &Extra) -> bool {
    let kind = extra.fields.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| {
        kind.starts_with("reasoning.") || (kind == REDACTED && extra.dialect == "anthropic")
    })
}

/// The parts that `reasoning_details` speaks of.
pub(super) fn of(parts: &[Part]) -> impl Iterator<Item = &Part> {
    parts.iter().filter(|part| match part {
        Part::Reasoning(_) => true,
        Part::Other(extra) => is_opaque(extra),
        _ => false,
    })
}

/// The field; none where plain text says all.
pub(super) fn write(parts: &[Part]) -> Option<Value> {
    let more_than_text = of(parts).any(|part| match part {
        Part::Reasoning(part) => part.signature.is_some(),
        _ => true,
    });
    more_than_text.then(|| of(parts).filter_map(entry).collect())
}

/// One entry.
pub(super) fn entry(part: &Part) -> Option<Value> {
    match part {
        Part::Reasoning(part) => Some(signed(&part.text, part)),
        Part::Other(extra) if !is_opaque(extra) => None,
        Part::Other(extra) if extra.dialect == super::DIALECT => {
            Some(Value::Object(extra.fields.clone()))
        }
        Part::Other(extra) => Some(json!({
            "type": "reasoning.encrypted",
            "data": extra.fields.get("data"),
            "format": format(extra.dialect),
        })),
        _ => None,
    }
}

/// The entry of `text` with the signature of `part`.
pub(super) fn signed(text: &str, part: &ReasoningPart) -> Value {
    let mut entry = Map::new();
    entry.insert("type".into(), "reasoning.text".into());
    entry.insert("text".into(), text.into());
    if let Some(signature) = &part.signature {
        entry.insert("signature".into(), signature.as_str().into());
        entry.insert("format".into(), format(part.dialect).into());
    }
    Value::Object(entry)
}

/// The parts that the entries of a field give.
pub(super) fn parts(field: &Value) -> Vec<Part> {
    let entries = field.as_array().into_iter().flatten();
    entries.filter_map(part).collect()
}

/// The part that one entry gives.
pub(super) fn part(entry: &Value) -> Option<Part> {
    let said = |name: &str| entry.get(name).and_then(Value::as_str);
    match said("type")? {
        "reasoning.text" => {
            let signature = said("signature").filter(|s| !s.is_empty());
            Some(Part::Reasoning(ReasoningPart {
                text: said("text").unwrap_or_default().to_owned(),
                dialect: signature.map_or("", |_| dialect(entry)),
                signature: signature.map(str::to_owned),
            }))
        }
        "reasoning.summary" => Some(Part::Reasoning(ReasoningPart {
            text: said("summary")?.to_owned(),
            ..ReasoningPart::default()
        })),
        "reasoning.encrypted" if dialect(entry) == "anthropic" => {
            let mut fields = Map::new();
            fields.insert("type".into(), REDACTED.into());
            fields.insert("data".into(), said("data")?.into());
            Some(Part::Other(Extra {
                dialect: "anthropic",
                fields,
            }))
        }
        kind if kind.starts_with("reasoning.") => Some(Part::Other(Extra {
            dialect: super::DIALECT,
            fields: entry.as_object()?.clone(),
        })),
        _ => None,
    }
}

/// Reasoning from its two places: its text, and its details. Where the two say
/// different things the text holds, and signatures over other words are
/// dropped with them.
pub(super) fn joined(text: Option<String>, details: Option<&Value>) -> Vec<Part> {
    let mut read = details.map(parts).unwrap_or_default();
    let detailed: String = read
        .iter()
        .filter_map(|part| match part {
            Part::Reasoning(part) => Some(part.text.as_str()),
            _ => None,
        })
        .collect();
    match text.filter(|text| !text.is_empty()) {
        Some(text) if text != detailed => {
            read.retain(|part| !matches!(part, Part::Reasoning(_)));
            let said = ReasoningPart {
                text,
                ..ReasoningPart::default()
            };
            read.insert(0, Part::Reasoning(said));
            read
        }
        _ => read,
    }
}

/// The reasoning text that the entries of a stream bring.
#[derive(Debug, Default)]
pub(super) struct DetailText {
    said: String,
    entries: usize,
    /// Each entry holds all the text so far, as `MiniMax` has it.
    grows: bool,
    /// Its text came in a field of its own, which the entries repeat.
    is_plain: bool,
}

impl DetailText {
    /// Reasoning has come in its own field.
    pub(super) fn saw_plain(&mut self) {
        self.is_plain = true;
    }

    /// What an entry's text adds to what was said.
    pub(super) fn news(&mut self, text: &str) -> String {
        if self.is_plain || text.is_empty() {
            return String::new();
        }
        self.entries += 1;
        let rest = text.strip_prefix(self.said.as_str());
        let rest = rest.filter(|_| !self.said.trim().is_empty());
        self.grows |= self.entries == 2 && rest.is_some_and(|rest| !rest.is_empty());
        let news = match rest {
            Some(rest) if self.grows => rest,
            // The whole again, as its signature comes.
            Some("") if self.entries > 2 => "",
            _ => text,
        };
        self.said.push_str(news);
        news.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(pieces: &[&str]) -> Vec<String> {
        let mut text = DetailText::default();
        pieces.iter().map(|piece| text.news(piece)).collect()
    }

    #[test]
    fn entries_add_to_one_another_or_grow() {
        assert_eq!(news(&["ab", "ba", "abba"]), ["ab", "ba", ""]);
        assert_eq!(
            news(&["The", "The user", "The user is"]),
            ["The", " user", " is"]
        );
        assert_eq!(
            news(&["\n", "\n", "a", "\n\na."]),
            ["\n", "\n", "a", "\n\na."]
        );
        let mut text = DetailText::default();
        text.saw_plain();
        assert_eq!(text.news("all of it"), "");
    }
}

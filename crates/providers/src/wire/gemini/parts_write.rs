//! Parts: neutral form to JSON.

use super::options::{Options, Platform, Traits};
use super::{DIALECT, SIGNATURE, ids, own_field, own_fields};
use crate::wire::adapted::{Adapted, done, what};
use crate::wire::digits::rounds_numbers;
use crate::wire::pairing;
use crate::wire::tool_names::ToolNames;
use evenkeel_core::{Image, Part, ReasoningPart, ToolCall, ToolResult};
use serde_json::{Map, Value, json};

/// What the parts of a request are written with.
#[derive(Debug)]
pub(super) struct Style<'a> {
    pub(super) traits: Traits,
    pub(super) names: &'a ToolNames,
}

/// What stands in place of arguments that are no JSON object.
const RAW_ARGUMENTS: &str = "arguments";
/// Kinds of images by the ending of their address.
const KINDS: [(&str, &str); 7] = [
    (".png", "image/png"),
    (".jpg", "image/jpeg"),
    (".jpeg", "image/jpeg"),
    (".webp", "image/webp"),
    (".gif", "image/gif"),
    (".heic", "image/heic"),
    (".heif", "image/heif"),
];

impl<'a> Style<'a> {
    /// Everything as it was said, for comparisons.
    pub(super) fn plain(names: &'a ToolNames) -> Self {
        Self {
            traits: Options::default().traits(""),
            names,
        }
    }
}

impl Style<'_> {
    /// The parts of one message, without its tool results.
    pub(super) fn parts(&self, parts: &[Part], adapted: &mut Adapted) -> Vec<Value> {
        let mut out: Vec<Value> = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Part::Reasoning(piece) => reasoning(piece, &mut out, adapted),
                part => out.extend(self.part(part, adapted)),
            }
        }
        // The format refuses an empty text, unless it carries a signature.
        out.retain(|part| *part != json!({"text": ""}));
        out
    }

    fn part(&self, part: &Part, adapted: &mut Adapted) -> Option<Value> {
        match part {
            Part::Text(text) => Some(json!({"text": text})),
            Part::Refusal(text) => {
                adapted.note(what::REFUSAL, done::AS_TEXT);
                Some(json!({"text": text}))
            }
            Part::Image(image) => written_image(image, adapted),
            Part::ToolCall(call) => Some(self.call(call, adapted)),
            Part::Other(extra) if extra.dialect == DIALECT => {
                Some(Value::Object(extra.fields.clone()))
            }
            _ => {
                adapted.foreign(what::PART);
                None
            }
        }
    }

    pub(super) fn call(&self, call: &ToolCall, adapted: &mut Adapted) -> Value {
        let mut inner = Map::new();
        self.put_id(&call.id, &mut inner);
        inner.insert("name".into(), self.names.wire(&call.name).into());
        match arguments(&call.arguments) {
            Ok(None) => {}
            Ok(Some(args)) => {
                if rounds_numbers(&call.arguments) {
                    adapted.note(what::CALL_ARGUMENTS, done::ROUNDED);
                }
                inner.insert("args".into(), args.into());
            }
            Err(raw) => {
                adapted.note(what::CALL_ARGUMENTS, done::INSIDE_OBJECT);
                inner.insert("args".into(), json!({RAW_ARGUMENTS: raw}));
            }
        }
        if let Some(Value::Object(kept)) = own_field(&call.extra, "functionCall") {
            for (name, value) in kept {
                inner.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        let mut map = Map::new();
        map.insert("functionCall".into(), inner.into());
        for (name, value) in own_fields(&call.extra) {
            map.entry(name.clone()).or_insert_with(|| value.clone());
        }
        Value::Object(map)
    }

    /// The answer to the call `name` (as it goes over the wire).
    pub(super) fn result(
        &self,
        result: &ToolResult,
        name: &str,
        beside: &mut Vec<Value>,
        adapted: &mut Adapted,
    ) -> Value {
        let mut inner = Map::new();
        self.put_id(&result.call_id, &mut inner);
        inner.insert("name".into(), name.into());
        let mut text = String::new();
        let mut media = Vec::new();
        for part in &result.parts {
            match part {
                Part::Text(piece) => text.push_str(piece),
                other => media.extend(self.part(other, adapted)),
            }
        }
        let key = if result.is_error { "error" } else { "output" };
        inner.insert("response".into(), json!({key: text}));
        if !media.is_empty() && self.traits.images_in_results {
            inner.insert("parts".into(), media.into());
        } else if !media.is_empty() {
            adapted.note(what::RESULT_IMAGE, done::BESIDE);
            beside.append(&mut media);
        }
        json!({"functionResponse": inner})
    }

    /// The answer to a call whose result is missing: the format wants one.
    pub(super) fn no_result(&self, id: &str, name: &str) -> Value {
        let mut inner = Map::new();
        self.put_id(id, &mut inner);
        inner.insert("name".into(), name.into());
        inner.insert("response".into(), json!({"error": pairing::NO_RESULT}));
        json!({"functionResponse": inner})
    }

    /// Vertex AI knows no ids on calls and results.
    pub(super) fn takes_ids(&self) -> bool {
        self.traits.platform != Platform::Vertex
    }

    fn put_id(&self, id: &str, map: &mut Map<String, Value>) {
        if self.takes_ids() && !ids::is_made_up(id) {
            map.insert("id".into(), id.into());
        }
    }
}

/// The arguments as an object; none where there are none.
///
/// # Errors
/// What they are, where that is no object: another JSON value, or text.
pub(super) fn arguments(text: &str) -> Result<Option<Map<String, Value>>, Value> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Ok(Some(map)),
        Ok(other) => Err(other),
        Err(_) => Err(text.into()),
    }
}

/// Own thoughts, and signatures over the part before. What another provider's
/// model thought is left out: its signature would be worth nothing, and the
/// text would pass for this model's own.
fn reasoning(piece: &ReasoningPart, out: &mut Vec<Value>, adapted: &mut Adapted) {
    if piece.dialect != DIALECT {
        adapted.foreign(what::REASONING_HISTORY);
        return;
    }
    if !piece.text.is_empty() {
        let mut thought = json!({"text": piece.text, "thought": true});
        if let Some(signature) = &piece.signature {
            thought[SIGNATURE] = signature.as_str().into();
        }
        out.push(thought);
        return;
    }
    let Some(signature) = &piece.signature else {
        return;
    };
    match out.last_mut().and_then(Value::as_object_mut) {
        Some(part) if can_be_signed(part) => {
            part.insert(SIGNATURE.into(), signature.as_str().into());
        }
        _ => out.push(json!({"text": "", SIGNATURE: signature})),
    }
}

/// Whether a signature behind this part is its own.
fn can_be_signed(part: &Map<String, Value>) -> bool {
    let holds = |name: &str| part.contains_key(name);
    !holds(SIGNATURE)
        && !holds("thought")
        && (holds("text") || holds("inlineData") || holds("fileData"))
}

fn written_image(image: &Image, adapted: &mut Adapted) -> Option<Value> {
    if image.detail.as_deref().is_some_and(|d| d != "auto") {
        adapted.left_out(what::IMAGE_DETAIL);
    }
    let written = image_part(&image.url);
    if written.is_none() {
        adapted.note(what::IMAGE, done::NOT_BASE64);
    }
    written
}

/// An image as a part; none for a `data:` URL that is not in base64.
pub(super) fn image_part(url: &str) -> Option<Value> {
    let Some(data) = url.strip_prefix("data:") else {
        let mut file = Map::new();
        let path = url
            .split(['?', '#'])
            .next()
            .unwrap_or(url)
            .to_ascii_lowercase();
        if let Some((_, kind)) = KINDS.iter().find(|(ending, _)| path.ends_with(ending)) {
            file.insert("mimeType".into(), (*kind).into());
        }
        file.insert("fileUri".into(), url.into());
        return Some(json!({"fileData": file}));
    };
    let (kind, data) = data.split_once(',')?;
    let kind = kind.strip_suffix(";base64")?;
    Some(json!({"inlineData": {"mimeType": kind, "data": data}}))
}

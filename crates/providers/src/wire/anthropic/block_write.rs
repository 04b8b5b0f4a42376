//! Content blocks: parts to JSON.

use super::{CITATIONS, DIALECT, add_unknown, own};
use crate::wire::adapted::{Adapted, done, what};
use crate::wire::digits::rounds_numbers;
use evenkeel_core::{Extra, Image, Part, ReasoningPart, ToolCall, ToolResult};
use serde_json::{Map, Value, json};

/// The key under which arguments that are no JSON object are sent back: the
/// one that Anthropic's page on fine-grained tool streaming recommends.
const INVALID_JSON: &str = "INVALID_JSON";
/// What stands in for the text of a tool's error that has none: the API
/// refuses an error without content.
const SILENT_ERROR: &str = "the tool failed";

pub(super) fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Whether a block is a text that the API refuses as empty.
pub(super) fn is_empty_text(block: &Value) -> bool {
    block.get("type").and_then(Value::as_str) == Some("text")
        && block
            .get("text")
            .and_then(Value::as_str)
            .is_none_or(|text| text.trim().is_empty())
}

/// Adds the citations of a part to the text block before it.
pub(super) fn cite(extra: &Extra, blocks: &mut [Value]) {
    if let (Some(found), Some(Value::Object(block))) =
        (extra.fields.get(CITATIONS), blocks.last_mut())
        && block.get("type").and_then(Value::as_str) == Some("text")
    {
        block.insert(CITATIONS.into(), found.clone());
    }
}

pub(super) fn is_citations(extra: &Extra) -> bool {
    own(extra).is_some_and(|f| f.get("type").and_then(Value::as_str) == Some(CITATIONS))
}

/// The signature of reasoning, where it is of this dialect.
pub(super) fn own_signature(part: &ReasoningPart) -> Option<&str> {
    part.signature
        .as_deref()
        .filter(|_| part.dialect == DIALECT)
}

/// A thinking block; none where this dialect did not sign it.
pub(super) fn thinking(part: &ReasoningPart) -> Option<Value> {
    let signature = own_signature(part)?;
    Some(json!({"type": "thinking", "thinking": part.text, "signature": signature}))
}

pub(super) fn tool_use(call: &ToolCall, id: &str, name: &str, adapted: &mut Adapted) -> Value {
    let mut map = Map::new();
    map.insert("type".into(), "tool_use".into());
    map.insert("id".into(), id.into());
    map.insert("name".into(), name.into());
    let input = input(&call.arguments).unwrap_or_else(|| {
        adapted.note(what::CALL_ARGUMENTS, done::INSIDE_OBJECT);
        json!({INVALID_JSON: call.arguments})
    });
    if rounds_numbers(&call.arguments) {
        adapted.note(what::CALL_ARGUMENTS, done::ROUNDED);
    }
    map.insert("input".into(), input);
    if call.extra.dialect != DIALECT && !call.extra.fields.is_empty() {
        adapted.foreign(what::CALL_EXTRA);
    }
    add_unknown(&call.extra, &[], &mut map);
    Value::Object(map)
}

/// Arguments as the object that the format wants; none where they are none.
pub(super) fn input(arguments: &str) -> Option<Value> {
    if arguments.trim().is_empty() {
        return Some(json!({}));
    }
    serde_json::from_str(arguments)
        .ok()
        .filter(Value::is_object)
}

pub(super) fn tool_result(result: &ToolResult, id: &str, adapted: &mut Adapted) -> Value {
    let mut map = Map::new();
    map.insert("type".into(), "tool_result".into());
    map.insert("tool_use_id".into(), id.into());
    let content = result_content(&result.parts, adapted);
    if result.is_error {
        map.insert("is_error".into(), true.into());
        let silent = match &content {
            None => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(_) => false,
        };
        let content = content.filter(|_| !silent);
        map.insert(
            "content".into(),
            content.unwrap_or_else(|| SILENT_ERROR.into()),
        );
    } else if let Some(content) = content {
        map.insert("content".into(), content);
    }
    Value::Object(map)
}

/// A result's content: a string for one text, else an array; none for nothing.
fn result_content(parts: &[Part], adapted: &mut Adapted) -> Option<Value> {
    if let [Part::Text(text)] = parts {
        return Some(text.as_str().into());
    }
    let mut blocks: Vec<Value> = Vec::with_capacity(parts.len());
    for part in parts {
        said_by_user(part, &mut blocks, adapted);
    }
    blocks.retain(|block| !is_empty_text(block));
    (!blocks.is_empty()).then(|| blocks.into())
}

/// Adds a part that a user or a tool may say.
pub(super) fn said_by_user(part: &Part, blocks: &mut Vec<Value>, adapted: &mut Adapted) {
    match part {
        Part::Text(said) | Part::Refusal(said) => blocks.push(text(said)),
        Part::Image(image) => blocks.extend(image_block(image, adapted)),
        Part::Other(extra) if is_citations(extra) => cite(extra, blocks),
        Part::Other(extra) if extra.dialect == DIALECT => {
            blocks.push(Value::Object(extra.fields.clone()));
        }
        Part::Other(extra) => match file(extra) {
            Some(document) => blocks.push(document),
            None => adapted.foreign(what::PART),
        },
        _ => adapted.foreign(what::PART),
    }
}

/// An image, or a document where the data says so; none where the address is
/// of a kind that the API does not take.
fn image_block(image: &Image, adapted: &mut Adapted) -> Option<Value> {
    if image.detail.is_some() {
        adapted.left_out(what::IMAGE_DETAIL);
    }
    let Some(data) = image.url.strip_prefix("data:") else {
        return Some(json!({"type": "image", "source": {"type": "url", "url": image.url}}));
    };
    let block = inline(data);
    if block.is_none() {
        adapted.note(what::IMAGE, done::NOT_BASE64);
    }
    block
}

/// A `data:` URL without its scheme as an image or document block.
fn inline(data: &str) -> Option<Value> {
    let (head, data) = data.split_once(',')?;
    let mut words = head.split(';');
    let media_type = words.next().unwrap_or_default();
    if words.next_back() != Some("base64") {
        return None;
    }
    let kind = if media_type == "application/pdf" {
        "document"
    } else {
        "image"
    };
    Some(json!({
        "type": kind,
        "source": {"type": "base64", "media_type": media_type, "data": data},
    }))
}

/// A PDF as `OpenAI`'s format has it (`{"type":"file","file":{"file_data"}}`).
fn file(extra: &Extra) -> Option<Value> {
    if extra.dialect != crate::wire::openai::DIALECT {
        return None;
    }
    let file = extra.fields.get("file")?;
    let data = file.get("file_data")?.as_str()?;
    let mut document = inline(data.strip_prefix("data:")?)?;
    if document.get("type")?.as_str()? != "document" {
        return None;
    }
    if let Some(title) = file.get("filename").filter(|name| name.is_string()) {
        document
            .as_object_mut()?
            .insert("title".into(), title.clone());
    }
    Some(document)
}

/// Parts as they would be written if nothing had to be repaired: what a
/// written form is compared with.
pub(super) fn plain(parts: &[Part]) -> Value {
    if let [Part::Text(text)] = parts {
        return text.as_str().into();
    }
    let mut unheard = Adapted::default();
    let mut blocks = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::ToolCall(call) => {
                blocks.push(tool_use(call, &call.id, &call.name, &mut unheard));
            }
            Part::ToolResult(result) => {
                blocks.push(tool_result(result, &result.call_id, &mut unheard));
            }
            Part::Reasoning(part) => blocks.extend(thinking(part)),
            other => said_by_user(other, &mut blocks, &mut unheard),
        }
    }
    blocks.into()
}

//! Content blocks: JSON to parts, for requests and answers alike.

use super::{CITATIONS, DIALECT, extra};
use crate::wire::RequestError;
use crate::wire::fields::Fields;
use evenkeel_core::{Image, Part, ReasoningPart, ToolCall, ToolResult};
use serde_json::{Map, Value};

/// The parts of a `content` value: a string or an array of blocks.
pub(super) fn content(value: &Value, path: &str) -> Result<Vec<Part>, RequestError> {
    match value {
        Value::String(text) => Ok(vec![Part::Text(text.clone())]),
        Value::Array(blocks) => {
            let mut parts = Vec::with_capacity(blocks.len());
            for (i, item) in blocks.iter().enumerate() {
                parts.extend(block(item.clone(), &format!("{path}[{i}]"))?);
            }
            Ok(parts)
        }
        other => Err(RequestError::wrong_type(
            path.to_owned(),
            "a string or an array of blocks",
            other,
        )),
    }
}

/// The parts of one block: one, or two where a text has citations.
pub(super) fn block(value: Value, path: &str) -> Result<Vec<Part>, RequestError> {
    let mut fields = Fields::of(value, path)?;
    let kind = fields.required_string("type")?;
    let part = match kind.as_str() {
        "text" => return text(fields),
        "image" => image(fields, kind)?,
        "tool_use" => tool_use(fields)?,
        "tool_result" => tool_result(fields)?,
        "thinking" => thinking(fields)?,
        _ => other(fields, kind),
    };
    Ok(vec![part])
}

/// A block without a neutral form, as it is.
fn other(fields: Fields, kind: String) -> Part {
    let mut map = Map::new();
    map.insert("type".into(), kind.into());
    map.extend(fields.rest());
    Part::Other(extra(map))
}

fn text(mut fields: Fields) -> Result<Vec<Part>, RequestError> {
    let mut parts = vec![Part::Text(fields.required_string("text")?)];
    if let Some(Value::Array(found)) = fields.take(CITATIONS)
        && !found.is_empty()
    {
        parts.push(citations(found));
    }
    Ok(parts)
}

/// The part that holds the citations of the text before it.
pub(super) fn citations(found: Vec<Value>) -> Part {
    let mut map = Map::new();
    map.insert("type".into(), CITATIONS.into());
    map.insert(CITATIONS.into(), found.into());
    Part::Other(extra(map))
}

/// An image by address or inline; one by file id has no neutral form.
fn image(mut fields: Fields, kind: String) -> Result<Part, RequestError> {
    let path = fields.path("source");
    let Some(raw) = fields.take("source") else {
        return Err(RequestError::missing(path));
    };
    let mut source = Fields::of(raw.clone(), path)?;
    let url = match source.required_string("type")?.as_str() {
        "base64" => {
            let media_type = source.required_string("media_type")?;
            let data = source.required_string("data")?;
            format!("data:{media_type};base64,{data}")
        }
        "url" => source.required_string("url")?,
        _ => {
            fields.keep("source", raw);
            return Ok(other(fields, kind));
        }
    };
    Ok(Part::Image(Image { url, detail: None }))
}

fn tool_use(mut fields: Fields) -> Result<Part, RequestError> {
    let id = fields.required_string("id")?;
    let name = fields.required_string("name")?;
    let arguments = fields.object("input")?.unwrap_or_default();
    Ok(Part::ToolCall(ToolCall {
        id,
        name,
        arguments: Value::Object(arguments).to_string(),
        extra: call_extra(fields.rest()),
    }))
}

/// What a call says beside its neutral fields, such as who called.
pub(super) fn call_extra(mut rest: Map<String, Value>) -> evenkeel_core::Extra {
    rest.retain(|_, value| !value.is_null());
    if rest.is_empty() {
        return evenkeel_core::Extra::default();
    }
    extra(rest)
}

fn tool_result(mut fields: Fields) -> Result<Part, RequestError> {
    let call_id = fields.required_string("tool_use_id")?;
    let path = fields.path("content");
    let parts = match fields.take("content") {
        Some(value) => content(&value, &path)?,
        None => Vec::new(),
    };
    Ok(Part::ToolResult(ToolResult {
        call_id,
        parts,
        is_error: fields.boolean("is_error")?.unwrap_or(false),
    }))
}

fn thinking(mut fields: Fields) -> Result<Part, RequestError> {
    let text = fields.string("thinking")?.unwrap_or_default();
    let signature = fields.string("signature")?.filter(|s| !s.is_empty());
    Ok(Part::Reasoning(ReasoningPart {
        text,
        dialect: if signature.is_some() { DIALECT } else { "" },
        signature,
    }))
}

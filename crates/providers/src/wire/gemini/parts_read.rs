//! Parts: JSON to neutral form.

use super::ids::Ids;
use super::names::{camel_keys, camel_value};
use super::{DIALECT, SIGNATURE, extra};
use crate::wire::RequestError;
use crate::wire::fields::Fields;
use evenkeel_core::{Image, Part, ReasoningPart, ToolCall, ToolResult};
use serde_json::{Map, Value};

/// A part in one spelling: its own fields and those of what it holds, but
/// nothing deeper, which is the caller's.
pub(super) fn normal(part: Map<String, Value>) -> Map<String, Value> {
    let mut part = camel_keys(part);
    for value in part.values_mut().filter(|value| value.is_object()) {
        *value = camel_value(value.take());
    }
    part
}

/// Adds the neutral parts of one part, in one spelling already, to `out`.
pub(super) fn read(
    part: &Map<String, Value>,
    path: &str,
    ids: &mut Ids,
    out: &mut Vec<Part>,
) -> Result<(), RequestError> {
    if part.len() == 1
        && let Some(Value::String(text)) = part.get("text")
    {
        // What nearly every part is, without a copy of its fields.
        out.push(Part::Text(text.clone()));
        return Ok(());
    }
    let mut fields = Fields::new(part.clone(), path);
    let signature = fields.string(SIGNATURE)?;
    let is_thought = fields.boolean("thought")?.unwrap_or(false);
    if fields.peek("functionCall").is_some() {
        out.push(Part::ToolCall(call(fields, signature, ids)?));
        return Ok(());
    }
    if fields.peek("functionResponse").is_some() {
        out.push(Part::ToolResult(result(fields)?));
        return Ok(());
    }
    if fields.peek("inlineData").is_some() || fields.peek("fileData").is_some() {
        let Some(image) = image(&mut fields)? else {
            out.push(Part::Other(extra(part.clone())));
            return Ok(());
        };
        out.push(Part::Image(image));
    } else if let Some(text) = fields.string("text")? {
        if is_thought {
            out.push(Part::Reasoning(ReasoningPart {
                text,
                signature,
                dialect: DIALECT,
            }));
            return Ok(());
        }
        out.push(Part::Text(text));
    } else if signature.is_some() && part.len() == 1 {
        // A signature that stands alone is one over an empty text.
        out.push(Part::Text(String::new()));
    } else {
        out.push(Part::Other(extra(part.clone())));
        return Ok(());
    }
    out.extend(signature.map(|signature| {
        Part::Reasoning(ReasoningPart {
            text: String::new(),
            signature: Some(signature),
            dialect: DIALECT,
        })
    }));
    Ok(())
}

fn call(
    mut fields: Fields,
    signature: Option<String>,
    ids: &mut Ids,
) -> Result<ToolCall, RequestError> {
    let path = fields.path("functionCall");
    let mut call = Fields::new(fields.object("functionCall")?.unwrap_or_default(), path);
    if call.boolean("willContinue")?.unwrap_or(false) || call.peek("partialArgs").is_some() {
        let param = call.path("partialArgs");
        let message = format!("`{param}`: arguments in pieces are not supported");
        return Err(RequestError::unsupported(param, message));
    }
    let id = call.string("id")?.filter(|id| !id.is_empty());
    let name = call.required_string("name")?;
    let arguments = call
        .object("args")?
        .map(|args| Value::Object(args).to_string())
        .unwrap_or_default();
    let mut kept = fields.rest();
    kept.extend(signature.map(|s| (SIGNATURE.to_owned(), s.into())));
    let inner = call.rest();
    if !inner.is_empty() {
        kept.insert("functionCall".into(), inner.into());
    }
    Ok(ToolCall {
        id: id.unwrap_or_else(|| ids.make(&name, &arguments)),
        name,
        arguments,
        extra: extra(kept),
    })
}

fn result(mut fields: Fields) -> Result<ToolResult, RequestError> {
    let path = fields.path("functionResponse");
    let response = fields.object("functionResponse")?.unwrap_or_default();
    let mut response = Fields::new(response, path);
    let call_id = response.string("id")?.unwrap_or_default();
    response.required_string("name")?;
    let body = response.object("response")?.unwrap_or_default();
    let (text, is_error) = unwrapped(body);
    let mut parts = vec![Part::Text(text)];
    let path = response.path("parts");
    for (i, part) in response
        .array("parts")?
        .unwrap_or_default()
        .into_iter()
        .enumerate()
    {
        let mut fields = Fields::of(camel_value(part.clone()), format!("{path}[{i}]"))?;
        let image = image(&mut fields)?.map(Part::Image);
        let whole = || Part::Other(extra(part.as_object().cloned().unwrap_or_default()));
        parts.push(image.unwrap_or_else(whole));
    }
    Ok(ToolResult {
        call_id,
        parts,
        is_error,
    })
}

/// What a function said, out of the object that this format wants it in, and
/// whether it is an error.
fn unwrapped(mut body: Map<String, Value>) -> (String, bool) {
    if body.len() == 1 {
        for (name, is_error) in [("output", false), ("error", true)] {
            match body.shift_remove(name) {
                Some(Value::String(text)) => return (text, is_error),
                Some(other) => return (other.to_string(), is_error),
                None => {}
            }
        }
    }
    (Value::Object(body).to_string(), false)
}

/// An image, inline or by address; none for other media, which have no
/// neutral form.
fn image(fields: &mut Fields) -> Result<Option<Image>, RequestError> {
    let (name, at) = if fields.peek("inlineData").is_some() {
        ("inlineData", "data")
    } else {
        ("fileData", "fileUri")
    };
    let path = fields.path(name);
    let Some(data) = fields.object(name)? else {
        return Ok(None);
    };
    let mut data = Fields::new(camel_keys(data), path);
    let kind = data.string("mimeType")?.unwrap_or_default();
    let content = data.required_string(at)?;
    let url = match name {
        "inlineData" if kind.starts_with("image/") => format!("data:{kind};base64,{content}"),
        "fileData" if kind.is_empty() || kind.starts_with("image/") => content,
        _ => return Ok(None),
    };
    Ok(Some(Image { url, detail: None }))
}

//! Messages: JSON to neutral form.
//!
//! A user turn that holds results becomes one message for each result, as the
//! neutral form has them, and one for what stands between.

use super::{block_read, block_write, extra};
use crate::wire::RequestError;
use crate::wire::fields::Fields;
use evenkeel_core::{Message, Part, Role};
use serde_json::{Map, Value};

/// The `system` field as the first message.
pub(super) fn system(value: Value) -> Result<Message, RequestError> {
    let parts = block_read::content(&value, "system")?;
    Ok(message(Role::System, parts, value, Map::new()))
}

pub(super) fn messages(items: Vec<Value>, out: &mut Vec<Message>) -> Result<(), RequestError> {
    if items.is_empty() {
        return Err(RequestError::new(
            "empty_array",
            "messages",
            "`messages` must hold at least one message".into(),
        ));
    }
    for (i, item) in items.into_iter().enumerate() {
        turn(Fields::of(item, format!("messages[{i}]"))?, out)?;
    }
    Ok(())
}

fn turn(mut fields: Fields, out: &mut Vec<Message>) -> Result<(), RequestError> {
    let role = match fields.required_string("role")?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        other => {
            let param = fields.path("role");
            let message = format!("`{param}` must be user, assistant or system, got `{other}`");
            return Err(RequestError::invalid(param, message));
        }
    };
    let path = fields.path("content");
    let content = fields
        .take("content")
        .ok_or_else(|| RequestError::missing(path.clone()))?;
    let rest = fields.rest();
    let blocks = match content {
        Value::Array(blocks) if role == Role::User => blocks,
        content => {
            let parts = block_read::content(&content, &path)?;
            out.push(message(role, parts, content, rest));
            return Ok(());
        }
    };
    user_turn(blocks, &path, rest, out)
}

fn user_turn(
    blocks: Vec<Value>,
    path: &str,
    mut rest: Map<String, Value>,
    out: &mut Vec<Message>,
) -> Result<(), RequestError> {
    let mut said = Vec::new();
    let mut said_blocks = Vec::new();
    let none_was_there = blocks.is_empty();
    for (i, block) in blocks.into_iter().enumerate() {
        let parts = block_read::block(block.clone(), &format!("{path}[{i}]"))?;
        if let [Part::ToolResult(_)] = parts.as_slice() {
            flush(&mut said, &mut said_blocks, &mut rest, out);
            let rest = std::mem::take(&mut rest);
            out.push(message(Role::Tool, parts, vec![block].into(), rest));
        } else {
            said.extend(parts);
            said_blocks.push(block);
        }
    }
    if none_was_there {
        out.push(message(Role::User, said, said_blocks.into(), rest));
    } else {
        flush(&mut said, &mut said_blocks, &mut rest, out);
    }
    Ok(())
}

fn flush(
    said: &mut Vec<Part>,
    blocks: &mut Vec<Value>,
    rest: &mut Map<String, Value>,
    out: &mut Vec<Message>,
) {
    if !blocks.is_empty() {
        let content = std::mem::take(blocks).into();
        let rest = std::mem::take(rest);
        out.push(message(Role::User, std::mem::take(said), content, rest));
    }
}

/// A message; its written content is kept where the parts say less.
fn message(role: Role, parts: Vec<Part>, content: Value, mut rest: Map<String, Value>) -> Message {
    if block_write::plain(&parts) != content {
        rest.insert("content".into(), content);
    }
    Message {
        role,
        parts,
        name: None,
        extra: extra(rest),
    }
}

//! Requests.

use super::{DIALECT, STYLE, order};
use crate::wire::adapted::{Adapted, done, what};
use crate::wire::openai::style::Style;
use crate::wire::{ClientRequest, Encoded, RequestError, call_ids, openai, pairing};
use evenkeel_core::{ChatRequest, Extra, Message, Part, Role};

/// Characters of a tool call's id.
const CALL_ID: usize = 9;

/// What a request is written for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether the model refuses sampling parameters.
    pub fixed_sampling: bool,
}

/// Writes a request.
///
/// Ids of tool calls that are not nine letters and digits are replaced by a
/// hash of theirs, in calls and results alike; two never become one. A final
/// assistant message is marked to be gone on from.
pub fn encode_request(
    request: &ChatRequest,
    model: &str,
    stream: bool,
    options: &Options,
) -> Encoded {
    let mut adapted = Adapted::default();
    let paired = pairing::paired(&request.messages, &mut adapted);
    let mut messages = order::arranged(&paired, &mut adapted);
    if call_ids::rewrite(&mut messages, fits, |id, n| {
        call_ids::base62(id, n, CALL_ID)
    }) {
        adapted.note(what::CALL_IDS, done::RENAMED);
    }
    if let Some(last) = messages.last_mut() {
        mark_prefix(last);
    }
    let request = ChatRequest {
        messages,
        ..request.clone()
    };
    let style = Style {
        fixed_sampling: options.fixed_sampling,
        ..STYLE
    };
    let mut encoded = openai::encode_as(&request, model, stream, &style);
    let mut lines = adapted.into_lines();
    lines.append(&mut encoded.adapted);
    encoded.adapted = lines;
    encoded
}

fn fits(id: &str) -> bool {
    id.len() == CALL_ID && id.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// Marks a final assistant message as the beginning of the answer.
fn mark_prefix(message: &mut Message) {
    let calls = message
        .parts
        .iter()
        .any(|part| matches!(part, Part::ToolCall(_)));
    if message.role != Role::Assistant || calls {
        return;
    }
    if message.extra.dialect != DIALECT {
        message.extra = Extra {
            dialect: DIALECT,
            fields: serde_json::Map::new(),
        };
    }
    message.extra.fields.insert("prefix".into(), true.into());
}

/// Reads a request body.
///
/// # Errors
/// [`RequestError`], whose `param` names the field.
pub fn decode_request(body: &[u8]) -> Result<ClientRequest, RequestError> {
    let mut read = openai::decode_as_request(body, &STYLE)?;
    // Usage comes by itself.
    read.include_usage = true;
    Ok(read)
}

//! What is done to a conversation before it is written for a server.

use super::style::Style;
use crate::wire::adapted::{Adapted, done, what};
use crate::wire::tool_names::ToolNames;
use crate::wire::{call_ids, pairing};
use evenkeel_core::{ChatRequest, Message, Part};
use std::borrow::Cow;

/// The messages with calls and results paired, with ids and tool names as the
/// server takes them, and without NUL characters, which end a text early in
/// servers written in C.
pub(super) fn messages<'a>(
    request: &'a ChatRequest,
    style: &Style,
    names: &ToolNames,
    adapted: &mut Adapted,
) -> Cow<'a, [Message]> {
    if style.faithful {
        return Cow::Borrowed(request.messages.as_slice());
    }
    let mut messages = pairing::paired(&request.messages, adapted);
    let fits = |id: &str| id.chars().count() <= style.max_call_id;
    if parts(&messages).any(|part| id_of(part).is_some_and(|id| !fits(id))) {
        // Where an id is too long it has this many characters to spare.
        let make = |id: &str, n| format!("call_{}", call_ids::base62(id, n, 10));
        call_ids::rewrite(messages.to_mut(), fits, make);
        adapted.note(what::CALL_IDS, done::RENAMED);
    }
    if !names.is_empty() {
        for part in messages.to_mut().iter_mut().flat_map(|m| &mut m.parts) {
            if let Part::ToolCall(call) = part {
                call.name = names.wire(&call.name).to_owned();
            }
        }
    }
    if parts(&messages).any(has_nul) {
        for part in messages.to_mut().iter_mut().flat_map(|m| &mut m.parts) {
            replace_nul(part);
        }
        adapted.note(what::NUL, done::REPLACED);
    }
    messages
}

fn parts(messages: &[Message]) -> impl Iterator<Item = &Part> {
    messages.iter().flat_map(|message| &message.parts)
}

fn id_of(part: &Part) -> Option<&str> {
    match part {
        Part::ToolCall(call) => Some(&call.id),
        Part::ToolResult(result) => Some(&result.call_id),
        _ => None,
    }
}

fn has_nul(part: &Part) -> bool {
    match part {
        Part::Text(text) => text.contains('\0'),
        Part::ToolResult(result) => result.parts.iter().any(has_nul),
        _ => false,
    }
}

fn replace_nul(part: &mut Part) {
    match part {
        Part::Text(text) if text.contains('\0') => *text = text.replace('\0', "\u{FFFD}"),
        Part::ToolResult(result) => result.parts.iter_mut().for_each(replace_nul),
        _ => {}
    }
}

//! The conversation: neutral form to JSON.

use super::parts_write::Style;
use super::turns::{self, Turn};
use super::{contents_read, ids, own_field, own_fields};
use crate::wire::adapted::{Adapted, EMPTY_MESSAGE, done, what};
use evenkeel_core::{Message, Part, Role};
use serde_json::{Map, Value, json};

/// The name under which a message keeps the written form of its parts.
const PARTS: &str = "parts";

/// `systemInstruction`, where there is one, and `contents`.
pub(super) fn conversation(
    messages: &[Message],
    style: &Style<'_>,
    adapted: &mut Adapted,
) -> (Option<Value>, Vec<Value>) {
    let is_system = |m: &&Message| matches!(m.role, Role::System | Role::Developer);
    let (instructions, spoken): (Vec<&Message>, Vec<&Message>) =
        messages.iter().partition(is_system);
    if messages
        .iter()
        .skip(instructions.len())
        .any(|m| is_system(&m))
    {
        adapted.note(what::SYSTEM_LATER, done::MOVED_TO_START);
    }
    let system = system(&instructions, style, adapted);
    let turns = turns_of(&spoken, style, adapted);
    let ends_with_model = turns.last().is_none_or(|turn| turn.is_model);
    let mut contents = turns::contents(turns, style, adapted);
    if adapted.fills_end(messages, ends_with_model) {
        contents.push(json!({"role": "user", PARTS: [{"text": EMPTY_MESSAGE}]}));
    }
    match system {
        Some(system) if contents.is_empty() => {
            // The format refuses a request without contents.
            adapted.note(what::SYSTEM, done::AS_USER);
            let parts = system.get(PARTS).cloned().unwrap_or_default();
            (None, vec![json!({"role": "user", PARTS: parts})])
        }
        system => (system, contents),
    }
}

fn system(messages: &[&Message], style: &Style<'_>, adapted: &mut Adapted) -> Option<Value> {
    let (parts, rest) = match messages {
        [] => return None,
        [message] => (message_parts(message, style, adapted), rest(message)),
        messages => {
            adapted.note(what::SYSTEM, done::JOINED);
            let texts: Vec<String> = messages.iter().map(|m| m.plain_text()).collect();
            if messages
                .iter()
                .any(|m| m.parts.iter().any(|p| !matches!(p, Part::Text(_))))
            {
                adapted.left_out(what::SYSTEM_IMAGE);
            }
            (vec![json!({"text": texts.join("\n\n")})], Map::new())
        }
    };
    let mut system = Map::new();
    system.insert(PARTS.into(), parts.into());
    system.extend(rest);
    Some(Value::Object(system))
}

fn turns_of<'a>(
    messages: &[&'a Message],
    style: &'a Style<'a>,
    adapted: &mut Adapted,
) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::new();
    for message in messages {
        if message.name.is_some() {
            adapted.left_out(what::MESSAGE_NAME);
        }
        let mut parts = Vec::new();
        let mut results = Vec::new();
        if message
            .parts
            .iter()
            .any(|p| matches!(p, Part::ToolResult(_)))
        {
            parts = style.parts(&without_results(message), adapted);
            results = with_forms(message);
        } else {
            parts.extend(message_parts(message, style, adapted));
        }
        let is_model = message.role == Role::Assistant;
        if parts.is_empty() && results.is_empty() {
            continue;
        }
        if turns.last().is_none_or(|turn| turn.is_model != is_model) {
            turns.push(Turn {
                is_model,
                ..Turn::default()
            });
        }
        let Some(turn) = turns.last_mut() else {
            continue;
        };
        turn.parts.append(&mut parts);
        turn.results.append(&mut results);
        turn.rest.extend(rest(message));
        turn.calls
            .extend(message.parts.iter().filter_map(|part| match part {
                Part::ToolCall(call) if is_model => {
                    Some((call.id.as_str(), style.names.wire(&call.name)))
                }
                _ => None,
            }));
    }
    turns
}

/// The parts of a message without tool results, in their written form where
/// that still says the same.
fn message_parts(message: &Message, style: &Style<'_>, adapted: &mut Adapted) -> Vec<Value> {
    match written_form(message) {
        Some(raw) => raw.iter().map(|part| turns::written(part, style)).collect(),
        None => style.parts(&message.parts, adapted),
    }
}

fn written_form(message: &Message) -> Option<&Vec<Value>> {
    let raw = own_field(&message.extra, PARTS)?.as_array()?;
    let read = contents_read::of_written_form(raw)?;
    let holds = read.len() == message.parts.len()
        && read
            .iter()
            .zip(&message.parts)
            .all(|(was, now)| same(was, now));
    holds.then_some(raw)
}

/// Whether a part still says what was read. The call that a result without an
/// id answers was found when it was read.
fn same(was: &Part, now: &Part) -> bool {
    match (was, now) {
        (Part::ToolResult(was), Part::ToolResult(now)) => {
            let same_call = was.call_id.is_empty() || was.call_id == now.call_id;
            same_call && was.parts == now.parts && was.is_error == now.is_error
        }
        _ => *was == ids::blanked(now),
    }
}

fn without_results(message: &Message) -> Vec<Part> {
    let others = message.parts.iter();
    others
        .filter(|p| !matches!(p, Part::ToolResult(_)))
        .cloned()
        .collect()
}

/// The results of a message, each with its written form.
fn with_forms(message: &Message) -> Vec<(&evenkeel_core::ToolResult, Option<&Value>)> {
    // Only a message of nothing but results has one part for each.
    let raw = written_form(message).filter(|raw| raw.len() == message.parts.len());
    let results = message.parts.iter().enumerate();
    results
        .filter_map(|(i, part)| match part {
            Part::ToolResult(result) => Some((result, raw.and_then(|raw| raw.get(i)))),
            _ => None,
        })
        .collect()
}

fn rest(message: &Message) -> Map<String, Value> {
    own_fields(&message.extra)
        .filter(|(name, _)| *name != PARTS)
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

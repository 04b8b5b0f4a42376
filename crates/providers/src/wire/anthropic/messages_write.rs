//! Messages: neutral form to JSON, repaired to what the API takes.

use super::pairing::{Said, Turn, Turns};
use super::{DIALECT, Options, Support, add_unknown, block_read, block_write, kept};
use crate::wire::adapted::{Adapted, EMPTY_MESSAGE, done, what};
use crate::wire::tool_names::ToolNames;
use evenkeel_core::{Extra, Message, Part, Role};
use serde_json::{Map, Value};

/// What the user is made to say where the conversation begins with the model.
const FIRST_WORDS: &str = "(the conversation begins)";
/// What the user is made to say where a begun answer cannot be continued by
/// leaving it last.
const GO_ON: &str = "Continue exactly where you left off.";

/// A conversation in this format.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) system: Option<Value>,
    pub(super) turns: Vec<Turn>,
}

pub(super) fn write(
    messages: &[Message],
    names: &ToolNames,
    options: &Options,
    adapted: &mut Adapted,
) -> Conversation {
    let mut system = System::default();
    let mut turns = Turns::default();
    for message in messages {
        if message.name.is_some() {
            adapted.left_out(what::MESSAGE_NAME);
        }
        if message.extra.dialect != DIALECT && says_more(&message.extra) {
            adapted.foreign(what::EXTRA);
        }
        let said = said(message, names, options, adapted);
        match message.role {
            Role::System | Role::Developer => {
                instruct(message, said, options, &mut turns, &mut system, adapted);
            }
            Role::Assistant => turns.answer(said, adapted),
            Role::User | Role::Tool => turns.ask(said, adapted),
        }
    }
    let mut turns = turns.finish(adapted);
    let spoken = turns.iter().rfind(|turn| turn.role != "system");
    if adapted.fills_end(messages, spoken.is_none_or(|turn| turn.role == "assistant")) {
        turns.push(Turn::text("user", EMPTY_MESSAGE));
    }
    if turns.first().is_none_or(|turn| turn.role != "user") {
        adapted.note(
            "messages",
            "the first is not the user's, a user message was put before it",
        );
        turns.insert(0, Turn::text("user", FIRST_WORDS));
    }
    Conversation {
        system: system.field(),
        turns,
    }
}

/// Whether another format's fields say more than the neutral form, whose
/// written forms some of them are.
fn says_more(extra: &Extra) -> bool {
    let forms = ["content", "tool_calls", "reasoning_details"];
    extra.fields.keys().any(|n| !forms.contains(&n.as_str()))
}

/// Puts instructions where the model takes them.
fn instruct(
    message: &Message,
    said: Said,
    options: &Options,
    turns: &mut Turns,
    system: &mut System,
    adapted: &mut Adapted,
) {
    if turns.is_empty() {
        system.add(said);
        return;
    }
    let stays = match options.system_turns {
        Support::Yes => true,
        Support::No => false,
        Support::Unknown => message.extra.dialect == DIALECT,
    };
    let moved = if stays {
        turns.instruct(said)
    } else {
        Some(said)
    };
    if let Some(said) = moved.filter(|said| !said.blocks.is_empty()) {
        adapted.note(what::SYSTEM_LATER, done::MOVED_TO_START);
        system.add(said);
    }
}

/// The system prompt.
#[derive(Debug, Default)]
struct System {
    blocks: Vec<Value>,
    /// Whether all of it is text that may be joined.
    marked: bool,
}

impl System {
    fn add(&mut self, said: Said) {
        self.marked |= !said.plain;
        self.blocks.extend(said.blocks);
    }

    /// One string, its parts apart by blank lines; the blocks themselves where
    /// they were written as such, since they may carry cache marks.
    fn field(self) -> Option<Value> {
        if self.blocks.is_empty() {
            return None;
        }
        if self.marked {
            return Some(self.blocks.into());
        }
        let texts = self.blocks.iter().filter_map(|b| b.get("text")?.as_str());
        Some(texts.collect::<Vec<_>>().join("\n\n").into())
    }
}

/// What a message says, in blocks that the API takes; the ids are still those
/// of the history.
fn said(message: &Message, names: &ToolNames, options: &Options, adapted: &mut Adapted) -> Said {
    let raw = written(message);
    let plain = raw.is_none();
    let mut blocks = raw.unwrap_or_else(|| built(message, adapted));
    blocks.retain(|block| keeps(block, options, adapted));
    if message.role == Role::Assistant && !names.is_empty() {
        rename(&mut blocks, names);
    }
    let mut fields = Map::new();
    add_unknown(&message.extra, &["content"], &mut fields);
    let mut all_text = blocks.iter();
    let all_text = all_text.all(|b| {
        b.get("type").and_then(Value::as_str) == Some("text") && b.get("citations").is_none()
    });
    Said {
        plain: plain && all_text,
        blocks,
        fields,
    }
}

/// The written blocks of a message, where they still say what its parts say.
fn written(message: &Message) -> Option<Vec<Value>> {
    let raw = kept(&message.extra, "content")?;
    let read = block_read::content(raw, "").ok()?;
    match raw {
        Value::Array(blocks) if read == message.parts => Some(blocks.clone()),
        _ => None,
    }
}

/// Whether the API and the model take a block.
fn keeps(block: &Value, options: &Options, adapted: &mut Adapted) -> bool {
    if block_write::is_empty_text(block) {
        return false;
    }
    let said = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
    let foreign = match said("type") {
        "thinking" => options.drop_reasoning || said("signature").is_empty(),
        "redacted_thinking" => options.drop_reasoning,
        _ => false,
    };
    if foreign {
        adapted.note(what::REASONING_HISTORY, "of another model, left out");
    }
    !foreign
}

fn rename(blocks: &mut [Value], names: &ToolNames) {
    for block in blocks.iter_mut().filter_map(Value::as_object_mut) {
        if block.get("type").and_then(Value::as_str) == Some("tool_use")
            && let Some(name) = block.get("name").and_then(Value::as_str)
        {
            let wire = names.wire(name).to_owned();
            block.insert("name".into(), wire.into());
        }
    }
}

fn built(message: &Message, adapted: &mut Adapted) -> Vec<Value> {
    let mut blocks = Vec::with_capacity(message.parts.len());
    for part in &message.parts {
        match (message.role, part) {
            (_, Part::ToolResult(result)) => {
                blocks.push(block_write::tool_result(result, &result.call_id, adapted));
            }
            (Role::Assistant, part) => said_by_model(part, &mut blocks, adapted),
            (Role::System | Role::Developer, Part::Image(_)) => {
                adapted.left_out(what::SYSTEM_IMAGE);
            }
            (_, part) => block_write::said_by_user(part, &mut blocks, adapted),
        }
    }
    blocks
}

fn said_by_model(part: &Part, blocks: &mut Vec<Value>, adapted: &mut Adapted) {
    match part {
        Part::ToolCall(call) => {
            blocks.push(block_write::tool_use(call, &call.id, &call.name, adapted));
        }
        Part::Reasoning(reasoning) => match block_write::thinking(reasoning) {
            Some(block) => blocks.push(block),
            None => adapted.foreign(what::REASONING_HISTORY),
        },
        Part::Refusal(text) => {
            adapted.note(what::REFUSAL, done::AS_TEXT);
            blocks.push(block_write::text(text));
        }
        Part::Image(_) => adapted.left_out("image in an answer"),
        part => block_write::said_by_user(part, blocks, adapted),
    }
}

/// Whether the model is in a loop of calls and results that it began without
/// reasoning: the API then refuses reasoning with a budget.
pub(super) fn began_without_reasoning(turns: &[Turn]) -> bool {
    let [.., answer, results] = turns else {
        return false;
    };
    let first = answer.blocks.first().and_then(|b| b.get("type")?.as_str());
    answer.role == "assistant"
        && !results.results.is_empty()
        && !matches!(first, Some("thinking" | "redacted_thinking"))
}

/// Makes an answer that the caller began fit to be continued: without white
/// space at its end; followed by a request to go on where `refused`.
pub(super) fn prefill(turns: &mut Vec<Turn>, refused: bool, adapted: &mut Adapted) {
    let Some(last) = turns.last_mut().filter(|turn| turn.role == "assistant") else {
        return;
    };
    let Some(Value::Object(block)) = last.blocks.last_mut() else {
        return;
    };
    // A paused turn ends with the provider's own blocks and is no prefill.
    if block.get("type").and_then(Value::as_str) != Some("text") {
        return;
    }
    if refused {
        adapted.note(
            "begun answer at the end",
            "refused by this model, asked to continue instead",
        );
        turns.push(Turn::text("user", GO_ON));
        return;
    }
    let text = block
        .get("text")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let trimmed = text.trim_end();
    if trimmed.len() < text.len() {
        adapted.note(
            "begun answer at the end",
            "white space after it was removed",
        );
        let trimmed = trimmed.to_owned();
        block.insert("text".into(), trimmed.into());
    }
}

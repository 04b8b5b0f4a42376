//! Turns that alternate, with every call answered in the turn after it.

use super::block_write;
use crate::wire::adapted::{Adapted, done, what};
use crate::wire::call_ids;
use crate::wire::pairing::NO_RESULT;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet, VecDeque};

/// One turn: results, which must stand first, and what else is said.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) role: &'static str,
    pub(super) results: Vec<Value>,
    pub(super) blocks: Vec<Value>,
    /// Whether one text is to be written as a string.
    plain: bool,
    /// Fields of the message without a neutral place.
    fields: Map<String, Value>,
}

impl Turn {
    pub(super) fn text(role: &'static str, text: &str) -> Self {
        Self {
            role,
            results: Vec::new(),
            blocks: vec![block_write::text(text)],
            plain: true,
            fields: Map::new(),
        }
    }

    pub(super) fn into_message(self) -> Value {
        let mut map = Map::new();
        map.insert("role".into(), self.role.into());
        let content = match self.blocks.as_slice() {
            [block] if self.plain && self.results.is_empty() => {
                block.get("text").cloned().unwrap_or_default()
            }
            _ => self.results.into_iter().chain(self.blocks).collect(),
        };
        map.insert("content".into(), content);
        for (name, value) in self.fields {
            map.entry(name).or_insert(value);
        }
        Value::Object(map)
    }
}

/// What one message adds to a turn.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) blocks: Vec<Value>,
    pub(super) plain: bool,
    pub(super) fields: Map<String, Value>,
}

/// The turns so far, and the calls of the latest one that wait for results.
#[derive(Debug, Default)]
pub(super) struct Turns {
    so_far: Vec<Turn>,
    calls: Vec<Call>,
    /// Positions in `calls` by the id that the history gives; two calls of a
    /// turn may share one.
    waiting: HashMap<String, VecDeque<usize>>,
    used: HashSet<String>,
}

#[derive(Debug)]
struct Call {
    wire_id: String,
    answered: bool,
}

impl Turns {
    /// Adds what the model said.
    pub(super) fn answer(&mut self, mut said: Said, adapted: &mut Adapted) {
        if said.blocks.is_empty() {
            return;
        }
        if self
            .so_far
            .last()
            .is_none_or(|turn| turn.role != "assistant")
        {
            self.settle(adapted);
        }
        for block in said.blocks.iter_mut().filter_map(Value::as_object_mut) {
            if block.get("type").and_then(Value::as_str) == Some("tool_use") {
                let id = block.get("id").and_then(Value::as_str).unwrap_or_default();
                let wire_id = self.call(id);
                block.insert("id".into(), wire_id.into());
            }
        }
        self.add("assistant", said);
    }

    /// Adds what the user or tools said.
    pub(super) fn ask(&mut self, mut said: Said, adapted: &mut Adapted) {
        let mut results = Vec::new();
        let mut others = Vec::new();
        for mut block in said.blocks {
            if block.get("type").and_then(Value::as_str) != Some("tool_result") {
                others.push(block);
                continue;
            }
            let id = block
                .get("tool_use_id")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if let (Some(wire_id), Some(map)) = (self.result(id), block.as_object_mut()) {
                map.insert("tool_use_id".into(), wire_id.into());
                results.push(block);
            } else {
                adapted.note(what::RESULT_ALONE, done::AS_TEXT);
                others.extend(orphan(&mut block));
            }
        }
        if results.is_empty() && others.is_empty() {
            return;
        }
        said.blocks = others;
        self.add("user", said).results.extend(results);
    }

    /// Adds instructions in mid-conversation; gives them back where they would
    /// stand between a call and its result.
    pub(super) fn instruct(&mut self, said: Said) -> Option<Said> {
        if self.calls.iter().any(|call| !call.answered) {
            return Some(said);
        }
        if !said.blocks.is_empty() {
            self.add("system", said);
        }
        None
    }

    pub(super) fn is_empty(&self) -> bool {
        self.so_far.is_empty()
    }

    /// All turns; calls without a result get one that says so.
    pub(super) fn finish(mut self, adapted: &mut Adapted) -> Vec<Turn> {
        self.settle(adapted);
        self.so_far
    }

    fn add(&mut self, role: &'static str, said: Said) -> &mut Turn {
        let at = match self.so_far.iter().rposition(|_| true) {
            Some(last) if self.so_far[last].role == role => {
                let turn = &mut self.so_far[last];
                turn.plain = false;
                turn.blocks.extend(said.blocks);
                turn.fields.extend(said.fields);
                last
            }
            _ => {
                self.so_far.push(Turn {
                    role,
                    results: Vec::new(),
                    blocks: said.blocks,
                    plain: said.plain,
                    fields: said.fields,
                });
                self.so_far.len() - 1
            }
        };
        &mut self.so_far[at]
    }

    /// The id that a call goes by: its own where the API takes it and no
    /// earlier call has it.
    fn call(&mut self, id: &str) -> String {
        let plain: String = id
            .chars()
            .map(|c| if is_id_char(c) { c } else { '_' })
            .collect();
        let mut wire_id = plain.clone();
        let mut attempt = 0;
        while wire_id.is_empty() || (attempt == 0 && plain != id) || self.used.contains(&wire_id) {
            wire_id = format!("{plain}_{}", call_ids::base62(id, attempt, 8));
            attempt += 1;
        }
        self.used.insert(wire_id.clone());
        self.waiting
            .entry(id.to_owned())
            .or_default()
            .push_back(self.calls.len());
        self.calls.push(Call {
            wire_id: wire_id.clone(),
            answered: false,
        });
        wire_id
    }

    /// The id of the waiting call that a result answers.
    fn result(&mut self, id: &str) -> Option<String> {
        let call = self.waiting.get_mut(id)?.pop_front()?;
        let call = &mut self.calls[call];
        call.answered = true;
        Some(call.wire_id.clone())
    }

    /// Answers what still waits, and forgets the calls of the turn.
    fn settle(&mut self, adapted: &mut Adapted) {
        self.waiting.clear();
        let left: Vec<Value> = std::mem::take(&mut self.calls)
            .into_iter()
            .filter(|call| !call.answered)
            .map(|call| {
                json!({"type": "tool_result", "tool_use_id": call.wire_id, "is_error": true,
                    "content": NO_RESULT})
            })
            .collect();
        if left.is_empty() {
            return;
        }
        adapted.note(what::CALL_ALONE, done::ERROR_INSTEAD);
        let nothing = Said {
            blocks: Vec::new(),
            plain: false,
            fields: Map::new(),
        };
        self.add("user", nothing).results.extend(left);
    }
}

/// The characters of ids that the API takes.
fn is_id_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// What a result says, as blocks of its own.
fn orphan(block: &mut Value) -> Vec<Value> {
    let content = block.get_mut("content").map(Value::take);
    let mut blocks = match content {
        Some(Value::String(text)) => vec![block_write::text(&text)],
        Some(Value::Array(blocks)) => blocks,
        _ => Vec::new(),
    };
    blocks.retain(|block| !block_write::is_empty_text(block));
    blocks
}

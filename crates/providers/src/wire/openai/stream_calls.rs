//! Tool calls of a stream, put together from their pieces.

use super::{answer_read, call_signature};
use crate::wire::json::Joiner;
use evenkeel_core::{Delta, Extra, StreamEvent};
use serde_json::Value;
use std::collections::HashMap;

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// The newest call at each index of the wire.
    by_index: HashMap<u64, usize>,
}

#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    /// Argument text that waits for the name.
    held: String,
    started: bool,
    has_arguments: bool,
    halves: Joiner,
    /// A signature that waits for the announcement.
    extra: Extra,
}

/// Most calls of one answer. `OpenAI` takes 128 tools; an answer that calls
/// eight times as often is out of control.
const MAX_CALLS: usize = 1024;

/// Calls that cannot be put together.
#[derive(Debug, thiserror::Error)]
pub(super) enum BrokenCalls {
    #[error("a tool call came without a name")]
    Nameless,
    #[error("the answer holds more than {MAX_CALLS} tool calls")]
    TooMany,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes one entry of a `tool_calls` delta. A call is announced once its
    /// arguments begin: some servers send its name in pieces, and some after
    /// the first arguments. Returns the bytes of argument text.
    pub(super) fn take(
        &mut self,
        piece: &Value,
        has_halves: bool,
        answer_id: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<usize, BrokenCalls> {
        let function = piece.get("function");
        let part =
            |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let id = part(piece.get("id"));
        let name = part(function.and_then(|f| f.get("name")));
        let arguments = answer_read::arguments(function.and_then(|f| f.get("arguments")));
        let at = self.find(
            piece.get("index").and_then(Value::as_u64),
            &id,
            &name,
            answer_id,
            out,
        );
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        call.add_name(&name);
        let extra = call_signature::read(piece);
        if !extra.fields.is_empty() {
            call.extra = extra;
        }
        let text = call.halves.join(&arguments, has_halves).into_owned();
        call.has_arguments |= !arguments.is_empty();
        call.add_arguments(&text, at, answer_id, out);
        if call.started {
            call.tell_extra(at, out);
        }
        if self.calls.len() > MAX_CALLS {
            return Err(BrokenCalls::TooMany);
        }
        Ok(arguments.len())
    }

    /// The call a piece belongs to; a new one where its id, or its name after
    /// arguments, is another.
    fn find(
        &mut self,
        index: Option<u64>,
        id: &str,
        name: &str,
        answer_id: &str,
        out: &mut Vec<StreamEvent>,
    ) -> usize {
        let known = match index {
            Some(index) => self.by_index.get(&index).copied(),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().position(|c| c.id == id),
        };
        let same = known.filter(|at| {
            let call = &self.calls[*at];
            let other_id = !id.is_empty() && !call.id.is_empty() && call.id != id;
            let other_name = id.is_empty()
                && !name.is_empty()
                && call.has_arguments
                && !call.name.is_empty()
                && call.name != name;
            !other_id && !other_name
        });
        let at = same.unwrap_or_else(|| {
            self.announce_named(answer_id, out);
            self.calls.push(Call::default());
            self.calls.len() - 1
        });
        if let Some(index) = index {
            self.by_index.insert(index, at);
        }
        at
    }

    fn announce_named(&mut self, answer_id: &str, out: &mut Vec<StreamEvent>) {
        for (at, call) in self.calls.iter_mut().enumerate() {
            if !call.name.is_empty() {
                call.announce(at, answer_id, out);
            }
        }
    }

    /// Announces what is still held, as the answer ends.
    pub(super) fn finish(
        &mut self,
        answer_id: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), BrokenCalls> {
        if self.calls.iter().any(|call| call.name.is_empty()) {
            return Err(BrokenCalls::Nameless);
        }
        self.announce_named(answer_id, out);
        for (at, call) in self.calls.iter_mut().enumerate() {
            if let Some(left) = call.halves.finish() {
                call.add_arguments(&left.to_string(), at, answer_id, out);
            }
        }
        Ok(())
    }
}

impl Call {
    fn add_name(&mut self, piece: &str) {
        if self.started || piece.is_empty() || piece == self.name {
            return;
        }
        if piece.starts_with(&self.name) {
            piece.clone_into(&mut self.name);
        } else {
            self.name.push_str(piece);
        }
    }

    fn add_arguments(
        &mut self,
        text: &str,
        at: usize,
        answer_id: &str,
        out: &mut Vec<StreamEvent>,
    ) {
        self.held.push_str(text);
        if self.held.is_empty() || self.name.is_empty() {
            return;
        }
        self.announce(at, answer_id, out);
        let fragment = std::mem::take(&mut self.held);
        if !fragment.is_empty() {
            out.push(StreamEvent::Delta(Delta::ToolCallArguments {
                index: at,
                fragment,
            }));
        }
    }

    fn announce(&mut self, at: usize, answer_id: &str, out: &mut Vec<StreamEvent>) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        if self.id.is_empty() {
            self.id = answer_read::made_up_id(answer_id, at);
        }
        out.push(StreamEvent::Delta(Delta::ToolCallStart {
            index: at,
            id: self.id.clone(),
            name: self.name.clone(),
        }));
        self.tell_extra(at, out);
    }

    fn tell_extra(&mut self, at: usize, out: &mut Vec<StreamEvent>) {
        if !self.extra.fields.is_empty() {
            let extra = std::mem::take(&mut self.extra);
            out.push(StreamEvent::Delta(Delta::ToolCallExtra {
                index: at,
                extra,
            }));
        }
    }
}

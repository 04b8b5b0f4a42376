//! Tool calls of a stream, put together from their pieces.

mod call;

use super::{answer_read, call_signature};
use crate::wire::call_ids::AnswerIds;
use call::{Call, Verdict};
use evenkeel_core::{Extra, StreamEvent};
use serde_json::Value;
use std::collections::HashMap;

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    all: Vec<Call>,
    /// The newest call at each index of the wire.
    by_index: HashMap<u64, usize>,
    ids: AnswerIds,
    /// Counts the deltas that hold calls.
    deltas: usize,
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

/// One entry of a `tool_calls` delta.
#[derive(Debug)]
struct Piece {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    extra: Extra,
    /// The delta it came in.
    delta: usize,
}

/// What a delta says beside its calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around {
    /// Whether texts may hold halves of characters.
    pub(super) has_halves: bool,
    /// Whether the answer's finish stands in the same chunk.
    pub(super) is_last: bool,
}

impl Piece {
    fn read(entry: &Value, delta: usize) -> Self {
        let function = entry.get("function");
        let part =
            |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            index: entry.get("index").and_then(Value::as_u64),
            id: part(entry.get("id")),
            name: part(function.and_then(|f| f.get("name"))),
            arguments: answer_read::arguments(function.and_then(|f| f.get("arguments"))),
            extra: call_signature::read(entry),
            delta,
        }
    }

    /// Whether it names no place of its own: neither an index nor an id.
    fn has_no_place(&self) -> bool {
        self.index.is_none() && self.id.is_empty()
    }
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Tells whose calls they are.
    pub(super) fn of_answer(&mut self, answer_id: &str) {
        self.ids.name(answer_id);
    }

    /// Hears an event of the stream, which tells answers without an id apart.
    pub(super) fn hear(&mut self, data: &str) {
        if self.all.is_empty() {
            self.ids.hear(data);
        }
    }

    /// Takes the entries of a `tool_calls` delta. A call is announced once its
    /// arguments begin: some servers send its name in pieces, and some after
    /// the first arguments. Returns the bytes of argument text.
    pub(super) fn take(
        &mut self,
        entries: &[Value],
        around: Around,
        out: &mut Vec<StreamEvent>,
    ) -> Result<usize, BrokenCalls> {
        self.deltas += 1;
        let mut bytes = 0;
        for entry in entries {
            let piece = Piece::read(entry, self.deltas);
            bytes += piece.arguments.len();
            self.take_piece(piece, around, out);
            if self.all.len() > MAX_CALLS {
                return Err(BrokenCalls::TooMany);
            }
        }
        Ok(bytes)
    }

    fn take_piece(&mut self, mut piece: Piece, around: Around, out: &mut Vec<StreamEvent>) {
        let known = self.known(&piece);
        if let Some(at) = known {
            self.all[at].take_up_name(&mut piece);
        }
        let verdict = known.map_or(Verdict::Another, |at| self.all[at].verdict(&piece));
        let at = match (verdict, known) {
            (Verdict::Repeat, _) => return,
            (Verdict::Continues, Some(at)) => at,
            (Verdict::Replaces, Some(at)) => {
                self.all[at].forget_arguments();
                at
            }
            _ if self.said_before(&piece, around.is_last) => return,
            _ => self.open(&piece, out),
        };
        if let Some(index) = piece.index {
            self.by_index.insert(index, at);
        }
        self.all[at].take(piece, at, around.has_halves, &mut self.ids, out);
    }

    /// The call that the place of a piece points at.
    fn known(&self, piece: &Piece) -> Option<usize> {
        let last = self.all.len().checked_sub(1);
        let by_id = || {
            let of = |call: &Call| call.wire_id == piece.id && call.index == piece.index;
            self.all.iter().rposition(of)
        };
        match piece.index {
            Some(index) if piece.id.is_empty() => self.by_index.get(&index).copied(),
            Some(index) => by_id().or_else(|| self.by_index.get(&index).copied()),
            None if piece.id.is_empty() => last,
            // An id that comes behind its call's name.
            None => {
                let of = |call: &Call| call.wire_id == piece.id;
                let unnamed =
                    |at: &usize| piece.name.is_empty() && self.all[*at].wire_id.is_empty();
                self.all
                    .iter()
                    .rposition(of)
                    .or_else(|| last.filter(unnamed))
            }
        }
    }

    /// Whether a piece says a whole call once more. Some servers sum up their
    /// calls in the last chunk; without index and id that alone tells a
    /// summary from a model that calls the same twice.
    fn said_before(&self, piece: &Piece, is_last: bool) -> bool {
        (is_last || !piece.has_no_place()) && self.all.iter().any(|call| call.is_said_by(piece))
    }

    fn open(&mut self, piece: &Piece, out: &mut Vec<StreamEvent>) -> usize {
        self.announce_named(out);
        self.all.push(Call::new(piece));
        self.all.len() - 1
    }

    fn announce_named(&mut self, out: &mut Vec<StreamEvent>) {
        for (at, call) in self.all.iter_mut().enumerate() {
            if !call.name.is_empty() {
                call.announce(at, &mut self.ids, out);
            }
        }
    }

    /// Says what is still held, as the answer ends; `is_cut` where it did not
    /// come to its own end, so that missing arguments may not be none.
    pub(super) fn finish(
        &mut self,
        is_cut: bool,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), BrokenCalls> {
        if self.all.iter().any(|call| call.name.is_empty()) {
            return Err(BrokenCalls::Nameless);
        }
        self.announce_named(out);
        for (at, call) in self.all.iter_mut().enumerate() {
            call.finish(at, is_cut, out);
        }
        Ok(())
    }
}

//! One call of a stream, and which pieces are its own.

use super::Piece;
use crate::wire::brackets::Brackets;
use crate::wire::call_ids::AnswerIds;
use crate::wire::json::Joiner;
use evenkeel_core::{Delta, Extra, StreamEvent};
use serde_json::Value;

/// A call as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) index: Option<u64>,
    /// Its id on the wire, which another call may have too.
    pub(super) wire_id: String,
    pub(super) name: String,
    /// Its argument text so far, and how much of it has been told.
    text: String,
    told: usize,
    nesting: Nesting,
    started: bool,
    /// Its name came once more behind whole arguments.
    named_again: bool,
    /// The delta that began it.
    delta: usize,
    halves: Joiner,
    /// A signature that waits for the announcement.
    extra: Extra,
}

/// What a piece is to the call that its place points at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The next piece of it.
    Continues,
    /// Its real arguments, behind an empty object.
    Replaces,
    /// The same once more.
    Repeat,
    /// A piece of another call.
    Another,
}

impl Call {
    /// The call that `piece` begins, which has taken nothing of it yet.
    pub(super) fn new(piece: &Piece) -> Self {
        Self {
            index: piece.index,
            wire_id: piece.id.clone(),
            delta: piece.delta,
            ..Self::default()
        }
    }

    /// Gives a piece the name that came before it where that may begin
    /// another call.
    pub(super) fn take_up_name(&self, piece: &mut Piece) {
        if self.named_again && piece.name.is_empty() && !piece.arguments.is_empty() {
            piece.name.clone_from(&self.name);
        }
    }

    /// What a piece is whose place points at this call. Parallel calls may
    /// share index and id, or have neither, so that only a full name behind
    /// whole arguments tells that the next has begun.
    pub(super) fn verdict(&self, piece: &Piece) -> Verdict {
        let has_other_id =
            !piece.id.is_empty() && !self.wire_id.is_empty() && piece.id != self.wire_id;
        if has_other_id || self.is_beside(piece) {
            return Verdict::Another;
        }
        let has_other_name =
            !piece.name.is_empty() && !self.name.is_empty() && piece.name != self.name;
        if has_other_name && (self.is_whole() || (piece.id.is_empty() && !self.text.is_empty())) {
            return Verdict::Another;
        }
        if !self.is_whole() || piece.arguments.trim().is_empty() {
            return Verdict::Continues;
        }
        self.behind_whole_arguments(piece)
    }

    fn behind_whole_arguments(&self, piece: &Piece) -> Verdict {
        let is_named = !piece.name.is_empty();
        let is_in_one_delta = self.delta == piece.delta && is_named && piece.id.is_empty();
        if self.says(&piece.arguments) {
            let is_another = is_in_one_delta || (is_named && piece.has_no_place());
            return if is_another {
                Verdict::Another
            } else {
                Verdict::Repeat
            };
        }
        let is_object = piece.arguments.trim_start().starts_with('{');
        if is_object && self.is_empty_object() && (!is_named || !piece.id.is_empty()) {
            return Verdict::Replaces;
        }
        if is_named {
            return Verdict::Another;
        }
        Verdict::Continues
    }

    /// Whether a piece of the same delta is a call of its own: nothing but the
    /// entry tells the two apart.
    fn is_beside(&self, piece: &Piece) -> bool {
        self.delta == piece.delta
            && piece.id.is_empty()
            && !piece.name.is_empty()
            && !self.name.is_empty()
            && self.text.is_empty()
            && (piece.has_no_place() || piece.name != self.name)
    }

    /// Whether a piece of a later delta says this whole call once more.
    pub(super) fn is_said_by(&self, piece: &Piece) -> bool {
        self.delta != piece.delta
            && self.name == piece.name
            && self.index == piece.index
            && (piece.id.is_empty() || piece.id == self.wire_id)
            && self.is_whole()
            && self.text.trim() == piece.arguments.trim()
    }

    fn is_whole(&self) -> bool {
        self.nesting.is_one_object()
    }

    /// Whether the arguments are an empty object of which nothing was told.
    fn is_empty_object(&self) -> bool {
        self.told == 0 && self.text.trim() == "{}"
    }

    /// Whether the whole arguments are those of `text`.
    fn says(&self, text: &str) -> bool {
        if self.text.trim() == text.trim() {
            return true;
        }
        let read = |text: &str| serde_json::from_str::<Value>(text).ok();
        // The whole is read only where the text can be all of it.
        text.trim_end().ends_with('}')
            && read(text).is_some_and(|other| read(&self.text) == Some(other))
    }

    /// Drops the arguments, none of which was told.
    pub(super) fn forget_arguments(&mut self) {
        self.text.clear();
        self.nesting = Nesting::default();
    }

    /// Takes a piece of its own.
    pub(super) fn take(
        &mut self,
        piece: Piece,
        at: usize,
        has_halves: bool,
        ids: &mut AnswerIds,
        out: &mut Vec<StreamEvent>,
    ) {
        if self.wire_id.is_empty() {
            self.wire_id = piece.id;
        }
        self.named_again |= self.is_whole() && !piece.name.is_empty();
        self.add_name(&piece.name);
        if !piece.extra.fields.is_empty() {
            self.extra = piece.extra;
        }
        let text = self.halves.join(&piece.arguments, has_halves).into_owned();
        self.nesting.push(&text);
        self.text.push_str(&text);
        if !self.text.is_empty() && !self.name.is_empty() {
            self.announce(at, ids, out);
            if !self.is_empty_object() {
                self.tell(at, out);
            }
        }
        if self.started {
            self.tell_extra(at, out);
        }
    }

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

    /// Tells what of the arguments has not been.
    fn tell(&mut self, at: usize, out: &mut Vec<StreamEvent>) {
        let fragment = self.text[self.told..].to_owned();
        self.told = self.text.len();
        if !fragment.is_empty() {
            out.push(StreamEvent::Delta(Delta::ToolCallArguments {
                index: at,
                fragment,
            }));
        }
    }

    pub(super) fn announce(&mut self, at: usize, ids: &mut AnswerIds, out: &mut Vec<StreamEvent>) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        out.push(StreamEvent::Delta(Delta::ToolCallStart {
            index: at,
            id: ids.claim(&self.wire_id, at),
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

    /// Says what is held. A call without arguments has an empty object for
    /// them, unless it was cut.
    pub(super) fn finish(&mut self, at: usize, is_cut: bool, out: &mut Vec<StreamEvent>) {
        self.text.extend(self.halves.finish());
        if self.text.trim().is_empty() && !is_cut {
            self.text.push_str("{}");
        }
        self.tell(at, out);
    }
}

/// Whether a text is one object, told piece by piece.
#[derive(Debug, Default)]
struct Nesting {
    reach: Reach,
    brackets: Brackets,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Nothing but white space so far.
    #[default]
    Before,
    Inside,
    /// Nothing but white space behind the object.
    Behind,
    /// It is something else, or more.
    Other,
}

impl Nesting {
    fn push(&mut self, text: &str) {
        for byte in text.bytes() {
            match self.reach {
                Reach::Inside => self.push_inside(byte),
                Reach::Other => return,
                _ if byte.is_ascii_whitespace() => {}
                Reach::Before if byte == b'{' => {
                    self.reach = Reach::Inside;
                    self.brackets.push(byte);
                }
                Reach::Before | Reach::Behind => self.reach = Reach::Other,
            }
        }
    }

    fn push_inside(&mut self, byte: u8) {
        self.brackets.push(byte);
        if self.brackets.are_closed() {
            self.reach = Reach::Behind;
        }
    }

    /// Whether it is one object from brace to brace.
    fn is_one_object(&self) -> bool {
        self.reach == Reach::Behind
    }
}

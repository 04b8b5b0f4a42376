//! What one chunk says: it has the shape of a whole answer.

use super::StreamDecoder;
use crate::wire::gemini::finish::{self, Reason};
use crate::wire::gemini::ids::Ids;
use crate::wire::gemini::{answer_read, extra, usage};
use crate::wire::json::{self, Joiner};
use crate::wire::reading::Out;
use evenkeel_core::{Class, Delta, Finish, Part, ReasoningPart, StreamEvent, ToolCall};
use serde_json::{Map, Value};

/// What a call's announcement is taken for when the answer's size is counted:
/// its bookkeeping, so that empty calls are bounded too.
const CALL_BYTES: usize = 128;
/// Fields of a chunk that are read.
const NOT_EXTRA: [&str; 5] = [
    "candidates",
    "usageMetadata",
    "modelVersion",
    "responseId",
    "error",
];
/// Fields of a candidate that are read.
const NOT_KEPT: [&str; 3] = ["content", "index", "finishReason"];

impl StreamDecoder {
    pub(super) fn take_chunk(
        &mut self,
        mut chunk: Map<String, Value>,
        has_halves: bool,
        out: &mut Out,
    ) {
        let candidate = answer_read::first_candidate(chunk.shift_remove("candidates"));
        let is_blocked = candidate.is_none() && answer_read::blocked(&chunk).is_some();
        if candidate.is_some() || is_blocked {
            self.start(&chunk, out);
        }
        let mut reason = String::new();
        if let Some(mut candidate) = candidate {
            reason = answer_read::text(candidate.shift_remove("finishReason"));
            self.take_content(&mut candidate, &chunk, has_halves, out);
            self.keep_candidate(candidate);
        }
        if self.reading.is_over() {
            return;
        }
        self.take_usage(&chunk, out);
        self.keep_rest(chunk);
        if !reason.is_empty() {
            self.take_reason(&reason, out);
        } else if is_blocked && self.reading.finish.is_none() {
            self.reading.finish = Some(Finish::ContentFilter);
        }
        self.reading.check_size(out);
    }

    /// Announces the answer, with its first candidate.
    fn start(&mut self, chunk: &Map<String, Value>, out: &mut Out) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let said = |name: &str| answer_read::text(chunk.get(name).cloned());
        out.push(Ok(StreamEvent::Start {
            id: said("responseId"),
            model: said("modelVersion"),
            created: 0,
            extra: extra(Map::new()),
        }));
    }

    fn take_content(
        &mut self,
        candidate: &mut Map<String, Value>,
        chunk: &Map<String, Value>,
        has_halves: bool,
        out: &mut Out,
    ) {
        let Some(Value::Object(mut content)) = candidate.shift_remove("content") else {
            return;
        };
        for part in answer_read::parts_of(&mut content) {
            let mut ids = self.ids.take().unwrap_or_else(|| {
                let id = answer_read::text(chunk.get("responseId").cloned());
                Ids::of_answer(&id)
            });
            let mut parts = Vec::new();
            let read = answer_read::read_part(&part, &mut ids, &mut parts);
            answer_read::settle_calls(&mut parts, &mut ids, &mut self.given);
            self.ids = Some(ids);
            if let Err(e) = read {
                self.reading.fail_as(Class::Malformed, &e.message, out);
                return;
            }
            if parts == [Part::Text(String::new())] {
                continue;
            }
            for part in parts {
                self.give(part, has_halves, out);
            }
            self.reading.check_size(out);
            if self.reading.is_over() {
                return;
            }
        }
    }

    fn give(&mut self, part: Part, has_halves: bool, out: &mut Out) {
        match part {
            Part::Text(text) => {
                let text = self.text.join(&text, has_halves).into_owned();
                self.delta(Delta::Text(text), out);
            }
            Part::Reasoning(piece) => {
                let text = self.reasoning.join(&piece.text, has_halves).into_owned();
                self.delta(Delta::Reasoning(ReasoningPart { text, ..piece }), out);
            }
            Part::ToolCall(call) => self.give_call(call, has_halves, out),
            part => self.delta(Delta::Part(part), out),
        }
    }

    fn give_call(&mut self, call: ToolCall, has_halves: bool, out: &mut Out) {
        let index = self.calls;
        self.calls += 1;
        let start = Delta::ToolCallStart {
            index,
            id: call.id,
            name: call.name,
        };
        self.delta(start, out);
        if !call.arguments.is_empty() {
            // The arguments are whole: no other half of a character comes.
            let mut joiner = Joiner::default();
            let mut fragment = joiner.join(&call.arguments, has_halves).into_owned();
            fragment.extend(joiner.finish());
            self.delta(Delta::ToolCallArguments { index, fragment }, out);
        }
        if !call.extra.fields.is_empty() {
            let extra = call.extra;
            self.delta(Delta::ToolCallExtra { index, extra }, out);
        }
    }

    fn delta(&mut self, delta: Delta, out: &mut Out) {
        self.reading.count(size(&delta));
        out.push(Ok(StreamEvent::Delta(delta)));
    }

    /// Usage counts are running totals: the last one holds.
    fn take_usage(&mut self, chunk: &Map<String, Value>, out: &mut Out) {
        let Some(raw) = chunk.get("usageMetadata") else {
            return;
        };
        let Some(counted) = usage::read(raw) else {
            return;
        };
        out.push(Ok(StreamEvent::Usage(counted)));
        if *raw == usage::write(counted) {
            self.rest.shift_remove("usageMetadata");
        } else {
            self.rest.insert("usageMetadata".into(), raw.clone());
        }
    }

    fn keep_rest(&mut self, chunk: Map<String, Value>) {
        for (name, value) in chunk {
            if !NOT_EXTRA.contains(&name.as_str()) {
                self.reading.count(json::size(&value));
                self.rest.insert(name, value);
            }
        }
    }

    fn keep_candidate(&mut self, candidate: Map<String, Value>) {
        for (name, value) in candidate {
            if !NOT_KEPT.contains(&name.as_str()) {
                self.reading.count(json::size(&value));
                self.candidate.insert(name, value);
            }
        }
    }

    /// The last reason holds: some places state `STOP` on every chunk.
    fn take_reason(&mut self, reason: &str, out: &mut Out) {
        match finish::read(reason) {
            Reason::Finish(read) => {
                self.reading.finish = Some(read);
                let written = finish::write(finish::with_calls(read, self.calls > 0));
                if written == reason {
                    self.candidate.shift_remove("finishReason");
                } else {
                    self.candidate.insert("finishReason".into(), reason.into());
                }
            }
            Reason::Broken(class) => {
                let failure = finish::broken(class, reason);
                self.reading.fail(failure, out);
            }
        }
    }
}

/// The bytes of a delta, as the answer's size counts them.
fn size(delta: &Delta) -> usize {
    match delta {
        Delta::Text(text) | Delta::Refusal(text) => text.len(),
        Delta::Reasoning(piece) => {
            piece.text.len() + piece.signature.as_ref().map_or(0, String::len)
        }
        Delta::ToolCallStart { id, name, .. } => id.len() + name.len() + CALL_BYTES,
        Delta::ToolCallArguments { fragment, .. } => fragment.len(),
        Delta::ToolCallExtra { extra, .. } | Delta::Part(Part::Other(extra)) => {
            extra.fields.values().map(json::size).sum()
        }
        Delta::Part(Part::Image(image)) => image.url.len(),
        _ => 0,
    }
}

//! Streams: neutral events to chunks.

use super::answer_write::{self, BROKEN_CALL};
use super::parts_write::{self, Style};
use super::{DIALECT, SIGNATURE, finish, own_fields, usage};
use crate::wire::adapted::Adapted;
use crate::wire::tool_names::ToolNames;
use evenkeel_core::{Delta, Extra, Finish, ReasoningPart, StreamEvent, ToolCall, Usage};
use serde_json::{Map, Value, json};

/// Turns neutral events into the chunks of one stream.
///
/// A call is sent in one piece, once it is whole; finish and usage are sent
/// with the end. Neither comments nor event names are ever written: Google's
/// own clients take every line for JSON. A stream that breaks ends without a
/// finish, with [`encode_error`](super::encode_error) as bare lines of JSON.
#[derive(Debug)]
pub struct StreamEncoder {
    id: String,
    model: String,
    /// Calls that more may follow for.
    calls: Vec<ToolCall>,
    sent_calls: usize,
    /// Whether the last piece was a thought that can still be signed.
    in_thought: bool,
    has_broken_call: bool,
    rest: Extra,
    finish: Option<Finish>,
    usage: Option<Usage>,
}

impl StreamEncoder {
    /// An encoder for the stream `id` of `model`.
    pub fn new(id: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            model: model.into(),
            calls: Vec::new(),
            sent_calls: 0,
            in_thought: false,
            has_broken_call: false,
            rest: Extra::default(),
            finish: None,
            usage: None,
        }
    }

    /// The chunks that tell of `event`, often one, sometimes none.
    pub fn push(&mut self, event: &StreamEvent) -> Vec<Value> {
        match event {
            StreamEvent::Start { extra, .. } | StreamEvent::Extra(extra) => {
                if extra.dialect == DIALECT {
                    self.rest.dialect = DIALECT;
                    self.rest.fields.extend(extra.fields.clone());
                }
                Vec::new()
            }
            StreamEvent::Delta(delta) => self.delta(delta),
            StreamEvent::Finish(finish) => {
                self.finish = Some(*finish);
                self.flush()
            }
            StreamEvent::Usage(usage) => {
                self.usage = Some(*usage);
                Vec::new()
            }
            StreamEvent::End => {
                let mut chunks = self.flush();
                chunks.push(self.last_chunk());
                chunks
            }
            _ => Vec::new(),
        }
    }

    /// Adds `event` to `out` as it goes over the wire. A sign of life has no
    /// form here.
    pub fn write(&mut self, event: &StreamEvent, out: &mut Vec<u8>) {
        for chunk in self.push(event) {
            out.extend_from_slice(b"data: ");
            out.extend_from_slice(chunk.to_string().as_bytes());
            out.extend_from_slice(b"\r\n\r\n");
        }
    }

    fn delta(&mut self, delta: &Delta) -> Vec<Value> {
        match delta {
            Delta::ToolCallStart { id, name, .. } => {
                self.in_thought = false;
                self.calls.push(ToolCall {
                    id: id.clone(),
                    name: name.clone(),
                    ..ToolCall::default()
                });
                return Vec::new();
            }
            Delta::ToolCallArguments { index, fragment } => {
                if let Some(call) = self.open_call(*index) {
                    call.arguments.push_str(fragment);
                }
                return Vec::new();
            }
            Delta::ToolCallExtra { index, extra } => {
                if let Some(call) = self.open_call(*index) {
                    call.extra = extra.clone();
                }
                return Vec::new();
            }
            _ => {}
        }
        let mut chunks = self.flush();
        chunks.extend(self.part(delta).map(|part| self.chunk(&[part])));
        chunks
    }

    /// The call that is the `index`th of the answer, while it is held back.
    fn open_call(&mut self, index: usize) -> Option<&mut ToolCall> {
        self.calls.get_mut(index.checked_sub(self.sent_calls)?)
    }

    fn part(&mut self, delta: &Delta) -> Option<Value> {
        let was_thought = std::mem::take(&mut self.in_thought);
        match delta {
            Delta::Text(text) | Delta::Refusal(text) => Some(json!({"text": text})),
            Delta::Reasoning(piece) => self.thought(piece, was_thought),
            Delta::Part(part) => {
                let names = ToolNames::default();
                let style = Style::plain(&names);
                let parts = style.parts(std::slice::from_ref(part), &mut Adapted::default());
                parts.into_iter().next()
            }
            _ => None,
        }
    }

    fn thought(&mut self, piece: &ReasoningPart, was_thought: bool) -> Option<Value> {
        let signature = piece
            .signature
            .as_ref()
            .filter(|_| piece.dialect == DIALECT);
        let is_thought = was_thought || !piece.text.is_empty();
        if piece.text.is_empty() && signature.is_none() {
            self.in_thought = was_thought;
            return None;
        }
        let mut part = json!({"text": piece.text});
        if is_thought {
            part["thought"] = true.into();
        }
        self.in_thought = is_thought && signature.is_none();
        if let Some(signature) = signature {
            part[SIGNATURE] = signature.as_str().into();
        }
        Some(part)
    }

    /// The calls that were held back, in one chunk.
    fn flush(&mut self) -> Vec<Value> {
        let calls = std::mem::take(&mut self.calls);
        self.sent_calls += calls.len();
        let names = ToolNames::default();
        let style = Style::plain(&names);
        let mut parts = Vec::with_capacity(calls.len());
        for call in &calls {
            if parts_write::arguments(&call.arguments).is_ok() {
                parts.push(style.call(call, &mut Adapted::default()));
            } else {
                self.has_broken_call = true;
            }
        }
        if parts.is_empty() {
            return Vec::new();
        }
        vec![self.chunk(&parts)]
    }

    fn chunk(&self, parts: &[Value]) -> Value {
        json!({
            "candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}],
            "modelVersion": self.model,
            "responseId": self.id,
        })
    }

    fn last_chunk(&mut self) -> Value {
        let finish = self.finish.unwrap_or(Finish::Unknown);
        let kept = self.rest.fields.shift_remove("candidates");
        let kept = kept.as_ref().and_then(|c| c.get(0)?.as_object());
        let said = kept.and_then(|kept| kept.get("finishReason")?.as_str());
        let reason = if self.has_broken_call {
            BROKEN_CALL
        } else {
            said.filter(|reason| answer_write::says(reason, finish))
                .unwrap_or_else(|| finish::write(finish))
        };
        let mut candidate = Map::new();
        candidate.insert(
            "content".into(),
            json!({"parts": [{"text": ""}], "role": "model"}),
        );
        candidate.insert("finishReason".into(), reason.into());
        candidate.insert("index".into(), 0.into());
        for (name, value) in kept.into_iter().flatten() {
            candidate
                .entry(name.clone())
                .or_insert_with(|| value.clone());
        }
        let mut map = Map::new();
        map.insert("candidates".into(), json!([candidate]));
        let raw = self.rest.fields.shift_remove("usageMetadata");
        if let Some(counted) = self.usage {
            let raw = raw.filter(|raw| usage::read(raw) == Some(counted));
            map.insert(
                "usageMetadata".into(),
                raw.unwrap_or_else(|| usage::write(counted)),
            );
        }
        map.insert("modelVersion".into(), self.model.as_str().into());
        map.insert("responseId".into(), self.id.as_str().into());
        for (name, value) in own_fields(&self.rest) {
            map.entry(name.clone()).or_insert_with(|| value.clone());
        }
        Value::Object(map)
    }
}

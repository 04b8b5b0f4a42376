//! Streams: neutral events to chunks.

use super::answer_write::finish_reason;
use super::{DIALECT, usage};
use crate::wire::sse;
use evenkeel_core::{Delta, Extra, StreamEvent, Usage};
use serde_json::{Map, Value, json};

/// Turns neutral events into the chunks of one stream, whose `id`, `created`
/// and `model` never change.
///
/// The first chunk carries the role; a usage chunk comes only if it was asked
/// for. Neither `id:` nor `retry:` lines are ever written: `OpenAI`'s own
/// client fails on them. A stream that breaks ends with
/// [`encode_error`](super::encode_error) as its last event and without `[DONE]`.
#[derive(Debug)]
pub struct StreamEncoder {
    id: String,
    created: u64,
    model: String,
    include_usage: bool,
    role_sent: bool,
    usage: Option<Usage>,
}

impl StreamEncoder {
    /// An encoder for the stream `id` of `model`, begun at the Unix time
    /// `created` in seconds.
    pub fn new(
        id: impl Into<String>,
        created: u64,
        model: impl Into<String>,
        include_usage: bool,
    ) -> Self {
        Self {
            id: id.into(),
            created,
            model: model.into(),
            include_usage,
            role_sent: false,
            usage: None,
        }
    }

    /// The chunks that tell of `event`, often one, sometimes none. The end of
    /// the answer gives the usage chunk; `[DONE]` ([`sse::DONE`]) follows it.
    pub fn push(&mut self, event: &StreamEvent) -> Vec<Value> {
        match event {
            StreamEvent::Start { extra, .. } => self.role(Some(extra)).into_iter().collect(),
            StreamEvent::Delta(delta) => {
                let mut chunks: Vec<Value> = self.role(None).into_iter().collect();
                chunks.extend(delta_fields(delta).map(|delta| self.choice(&delta, None)));
                chunks
            }
            StreamEvent::Finish(finish) => {
                let mut chunks: Vec<Value> = self.role(None).into_iter().collect();
                chunks.push(self.choice(&json!({}), Some(finish_reason(*finish))));
                chunks
            }
            StreamEvent::Usage(usage) => {
                self.usage = Some(*usage);
                Vec::new()
            }
            StreamEvent::End => self.usage_chunk().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Adds `event` to `out` as it goes over the wire: chunks, a comment for a
    /// sign of life, and `[DONE]` at the end.
    pub fn write(&mut self, event: &StreamEvent, out: &mut Vec<u8>) {
        for chunk in self.push(event) {
            sse::write_event(None, &chunk.to_string(), out);
        }
        match event {
            StreamEvent::KeepAlive => sse::write_comment("keep-alive", out),
            StreamEvent::End => out.extend_from_slice(sse::DONE.as_bytes()),
            _ => {}
        }
    }

    /// A chunk of this stream without a choice, to carry fields of its own.
    pub fn bare_chunk(&self) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("id".into(), self.id.as_str().into());
        map.insert("object".into(), "chat.completion.chunk".into());
        map.insert("created".into(), self.created.into());
        map.insert("model".into(), self.model.as_str().into());
        map.insert("choices".into(), json!([]));
        map
    }

    fn role(&mut self, extra: Option<&Extra>) -> Option<Value> {
        if std::mem::replace(&mut self.role_sent, true) {
            return None;
        }
        let mut chunk = self.choice(&json!({"role": "assistant", "content": ""}), None);
        if let (Some(extra), Some(map)) = (
            extra.filter(|e| e.dialect == DIALECT),
            chunk.as_object_mut(),
        ) {
            for (name, value) in &extra.fields {
                map.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        Some(chunk)
    }

    fn choice(&self, delta: &Value, finish_reason: Option<&str>) -> Value {
        let mut map = self.bare_chunk();
        map.insert(
            "choices".into(),
            json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason}]),
        );
        if self.include_usage {
            map.insert("usage".into(), Value::Null);
        }
        Value::Object(map)
    }

    fn usage_chunk(&self) -> Option<Value> {
        let counted = self.usage.filter(|_| self.include_usage)?;
        let mut map = self.bare_chunk();
        map.insert("usage".into(), usage::write(counted));
        Some(Value::Object(map))
    }
}

fn delta_fields(delta: &Delta) -> Option<Value> {
    match delta {
        Delta::Text(text) => Some(json!({"content": text})),
        Delta::Refusal(text) => Some(json!({"refusal": text})),
        Delta::Reasoning(part) if part.text.is_empty() => None,
        Delta::Reasoning(part) => Some(json!({"reasoning_content": part.text})),
        Delta::ToolCallStart { index, id, name } => Some(json!({"tool_calls": [{
            "index": index,
            "id": id,
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }]})),
        Delta::ToolCallArguments { index, fragment } => Some(json!({"tool_calls": [{
            "index": index,
            "function": {"arguments": fragment},
        }]})),
        _ => None,
    }
}

//! Streams: neutral events to chunks.

use super::answer_write::{finish_reason, image_entry};
use super::{CHOICE, DIALECT, call_signature, reasoning_details, usage};
use crate::wire::sse;
use evenkeel_core::{Delta, Extra, Part, ReasoningPart, StreamEvent, Usage};
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
    /// Fields that wait for the next chunk.
    held: Map<String, Value>,
    /// Reasoning since the last signature, which is over all of it.
    reasoning: String,
    /// Entries of `reasoning_details` so far.
    details: usize,
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
            held: Map::new(),
            reasoning: String::new(),
            details: 0,
        }
    }

    /// The chunks that tell of `event`, often one, sometimes none. The end of
    /// the answer gives the usage chunk; `[DONE]` ([`sse::DONE`]) follows it.
    pub fn push(&mut self, event: &StreamEvent) -> Vec<Value> {
        match event {
            StreamEvent::Start { extra, .. } => self.role(Some(extra)).into_iter().collect(),
            StreamEvent::Delta(delta) => {
                let mut chunks: Vec<Value> = self.role(None).into_iter().collect();
                let fields = self.delta_fields(delta);
                chunks.extend(fields.map(|fields| self.choice(fields, None)));
                chunks
            }
            StreamEvent::Extra(extra) => {
                if extra.dialect == DIALECT {
                    self.held.extend(extra.fields.clone());
                }
                Vec::new()
            }
            StreamEvent::Finish(finish) => {
                let mut chunks: Vec<Value> = self.role(None).into_iter().collect();
                chunks.push(self.choice(Map::new(), Some(finish_reason(*finish))));
                chunks
            }
            StreamEvent::Usage(usage) => {
                self.usage = Some(*usage);
                Vec::new()
            }
            // Beside who goes on, which is the gateway's to say, there is nothing in it.
            StreamEvent::Resumed(_) => {
                let mut chunks: Vec<Value> = self.role(None).into_iter().collect();
                chunks.push(self.choice(Map::new(), None));
                chunks
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
        let mut delta = Map::new();
        delta.insert("role".into(), "assistant".into());
        delta.insert("content".into(), "".into());
        let mut chunk = self.choice(delta, None);
        if let (Some(extra), Some(map)) = (
            extra.filter(|e| e.dialect == DIALECT),
            chunk.as_object_mut(),
        ) {
            for (name, value) in extra.fields.iter().filter(|(name, _)| *name != CHOICE) {
                map.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        Some(chunk)
    }

    /// A chunk with a choice, and with what was held for it.
    fn choice(&mut self, mut delta: Map<String, Value>, finish_reason: Option<&str>) -> Value {
        let mut choice = Map::new();
        choice.insert("index".into(), 0.into());
        choice.insert("delta".into(), Value::Null);
        choice.insert("logprobs".into(), Value::Null);
        choice.insert("finish_reason".into(), finish_reason.into());
        let mut map = self.bare_chunk();
        if self.include_usage {
            map.insert("usage".into(), Value::Null);
        }
        for (name, value) in std::mem::take(&mut self.held) {
            match value {
                Value::Object(beside) if name == CHOICE => {
                    add_beside(beside, &mut choice, &mut delta);
                }
                value => {
                    map.insert(name, value);
                }
            }
        }
        choice.insert("delta".into(), delta.into());
        map.insert("choices".into(), json!([choice]));
        Value::Object(map)
    }

    fn usage_chunk(&mut self) -> Option<Value> {
        let counted = self.usage.filter(|_| self.include_usage);
        let mut held = std::mem::take(&mut self.held);
        held.shift_remove(CHOICE);
        if counted.is_none() && held.is_empty() {
            return None;
        }
        let mut map = self.bare_chunk();
        map.extend(held);
        if let Some(counted) = counted {
            map.insert("usage".into(), usage::write(counted));
        }
        Some(Value::Object(map))
    }

    fn delta_fields(&mut self, delta: &Delta) -> Option<Map<String, Value>> {
        let fields = match delta {
            Delta::Text(text) => json!({"content": text}),
            Delta::Refusal(text) => json!({"refusal": text}),
            Delta::Reasoning(part) => return self.reasoning_fields(part),
            Delta::ToolCallStart { index, id, name } => json!({"tool_calls": [{
                "index": index,
                "id": id,
                "type": "function",
                "function": {"name": name, "arguments": ""},
            }]}),
            Delta::ToolCallArguments { index, fragment } => json!({"tool_calls": [{
                "index": index,
                "function": {"arguments": fragment},
            }]}),
            Delta::ToolCallExtra { index, extra } => json!({"tool_calls": [{
                "index": index,
                "extra_content": call_signature::write(extra)?,
            }]}),
            Delta::Part(Part::Image(image)) => json!({"images": [image_entry(image)]}),
            Delta::Part(part @ Part::Other(_)) => {
                let entry = reasoning_details::entry(part)?;
                return Some(self.detail(entry));
            }
            _ => return None,
        };
        match fields {
            Value::Object(fields) => Some(fields),
            _ => None,
        }
    }

    /// Reasoning goes out as text; its signature once it comes, with all the
    /// text that it is over, so that a client can send it back as it is.
    fn reasoning_fields(&mut self, part: &ReasoningPart) -> Option<Map<String, Value>> {
        self.reasoning.push_str(&part.text);
        let mut fields = if part.signature.is_some() {
            let text = std::mem::take(&mut self.reasoning);
            self.detail(reasoning_details::signed(&text, part))
        } else {
            Map::new()
        };
        if !part.text.is_empty() {
            fields.insert("reasoning_content".into(), part.text.as_str().into());
        }
        (!fields.is_empty()).then_some(fields)
    }

    /// One entry, with the index by which clients put entries together.
    fn detail(&mut self, mut entry: Value) -> Map<String, Value> {
        entry["index"] = self.details.into();
        self.details += 1;
        let mut fields = Map::new();
        fields.insert("reasoning_details".into(), json!([entry]));
        fields
    }
}

/// Puts what a choice says beside the answer where a stream has it.
pub(in crate::wire) fn add_beside(
    beside: Map<String, Value>,
    choice: &mut Map<String, Value>,
    delta: &mut Map<String, Value>,
) {
    for (name, value) in beside {
        match value {
            Value::Object(message) if name == "message" => {
                for (name, value) in message {
                    delta.entry(name).or_insert(value);
                }
            }
            value => {
                choice.insert(name, value);
            }
        }
    }
}

//! Streams: neutral events to chunks.

use super::DIALECT;
use super::answer_write::{chunk, finish_reason, tool_call, usage};
use crate::wire::{openai, sse};
use evenkeel_core::{Delta, Extra, Finish, Part, StreamEvent, ToolCall, Usage};
use serde_json::{Map, Value, json};

/// Turns neutral events into the chunks of one stream.
///
/// Calls go out whole, with the finish reason: Mistral's own client reads no
/// pieces of them. Usage rides on that last chunk, so it is written once the
/// answer has ended.
#[derive(Debug)]
pub struct StreamEncoder {
    id: String,
    created: u64,
    model: String,
    role_sent: bool,
    calls: Vec<ToolCall>,
    finish: Option<Finish>,
    usage: Option<Usage>,
    /// Fields that wait for the next chunk.
    held: Map<String, Value>,
}

impl StreamEncoder {
    /// An encoder for the stream `id` of `model`, begun at the Unix time
    /// `created` in seconds.
    pub fn new(id: impl Into<String>, created: u64, model: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            created,
            model: model.into(),
            role_sent: false,
            calls: Vec::new(),
            finish: None,
            usage: None,
            held: Map::new(),
        }
    }

    /// The chunks that tell of `event`, at most one and the role before it.
    pub fn push(&mut self, event: &StreamEvent) -> Vec<Value> {
        match event {
            StreamEvent::Start { extra, .. } => {
                self.hold(extra);
                self.role().into_iter().collect()
            }
            StreamEvent::Extra(extra) => {
                self.hold(extra);
                Vec::new()
            }
            StreamEvent::Delta(delta) => {
                let mut chunks: Vec<Value> = self.role().into_iter().collect();
                let content = self.content(delta);
                chunks.extend(content.map(|content| self.chunk(content, None, None)));
                chunks
            }
            StreamEvent::Finish(finish) => {
                self.finish = Some(*finish);
                Vec::new()
            }
            StreamEvent::Usage(usage) => {
                self.usage = Some(*usage);
                Vec::new()
            }
            StreamEvent::End => {
                let mut chunks: Vec<Value> = self.role().into_iter().collect();
                chunks.push(self.last());
                chunks
            }
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

    fn hold(&mut self, extra: &Extra) {
        if extra.dialect == DIALECT {
            self.held.extend(extra.fields.clone());
        }
    }

    fn role(&mut self) -> Option<Value> {
        if std::mem::replace(&mut self.role_sent, true) {
            return None;
        }
        let mut chunk = self.chunk("".into(), None, None);
        chunk["choices"][0]["delta"]["role"] = "assistant".into();
        Some(chunk)
    }

    /// The content of a delta; none for a piece of a call, which is kept.
    fn content(&mut self, delta: &Delta) -> Option<Value> {
        match delta {
            Delta::Text(text) | Delta::Refusal(text) => Some(text.as_str().into()),
            Delta::Reasoning(part) => {
                let chunk = chunk(&Part::Reasoning(part.clone()))?;
                Some(json!([chunk]))
            }
            Delta::Part(part) => Some(json!([chunk(part)?])),
            Delta::ToolCallStart { id, name, .. } => {
                self.calls.push(ToolCall {
                    id: id.clone(),
                    name: name.clone(),
                    ..ToolCall::default()
                });
                None
            }
            Delta::ToolCallArguments { index, fragment } => {
                if let Some(call) = self.calls.get_mut(*index) {
                    call.arguments.push_str(fragment);
                }
                None
            }
            _ => None,
        }
    }

    fn last(&mut self) -> Value {
        let calls: Vec<Value> = std::mem::take(&mut self.calls)
            .iter()
            .enumerate()
            .map(|(index, call)| tool_call(call, index))
            .collect();
        let calls = (!calls.is_empty()).then(|| Value::from(calls));
        let finish = finish_reason(self.finish.unwrap_or(Finish::Unknown));
        let mut chunk = self.chunk("".into(), calls, Some(finish));
        if let Some(counted) = self.usage {
            chunk["usage"] = usage(counted);
        }
        chunk
    }

    fn chunk(&mut self, content: Value, calls: Option<Value>, finish: Option<&str>) -> Value {
        let mut delta = Map::new();
        delta.insert("content".into(), content);
        delta.extend(calls.map(|calls| ("tool_calls".to_owned(), calls)));
        let mut choice = Map::new();
        choice.insert("index".into(), 0.into());
        choice.insert("finish_reason".into(), finish.into());
        let mut map = Map::new();
        map.insert("id".into(), self.id.as_str().into());
        map.insert("object".into(), "chat.completion.chunk".into());
        map.insert("created".into(), self.created.into());
        map.insert("model".into(), self.model.as_str().into());
        for (name, value) in std::mem::take(&mut self.held) {
            match value {
                Value::Object(beside) if name == openai::CHOICE => {
                    openai::add_beside(beside, &mut choice, &mut delta);
                }
                value => {
                    map.entry(name).or_insert(value);
                }
            }
        }
        choice.insert("delta".into(), delta.into());
        map.insert("choices".into(), json!([choice]));
        Value::Object(map)
    }
}

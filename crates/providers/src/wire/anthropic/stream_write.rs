//! Streams: neutral events to events of this format.

use super::answer_write::{FORMS, stop_fields};
use super::stream_calls::Sequence;
use super::{CITATIONS, DIALECT, add_unknown, block_write, encode_error, kept, usage};
use crate::wire::sse;
use evenkeel_core::{Delta, Extra, Finish, Part, ReasoningPart, StreamEvent, Usage};
use serde_json::{Map, Value, json};

/// Turns neutral events into the events of one stream, whose `id` and `model`
/// never change.
///
/// `message_start` comes first, blocks are numbered from 0 and end before the
/// next begins, and the stop reason and the counts come with the end. A stream
/// that breaks ends with [`StreamEncoder::write_error`] in place of it.
#[derive(Debug)]
pub struct StreamEncoder {
    id: String,
    model: String,
    started: bool,
    calls: Sequence,
    /// The open block.
    open: Option<Open>,
    blocks: usize,
    usage: Option<Usage>,
    refusal: String,
    finish: Option<Finish>,
    extra: Extra,
}

#[derive(Debug)]
enum Open {
    /// Text after citations begins a block of its own.
    Text {
        cited: bool,
    },
    /// Text after a signature does so too: it holds for its own block only.
    Thinking {
        signed: bool,
    },
    /// A call whose start waits for the fields that may follow it.
    CallToCome(Map<String, Value>),
    Call,
}

impl StreamEncoder {
    /// An encoder for the stream `id` of `model`.
    pub fn new(id: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            model: model.into(),
            started: false,
            calls: Sequence::default(),
            open: None,
            blocks: 0,
            usage: None,
            refusal: String::new(),
            finish: None,
            extra: Extra::default(),
        }
    }

    /// The events that tell of `event`, often one, sometimes none; each names
    /// itself in `type`.
    pub fn push(&mut self, event: &StreamEvent) -> Vec<Value> {
        let mut out = Vec::new();
        match event {
            // Kept until content comes, for what is known of it by then.
            StreamEvent::Start { extra, .. } | StreamEvent::Extra(extra) => self.learn(extra),
            StreamEvent::Usage(usage) => self.usage = Some(*usage),
            StreamEvent::Delta(delta) => {
                self.start(&mut out);
                for delta in self.calls.push(delta.clone()) {
                    self.say(delta, &mut out);
                }
            }
            StreamEvent::Finish(finish) => {
                self.start(&mut out);
                for delta in self.calls.finish() {
                    self.say(delta, &mut out);
                }
                self.close(&mut out);
                self.finish = Some(*finish);
            }
            StreamEvent::KeepAlive => {
                self.start(&mut out);
                out.push(json!({"type": "ping"}));
            }
            StreamEvent::End => self.end(&mut out),
            _ => {}
        }
        out
    }

    /// Adds `event` to `out` as it goes over the wire.
    pub fn write(&mut self, event: &StreamEvent, out: &mut Vec<u8>) {
        for value in self.push(event) {
            write_named(&value, out);
        }
    }

    /// Adds the error that ends a broken stream, in the form of
    /// [`encode_error`]. Nothing comes after it.
    pub fn write_error(&self, message: &str, kind: &str, out: &mut Vec<u8>) {
        write_named(&encode_error(message, kind, None, None), out);
    }

    fn learn(&mut self, extra: &Extra) {
        if extra.dialect == DIALECT {
            self.extra.dialect = DIALECT;
            self.extra.fields.extend(extra.fields.clone());
        }
    }

    fn start(&mut self, out: &mut Vec<Value>) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let mut message = Map::new();
        message.insert("id".into(), self.id.as_str().into());
        message.insert("type".into(), "message".into());
        message.insert("role".into(), "assistant".into());
        message.insert("model".into(), self.model.as_str().into());
        message.insert("content".into(), json!([]));
        message.insert("stop_reason".into(), Value::Null);
        message.insert("stop_sequence".into(), Value::Null);
        let counted = usage::form(None, self.usage);
        message.insert("usage".into(), counted.into());
        add_unknown(&self.extra, &FORMS, &mut message);
        // Said once; what is learned later comes with the end.
        self.extra
            .fields
            .retain(|name, _| FORMS.contains(&name.as_str()));
        out.push(json!({"type": "message_start", "message": message}));
    }

    fn say(&mut self, delta: Delta, out: &mut Vec<Value>) {
        match delta {
            Delta::Text(text) if text.is_empty() => {}
            Delta::Text(text) => {
                if !matches!(self.open, Some(Open::Text { cited: false })) {
                    self.open_text(out);
                }
                self.piece(&json!({"type": "text_delta", "text": text}), out);
            }
            Delta::Refusal(text) => self.refusal.push_str(&text),
            Delta::Reasoning(part) => self.reason(&part, out),
            Delta::ToolCallStart { id, name, .. } => {
                self.close(out);
                let mut block = Map::new();
                block.insert("type".into(), "tool_use".into());
                block.insert("id".into(), id.into());
                block.insert("name".into(), name.into());
                block.insert("input".into(), json!({}));
                self.open = Some(Open::CallToCome(block));
            }
            Delta::ToolCallExtra { extra, .. } => {
                if let Some(Open::CallToCome(block)) = &mut self.open {
                    add_unknown(&extra, &[], block);
                }
            }
            Delta::ToolCallArguments { fragment, .. } => {
                self.start_call(out);
                let piece = json!({"type": "input_json_delta", "partial_json": fragment});
                self.piece(&piece, out);
            }
            Delta::Part(part) => self.part(part, out),
            _ => {}
        }
    }

    /// Reasoning, its signature, or both.
    fn reason(&mut self, part: &ReasoningPart, out: &mut Vec<Value>) {
        match self.open {
            Some(Open::Thinking { signed }) if !signed || part.text.is_empty() => {}
            _ => self.open_thinking(out),
        }
        if !part.text.is_empty() {
            let piece = json!({"type": "thinking_delta", "thinking": part.text});
            self.piece(&piece, out);
        }
        if let Some(signature) = block_write::own_signature(part) {
            let piece = json!({"type": "signature_delta", "signature": signature});
            self.piece(&piece, out);
            self.open = Some(Open::Thinking { signed: true });
        }
    }

    /// A part in one piece. An empty text or reasoning part begins a block of
    /// its own.
    fn part(&mut self, part: Part, out: &mut Vec<Value>) {
        match part {
            Part::Text(text) => {
                self.close(out);
                self.say(Delta::Text(text), out);
            }
            Part::Reasoning(part) => {
                self.close(out);
                if !part.text.is_empty() || part.signature.is_some() {
                    self.say(Delta::Reasoning(part), out);
                }
            }
            Part::Refusal(text) => self.refusal.push_str(&text),
            Part::Other(extra) if block_write::is_citations(&extra) => self.cite(&extra, out),
            Part::Other(extra) if extra.dialect == DIALECT => self.whole(extra.fields, out),
            _ => {}
        }
    }

    fn cite(&mut self, extra: &Extra, out: &mut Vec<Value>) {
        let citations = extra.fields.get(CITATIONS).and_then(Value::as_array);
        let Some(Open::Text { cited }) = &mut self.open else {
            return;
        };
        *cited = true;
        for citation in citations.into_iter().flatten() {
            let piece = json!({"type": "citations_delta", "citation": citation});
            self.piece(&piece, out);
        }
    }

    /// A block without a neutral form. The input of a call that the provider
    /// ran comes as a piece, as the provider sends it.
    fn whole(&mut self, mut block: Map<String, Value>, out: &mut Vec<Value>) {
        self.close(out);
        let kind = block
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let mut input = None;
        if kind.ends_with("tool_use")
            && let Some(Value::Object(fields)) = block.get_mut("input")
            && !fields.is_empty()
        {
            input = Some(Value::Object(std::mem::take(fields)).to_string());
        }
        self.block_start(&block.into(), out);
        if let Some(json) = input {
            let piece = json!({"type": "input_json_delta", "partial_json": json});
            self.piece(&piece, out);
        }
        self.block_stop(out);
    }

    fn open_text(&mut self, out: &mut Vec<Value>) {
        self.close(out);
        self.open = Some(Open::Text { cited: false });
        self.block_start(&block_write::text(""), out);
    }

    fn open_thinking(&mut self, out: &mut Vec<Value>) {
        self.close(out);
        self.open = Some(Open::Thinking { signed: false });
        let block = json!({"type": "thinking", "thinking": "", "signature": ""});
        self.block_start(&block, out);
    }

    fn start_call(&mut self, out: &mut Vec<Value>) {
        if let Some(Open::CallToCome(block)) = &mut self.open {
            let block = std::mem::take(block);
            self.open = Some(Open::Call);
            self.block_start(&block.into(), out);
        }
    }

    fn close(&mut self, out: &mut Vec<Value>) {
        self.start_call(out);
        if self.open.take().is_some() {
            self.block_stop(out);
        }
    }

    fn block_start(&self, block: &Value, out: &mut Vec<Value>) {
        out.push(json!({
            "type": "content_block_start", "index": self.blocks, "content_block": block,
        }));
    }

    fn piece(&self, delta: &Value, out: &mut Vec<Value>) {
        out.push(json!({
            "type": "content_block_delta", "index": self.blocks, "delta": delta,
        }));
    }

    fn block_stop(&mut self, out: &mut Vec<Value>) {
        out.push(json!({"type": "content_block_stop", "index": self.blocks}));
        self.blocks += 1;
    }

    fn end(&mut self, out: &mut Vec<Value>) {
        self.start(out);
        self.close(out);
        let finish = self.finish.unwrap_or(Finish::Unknown);
        let mut delta = stop_fields(finish, &self.refusal, &self.extra);
        add_unknown(&self.extra, &FORMS, &mut delta);
        let counted = usage::form(kept(&self.extra, "usage"), self.usage);
        out.push(json!({"type": "message_delta", "delta": delta, "usage": counted}));
        out.push(json!({"type": "message_stop"}));
    }
}

/// Adds an event whose name is its type.
fn write_named(value: &Value, out: &mut Vec<u8>) {
    let name = value.get("type").and_then(Value::as_str);
    sse::write_event(name, &value.to_string(), out);
}

//! What one event says.

use super::block::{Block, Taken};
use super::{Kind, StreamDecoder};
use crate::wire::anthropic::{answer_read, extra, finish, usage};
use crate::wire::digits;
use crate::wire::json::field;
use crate::wire::reading::{Out, StreamFormat};
use evenkeel_core::{Class, Delta, Part, StreamEvent};
use serde_json::{Map, Value};

/// What a block's beginning is taken for when the answer's size is counted:
/// its bookkeeping, so that empty blocks are bounded too.
const BLOCK_BYTES: usize = 128;
/// Most calls of one answer: an answer that calls this often is out of
/// control. The same bound holds for every format.
const MAX_CALLS: usize = 1024;

/// What an event tells of.
#[derive(Debug, Clone, Copy)]
enum What {
    Start,
    BlockStart,
    BlockDelta,
    BlockStop,
    Delta,
    Stop,
    /// `ping`, and what is not known.
    Other,
}

impl What {
    fn of(event: &Map<String, Value>) -> Self {
        match field(event, "type").and_then(Value::as_str) {
            Some("message_start") => Self::Start,
            Some("content_block_start") => Self::BlockStart,
            Some("content_block_delta") => Self::BlockDelta,
            Some("content_block_stop") => Self::BlockStop,
            Some("message_delta") => Self::Delta,
            Some("message_stop") => Self::Stop,
            _ => Self::Other,
        }
    }
}

/// The arguments that a call's start brings, as text with all their digits;
/// none where reading the event rounds none.
fn exact_input(block: &Map<String, Value>, event: &str) -> Option<String> {
    let is_call = field(block, "type").and_then(Value::as_str) == Some("tool_use");
    let says_any = field(block, "input")?
        .as_object()
        .is_some_and(|input| !input.is_empty());
    if !(is_call && says_any) {
        return None;
    }
    let marked = digits::marked(event)?;
    let input = marked.get("content_block")?.get("input")?;
    Some(digits::unmarked(&input.to_string()))
}

impl StreamDecoder {
    pub(super) fn take_typed(
        &mut self,
        mut event: Map<String, Value>,
        data: &str,
        has_halves: bool,
        out: &mut Out,
    ) {
        match What::of(&event) {
            What::Start => {
                if let Some(Value::Object(message)) = event.shift_remove("message") {
                    self.take_start(message, out);
                }
            }
            What::BlockStart => self.take_block_start(event, data, out),
            What::BlockDelta => self.take_block_delta(&event, has_halves, out),
            What::BlockStop => {
                if let Some(block) = self.blocks.remove(&index(&event)) {
                    self.close(block, out);
                }
            }
            What::Delta => self.take_message_delta(event, out),
            What::Stop => self.end(
                "the stream was declared over before the answer was complete",
                out,
            ),
            What::Other => {}
        }
    }

    fn take_start(&mut self, mut message: Map<String, Value>, out: &mut Out) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let mut text = |name: &str| match message.shift_remove(name) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let (id, model) = (text("id"), text("model"));
        self.ids.name(&id);
        let counted = message.shift_remove("usage");
        for name in ["content", "stop_reason", "stop_sequence"] {
            message.shift_remove(name);
        }
        out.push(Ok(StreamEvent::Start {
            id,
            model,
            created: 0,
            extra: answer_read::rest(message),
        }));
        self.take_usage(counted, out);
    }

    /// Counts are totals: a later one replaces an earlier one, and what it
    /// does not say stays. Totals do not fall: a zero behind a count is how some
    /// proxies leave it out.
    fn take_usage(&mut self, counted: Option<Value>, out: &mut Out) {
        let Some(Value::Object(counted)) = counted else {
            return;
        };
        for (name, value) in counted {
            let is_count = |value: &Value| value.as_u64().is_some_and(|count| count > 0);
            let left_out = value.as_u64() == Some(0) && self.usage.get(&name).is_some_and(is_count);
            if !value.is_null() && !left_out {
                self.usage.insert(name, value);
            }
        }
        let total = usage::read(&Value::Object(self.usage.clone()));
        out.extend(total.map(|usage| Ok(StreamEvent::Usage(usage))));
    }

    fn take_block_start(&mut self, mut event: Map<String, Value>, data: &str, out: &mut Out) {
        let mut block = event.shift_remove("content_block").unwrap_or_default();
        answer_read::settle_id(&mut block, self.calls, &mut self.ids);
        let Value::Object(mut fields) = block else {
            out.push(Ok(StreamEvent::Skipped));
            return;
        };
        if let Some(input) = exact_input(&fields, data) {
            fields.insert("input".into(), input.into());
        }
        self.open(index(&event), fields, out);
        if self.calls > MAX_CALLS && !self.reading.is_over() {
            let message = format!("the answer holds more than {MAX_CALLS} tool calls");
            self.reading.fail_as(Class::Malformed, &message, out);
        }
    }

    fn open(&mut self, at: u64, fields: Map<String, Value>, out: &mut Out) {
        if let Some(open) = self.blocks.remove(&at) {
            // Its end was never said.
            self.close(open, out);
        }
        self.serial += 1;
        let (block, taken) = Block::start(fields, self.serial, self.calls);
        self.calls += usize::from(block.is_call());
        self.reading.count(BLOCK_BYTES);
        self.blocks.insert(at, block);
        self.give_piece(self.serial, taken, out);
    }

    fn take_block_delta(&mut self, event: &Map<String, Value>, has_halves: bool, out: &mut Out) {
        let Some(delta) = field(event, "delta").and_then(Value::as_object) else {
            out.push(Ok(StreamEvent::Skipped));
            return;
        };
        let at = index(event);
        if !self.blocks.contains_key(&at) {
            // Some proxies leave the start of a text block out.
            let mut text = Map::new();
            text.insert("type".into(), "text".into());
            self.open(at, text, out);
        }
        let Some(block) = self.blocks.get_mut(&at) else {
            return;
        };
        let serial = block.serial;
        match block.delta(delta, has_halves) {
            Some(taken) => self.give_piece(serial, taken, out),
            None => out.push(Ok(StreamEvent::Skipped)),
        }
    }

    fn close(&mut self, block: Block, out: &mut Out) {
        let serial = block.serial;
        let taken = Taken {
            events: block.stop(),
            held_bytes: 0,
        };
        self.give_piece(serial, taken, out);
    }

    /// Gives the events of a block. Where they would run into those of the
    /// block before it, an empty part keeps the two apart: a signature holds
    /// for its own block only.
    fn give_piece(&mut self, serial: usize, taken: Taken, out: &mut Out) {
        self.reading.count(taken.held_bytes);
        for event in taken.events {
            let kind = match &event {
                StreamEvent::Delta(Delta::Text(_)) => Some(Kind::Text),
                StreamEvent::Delta(Delta::Reasoning(_)) => Some(Kind::Reasoning),
                _ => None,
            };
            if let (Some((last, other)), Some(kind)) = (self.last, kind)
                && last == kind
                && other != serial
            {
                out.push(Ok(StreamEvent::Delta(Delta::Part(kind.empty()))));
            }
            if !matches!(event, StreamEvent::Delta(Delta::ToolCallArguments { .. })) {
                self.last = kind.map(|kind| (kind, serial));
            }
            self.give(event, out);
        }
        self.reading.check_size(out);
    }

    fn take_message_delta(&mut self, mut event: Map<String, Value>, out: &mut Out) {
        let mut delta = match event.shift_remove("delta") {
            Some(Value::Object(delta)) => delta,
            _ => Map::new(),
        };
        let counted = event.shift_remove("usage");
        let reason = match delta.shift_remove("stop_reason") {
            Some(Value::String(reason)) if !reason.is_empty() => reason,
            _ => {
                self.take_usage(counted, out);
                return;
            }
        };
        for block in std::mem::take(&mut self.blocks).into_values() {
            self.close(block, out);
        }
        if self.reading.is_over() {
            return;
        }
        let refusal = answer_read::refusal(delta.get("stop_details"));
        if let Some(Part::Refusal(words)) = refusal {
            self.give(StreamEvent::Delta(Delta::Refusal(words)), out);
            self.reading.check_size(out);
        }
        let finish = finish::derived(finish::read(&reason), self.calls > 0);
        if finish == evenkeel_core::Finish::Unknown {
            delta.insert("stop_reason".into(), reason.into());
        }
        let mut usage_events = Out::new();
        self.take_usage(counted, &mut usage_events);
        answer_read::keep_usage(&mut delta, Some(Value::Object(self.usage.clone())));
        delta.retain(|_, value| !value.is_null());
        if !delta.is_empty() {
            out.push(Ok(StreamEvent::Extra(extra(delta))));
        }
        if self.reading.finish.replace(finish).is_none() {
            out.push(Ok(StreamEvent::Finish(finish)));
        }
        out.extend(usage_events);
    }

    fn give(&mut self, event: StreamEvent, out: &mut Out) {
        self.reading.count(size(&event));
        out.push(Ok(event));
    }
}

fn index(event: &Map<String, Value>) -> u64 {
    field(event, "index").and_then(Value::as_u64).unwrap_or(0)
}

/// The content bytes of an event, as the answer's size counts them. What a
/// block gathers is counted as it arrives.
fn size(event: &StreamEvent) -> usize {
    match event {
        StreamEvent::Delta(Delta::Text(text) | Delta::Refusal(text)) => text.len(),
        StreamEvent::Delta(Delta::Reasoning(part)) => {
            part.text.len() + part.signature.as_ref().map_or(0, String::len)
        }
        StreamEvent::Delta(Delta::ToolCallStart { id, name, .. }) => id.len() + name.len(),
        StreamEvent::Delta(Delta::ToolCallArguments { fragment, .. }) => fragment.len(),
        _ => 0,
    }
}

//! What one chunk says.

use super::StreamDecoder;
use crate::wire::json;
use crate::wire::openai::answer_read::{self, Reason};
use crate::wire::openai::stream_calls::Around;
use crate::wire::openai::{CHOICE, extra, reasoning_details, usage};
use crate::wire::reading::Out;
use evenkeel_core::{Class, Delta, Finish, Part, ReasoningPart, StreamEvent, delta_of};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// What a call's announcement is taken for when the answer's size is counted:
/// its bookkeeping, so that empty calls are bounded too.
const CALL_BYTES: usize = 128;
/// Fields of a choice that are read.
const CHOICE_FIELDS: [&str; 4] = ["index", "delta", "finish_reason", "error"];
/// Fields of a delta that are read.
const DELTA_FIELDS: [&str; 9] = [
    "role",
    "content",
    "refusal",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "tool_calls",
    "function_call",
    "images",
];
/// Fields of a chunk that are read, or that pad it.
const NOT_EXTRA: [&str; 9] = [
    "id",
    "model",
    "created",
    "object",
    "choices",
    "usage",
    "x_groq",
    "obfuscation",
    "error",
];

impl StreamDecoder {
    pub(super) fn take_chunk(&mut self, chunk: &Value, has_halves: bool, out: &mut Out) {
        let choices = chunk.get("choices").and_then(Value::as_array);
        let choice = choices
            .into_iter()
            .flatten()
            .filter_map(Value::as_object)
            .find(|c| c.get("index").and_then(Value::as_u64).unwrap_or(0) == 0);
        if self.start.is_some() {
            self.take_head(chunk, choice.is_some(), out);
        } else if choices.is_some() {
            // Without choices it is no chunk: a ping, or a lone usage.
            self.take_extra(chunk, out);
        }
        if let Some(choice) = choice {
            self.take_choice(choice, has_halves, out);
        }
        if self.reading.is_over() {
            return;
        }
        let counted = chunk
            .get("usage")
            .and_then(usage::read)
            .or_else(|| usage::read(chunk.get("x_groq")?.get("usage")?));
        out.extend(counted.map(|usage| Ok(StreamEvent::Usage(usage))));
    }

    /// What a chunk says of the answer as a whole. Announced with the first
    /// chunk that has a choice: some servers send one with neither id nor
    /// model before it.
    pub(super) fn take_head(&mut self, chunk: &Value, has_choice: bool, out: &mut Out) {
        let (Some(mut start), Some(fields)) = (self.start.take(), chunk.as_object()) else {
            return;
        };
        for (name, value) in fields {
            match (name.as_str(), value) {
                ("id", Value::String(id)) if self.id.is_empty() => self.id.clone_from(id),
                ("model", Value::String(model)) if start.model.is_empty() => {
                    start.model.clone_from(model);
                }
                ("created", Value::Number(at)) if start.created == 0 => {
                    start.created = at.as_u64().unwrap_or(0);
                }
                (name, _) if NOT_EXTRA.contains(&name) => {}
                _ => {
                    start.extra.insert(name.clone(), value.clone());
                }
            }
        }
        if !has_choice {
            self.start = Some(start);
            return;
        }
        self.told.clone_from(&start.extra);
        out.push(Ok(StreamEvent::Start {
            id: self.id.clone(),
            model: start.model,
            created: start.created,
            extra: extra(self.dialect, start.extra),
        }));
    }

    /// Fields of the answer as a whole that come, or change, after its start.
    fn take_extra(&mut self, chunk: &Value, out: &mut Out) {
        let fields = chunk.as_object().into_iter().flatten();
        let news: Map<String, Value> = fields
            .filter(|(name, value)| {
                !NOT_EXTRA.contains(&name.as_str())
                    && !value.is_null()
                    && self.told.get(*name) != Some(value)
            })
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if !news.is_empty() {
            self.told.extend(news.clone());
            self.give(vec![StreamEvent::Extra(extra(self.dialect, news))], out);
        }
    }

    /// What a choice says beside the answer: token probabilities, annotations,
    /// a filter's findings.
    fn choice_extra(&self, choice: &Map<String, Value>) -> Option<StreamEvent> {
        let unknown = |fields: &Map<String, Value>, known: &[&str]| -> Map<String, Value> {
            fields
                .iter()
                .filter(|(name, value)| !known.contains(&name.as_str()) && says_something(value))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        };
        let mut beside = unknown(choice, &CHOICE_FIELDS);
        let delta = choice.get("delta").and_then(Value::as_object);
        let in_delta = delta.map(|delta| unknown(delta, &DELTA_FIELDS));
        if let Some(message) = in_delta.filter(|fields| !fields.is_empty()) {
            beside.insert("message".into(), message.into());
        }
        (!beside.is_empty()).then(|| choice_event(self.dialect, beside))
    }

    fn take_choice(&mut self, choice: &Map<String, Value>, has_halves: bool, out: &mut Out) {
        let reply = self.reading.reply("");
        if let Some(failure) = answer_read::choice_error(&reply, choice) {
            self.reading.fail(failure, out);
            return;
        }
        if let Some(event) = self.choice_extra(choice) {
            self.give(vec![event], out);
        }
        let reason = choice.get("finish_reason").and_then(Value::as_str);
        let reason = reason.filter(|r| !r.is_empty());
        if let Some(delta) = choice.get("delta").and_then(Value::as_object)
            && !self.reading.is_over()
        {
            let around = Around {
                has_halves,
                is_last: reason.is_some(),
            };
            self.take_delta(delta, around, out);
        }
        if let Some(reason) = reason
            && !self.reading.is_over()
            && self.reading.finish.is_none()
        {
            self.take_finish(reason, out);
        }
    }

    pub(super) fn take_delta(&mut self, delta: &Map<String, Value>, around: Around, out: &mut Out) {
        let has_halves = around.has_halves;
        let mut deltas = self.reasoning(delta, has_halves);
        match delta.get("content") {
            Some(Value::String(text)) => {
                let text = self.text.join(text, has_halves).into_owned();
                deltas.push(Delta::Text(text));
            }
            Some(Value::Array(items)) => {
                for item in items {
                    deltas.extend(delta_of(answer_read::content_part(
                        item.clone(),
                        self.dialect,
                    )));
                }
            }
            _ => {}
        }
        if let Some(Value::String(text)) = delta.get("refusal") {
            let text = self.refusal.join(text, has_halves).into_owned();
            self.refused |= !text.is_empty();
            deltas.push(Delta::Refusal(text));
        }
        let images = answer_read::images(delta.get("images"))
            .into_iter()
            .flatten();
        deltas.extend(images.map(|image| Delta::Part(Part::Image(image))));
        let mut events: Vec<StreamEvent> = deltas
            .into_iter()
            .filter(|d| !is_empty(d))
            .map(StreamEvent::Delta)
            .collect();
        let entries = call_entries(delta);
        if !entries.is_empty() {
            self.calls.of_answer(&self.id);
            match self.calls.take(&entries, around, &mut events) {
                Ok(argument_bytes) => self.reading.count(argument_bytes),
                Err(e) => {
                    self.reading.fail_as(Class::Malformed, &e.to_string(), out);
                    return;
                }
            }
        }
        self.give(events, out);
    }

    /// Reasoning from its text, or else from its details.
    fn reasoning(&mut self, delta: &Map<String, Value>, has_halves: bool) -> Vec<Delta> {
        let mut deltas = Vec::new();
        if let Some(text) = answer_read::reasoning(delta) {
            self.details.saw_plain();
            deltas.push(self.reasoning_text(&text, has_halves));
        }
        let details = delta.get("reasoning_details").map(reasoning_details::parts);
        for part in details.into_iter().flatten() {
            match part {
                Part::Reasoning(part) => {
                    let news = self.details.news(&part.text);
                    let text = self.reasoning.join(&news, has_halves).into_owned();
                    deltas.push(Delta::Reasoning(ReasoningPart { text, ..part }));
                }
                Part::Other(_) => deltas.push(Delta::Part(part)),
                _ => {}
            }
        }
        deltas
    }

    fn reasoning_text(&mut self, text: &str, has_halves: bool) -> Delta {
        let text = self.reasoning.join(text, has_halves).into_owned();
        Delta::Reasoning(ReasoningPart {
            text,
            ..ReasoningPart::default()
        })
    }

    fn give(&mut self, events: Vec<StreamEvent>, out: &mut Out) {
        for event in events {
            self.reading.count(size(&event));
            out.push(Ok(event));
        }
        self.reading.check_size(out);
    }

    fn take_finish(&mut self, reason: &str, out: &mut Out) {
        let finish = match answer_read::finish(reason) {
            Reason::Finish(finish) => finish,
            Reason::Broken(class) => {
                let failure = answer_read::broken(self.reading.server(), class, reason);
                self.reading.fail(failure, out);
                return;
            }
        };
        let mut events = Vec::new();
        let left = |c: char| c.to_string();
        events.extend(self.text.finish().map(|c| Delta::Text(left(c))));
        events.extend(self.refusal.finish().map(|c| Delta::Refusal(left(c))));
        events.extend(self.reasoning.finish().map(|c| {
            Delta::Reasoning(ReasoningPart {
                text: left(c),
                ..ReasoningPart::default()
            })
        }));
        let mut events = events.into_iter().map(StreamEvent::Delta).collect();
        if let Err(e) = self.calls.finish(answer_read::is_cut(finish), &mut events) {
            self.reading.fail_as(Class::Malformed, &e.to_string(), out);
            return;
        }
        self.give(events, out);
        if self.reading.is_over() {
            return;
        }
        let finish = match finish {
            Finish::Stop | Finish::Unknown if !self.calls.is_empty() => Finish::ToolUse,
            Finish::Stop if self.refused => Finish::Refusal,
            other => other,
        };
        self.reading.finish = Some(finish);
        if finish == Finish::Unknown && reason != Finish::Unknown.as_str() {
            let mut raw = Map::new();
            raw.insert("finish_reason".into(), reason.into());
            out.push(Ok(choice_event(self.dialect, raw)));
        }
        out.push(Ok(StreamEvent::Finish(finish)));
    }
}

fn choice_event(dialect: &'static str, choice: Map<String, Value>) -> StreamEvent {
    let mut fields = Map::new();
    fields.insert(CHOICE.into(), choice.into());
    StreamEvent::Extra(extra(dialect, fields))
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

/// The entries of `tool_calls`, or else the one call of the field before it.
fn call_entries(delta: &Map<String, Value>) -> Cow<'_, [Value]> {
    match (delta.get("tool_calls"), delta.get("function_call")) {
        (Some(Value::Array(entries)), _) if !entries.is_empty() => Cow::Borrowed(entries),
        (_, Some(call @ Value::Object(_))) => Cow::Owned(vec![json!({"function": call})]),
        _ => Cow::Borrowed(&[]),
    }
}

fn is_empty(delta: &Delta) -> bool {
    match delta {
        Delta::Text(text) | Delta::Refusal(text) => text.is_empty(),
        Delta::Reasoning(part) => part.text.is_empty() && part.signature.is_none(),
        _ => false,
    }
}

/// The content bytes of an event, as the answer's size counts them. Arguments
/// are counted as they arrive, held or not.
fn size(event: &StreamEvent) -> usize {
    match event {
        StreamEvent::Delta(Delta::Text(text) | Delta::Refusal(text)) => text.len(),
        StreamEvent::Delta(Delta::Reasoning(part)) => part.text.len(),
        StreamEvent::Delta(Delta::ToolCallStart { id, name, .. }) => {
            id.len() + name.len() + CALL_BYTES
        }
        StreamEvent::Delta(Delta::Part(Part::Image(image))) => image.url.len(),
        StreamEvent::Delta(
            Delta::Part(Part::Other(extra)) | Delta::ToolCallExtra { extra, .. },
        )
        | StreamEvent::Extra(extra) => {
            let fields = extra.fields.iter();
            fields
                .map(|(name, value)| name.len() + json::size(value))
                .sum()
        }
        _ => 0,
    }
}

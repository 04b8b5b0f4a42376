//! Messages: neutral form to JSON.

use super::style::{History, Style};
use super::{messages_read, reasoning_details, written_form};
use crate::wire::adapted::{Adapted, done, what};
use evenkeel_core::{Extra, Message, Part, ReasoningPart, Role, ToolCall, ToolResult};
use serde_json::{Map, Value, json};

/// What stands before the text of a tool's error, since the format has no flag.
const TOOL_ERROR: &str = "error: ";

/// Writes messages one after the other.
pub(super) struct MessageWriter<'a> {
    style: &'a Style,
    adapted: &'a mut Adapted,
    out: Vec<Value>,
    /// Images of tool results, to be shown once the results are all there.
    images: Vec<Value>,
    /// The first message of the tool loop that is still going on.
    loop_start: usize,
}

/// Writes `messages`: each one JSON message, or several where it holds tool
/// results beside other parts.
pub(super) fn write(messages: &[Message], style: &Style, adapted: &mut Adapted) -> Vec<Value> {
    let mut writer = MessageWriter {
        style,
        adapted,
        out: Vec::with_capacity(messages.len()),
        images: Vec::new(),
        loop_start: messages
            .iter()
            .rposition(|m| m.role == Role::User)
            .unwrap_or(0),
    };
    for (at, message) in messages.iter().enumerate() {
        writer.write(message, at);
    }
    writer.show_images();
    writer.out
}

impl MessageWriter<'_> {
    fn write(&mut self, message: &Message, at: usize) {
        if message.extra.dialect != self.style.dialect && !message.extra.fields.is_empty() {
            self.adapted.foreign(what::EXTRA);
        }
        let (results, others): (Vec<&Part>, Vec<&Part>) = message
            .parts
            .iter()
            .partition(|p| matches!(p, Part::ToolResult(_)));
        for part in &results {
            if let Part::ToolResult(result) = part {
                let written = self.tool_message(message, result);
                self.out.push(written);
            }
        }
        if results.is_empty() || !others.is_empty() {
            self.show_images();
            let written = self.spoken_message(message, &others, at);
            self.out.push(written);
        }
    }

    /// A tool message holds text only: its images follow in a user message.
    fn show_images(&mut self) {
        if !self.images.is_empty() {
            let content = std::mem::take(&mut self.images);
            self.out.push(json!({"role": "user", "content": content}));
        }
    }

    fn spoken_message(&mut self, message: &Message, parts: &[&Part], at: usize) -> Value {
        let mut map = Map::new();
        map.insert("role".into(), self.role(message, parts).into());
        let own = parts.len() == message.parts.len();
        let is_assistant = message.role == Role::Assistant;
        let raw = written_form(&message.extra, self.style.dialect, "content", |raw| {
            own && messages_read::content_parts(raw, "", self.style.dialect)
                .is_ok_and(|parts| self.may_write(&parts) && same_content(&parts, message))
        });
        let content = match raw {
            Some(raw) => raw.clone(),
            None => self.said(message, parts),
        };
        map.insert("content".into(), content);
        if is_assistant {
            self.assistant_fields(message, raw, at, &mut map);
        }
        self.finish(message, map)
    }

    /// The `content` of parts that are written anew.
    fn said(&mut self, message: &Message, parts: &[&Part]) -> Value {
        let chunks = self.style.history == History::Chunks;
        let mut said = Vec::new();
        for part in parts {
            match part {
                Part::Refusal(text) if !self.style.refusal => {
                    self.adapted.note(what::REFUSAL, done::AS_TEXT);
                    said.push(Part::Text(text.clone()));
                }
                Part::Reasoning(part) if chunks => {
                    if self.own_reasoning(part) {
                        said.push(Part::Reasoning(part.clone()));
                    } else {
                        self.adapted.foreign(what::REASONING_HISTORY);
                    }
                }
                Part::Other(extra) if !self.takes_other(extra) => {}
                part if is_content(part) => said.push((*part).clone()),
                _ => {}
            }
        }
        let calls = parts.iter().any(|p| matches!(p, Part::ToolCall(_)));
        let may_be_null = self.style.faithful || (calls && self.style.history != History::Chunks);
        if said.is_empty() && message.role == Role::Assistant && may_be_null {
            return Value::Null;
        }
        content(&said, self.style)
    }

    /// Whether a part without neutral form can be written here; what cannot is
    /// told.
    fn takes_other(&mut self, extra: &Extra) -> bool {
        if reasoning_details::is_opaque(extra) {
            let details = matches!(self.style.history, History::Details(_));
            if !details {
                self.adapted.foreign(what::REASONING_HISTORY);
            }
            return false;
        }
        let own = extra.dialect == self.style.dialect;
        if !own {
            self.adapted.foreign(what::PART);
        }
        own
    }

    /// Whether content as it was written may be written again.
    fn may_write(&self, parts: &[Part]) -> bool {
        self.style.refusal || !parts.iter().any(|p| matches!(p, Part::Refusal(_)))
    }

    /// Whether reasoning may go back: a signature goes only to the format it
    /// belongs to, and reasoning without its signature is refused or worse.
    fn own_reasoning(&self, part: &ReasoningPart) -> bool {
        part.signature.is_none() || part.dialect == self.style.dialect
    }

    fn assistant_fields(
        &mut self,
        message: &Message,
        content: Option<&Value>,
        at: usize,
        map: &mut Map<String, Value>,
    ) {
        self.refusal(message, content, map);
        self.reasoning(message, at, map);
        let calls: Vec<&ToolCall> = message
            .parts
            .iter()
            .filter_map(|p| match p {
                Part::ToolCall(call) => Some(call),
                _ => None,
            })
            .collect();
        if calls.is_empty() {
            return;
        }
        let raw = written_form(&message.extra, self.style.dialect, "tool_calls", |raw| {
            self.style.history != History::Chunks
                && messages_read::tool_calls(raw, "")
                    .is_ok_and(|read| read.iter().eq(calls.iter().copied()))
        });
        let written = match raw {
            Some(raw) => raw.clone(),
            None => calls.into_iter().map(|call| self.tool_call(call)).collect(),
        };
        map.insert("tool_calls".into(), written);
    }

    fn refusal(&self, message: &Message, content: Option<&Value>, map: &mut Map<String, Value>) {
        let refusal: String = message
            .parts
            .iter()
            .filter_map(|p| match p {
                Part::Refusal(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let inside = content.is_some_and(|raw| {
            messages_read::content_parts(raw, "", self.style.dialect)
                .is_ok_and(|parts| parts.iter().any(|p| matches!(p, Part::Refusal(_))))
        });
        if !refusal.is_empty() && !inside && self.style.refusal {
            map.insert("refusal".into(), refusal.into());
        }
    }

    fn reasoning(&mut self, message: &Message, at: usize, map: &mut Map<String, Value>) {
        let parts: Vec<&ReasoningPart> = message
            .parts
            .iter()
            .filter_map(|p| match p {
                Part::Reasoning(part) => Some(part),
                _ => None,
            })
            .collect();
        let field = match self.style.history {
            History::Chunks => return,
            History::Details(field) => {
                self.details(message, map);
                Some(field)
            }
            History::Field(field) => Some(field),
            History::Loop(field) => Some(field).filter(|_| at > self.loop_start),
            History::Nowhere => None,
        };
        let details = matches!(self.style.history, History::Details(_));
        let mut text = String::new();
        for part in parts {
            if field.is_none() {
                self.adapted.left_out(what::REASONING_HISTORY);
            } else if details || self.own_reasoning(part) {
                text.push_str(&part.text);
                if !details && part.signature.is_some() {
                    self.adapted.left_out(what::REASONING_SIGNATURE);
                }
            } else {
                self.adapted.foreign(what::REASONING_HISTORY);
            }
        }
        if let Some(field) = field.filter(|_| !text.is_empty()) {
            map.insert(field.into(), text.into());
        }
    }

    fn details(&self, message: &Message, map: &mut Map<String, Value>) {
        let raw = written_form(
            &message.extra,
            self.style.dialect,
            "reasoning_details",
            |raw| {
                reasoning_details::parts(raw)
                    .iter()
                    .eq(reasoning_details::of(&message.parts))
            },
        );
        let written = raw
            .cloned()
            .or_else(|| reasoning_details::write(&message.parts));
        if let Some(written) = written {
            map.insert("reasoning_details".into(), written);
        }
    }

    fn tool_call(&mut self, call: &ToolCall) -> Value {
        let signed = !call.extra.fields.is_empty() && call.extra.dialect != self.style.dialect;
        let mut written = tool_call(call, self.style.dialect);
        if signed && !(self.style.call_signatures && written.get("extra_content").is_some()) {
            self.adapted.foreign(what::CALL_EXTRA);
            if let Some(map) = written.as_object_mut() {
                map.shift_remove("extra_content");
            }
        }
        if self.style.history == History::Chunks && call.arguments.trim().is_empty() {
            written["function"]["arguments"] = "{}".into();
        }
        written
    }

    fn tool_message(&mut self, message: &Message, result: &ToolResult) -> Value {
        let mut map = Map::new();
        map.insert("role".into(), "tool".into());
        map.insert("tool_call_id".into(), result.call_id.as_str().into());
        let parts = self.result_parts(result);
        let raw = written_form(&message.extra, self.style.dialect, "content", |raw| {
            parts == result.parts
                && messages_read::content_parts(raw, "", self.style.dialect)
                    .is_ok_and(|read| read == result.parts)
        });
        let content = match raw {
            Some(raw) => raw.clone(),
            None => content(&parts, self.style),
        };
        map.insert("content".into(), content);
        self.finish(message, map)
    }

    /// What of a result a tool message can say; its images are set aside.
    fn result_parts(&mut self, result: &ToolResult) -> Vec<Part> {
        let mut parts = Vec::with_capacity(result.parts.len() + 1);
        if result.is_error {
            self.adapted.note(what::RESULT_ERROR, done::SAID_IN_TEXT);
            parts.push(Part::Text(TOOL_ERROR.to_owned()));
        }
        let mut images = Vec::new();
        for part in &result.parts {
            match part {
                Part::Image(_) if !self.style.images_in_results => {
                    images.extend(content_part(part, self.style));
                }
                Part::Other(extra) if !self.takes_other(extra) => {}
                part => parts.push(part.clone()),
            }
        }
        if !images.is_empty() {
            self.adapted.note(what::RESULT_IMAGE, done::MOVED_BEHIND);
            let whose = format!("Shown by the tool call {}:", result.call_id);
            self.images.push(json!({"type": "text", "text": whose}));
            self.images.append(&mut images);
        }
        if result.is_error {
            joined(parts)
        } else {
            parts
        }
    }

    fn finish(&mut self, message: &Message, mut map: Map<String, Value>) -> Value {
        if let Some(name) = &message.name {
            if self.style.names || message.role == Role::Tool {
                map.insert("name".into(), name.as_str().into());
            } else {
                self.adapted.left_out(what::MESSAGE_NAME);
            }
        }
        let forms = ["content", "tool_calls", "reasoning_details"];
        add_unknown(&message.extra, self.style.dialect, &forms, &mut map);
        Value::Object(map)
    }

    fn role(&mut self, message: &Message, parts: &[&Part]) -> &'static str {
        match message.role {
            Role::Developer if self.style.developer => "developer",
            Role::Developer => {
                self.adapted.note(what::DEVELOPER, done::AS_SYSTEM);
                "system"
            }
            Role::System => "system",
            // What stands beside a result is no result.
            Role::Tool if parts.len() < message.parts.len() => "user",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

/// Whether the parts read from a written `content` are those of the message.
fn same_content(read: &[Part], message: &Message) -> bool {
    let has = |want: fn(&Part) -> bool| read.iter().any(want);
    let refusal_inside = has(|p| matches!(p, Part::Refusal(_)));
    let reasoning_inside = has(|p| matches!(p, Part::Reasoning(_)));
    let now = message.parts.iter().filter(|p| {
        is_content(p)
            || (refusal_inside && matches!(p, Part::Refusal(_)))
            || (reasoning_inside && matches!(p, Part::Reasoning(_)))
    });
    read.iter().eq(now)
}

fn is_content(part: &Part) -> bool {
    match part {
        Part::Text(_) | Part::Image(_) => true,
        Part::Other(extra) => !reasoning_details::is_opaque(extra),
        _ => false,
    }
}

fn joined(parts: Vec<Part>) -> Vec<Part> {
    let mut out: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts {
        match (out.last_mut(), part) {
            (Some(Part::Text(last)), Part::Text(text)) => last.push_str(&text),
            (_, part) => out.push(part),
        }
    }
    out
}

/// Adds the extra fields that are not there yet. Those named in `forms` are
/// written forms, never fields of their own.
pub(super) fn add_unknown(
    extra: &Extra,
    dialect: &str,
    forms: &[&str],
    map: &mut Map<String, Value>,
) {
    for (name, value) in extra.fields.iter().filter(|_| extra.dialect == dialect) {
        if !forms.contains(&name.as_str()) && !map.contains_key(name) {
            map.insert(name.clone(), value.clone());
        }
    }
}

/// The `content` value of parts: a string for one text, else an array.
pub(super) fn content(parts: &[Part], style: &Style) -> Value {
    match parts {
        [] => Value::String(String::new()),
        [Part::Text(text)] => Value::String(text.clone()),
        parts => parts
            .iter()
            .filter_map(|part| content_part(part, style))
            .collect(),
    }
}

fn content_part(part: &Part, style: &Style) -> Option<Value> {
    match part {
        Part::Text(text) => Some(json!({"type": "text", "text": text})),
        Part::Refusal(text) => Some(json!({"type": "refusal", "refusal": text})),
        Part::Image(image) if !style.image_objects && image.detail.is_none() => {
            Some(json!({"type": "image_url", "image_url": image.url}))
        }
        Part::Image(image) => {
            let mut url = Map::new();
            url.insert("url".into(), image.url.as_str().into());
            if let Some(detail) = &image.detail {
                url.insert("detail".into(), detail.as_str().into());
            }
            Some(json!({"type": "image_url", "image_url": url}))
        }
        Part::Reasoning(part) => Some(thinking(part)),
        Part::Other(extra) if extra.dialect == style.dialect => {
            Some(Value::Object(extra.fields.clone()))
        }
        _ => None,
    }
}

/// Reasoning as Mistral has it: a chunk of `content`.
pub(in crate::wire) fn thinking(part: &ReasoningPart) -> Value {
    let mut map = Map::new();
    map.insert("type".into(), "thinking".into());
    map.insert(
        "thinking".into(),
        json!([{"type": "text", "text": part.text}]),
    );
    if let Some(signature) = &part.signature {
        map.insert("signature".into(), signature.as_str().into());
    }
    Value::Object(map)
}

/// The `tool_calls` value.
pub(super) fn tool_calls<'a>(calls: impl Iterator<Item = &'a ToolCall>, dialect: &str) -> Value {
    calls.map(|call| tool_call(call, dialect)).collect()
}

/// One entry of `tool_calls`.
pub(super) fn tool_call(call: &ToolCall, dialect: &str) -> Value {
    let mut written = json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    });
    if let Some(content) = super::call_signature::write(&call.extra) {
        written["extra_content"] = content;
    }
    if let Some(map) = written.as_object_mut() {
        add_unknown(&call.extra, dialect, &[], map);
    }
    written
}

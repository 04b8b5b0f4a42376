//! One content block, put together from its pieces.

use crate::wire::anthropic::{block_read, extra};
use crate::wire::json::{Joiner, field};
use evenkeel_core::{Delta, Part, ReasoningPart, StreamEvent};
use serde_json::{Map, Value};

/// A block that is open.
#[derive(Debug)]
pub(super) struct Block {
    /// Counts the blocks of the answer.
    pub(super) serial: usize,
    state: State,
    halves: Joiner,
}

#[derive(Debug)]
enum State {
    Text {
        citations: Vec<Value>,
    },
    Thinking,
    Call {
        index: usize,
        /// What its start said already, an object.
        input: String,
        has_arguments: bool,
    },
    /// Kept whole: redacted thinking, the provider's own tools, what is new.
    Other {
        fields: Map<String, Value>,
        input: String,
    },
}

/// What a piece gives: events, and the bytes that are held back.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) events: Vec<StreamEvent>,
    pub(super) held_bytes: usize,
}

impl Taken {
    fn event(delta: Delta) -> Self {
        Self {
            events: vec![StreamEvent::Delta(delta)],
            held_bytes: 0,
        }
    }

    fn held(bytes: usize) -> Self {
        Self {
            events: Vec::new(),
            held_bytes: bytes,
        }
    }
}

impl Block {
    /// The block that begins with `fields`; the next call is number `calls`.
    pub(super) fn start(
        mut fields: Map<String, Value>,
        serial: usize,
        calls: usize,
    ) -> (Self, Taken) {
        let mut taken = Taken::default();
        let kind = text(&fields, "type").to_owned();
        let state = match kind.as_str() {
            "text" => {
                taken.events.extend(text_delta(text(&fields, "text")));
                let citations = match fields.shift_remove("citations") {
                    Some(Value::Array(citations)) => citations,
                    _ => Vec::new(),
                };
                State::Text { citations }
            }
            "thinking" => {
                taken.events.extend(thinking(text(&fields, "thinking")));
                taken.events.extend(signature(text(&fields, "signature")));
                State::Thinking
            }
            "tool_use" => call(fields, calls, &mut taken.events),
            _ => {
                taken.held_bytes = Value::Object(fields.clone()).to_string().len();
                State::Other {
                    fields,
                    input: String::new(),
                }
            }
        };
        let block = Self {
            serial,
            state,
            halves: Joiner::default(),
        };
        (block, taken)
    }

    pub(super) fn is_call(&self) -> bool {
        matches!(self.state, State::Call { .. })
    }

    /// Takes a piece; none where the block has no use for its type.
    pub(super) fn delta(&mut self, delta: &Map<String, Value>, has_halves: bool) -> Option<Taken> {
        let kind = text(delta, "type");
        match (&mut self.state, kind) {
            (State::Text { .. }, "text_delta") => {
                let piece = self.halves.join(text(delta, "text"), has_halves);
                Some(text_delta(&piece).map_or_else(Taken::default, |e| Taken {
                    events: vec![e],
                    held_bytes: 0,
                }))
            }
            (State::Text { citations }, "citations_delta") => {
                let citation = delta.get("citation")?;
                citations.push(citation.clone());
                Some(Taken::held(citation.to_string().len()))
            }
            (State::Thinking, "thinking_delta") => {
                let piece = self.halves.join(text(delta, "thinking"), has_halves);
                let events = thinking(&piece).into_iter().collect();
                Some(Taken {
                    events,
                    held_bytes: 0,
                })
            }
            (State::Thinking, "signature_delta") => Some(Taken {
                events: signature(text(delta, "signature")).into_iter().collect(),
                held_bytes: 0,
            }),
            (
                State::Call {
                    index,
                    has_arguments,
                    ..
                },
                "input_json_delta",
            ) => {
                let piece = self.halves.join(text(delta, "partial_json"), has_halves);
                if piece.is_empty() {
                    return Some(Taken::default());
                }
                *has_arguments = true;
                Some(Taken::event(Delta::ToolCallArguments {
                    index: *index,
                    fragment: piece.into_owned(),
                }))
            }
            (State::Other { input, .. }, "input_json_delta") => {
                let piece = self.halves.join(text(delta, "partial_json"), has_halves);
                input.push_str(&piece);
                Some(Taken::held(piece.len()))
            }
            (State::Other { fields, .. }, _) => Some(Taken::held(merge(fields, delta))),
            _ => None,
        }
    }

    /// What the end of the block gives.
    pub(super) fn stop(mut self) -> Vec<StreamEvent> {
        let left = self.halves.finish().map(String::from);
        match self.state {
            State::Text { citations } => {
                let cited = (!citations.is_empty())
                    .then(|| StreamEvent::Delta(Delta::Part(block_read::citations(citations))));
                let left = left.as_deref().and_then(text_delta);
                left.into_iter().chain(cited).collect()
            }
            State::Thinking => left.as_deref().and_then(thinking).into_iter().collect(),
            State::Call {
                index,
                input,
                has_arguments,
            } => {
                let rest = if has_arguments { left } else { Some(input) };
                rest.map(|fragment| {
                    StreamEvent::Delta(Delta::ToolCallArguments { index, fragment })
                })
                .into_iter()
                .collect()
            }
            State::Other {
                mut fields,
                mut input,
            } => {
                input.extend(left);
                if !input.is_empty() {
                    let read = serde_json::from_str(&input);
                    fields.insert("input".into(), read.unwrap_or_else(|_| input.into()));
                }
                vec![StreamEvent::Delta(Delta::Part(Part::Other(extra(fields))))]
            }
        }
    }
}

fn call(mut fields: Map<String, Value>, index: usize, events: &mut Vec<StreamEvent>) -> State {
    events.push(StreamEvent::Delta(Delta::ToolCallStart {
        index,
        id: text(&fields, "id").to_owned(),
        name: text(&fields, "name").to_owned(),
    }));
    let input = match fields.shift_remove("input") {
        Some(Value::Object(input)) => Value::Object(input).to_string(),
        Some(Value::String(written)) if written.starts_with('{') => written,
        _ => "{}".to_owned(),
    };
    for name in ["type", "id", "name"] {
        fields.shift_remove(name);
    }
    let extra = block_read::call_extra(fields);
    if !extra.fields.is_empty() {
        events.push(StreamEvent::Delta(Delta::ToolCallExtra { index, extra }));
    }
    State::Call {
        index,
        input,
        has_arguments: false,
    }
}

/// Adds the fields of a piece of unknown type: texts are joined, the rest
/// replaced. Returns the bytes added.
fn merge(fields: &mut Map<String, Value>, delta: &Map<String, Value>) -> usize {
    let mut bytes = 0;
    for (name, value) in delta.iter().filter(|(name, _)| *name != "type") {
        match (fields.get_mut(name), value) {
            (Some(Value::String(text)), Value::String(more)) => {
                text.push_str(more);
                bytes += more.len();
            }
            (_, value) => {
                bytes += value.to_string().len();
                fields.insert(name.clone(), value.clone());
            }
        }
    }
    bytes
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> &'a str {
    field(fields, name)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn text_delta(piece: &str) -> Option<StreamEvent> {
    (!piece.is_empty()).then(|| StreamEvent::Delta(Delta::Text(piece.to_owned())))
}

fn thinking(piece: &str) -> Option<StreamEvent> {
    let part = ReasoningPart {
        text: piece.to_owned(),
        ..ReasoningPart::default()
    };
    (!piece.is_empty()).then(|| StreamEvent::Delta(Delta::Reasoning(part)))
}

/// A signature replaces the one before it.
fn signature(signature: &str) -> Option<StreamEvent> {
    let part = ReasoningPart {
        text: String::new(),
        signature: Some(signature.to_owned()),
        dialect: crate::wire::anthropic::DIALECT,
    };
    (!signature.is_empty()).then(|| StreamEvent::Delta(Delta::Reasoning(part)))
}

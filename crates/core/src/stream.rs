//! Streams in neutral events, and how they add up to a whole answer.

use crate::{
    ChatResponse, Class, Extra, Failure, Finish, Meta, Part, RateLimits, ReasoningPart, ToolCall,
    Usage,
};
use serde_json::{Map, Value};

/// One event of an upstream stream.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// What the stream says of itself before its content. No progress.
    Start {
        /// The provider's id of the answer, possibly empty.
        id: String,
        /// The model that the answer says it comes from.
        model: String,
        /// Unix time in seconds, 0 where none is stated.
        created: u64,
        /// Wire fields without a neutral place.
        extra: Extra,
    },
    /// The rate limits that the answer's headers report, before anything else. No
    /// progress.
    RateLimits(Box<RateLimits>),
    /// What the model could not be told as asked, a short line each. No progress.
    Adapted(Vec<String>),
    /// More wire fields of the answer without a neutral place; of a field that
    /// comes again the later one holds, except that objects are merged and the
    /// lists in `logprobs` joined. No progress.
    Extra(Extra),
    /// Content: the only event that counts as progress.
    Delta(Delta),
    /// Why the answer ended; content is over.
    Finish(Finish),
    /// Tokens so far; a later one replaces an earlier one.
    Usage(Usage),
    /// A comment, a ping or an empty delta: the peer lives, nothing more.
    KeepAlive,
    /// An event that could not be read and was skipped.
    Skipped,
    /// Another attempt goes on from here, after the one before broke: who it is. What
    /// follows belongs behind the text so far. Never from an upstream. No progress.
    Resumed(Box<Meta>),
    /// The answer is complete by its dialect's rules. Always the last event.
    End,
}

/// A piece of content.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Delta {
    /// Answer text.
    Text(String),
    /// Words of refusal.
    Refusal(String),
    /// Reasoning text or its signature.
    Reasoning(ReasoningPart),
    /// A tool call begins. `index` counts the calls of this answer from 0.
    ToolCallStart {
        /// Which call.
        index: usize,
        /// The call's id.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of a call's argument text.
    ToolCallArguments {
        /// Which call.
        index: usize,
        /// The next piece of JSON text.
        fragment: String,
    },
    /// Wire fields of a call without a neutral place, such as a provider's
    /// signature over it. No content.
    ToolCallExtra {
        /// Which call.
        index: usize,
        /// The fields.
        extra: Extra,
    },
    /// A part that comes in one piece: an image, or what has no neutral form.
    Part(Part),
}

impl StreamEvent {
    /// Whether this event is content: text, reasoning or a tool call that is
    /// not empty. Only content stops the first-token and stall clocks.
    pub fn is_content(&self) -> bool {
        match self {
            Self::Delta(Delta::Text(text) | Delta::Refusal(text)) => !text.is_empty(),
            Self::Delta(Delta::Reasoning(r)) => !r.text.is_empty(),
            Self::Delta(Delta::ToolCallStart { .. } | Delta::Part(_)) => true,
            Self::Delta(Delta::ToolCallArguments { fragment, .. }) => !fragment.is_empty(),
            _ => false,
        }
    }
}

/// Adds stream events up to a whole answer.
#[derive(Debug, Default)]
pub struct Accumulator {
    id: String,
    model: String,
    created: u64,
    extra: Extra,
    parts: Vec<Part>,
    /// Position in `parts` of each tool call.
    calls: Vec<usize>,
    finish: Option<Finish>,
    usage: Option<Usage>,
    adapted: Vec<String>,
    ended: bool,
}

impl Accumulator {
    /// Takes the next event.
    pub fn push(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::Start {
                id,
                model,
                created,
                extra,
            } => {
                self.id.clone_from(id);
                self.model.clone_from(model);
                self.created = *created;
                self.extra = extra.clone();
            }
            StreamEvent::Adapted(notes) => self.adapted.extend_from_slice(notes),
            StreamEvent::Extra(extra) => add(&mut self.extra, extra),
            StreamEvent::Delta(delta) => self.delta(delta),
            StreamEvent::Finish(finish) => self.finish = Some(*finish),
            StreamEvent::Usage(usage) => self.usage = Some(*usage),
            StreamEvent::End => self.ended = true,
            StreamEvent::RateLimits(_)
            | StreamEvent::KeepAlive
            | StreamEvent::Skipped
            | StreamEvent::Resumed(_) => {}
        }
    }

    fn delta(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(text) => match self.parts.last_mut() {
                Some(Part::Text(last)) => last.push_str(text),
                _ => self.parts.push(Part::Text(text.clone())),
            },
            Delta::Refusal(text) => match self.parts.last_mut() {
                Some(Part::Refusal(last)) => last.push_str(text),
                _ => self.parts.push(Part::Refusal(text.clone())),
            },
            Delta::Reasoning(piece) => match self.parts.last_mut() {
                // A signature ends a block: text after it begins the next.
                Some(Part::Reasoning(last))
                    if last.signature.is_none() || piece.text.is_empty() =>
                {
                    last.text.push_str(&piece.text);
                    if piece.signature.is_some() {
                        last.signature.clone_from(&piece.signature);
                        last.dialect = piece.dialect;
                    }
                }
                _ => self.parts.push(Part::Reasoning(piece.clone())),
            },
            Delta::ToolCallStart { index, id, name } => {
                if *index == self.calls.len() {
                    self.calls.push(self.parts.len());
                    self.parts.push(Part::ToolCall(ToolCall {
                        id: id.clone(),
                        name: name.clone(),
                        arguments: String::new(),
                        extra: Extra::default(),
                    }));
                }
            }
            Delta::ToolCallArguments { index, fragment } => {
                if let Some(call) = self.call(*index) {
                    call.arguments.push_str(fragment);
                }
            }
            Delta::ToolCallExtra { index, extra } => {
                if let Some(call) = self.call(*index) {
                    add(&mut call.extra, extra);
                }
            }
            Delta::Part(part) => self.parts.push(part.clone()),
        }
    }

    fn call(&mut self, index: usize) -> Option<&mut ToolCall> {
        let part = self.calls.get(index).and_then(|i| self.parts.get_mut(*i));
        match part {
            Some(Part::ToolCall(call)) => Some(call),
            _ => None,
        }
    }

    /// Tokens reported so far.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The whole answer.
    ///
    /// # Errors
    /// [`Class::Transient`] where the stream was not complete.
    pub fn finish(self) -> Result<ChatResponse, Failure> {
        match self.finish {
            Some(finish) if self.ended => Ok(ChatResponse {
                id: self.id,
                model: self.model,
                created: self.created,
                parts: self.parts,
                finish,
                usage: self.usage,
                adapted: self.adapted,
                rate_limits: None,
                extra: self.extra,
            }),
            _ => Err(Failure::new(
                Class::Transient,
                "the stream ended before the answer was complete",
            )),
        }
    }
}

/// Adds fields of the same dialect; those of another one replace them all.
fn add(to: &mut Extra, more: &Extra) {
    if to.dialect == more.dialect {
        merge(&mut to.fields, &more.fields, false);
    } else {
        *to = more.clone();
    }
}

/// Objects are merged, anything else is replaced, but for the lists of token
/// probabilities: each piece of a stream brings those of its own tokens.
fn merge(to: &mut Map<String, Value>, more: &Map<String, Value>, by_token: bool) {
    for (name, value) in more {
        match (to.get_mut(name), value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                merge(old, new, by_token || name == "logprobs");
            }
            (Some(Value::Array(old)), Value::Array(new)) if by_token => {
                old.extend_from_slice(new);
            }
            _ => {
                to.insert(name.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> StreamEvent {
        StreamEvent::Start {
            id: "a".into(),
            model: "m".into(),
            created: 7,
            extra: Extra::default(),
        }
    }

    #[test]
    fn pieces_add_up_to_the_whole_answer() {
        let mut acc = Accumulator::default();
        for event in [
            start(),
            StreamEvent::Delta(Delta::Reasoning(ReasoningPart {
                text: "hm".into(),
                ..ReasoningPart::default()
            })),
            StreamEvent::Delta(Delta::Text("Ti".into())),
            StreamEvent::Delta(Delta::Text("de".into())),
            StreamEvent::Delta(Delta::ToolCallStart {
                index: 0,
                id: "c".into(),
                name: "t".into(),
            }),
            StreamEvent::Delta(Delta::ToolCallArguments {
                index: 0,
                fragment: "{\"a\"".into(),
            }),
            StreamEvent::Delta(Delta::ToolCallArguments {
                index: 0,
                fragment: ":1}".into(),
            }),
            StreamEvent::Finish(Finish::ToolUse),
            StreamEvent::End,
        ] {
            acc.push(&event);
        }
        let whole = acc.finish().unwrap();
        assert_eq!(whole.plain_text(), "Tide");
        assert_eq!(whole.tool_calls().next().unwrap().arguments, "{\"a\":1}");
        assert_eq!((whole.id.as_str(), whole.created), ("a", 7));
    }

    #[test]
    fn text_after_a_signature_is_another_block_of_reasoning() {
        let piece = |text: &str, signature: Option<&str>| {
            StreamEvent::Delta(Delta::Reasoning(ReasoningPart {
                text: text.into(),
                signature: signature.map(str::to_owned),
                dialect: "d",
            }))
        };
        let mut acc = Accumulator::default();
        for event in [
            piece("a", None),
            piece("b", None),
            piece("", Some("s1")),
            piece("c", None),
            piece("", Some("s2")),
            StreamEvent::Finish(Finish::Stop),
            StreamEvent::End,
        ] {
            acc.push(&event);
        }
        let parts = acc.finish().unwrap().parts;
        let block = |text: &str, signature: &str| {
            Part::Reasoning(ReasoningPart {
                text: text.into(),
                signature: Some(signature.into()),
                dialect: "d",
            })
        };
        assert_eq!(parts, [block("ab", "s1"), block("c", "s2")]);
    }

    #[test]
    fn fields_of_a_stream_add_up_and_token_probabilities_are_joined() {
        let fields = |value: Value| match value {
            Value::Object(fields) => StreamEvent::Extra(Extra {
                dialect: "d",
                fields,
            }),
            _ => unreachable!(),
        };
        let mut acc = Accumulator::default();
        for event in [
            fields(serde_json::json!({"choice": {"logprobs": {"content": [1]}}, "cited": ["a"]})),
            fields(
                serde_json::json!({"choice": {"logprobs": {"content": [2]}, "x": 1}, "cited": ["a", "b"]}),
            ),
            StreamEvent::Finish(Finish::Stop),
            StreamEvent::End,
        ] {
            acc.push(&event);
        }
        assert_eq!(
            Value::Object(acc.finish().unwrap().extra.fields),
            serde_json::json!({"choice": {"logprobs": {"content": [1, 2]}, "x": 1}, "cited": ["a", "b"]})
        );
    }

    #[test]
    fn a_stream_without_its_end_is_no_answer() {
        let mut acc = Accumulator::default();
        acc.push(&start());
        acc.push(&StreamEvent::Delta(Delta::Text("half".into())));
        assert_eq!(acc.finish().unwrap_err().class, Class::Transient);
    }

    #[test]
    fn only_content_is_progress() {
        assert!(!start().is_content());
        assert!(!StreamEvent::KeepAlive.is_content());
        assert!(!StreamEvent::Delta(Delta::Text(String::new())).is_content());
        assert!(StreamEvent::Delta(Delta::Text("x".into())).is_content());
    }
}

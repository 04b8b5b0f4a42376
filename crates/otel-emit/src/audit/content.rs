//! A keyed hash of what was asked and answered: shows later that it was this and nothing
//! else, and tells nobody without the key what it was.

use evenkeel_core::{ChatRequest, ChatResponse, Exchange, Message, Part, Role};
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::Sha256;
use std::fmt;
use std::fmt::Write as _;

/// The key of records' `content_hmac`.
///
/// The hash is HMAC-SHA-256, under the bytes of the key as it is written, over the canonical
/// JSON (RFC 8785) of `{"messages": [SAID, …], "answer": SAID or null}`. The messages are the
/// caller's, the answer is the one that the caller was given, `null` where it was given no
/// whole one. Each SAID has a `role` (`system`, `developer`, `user`, `assistant`, `tool`),
/// and of the following what is not empty:
///
/// - `content`: its texts, one after the other;
/// - `refusal`: the words of a refusal, likewise;
/// - `images`: their addresses, `data:` ones included;
/// - `tool_calls`: `{"id", "name", "arguments"}` each, the arguments as the text they came as;
/// - `tool_results`: `{"id", "content"}` each, `id` being that of the call;
/// - `others`: the fields of parts that have no neutral form.
///
/// Reasoning is left out, and so is the notice that a role puts behind degraded answers.
#[derive(Clone)]
pub struct ContentKey(Hmac<Sha256>);

impl fmt::Debug for ContentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ContentKey(…)")
    }
}

impl ContentKey {
    /// The key of that text. Any length is taken; one that is shorter than 32 characters can
    /// be guessed.
    ///
    /// # Panics
    /// Never: HMAC takes keys of any length.
    pub fn new(text: &SecretString) -> Self {
        let keyed = Hmac::new_from_slice(text.expose_secret().as_bytes());
        Self(keyed.expect("HMAC takes keys of any length"))
    }

    /// The hash of an exchange as a record has it.
    pub(super) fn hash(&self, exchange: &Exchange) -> Option<Box<str>> {
        let content = Content::of(&exchange.request, exchange.answer.as_deref());
        // A number that JSON has no word for cannot have come in JSON.
        let canonical = serde_json_canonicalizer::to_vec(&content).ok()?;
        let mut hmac = self.0.clone();
        hmac.update(&canonical);
        let mut text = "hmac-sha256:".to_owned();
        for byte in hmac.finalize().into_bytes() {
            write!(text, "{byte:02x}").ok()?;
        }
        Some(text.into())
    }
}

#[derive(Serialize)]
struct Content<'a> {
    messages: Vec<Said<'a>>,
    answer: Option<Said<'a>>,
}

impl<'a> Content<'a> {
    fn of(request: &'a ChatRequest, answer: Option<&'a ChatResponse>) -> Self {
        Self {
            messages: request.messages.iter().map(message).collect(),
            answer: answer.map(|answer| Said::of("assistant", &answer.parts)),
        }
    }
}

fn message(message: &Message) -> Said<'_> {
    let role = match message.role {
        Role::System => "system",
        Role::Developer => "developer",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    Said::of(role, &message.parts)
}

/// What somebody said.
#[derive(Serialize)]
struct Said<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    content: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    refusal: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_results: Vec<Outcome<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    others: Vec<&'a Map<String, Value>>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct Outcome<'a> {
    id: &'a str,
    content: String,
}

impl<'a> Said<'a> {
    fn of(role: &'static str, parts: &'a [Part]) -> Self {
        let mut said = Self {
            role,
            content: String::new(),
            refusal: String::new(),
            images: Vec::new(),
            tool_calls: Vec::new(),
            tool_results: Vec::new(),
            others: Vec::new(),
        };
        for part in parts {
            said.add(part);
        }
        said
    }

    fn add(&mut self, part: &'a Part) {
        match part {
            Part::Text(text) => self.content.push_str(text),
            Part::Refusal(text) => self.refusal.push_str(text),
            Part::Image(image) => self.images.push(&image.url),
            Part::ToolCall(call) => self.tool_calls.push(Call {
                id: &call.id,
                name: &call.name,
                arguments: &call.arguments,
            }),
            Part::ToolResult(result) => {
                let inner = Self::of("tool", &result.parts);
                self.tool_results.push(Outcome {
                    id: &result.call_id,
                    content: inner.content,
                });
                self.images.extend(inner.images);
                self.others.extend(inner.others);
            }
            Part::Other(other) => self.others.push(&other.fields),
            // Not an answer, and not every client is shown it.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{Extra, Finish, Image, ReasoningPart, ToolCall, ToolResult};
    use std::sync::Arc;

    fn key(text: &str) -> ContentKey {
        ContentKey::new(&SecretString::from(text))
    }

    fn answer(parts: Vec<Part>) -> ChatResponse {
        ChatResponse {
            id: "chatcmpl-1".to_owned(),
            model: "m".to_owned(),
            created: 1,
            parts,
            finish: Finish::Stop,
            usage: None,
            adapted: Vec::new(),
            rate_limits: None,
            extra: Extra::default(),
        }
    }

    fn text(text: &str) -> Part {
        Part::Text(text.to_owned())
    }

    fn exchange(request: ChatRequest, parts: Option<Vec<Part>>) -> Exchange {
        Exchange {
            request: Arc::new(request),
            answer: parts.map(|parts| Arc::new(answer(parts))),
        }
    }

    /// What Python's `hmac`, `hashlib` and `json` make of the same.
    #[test]
    fn anybody_with_the_key_can_compute_it() {
        let key = key("0123456789abcdef0123456789abcdef");
        let mut request = ChatRequest::user("How high is the tide, \"really\"?\n");
        request
            .messages
            .insert(0, Message::text(Role::System, "Be brief. Ärger ist ok."));
        let whole = exchange(request.clone(), Some(vec![text("2 m.")]));
        assert_eq!(
            key.hash(&whole).as_deref(),
            Some("hmac-sha256:b4ea5769c1b7509d2550e78b8a2c1e4672431d55a02a1d47c6bffc080324dead")
        );
        let unanswered = exchange(request, None);
        assert_eq!(
            key.hash(&unanswered).as_deref(),
            Some("hmac-sha256:6439f43f804fd3db0bc6bbcdca8ea5a33f0bd3caca6616d518d1bd5c0f2f9eaa")
        );
    }

    #[test]
    fn every_part_counts_but_reasoning_and_how_texts_were_cut() {
        let call = |arguments: &str| {
            Part::ToolCall(ToolCall {
                id: "c1".to_owned(),
                name: "tide".to_owned(),
                arguments: arguments.to_owned(),
                ..ToolCall::default()
            })
        };
        let result = |said: &str| {
            Part::ToolResult(ToolResult {
                call_id: "c1".to_owned(),
                parts: vec![text(said)],
                is_error: false,
            })
        };
        let image = |url: &str| {
            Part::Image(Image {
                url: url.to_owned(),
                detail: None,
            })
        };
        let other = |value: i32| {
            let mut extra = Extra::default();
            extra.fields.insert("n".to_owned(), value.into());
            Part::Other(extra)
        };
        let of = |parts: Vec<Part>| {
            let mut request = ChatRequest::user("");
            request.messages[0].parts = parts;
            key("k").hash(&exchange(request, None)).unwrap()
        };
        let all = [
            of(vec![text("a")]),
            of(vec![Part::Refusal("a".to_owned())]),
            of(vec![call("{\"a\":1}")]),
            of(vec![call("{\"a\": 1}")]),
            of(vec![result("a")]),
            of(vec![result("b")]),
            of(vec![image("https://a.test/a.png")]),
            of(vec![image("https://a.test/b.png")]),
            of(vec![other(1)]),
            of(vec![other(2)]),
            of(Vec::new()),
        ];
        let told: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(told.len(), all.len());
        let thought = Part::Reasoning(ReasoningPart {
            text: "hm".to_owned(),
            ..ReasoningPart::default()
        });
        assert_eq!(
            of(vec![text("ab")]),
            of(vec![text("a"), thought, text("b")])
        );
        let asked = exchange(ChatRequest::user("a"), None);
        assert_ne!(key("k").hash(&asked), key("l").hash(&asked));
    }

    #[test]
    fn a_key_is_not_shown() {
        let shown = format!("{:?}", key("very-secret"));
        assert_eq!(shown, "ContentKey(…)");
    }
}

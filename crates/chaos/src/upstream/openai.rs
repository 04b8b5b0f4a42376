//! The chat-completions wire format, written and read by its documentation
//! alone: a fault in the product's own codec must not cancel itself out here.

use crate::answer::Answer;
use evenkeel_core::{ChatRequest, Finish, Message, Role, Usage};
use serde_json::{Value, json};

/// What a request asks for.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) model: String,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) request: ChatRequest,
}

impl Asked {
    /// Reads a request body; what is missing where it is none.
    pub(super) fn read(body: &Value) -> Result<Self, String> {
        let model = body["model"].as_str().ok_or("`model` is missing")?;
        let messages = body["messages"]
            .as_array()
            .filter(|list| !list.is_empty())
            .ok_or("`messages` is missing or empty")?;
        let messages = messages.iter().map(message).collect::<Result<_, _>>()?;
        let cap = ["max_completion_tokens", "max_tokens"];
        Ok(Self {
            model: model.to_owned(),
            stream: body["stream"] == true,
            include_usage: body["stream_options"]["include_usage"] == true,
            request: ChatRequest {
                messages,
                max_output_tokens: cap.iter().find_map(|key| body[*key].as_u64()),
                ..ChatRequest::default()
            },
        })
    }
}

fn message(value: &Value) -> Result<Message, String> {
    let role = match value["role"].as_str() {
        Some("system") => Role::System,
        Some("developer") => Role::Developer,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        _ => return Err(format!("`role` of a message is {}", value["role"])),
    };
    let text = match &value["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|p| p["text"].as_str()).collect(),
        Value::Null if role == Role::Assistant => String::new(),
        other => return Err(format!("`content` of a message is {other}")),
    };
    Ok(Message::text(role, text))
}

/// What is the same in every body of one answer.
#[derive(Debug)]
pub(super) struct Envelope {
    pub(super) id: String,
    pub(super) model: String,
    /// Unix time in seconds.
    pub(super) created: u64,
}

impl Envelope {
    /// A whole answer of `tokens` tokens; without finish where `finished` is false.
    pub(super) fn whole(&self, answer: &Answer, tokens: u32, finished: bool) -> Value {
        let finish = finished.then(|| finish_reason(answer.finish));
        let message = json!({
            "role": "assistant", "content": answer.text(tokens), "refusal": null,
        });
        let choice = json!({
            "index": 0, "message": message, "logprobs": null, "finish_reason": finish,
        });
        let mut body = self.body("chat.completion", json!([choice]));
        body["usage"] = usage(answer.usage(tokens));
        body
    }

    /// A chunk of a stream.
    pub(super) fn chunk(&self, delta: &Value, finish: Option<Finish>) -> Value {
        let finish = finish.map(finish_reason);
        let choice = json!({
            "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish,
        });
        self.body("chat.completion.chunk", json!([choice]))
    }

    /// A chunk without choices, with token counts where given.
    pub(super) fn no_choices(&self, counts: Option<Usage>) -> Value {
        let mut body = self.body("chat.completion.chunk", json!([]));
        if let Some(counts) = counts {
            body["usage"] = usage(counts);
        }
        body
    }

    fn body(&self, object: &str, choices: Value) -> Value {
        let mut body = json!({
            "id": self.id, "object": object, "created": self.created, "model": self.model,
        });
        body["choices"] = choices;
        body
    }
}

/// An error object.
pub(super) fn error(status: u16, code: Option<&str>, message: &str) -> Value {
    let kind = match (status, code) {
        (_, Some("insufficient_quota")) => "insufficient_quota",
        (429, _) => "requests",
        (500.., _) => "server_error",
        _ => "invalid_request_error",
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

/// The list of models.
pub(super) fn models(names: &[String]) -> Value {
    let model =
        |id: &String| json!({"id": id, "object": "model", "created": 0, "owned_by": "chaos"});
    json!({"object": "list", "data": names.iter().map(model).collect::<Vec<_>>()})
}

/// An event of a stream.
pub(super) fn event(data: &Value) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}

/// The event that ends a stream.
pub(super) const DONE: &[u8] = b"data: [DONE]\n\n";
/// A comment.
pub(super) const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";
/// An event whose JSON breaks off.
pub(super) const GARBAGE: &[u8] = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"conte\n\n";

fn finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Length => "length",
        _ => "stop",
    }
}

fn usage(counts: Usage) -> Value {
    json!({
        "prompt_tokens": counts.input,
        "completion_tokens": counts.output,
        "total_tokens": counts.input + counts.output,
    })
}

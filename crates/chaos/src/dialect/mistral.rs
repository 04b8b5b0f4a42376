//! Mistral's chat format.

use super::{Addressed, Kind, StreamWriter, Trouble, Wanted, counts, put, retry_after};
use crate::answer::Answer;
use crate::script::Act;
use evenkeel_core::{Allowance, ChatResponse, Failure, StreamEvent, Value};
use evenkeel_providers::Server;
use evenkeel_providers::wire::classify::Reply;
use evenkeel_providers::wire::mistral::{
    StreamDecoder, StreamEncoder, decode_answer, decode_request, encode_error, encode_response,
};
use evenkeel_providers::wire::sse::{DONE, write_event};
use evenkeel_providers::wire::{ClientRequest, EventDecoder, RequestError};
use serde_json::json;
use std::time::{Duration, SystemTime};

/// An event whose JSON breaks off.
const GARBAGE: &[u8] = b"data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"conte\n\n";
/// The wording by which a full window is known. From reports of the API's
/// answers; the figures are made up.
const TOO_LONG: &str =
    "Prompt contains 140000 tokens, too large for model with 131072 maximum context length";

#[derive(Debug)]
pub(super) struct Format;

impl super::Format for Format {
    fn server(&self) -> Server {
        Server::Mistral
    }

    fn decode_request(&self, _: &Addressed, body: &[u8]) -> Result<ClientRequest, RequestError> {
        decode_request(body)
    }

    fn answer(&self, response: &ChatResponse) -> Value {
        encode_response(response, &response.model)
    }

    fn break_off(&self, answer: &mut Value) {
        put(answer, "/choices/0/finish_reason", Value::Null);
    }

    fn empty(&self, answer: &mut Value) {
        put(answer, "/choices", json!([]));
    }

    fn opening(&self) -> &'static str {
        "{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\""
    }

    fn error(&self, trouble: &Trouble<'_>) -> Value {
        let message = trouble.message;
        let (message, kind, code) = match trouble.kind() {
            Kind::Key => return json!({"detail": message}),
            Kind::Unprocessable => return invalid("value_error", &["body"], message),
            Kind::NoModel => (message, "invalid_model", Some("1500")),
            Kind::ContextWindow => (TOO_LONG, "invalid_request_error", None),
            Kind::RateLimited => (message, "rate_limited", Some("1300")),
            Kind::Overloaded => (message, "service_tier_capacity_exceeded", Some("3505")),
            Kind::Server | Kind::Timeout => (message, "internal_server_error", None),
            _ => (message, "invalid_request_error", None),
        };
        let mut error = encode_error(message, kind, code.or(trouble.own_code()));
        error["raw_status_code"] = self.status(trouble).into();
        error
    }

    /// Used-up quota is a matter of paying.
    fn status(&self, trouble: &Trouble<'_>) -> u16 {
        match trouble.kind() {
            Kind::Quota => 402,
            _ => trouble.status,
        }
    }

    fn refusal(&self, error: &RequestError) -> (u16, Value) {
        let param = error.param.as_deref();
        let place: Vec<&str> = std::iter::once("body").chain(param).collect();
        let kind = error.code.unwrap_or("value_error");
        (422, invalid(kind, &place, &error.message))
    }

    fn wait_headers(&self, wait: Duration) -> Vec<(&'static str, String)> {
        vec![retry_after(wait)]
    }

    fn limit_headers(&self, requests: &Allowance, _: SystemTime) -> Vec<(&'static str, String)> {
        let names = [
            "x-ratelimit-limit-req-minute",
            "x-ratelimit-remaining-req-minute",
        ];
        counts(requests, names)
    }

    fn writer(&self, answer: &Answer, _: Wanted) -> Box<dyn StreamWriter> {
        Box::new(Writer(StreamEncoder::new(
            answer.id.as_str(),
            answer.label.created,
            &*answer.label.model,
        )))
    }

    fn models(&self, names: &[String]) -> Value {
        let model = |id: &String| {
            json!({
                "id": id,
                "object": "model",
                "created": 0,
                "owned_by": "chaos",
                "type": "base",
                "capabilities": {"completion_chat": true, "function_calling": true},
            })
        };
        let list: Vec<Value> = names.iter().map(model).collect();
        json!({"object": "list", "data": list})
    }

    fn decode_answer(&self, reply: &Reply<'_>) -> Result<ChatResponse, Failure> {
        decode_answer(reply)
    }

    fn decoder(&self) -> Box<dyn EventDecoder> {
        Box::new(StreamDecoder::new())
    }
}

/// A request that is refused for one of its fields.
fn invalid(kind: &str, place: &[&str], message: &str) -> Value {
    json!({"detail": [{"type": kind, "loc": place, "msg": message, "input": null}]})
}

#[derive(Debug)]
struct Writer(StreamEncoder);

impl StreamWriter for Writer {
    fn write(&mut self, act: &Act, answer: &Answer, sent: u32, out: &mut Vec<u8>) {
        match act {
            Act::Garbage => out.extend_from_slice(GARBAGE),
            Act::NoChoices => {
                let model = &*answer.label.model;
                let chunk = json!({"id": answer.id, "model": model, "choices": []});
                write_event(None, &chunk.to_string(), out);
            }
            Act::Error { code, message } => {
                let trouble = Trouble::in_answer(code.as_deref(), message);
                let error = super::Format::error(&Format, &trouble);
                write_event(None, &error.to_string(), out);
            }
            // The end writes finish and counts; `[DONE]` is an act of its own.
            Act::Usage => {
                self.0.push(&StreamEvent::Usage(answer.usage(sent)));
                for chunk in self.0.push(&StreamEvent::End) {
                    write_event(None, &chunk.to_string(), out);
                }
            }
            Act::Done | Act::FalseDone => out.extend_from_slice(DONE.as_bytes()),
            _ => {
                for event in answer.events(act, sent) {
                    self.0.write(&event, out);
                }
            }
        }
    }
}

//! `OpenAI`'s Chat Completions.

use super::{Addressed, Kind, StreamWriter, Trouble, Wanted, counts, put, retry_after};
use crate::answer::Answer;
use crate::script::Act;
use evenkeel_core::{Allowance, ChatResponse, Failure, StreamEvent, Value};
use evenkeel_providers::Server;
use evenkeel_providers::wire::classify::Reply;
use evenkeel_providers::wire::openai::{
    StreamDecoder, StreamEncoder, decode_answer, decode_request, encode_error, encode_response,
};
use evenkeel_providers::wire::sse::{DONE, write_event};
use evenkeel_providers::wire::{ClientRequest, EventDecoder, RequestError};
use serde_json::json;
use std::time::{Duration, SystemTime};

/// An event whose JSON breaks off.
const GARBAGE: &[u8] = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"conte\n\n";

#[derive(Debug)]
pub(super) struct Format;

impl super::Format for Format {
    fn server(&self) -> Server {
        Server::Compatible
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
        "{\"choices\":[{\"index\":0,\"message\":{\"content\":\""
    }

    fn error(&self, trouble: &Trouble<'_>) -> Value {
        let kind = match (trouble.kind(), trouble.code) {
            (Kind::Quota, Some(_)) => "insufficient_quota",
            (Kind::Overloaded, Some(_)) => "overloaded_error",
            (Kind::RateLimited, _) => "requests",
            _ if trouble.status >= 500 => "server_error",
            _ => "invalid_request_error",
        };
        encode_error(trouble.message, kind, None, trouble.code)
    }

    /// As routers of models do it: the status they got is the code.
    fn error_in_success(&self, trouble: &Trouble<'_>) -> Value {
        json!({"error": {"message": trouble.message, "code": trouble.status}})
    }

    fn refusal(&self, error: &RequestError) -> (u16, Value) {
        let kind = "invalid_request_error";
        let body = encode_error(&error.message, kind, error.param.as_deref(), error.code);
        (400, body)
    }

    fn wait_headers(&self, wait: Duration) -> Vec<(&'static str, String)> {
        let millis = wait.as_millis().to_string();
        vec![retry_after(wait), ("retry-after-ms", millis)]
    }

    fn limit_headers(&self, requests: &Allowance, _: SystemTime) -> Vec<(&'static str, String)> {
        let names = [
            "x-ratelimit-limit-requests",
            "x-ratelimit-remaining-requests",
        ];
        let mut headers = counts(requests, names);
        let reset = requests.reset.map(|wait| format!("{}ms", wait.as_millis()));
        headers.extend(reset.map(|reset| ("x-ratelimit-reset-requests", reset)));
        headers
    }

    fn writer(&self, answer: &Answer, wanted: Wanted) -> Box<dyn StreamWriter> {
        Box::new(Writer(StreamEncoder::new(
            answer.id.as_str(),
            answer.label.created,
            &*answer.label.model,
            wanted.usage,
        )))
    }

    fn models(&self, names: &[String]) -> Value {
        let model =
            |id: &String| json!({"id": id, "object": "model", "created": 0, "owned_by": "chaos"});
        let list: Vec<Value> = names.iter().map(model).collect();
        json!({"object": "list", "data": list})
    }

    fn decode_answer(&self, reply: &Reply<'_>) -> Result<ChatResponse, Failure> {
        decode_answer(reply)
    }

    fn decoder(&self) -> Box<dyn EventDecoder> {
        Box::new(StreamDecoder::new(Server::Compatible))
    }
}

#[derive(Debug)]
struct Writer(StreamEncoder);

impl StreamWriter for Writer {
    fn write(&mut self, act: &Act, answer: &Answer, sent: u32, out: &mut Vec<u8>) {
        match act {
            Act::Garbage => out.extend_from_slice(GARBAGE),
            Act::NoChoices => {
                let chunk = Value::Object(self.0.bare_chunk());
                write_event(None, &chunk.to_string(), out);
            }
            Act::Error { code, message } => {
                let trouble = Trouble::in_answer(code.as_deref(), message);
                let error = super::Format::error(&Format, &trouble);
                write_event(None, &error.to_string(), out);
            }
            Act::Usage => {
                self.0.push(&StreamEvent::Usage(answer.usage(sent)));
                // The end writes the usage chunk; `[DONE]` is an act of its own.
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

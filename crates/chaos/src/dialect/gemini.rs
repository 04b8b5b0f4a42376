//! Google's `generateContent`.

use super::{Addressed, Kind, StreamWriter, Trouble, Wanted, put};
use crate::answer::Answer;
use crate::script::Act;
use evenkeel_core::{ChatResponse, Failure, StreamEvent, Value};
use evenkeel_providers::Server;
use evenkeel_providers::wire::classify::Reply;
use evenkeel_providers::wire::gemini::{
    StreamDecoder, StreamEncoder, decode_answer, decode_request, encode_error, encode_response,
};
use evenkeel_providers::wire::{ClientRequest, EventDecoder, RequestError};
use serde_json::json;
use std::time::Duration;

/// A piece of JSON that breaks off.
const GARBAGE: &str = "{\"candidates\":[{\"content\":{\"par";
/// The wording by which a full window is known. From reports of the API's
/// answers; the figures are made up.
const TOO_LONG: &str =
    "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).";

#[derive(Debug)]
pub(super) struct Format;

impl super::Format for Format {
    fn server(&self) -> Server {
        Server::Gemini
    }

    fn decode_request(&self, to: &Addressed, body: &[u8]) -> Result<ClientRequest, RequestError> {
        decode_request(&to.model, to.stream, body)
    }

    fn answer(&self, response: &ChatResponse) -> Value {
        encode_response(response, &response.model)
    }

    fn break_off(&self, answer: &mut Value) {
        if let Some(Value::Object(candidate)) = answer.pointer_mut("/candidates/0") {
            candidate.shift_remove("finishReason");
        }
    }

    fn empty(&self, answer: &mut Value) {
        put(answer, "/candidates", json!([]));
    }

    fn opening(&self) -> &'static str {
        "{\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\""
    }

    fn error(&self, trouble: &Trouble<'_>) -> Value {
        let message = match trouble.kind() {
            Kind::ContextWindow => TOO_LONG.to_owned(),
            Kind::NoModel => format!(
                "{}: it is not found for API version v1beta, or is not supported for generateContent",
                trouble.message
            ),
            _ => trouble.message.to_owned(),
        };
        encode_error(trouble.status, &message, &details(trouble))
    }

    fn refusal(&self, error: &RequestError) -> (u16, Value) {
        let violations = error.param.as_ref().map(|field| {
            json!({
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": [{"field": field, "description": error.message}],
            })
        });
        let details: Vec<Value> = violations.into_iter().collect();
        (400, encode_error(400, &error.message, &details))
    }

    /// The wait is in the body.
    fn wait_headers(&self, _: Duration) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn writer(&self, answer: &Answer, wanted: Wanted) -> Box<dyn StreamWriter> {
        Box::new(Writer {
            encoder: StreamEncoder::new(answer.id.as_str(), &*answer.label.model),
            array: wanted.array.then_some(0),
        })
    }

    fn models(&self, names: &[String]) -> Value {
        let model = |name: &String| {
            json!({
                "name": format!("models/{name}"),
                "displayName": name,
                "inputTokenLimit": 1_048_576,
                "outputTokenLimit": 65_536,
                "supportedGenerationMethods": ["generateContent", "countTokens"],
            })
        };
        let list: Vec<Value> = names.iter().map(model).collect();
        json!({"models": list})
    }

    fn count(&self, tokens: u64) -> Value {
        json!({"totalTokens": tokens})
    }

    fn decode_answer(&self, reply: &Reply<'_>) -> Result<ChatResponse, Failure> {
        decode_answer(reply)
    }

    fn decoder(&self) -> Box<dyn EventDecoder> {
        Box::new(StreamDecoder::new())
    }
}

/// What stands beside the message: which quota, how long to wait, which key.
fn details(trouble: &Trouble<'_>) -> Vec<Value> {
    let of = |kind: &str| format!("type.googleapis.com/google.rpc.{kind}");
    let reason = |reason: &str| json!({"@type": of("ErrorInfo"), "reason": reason, "domain": "googleapis.com"});
    let quota = |id: &str| {
        json!({"@type": of("QuotaFailure"), "violations": [{
            "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
            "quotaId": id,
        }]})
    };
    let mut details = Vec::new();
    match trouble.kind() {
        Kind::Key => details.push(reason("API_KEY_INVALID")),
        Kind::Quota => details.push(quota("GenerateRequestsPerDayPerProjectPerModel")),
        Kind::RateLimited => details.push(quota("GenerateRequestsPerMinutePerProjectPerModel")),
        _ => details.extend(trouble.own_code().map(reason)),
    }
    if let Some(wait) = trouble.wait {
        let delay = format!("{}.{:03}s", wait.as_secs(), wait.subsec_millis());
        details.push(json!({"@type": of("RetryInfo"), "retryDelay": delay}));
    }
    details
}

#[derive(Debug)]
struct Writer {
    encoder: StreamEncoder,
    /// Elements so far, where the stream is an array.
    array: Option<usize>,
}

impl Writer {
    /// Adds a chunk, as an event or as an element.
    fn chunk(&mut self, chunk: &str, out: &mut Vec<u8>) {
        match &mut self.array {
            None => out.extend_from_slice(format!("data: {chunk}\r\n\r\n").as_bytes()),
            Some(elements) => {
                let before = if *elements == 0 { "[" } else { ",\r\n" };
                *elements += 1;
                out.extend_from_slice(format!("{before}{chunk}").as_bytes());
            }
        }
    }

    fn push(&mut self, event: &StreamEvent, out: &mut Vec<u8>) {
        for chunk in self.encoder.push(event) {
            self.chunk(&chunk.to_string(), out);
        }
    }

    fn close(&self, out: &mut Vec<u8>) {
        match self.array {
            None => {}
            Some(0) => out.extend_from_slice(b"[]"),
            Some(_) => out.extend_from_slice(b"]"),
        }
    }
}

impl StreamWriter for Writer {
    fn write(&mut self, act: &Act, answer: &Answer, sent: u32, out: &mut Vec<u8>) {
        match act {
            Act::Garbage => self.chunk(GARBAGE, out),
            // Google's clients take a comment for JSON: a blank line is all there is.
            Act::KeepAlive => out.extend_from_slice(b"\r\n"),
            Act::NoChoices => {
                let model = &*answer.label.model;
                let chunk = json!({"candidates": [], "modelVersion": model});
                self.chunk(&chunk.to_string(), out);
            }
            // Lines of bare JSON among the events, an element in an array.
            Act::Error { code, message } => {
                let trouble = Trouble::in_answer(code.as_deref(), message);
                let error = super::Format::error(&Format, &trouble);
                if self.array.is_some() {
                    self.chunk(&error.to_string(), out);
                    self.close(out);
                } else {
                    out.extend_from_slice(format!("{error:#}\r\n").as_bytes());
                }
            }
            // The end writes finish and counts; what follows is the end of the body.
            Act::Usage => {
                self.push(&StreamEvent::Usage(answer.usage(sent)), out);
                self.push(&StreamEvent::End, out);
            }
            Act::Done | Act::NoDone | Act::FalseDone | Act::End => self.close(out),
            _ => {
                for event in answer.events(act, sent) {
                    self.push(&event, out);
                }
            }
        }
    }
}

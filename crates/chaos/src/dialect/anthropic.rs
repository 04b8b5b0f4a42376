//! Anthropic's Messages.

use super::{Addressed, Kind, StreamWriter, Trouble, Wanted, counts, put, retry_after};
use crate::answer::Answer;
use crate::script::Act;
use evenkeel_core::{Allowance, ChatResponse, Failure, StreamEvent, Value};
use evenkeel_providers::Server;
use evenkeel_providers::wire::anthropic::{
    StreamDecoder, StreamEncoder, decode_answer, decode_request, encode_error, encode_response,
};
use evenkeel_providers::wire::classify::Reply;
use evenkeel_providers::wire::sse::write_event;
use evenkeel_providers::wire::{ClientRequest, EventDecoder, RequestError};
use serde_json::json;
use std::time::{Duration, SystemTime};

/// An event whose JSON breaks off.
const GARBAGE: &[u8] =
    b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"del\n\n";
/// The wording by which a full window is known. From reports of the API's
/// answers; the figures are made up.
const TOO_LONG: &str = "prompt is too long: 210000 tokens > 200000 maximum";
const REQUEST_ID: &str = "req_simulated";

#[derive(Debug)]
pub(super) struct Format;

impl super::Format for Format {
    fn server(&self) -> Server {
        Server::Anthropic
    }

    fn decode_request(&self, _: &Addressed, body: &[u8]) -> Result<ClientRequest, RequestError> {
        decode_request(body)
    }

    fn answer(&self, response: &ChatResponse) -> Value {
        encode_response(response, &response.model)
    }

    fn break_off(&self, answer: &mut Value) {
        put(answer, "/stop_reason", Value::Null);
    }

    fn empty(&self, answer: &mut Value) {
        put(answer, "/content", Value::Null);
    }

    fn opening(&self) -> &'static str {
        "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\""
    }

    fn error(&self, trouble: &Trouble<'_>) -> Value {
        let said = said(trouble);
        let code = said.code.or(trouble.own_code());
        encode_error(&said.message, said.kind, code, Some(REQUEST_ID))
    }

    fn refusal(&self, error: &RequestError) -> (u16, Value) {
        let message = match &error.param {
            Some(param) => format!("{param}: {}", error.message),
            None => error.message.clone(),
        };
        let body = encode_error(&message, "invalid_request_error", None, Some(REQUEST_ID));
        (400, body)
    }

    fn wait_headers(&self, wait: Duration) -> Vec<(&'static str, String)> {
        vec![retry_after(wait)]
    }

    fn limit_headers(&self, requests: &Allowance, now: SystemTime) -> Vec<(&'static str, String)> {
        let names = [
            "anthropic-ratelimit-requests-limit",
            "anthropic-ratelimit-requests-remaining",
        ];
        let mut headers = counts(requests, names);
        let reset = requests
            .reset
            .and_then(|wait| jiff::Timestamp::try_from(now + wait).ok());
        let reset = reset.map(|time| time.to_string());
        headers.extend(reset.map(|time| ("anthropic-ratelimit-requests-reset", time)));
        headers
    }

    fn writer(&self, answer: &Answer, _: Wanted) -> Box<dyn StreamWriter> {
        Box::new(Writer {
            encoder: StreamEncoder::new(answer.id.as_str(), &*answer.label.model),
        })
    }

    fn models(&self, names: &[String]) -> Value {
        let model = |id: &String| {
            json!({
                "type": "model",
                "id": id,
                "display_name": id,
                "created_at": "1970-01-01T00:00:00Z",
            })
        };
        let list: Vec<Value> = names.iter().map(model).collect();
        json!({
            "data": list,
            "has_more": false,
            "first_id": names.first(),
            "last_id": names.last(),
        })
    }

    /// Such a request needs no cap on the output.
    fn decode_count(&self, _: &Addressed, body: &[u8]) -> Result<ClientRequest, RequestError> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(mut asked)) => {
                asked.entry("max_tokens").or_insert_with(|| 1.into());
                decode_request(Value::Object(asked).to_string().as_bytes())
            }
            _ => decode_request(body),
        }
    }

    fn count(&self, tokens: u64) -> Value {
        json!({"input_tokens": tokens})
    }

    fn decode_answer(&self, reply: &Reply<'_>) -> Result<ChatResponse, Failure> {
        decode_answer(reply)
    }

    fn decoder(&self) -> Box<dyn EventDecoder> {
        Box::new(StreamDecoder::new())
    }
}

/// A failure in the format's own words.
struct Said {
    kind: &'static str,
    code: Option<&'static str>,
    message: String,
}

fn said(trouble: &Trouble<'_>) -> Said {
    let mut said = Said {
        kind: "api_error",
        code: None,
        message: trouble.message.to_owned(),
    };
    said.kind = match trouble.kind() {
        Kind::Key => "authentication_error",
        Kind::Forbidden => "permission_error",
        // Paying is a status of its own; a spend limit is a 429.
        Kind::Quota if trouble.status == 429 => {
            said.code = Some("enforced_spend_limit_reached");
            "rate_limit_error"
        }
        Kind::Quota => "billing_error",
        Kind::NoModel => {
            said.message = format!("model: {}", trouble.message);
            "not_found_error"
        }
        Kind::NoRoute => "not_found_error",
        Kind::ContextWindow => {
            TOO_LONG.clone_into(&mut said.message);
            "invalid_request_error"
        }
        Kind::TooLarge => "request_too_large",
        Kind::RateLimited => "rate_limit_error",
        Kind::Overloaded => "overloaded_error",
        Kind::Timeout => "timeout_error",
        Kind::Conflict => "conflict_error",
        Kind::Invalid | Kind::Unprocessable | Kind::ContentFilter => "invalid_request_error",
        Kind::Server => "api_error",
    };
    said
}

#[derive(Debug)]
struct Writer {
    encoder: StreamEncoder,
}

impl Writer {
    fn push(&mut self, events: impl IntoIterator<Item = StreamEvent>, out: &mut Vec<u8>) {
        for event in events {
            self.encoder.write(&event, out);
        }
    }
}

impl StreamWriter for Writer {
    fn write(&mut self, act: &Act, answer: &Answer, sent: u32, out: &mut Vec<u8>) {
        match act {
            // `message_start` counts the input, and a ping follows it.
            Act::Open => {
                let counted = StreamEvent::Usage(answer.usage(0));
                let opened = answer.events(act, sent).into_iter();
                self.push(opened.chain([counted, StreamEvent::KeepAlive]), out);
            }
            Act::Garbage => out.extend_from_slice(GARBAGE),
            // The message has begun, and has no block.
            Act::NoChoices => {}
            Act::Error { code, message } => {
                let trouble = Trouble::in_answer(code.as_deref(), message);
                let error = super::Format::error(&Format, &trouble);
                write_event(Some("error"), &error.to_string(), out);
            }
            // The end writes both last events; the second is an act of its own.
            Act::Usage => {
                self.encoder.push(&StreamEvent::Usage(answer.usage(sent)));
                for event in self.encoder.push(&StreamEvent::End) {
                    if event["type"] != "message_stop" {
                        write_event(event["type"].as_str(), &event.to_string(), out);
                    }
                }
            }
            Act::Done | Act::FalseDone => {
                let stop = json!({"type": "message_stop"});
                write_event(Some("message_stop"), &stop.to_string(), out);
            }
            _ => self.push(answer.events(act, sent), out),
        }
    }
}

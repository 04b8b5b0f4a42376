//! A caller of one dialect, made of the product's own encoders and decoders.

use crate::client::{Client, End, Head};
use evenkeel_chaos::{Dialect, Upstream};
use evenkeel_core::{Accumulator, ChatRequest, ChatResponse, Class, Failure};
use evenkeel_providers::Server;
use evenkeel_providers::wire::classify::{Reply, classify};
use evenkeel_providers::wire::{EventDecoder, anthropic, gemini, mistral, openai};
use serde_json::Value;

/// Path and body of a request for model `m`.
pub(crate) fn written(dialect: Dialect, request: &ChatRequest, stream: bool) -> (String, Value) {
    match dialect {
        Dialect::OpenAi => {
            let options = openai::Options::default();
            let body = openai::encode_request(request, "m", stream, &options).body;
            ("/v1/chat/completions".to_owned(), body)
        }
        Dialect::Anthropic => {
            let options = anthropic::Options::default();
            let body = anthropic::encode_request(request, "m", stream, &options).body;
            ("/v1/messages".to_owned(), body)
        }
        Dialect::Gemini => {
            let path = format!("/v1beta{}", gemini::path("m", stream));
            let options = gemini::Options::default();
            (path, gemini::encode_request(request, "m", &options).body)
        }
        Dialect::Mistral => {
            let options = mistral::Options::default();
            let body = mistral::encode_request(request, "m", stream, &options).body;
            ("/v1/chat/completions".to_owned(), body)
        }
        other => panic!("{other:?} has no caller here"),
    }
}

fn server(dialect: Dialect) -> Server {
    match dialect {
        Dialect::Anthropic => Server::Anthropic,
        Dialect::Gemini => Server::Gemini,
        Dialect::Mistral => Server::Mistral,
        _ => Server::Compatible,
    }
}

fn decoder(dialect: Dialect) -> Box<dyn EventDecoder> {
    match dialect {
        Dialect::Anthropic => Box::new(anthropic::StreamDecoder::new()),
        Dialect::Gemini => Box::new(gemini::StreamDecoder::new()),
        Dialect::Mistral => Box::new(mistral::StreamDecoder::new()),
        _ => Box::new(openai::StreamDecoder::new(Server::Compatible)),
    }
}

/// An HTTP reply as it came.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) head: Head,
    pub(crate) bytes: Vec<u8>,
    pub(crate) end: End,
}

impl Heard {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes.clone()).expect("text")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).expect("JSON")
    }
}

/// Asks once and takes the whole reply.
pub(crate) async fn hear(
    upstream: &Upstream,
    dialect: Dialect,
    request: &ChatRequest,
    stream: bool,
) -> Result<Heard, End> {
    let (path, body) = written(dialect, request, stream);
    let mut client = Client::connect(upstream).await;
    client.post(&path, &body).await;
    let head = client.head().await?;
    let (bytes, end) = client.body(&head).await;
    Ok(Heard { head, bytes, end })
}

/// What the product's reader of the dialect makes of a reply.
pub(crate) fn read(dialect: Dialect, heard: &Heard, stream: bool) -> Result<ChatResponse, Failure> {
    let headers = heard
        .head
        .headers
        .iter()
        .map(|(name, value)| {
            let name = http::HeaderName::try_from(name).expect("a name");
            (name, http::HeaderValue::try_from(value).expect("a value"))
        })
        .collect();
    let status = heard.head.status;
    let reply = Reply::new(server(dialect), status, &heard.bytes).with_headers(&headers);
    let lost = || Failure::new(Class::Transient, "the connection was lost");
    if status != 200 {
        return Err(classify(&reply));
    }
    if !stream {
        if heard.end != End::Whole {
            return Err(lost());
        }
        return match dialect {
            Dialect::Anthropic => anthropic::decode_answer(&reply),
            Dialect::Gemini => gemini::decode_answer(&reply),
            Dialect::Mistral => mistral::decode_answer(&reply),
            _ => openai::decode_answer(&reply),
        };
    }
    let (mut decoder, mut whole) = (decoder(dialect), Accumulator::default());
    for event in decoder.push(&heard.bytes) {
        whole.push(&event?);
    }
    if !decoder.is_over() && heard.end != End::Whole {
        return Err(lost());
    }
    for event in decoder.finish() {
        whole.push(&event?);
    }
    whole.finish()
}

/// Asks and reads.
pub(crate) async fn ask(
    upstream: &Upstream,
    dialect: Dialect,
    request: &ChatRequest,
    stream: bool,
) -> Result<ChatResponse, Failure> {
    match hear(upstream, dialect, request, stream).await {
        Ok(heard) => read(dialect, &heard, stream),
        Err(_) => Err(Failure::new(Class::Transient, "no answer came")),
    }
}

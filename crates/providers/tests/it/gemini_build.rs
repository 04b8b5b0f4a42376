//! Requests for the tests of Gemini's format.

use evenkeel_core::{ChatRequest, Extra, Message, Part, Role, Tool, ToolCall, ToolResult};
use evenkeel_providers::wire::Encoded;
use evenkeel_providers::wire::gemini::{Options, SIGNATURE, decode_request, encode_request};
use serde_json::{Value, json};

pub(crate) fn decode(body: &Value) -> ChatRequest {
    decode_request("m", false, body.to_string().as_bytes())
        .unwrap()
        .request
}

pub(crate) fn encode(request: &ChatRequest) -> Encoded {
    encode_request(request, "fixture-flash", &Options::default())
}

pub(crate) fn strict(request: &ChatRequest) -> Encoded {
    let options = Options {
        needs_signatures: Some(true),
        ..Options::default()
    };
    encode_request(request, "fixture-flash", &options)
}

pub(crate) fn conversation(messages: Vec<Message>) -> ChatRequest {
    ChatRequest {
        messages,
        ..ChatRequest::default()
    }
}

pub(crate) fn message(role: Role, parts: Vec<Part>) -> Message {
    Message {
        parts,
        ..Message::text(role, "")
    }
}

pub(crate) fn call(id: &str, name: &str) -> Part {
    Part::ToolCall(ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: "{}".into(),
        extra: Extra::default(),
    })
}

pub(crate) fn signed(id: &str, dialect: &'static str, signature: &str) -> Part {
    let mut fields = evenkeel_core::Map::new();
    fields.insert(SIGNATURE.into(), signature.into());
    Part::ToolCall(ToolCall {
        id: id.into(),
        name: "f".into(),
        arguments: "{}".into(),
        extra: Extra { dialect, fields },
    })
}

pub(crate) fn result(id: &str, text: &str) -> Part {
    Part::ToolResult(ToolResult {
        call_id: id.into(),
        parts: vec![Part::Text(text.into())],
        is_error: false,
    })
}

pub(crate) fn tool(name: &str, parameters: Option<Value>) -> Tool {
    Tool {
        name: name.into(),
        description: None,
        parameters,
        strict: None,
        extra: Extra::default(),
    }
}

pub(crate) fn user(fields: Value) -> Value {
    let mut body = json!({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]});
    let Value::Object(fields) = fields else {
        panic!("fields are an object")
    };
    body.as_object_mut().unwrap().extend(fields);
    body
}

//! What a broken or hostile upstream may send: an error and never a panic,
//! with bounded memory and stack.

use evenkeel_core::{
    ChatRequest, Class, Extra, Failure, Message, Part, Role, StreamEvent, ToolCall,
};
use evenkeel_providers::Server;
use evenkeel_providers::wire::anthropic::{
    Options, StreamDecoder, decode_answer, decode_request, decode_response, encode_request,
};
use evenkeel_providers::wire::classify::Reply;
use evenkeel_providers::wire::{EventDecoder, StreamLimits};
use proptest::prelude::*;
use serde_json::json;

fn class_of(body: &[u8]) -> Class {
    decode_answer(&Reply::in_answer(Server::Anthropic, body))
        .unwrap_err()
        .class
}

fn event(value: &serde_json::Value) -> Vec<u8> {
    format!(
        "event: {}\ndata: {value}\n\n",
        value["type"].as_str().unwrap()
    )
    .into_bytes()
}

fn failure_of(events: Vec<Result<StreamEvent, Failure>>) -> Option<Failure> {
    events.into_iter().find_map(Result::err)
}

#[test]
fn answers_that_are_none_are_malformed() {
    let ok = json!({"id": "m", "type": "message", "content": [], "stop_reason": "end_turn"});
    let whole = ok.to_string();
    for cut in 0..whole.len() {
        assert_eq!(
            class_of(&whole.as_bytes()[..cut]),
            Class::Malformed,
            "{cut}"
        );
    }
    for body in ["[]", "7", "{}", "{\"content\":7}", "<html>", "\u{FEFF}"] {
        assert_eq!(class_of(body.as_bytes()), Class::Malformed, "{body}");
    }
    let deep = format!("{{\"content\":{}", "[".repeat(10_000));
    assert_eq!(class_of(deep.as_bytes()), Class::Malformed);
    let mut broken_off = ok;
    broken_off["stop_reason"] = json!(null);
    assert_eq!(
        class_of(broken_off.to_string().as_bytes()),
        Class::Transient
    );
    assert_eq!(
        decode_response(&broken_off).unwrap_err().class,
        Class::Transient
    );
}

#[test]
fn blocks_that_cannot_be_read_are_kept_as_they_are() {
    let body = json!({"id": 7, "model": null, "stop_reason": "end_turn", "usage": [],
        "content": [{"type": "tool_use"}, {"type": 7}, {}, 7, null, {"type": "text", "text": 7}]});
    let read = decode_response(&body).unwrap();
    assert_eq!(read.parts.len(), 4);
    assert!(read.parts.iter().all(|p| matches!(p, Part::Other(_))));
}

#[test]
fn ten_megabytes_of_deltas_are_read_and_more_than_the_limit_is_refused() {
    let piece = event(&json!({"type": "content_block_delta", "index": 0,
        "delta": {"type": "text_delta", "text": "x".repeat(1_000)}}));
    let mut decoder = StreamDecoder::new();
    let mut taken = 0;
    for _ in 0..10_000 {
        for event in decoder.push(&piece) {
            taken += usize::from(event.unwrap().is_content());
        }
    }
    assert_eq!(taken, 10_000);
    let limits = StreamLimits {
        max_answer_bytes: 1_000_000,
        ..StreamLimits::default()
    };
    let citation = event(&json!({"type": "content_block_delta", "index": 0,
        "delta": {"type": "citations_delta", "citation": {"cited_text": "x".repeat(1_000)}}}));
    let opaque = event(&json!({"type": "content_block_delta", "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": "x".repeat(1_000)}}));
    let signature = event(&json!({"type": "content_block_delta", "index": 2,
        "delta": {"type": "signature_delta", "signature": "x".repeat(1_000)}}));
    let empty = event(&json!({"type": "content_block_start", "index": 3,
        "content_block": {"type": "text", "text": ""}}));
    let named = event(&json!({"type": "content_block_start", "index": 3,
        "content_block": {"type": "redacted_thinking", "data": "x".repeat(1_000)}}));
    for piece in [piece, citation, opaque, signature, empty, named] {
        let mut decoder = StreamDecoder::with_limits(limits);
        decoder.push(&event(&json!({"type": "content_block_start", "index": 1,
            "content_block": {"type": "server_tool_use"}})));
        decoder.push(&event(&json!({"type": "content_block_start", "index": 2,
            "content_block": {"type": "thinking"}})));
        let mut pushes = 0;
        let failure = loop {
            pushes += 1;
            assert!(pushes < 10_000);
            if let Some(failure) = failure_of(decoder.push(&piece)) {
                break failure;
            }
        };
        assert_eq!(failure.class, Class::Malformed);
        assert!(decoder.is_over() && decoder.push(&piece).is_empty());
    }
}

#[test]
fn an_endless_event_is_refused() {
    let limits = StreamLimits {
        max_event_bytes: 10_000,
        ..StreamLimits::default()
    };
    let mut decoder = StreamDecoder::with_limits(limits);
    decoder.push(b"data: ");
    let failure = (0..100).find_map(|_| failure_of(decoder.push(&[b'x'; 1_000])));
    assert_eq!(failure.unwrap().class, Class::Malformed);
}

#[test]
fn ten_thousand_calls_are_refused() {
    let mut decoder = StreamDecoder::new();
    let failure = (0..10_000).find_map(|n| {
        failure_of(decoder.push(&event(&json!({"type": "content_block_start", "index": n,
            "content_block": {"type": "tool_use", "id": format!("t{n}"), "name": "f", "input": {}}}))))
    });
    let failure = failure.unwrap();
    assert_eq!(failure.class, Class::Malformed);
    assert!(failure.message.contains("1024"), "{failure}");
}

#[test]
fn a_history_of_ten_thousand_calls_is_written_in_time() {
    let call = |n: usize| {
        Part::ToolCall(ToolCall {
            id: format!("call.{n}"),
            name: "f".into(),
            arguments: "{}".into(),
            extra: Extra::default(),
        })
    };
    let mut calls = Message::text(Role::Assistant, "");
    calls.parts = (0..10_000).map(call).collect();
    let request = ChatRequest {
        messages: vec![Message::text(Role::User, "q"), calls],
        ..ChatRequest::default()
    };
    let encoded = encode_request(&request, "m", false, &Options::default());
    let results = encoded.body["messages"][2]["content"].as_array().unwrap();
    assert_eq!(results.len(), 10_000);
}

#[test]
fn deep_nesting_is_skipped_in_a_stream_and_sent_as_text_in_a_history() {
    let mut decoder = StreamDecoder::new();
    let deep = format!(
        "data: {{\"type\":\"message_start\",\"message\":{}\n\n",
        "[".repeat(10_000)
    );
    let events = decoder.push(deep.as_bytes());
    assert!(
        matches!(events.as_slice(), [Ok(StreamEvent::Skipped)]),
        "{events:?}"
    );
    let nested = format!("{{\"a\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let mut calls = Message::text(Role::Assistant, "");
    calls.parts = vec![Part::ToolCall(ToolCall {
        id: "t".into(),
        name: "f".into(),
        arguments: nested.clone(),
        extra: Extra::default(),
    })];
    let request = ChatRequest {
        messages: vec![Message::text(Role::User, "q"), calls],
        ..ChatRequest::default()
    };
    let encoded = encode_request(&request, "m", false, &Options::default());
    assert_eq!(
        encoded.body["messages"][1]["content"][0]["input"],
        json!({"INVALID_JSON": nested})
    );
}

fn junk() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("event: content_block_delta\n"),
        Just(
            "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":1}}\n\n"
        ),
        Just(
            "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"thinking\"}}\n\n"
        ),
        Just(
            "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"\\ud83c\"}}\n\n"
        ),
        Just(
            "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"s\"}}\n\n"
        ),
        Just("data: {\"type\":\"content_block_delta\",\"index\":9,\"delta\":{}}\n\n"),
        Just("data: {\"type\":\"content_block_delta\",\"delta\":7}\n\n"),
        Just("data: {\"type\":\"content_block_stop\",\"index\":0}\n\n"),
        Just("data: {\"type\":\"message_start\",\"message\":[]}\n\n"),
        Just(
            "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":18446744073709551615,\"cache_read_input_tokens\":9}}}\n\n"
        ),
        Just("data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n"),
        Just("data: {\"type\":\"message_delta\",\"delta\":null,\"usage\":7}\n\n"),
        Just("data: {\"type\":7}\n\n"),
        Just("data: {\"type\":\"message\"}\n\n"),
        Just("{\"a\":"),
        Just("\u{FEFF}"),
    ];
    proptest::collection::vec(word, 0..12).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn no_stream_panics_and_each_ends_once(text in junk(), cut in 0usize..400) {
        let bytes = text.as_bytes();
        let cut = cut.min(bytes.len());
        let mut decoder = StreamDecoder::new();
        let mut events = decoder.push(&bytes[..cut]);
        events.extend(decoder.push(&bytes[cut..]));
        events.extend(decoder.finish());
        let ends = events.iter().filter(|e| matches!(e, Err(_) | Ok(StreamEvent::End)));
        prop_assert_eq!(ends.count(), 1);
        prop_assert!(matches!(events.last(), Some(Err(_) | Ok(StreamEvent::End))));
        prop_assert!(decoder.is_over());
    }

    #[test]
    fn no_request_panics(body in ".{0,60}", content in ".{0,20}") {
        drop(decode_request(body.as_bytes()));
        let typed = json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": [{"type": content}]}]});
        prop_assert!(decode_request(typed.to_string().as_bytes()).is_ok() || ["text", "image", "tool_use", "tool_result"].contains(&content.as_str()));
    }
}

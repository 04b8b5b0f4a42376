//! Input in Gemini's format made to break a reader: it ends in an error, never
//! in a panic, and within bounds.

use evenkeel_core::{Accumulator, Class, Failure, Part, StreamEvent};
use evenkeel_providers::Server;
use evenkeel_providers::wire::EventDecoder;
use evenkeel_providers::wire::classify::Reply;
use evenkeel_providers::wire::gemini::{
    Options, StreamDecoder, decode_answer, decode_models, decode_request, encode_request,
    encode_response,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

fn decode(stream: &[u8], read: usize) -> Vec<Result<StreamEvent, Failure>> {
    let mut decoder = StreamDecoder::new();
    let pieces = stream.chunks(read.max(1));
    let mut events: Vec<_> = pieces.flat_map(|bytes| decoder.push(bytes)).collect();
    events.extend(decoder.finish());
    assert!(decoder.is_over());
    events
}

/// Everything that reads, over the same bytes.
fn read_all(input: &[u8]) {
    let _ = decode_request("m", false, input);
    let reply = Reply::new(Server::Gemini, 200, input);
    if let Ok(answer) = decode_answer(&reply) {
        encode_response(&answer, "m");
    }
    let _ = decode_models(&reply);
    decode(input, 3);
    decode(&[b"data: ", input, b"\r\n\r\n"].concat(), 5);
    decode(&[b"[", input, b","].concat(), 5);
}

#[test]
fn a_document_cut_anywhere_is_an_error() {
    let body = json!({
        "contents": [{"role": "user", "parts": [{"text": "é🌊"}]}],
        "candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {"a": [1.5]}}}]}, "finishReason": "STOP"}],
    })
    .to_string();
    for end in 0..body.len() {
        let cut = &body.as_bytes()[..end];
        assert!(decode_request("m", false, cut).is_err());
        let failure = decode_answer(&Reply::new(Server::Gemini, 200, cut)).unwrap_err();
        assert_eq!(failure.class, Class::Malformed, "{end}");
        let stream = [b"data: ", cut].concat();
        let events = decode(&stream, 7);
        assert!(events.last().unwrap().is_err(), "{end}");
    }
}

#[test]
fn ten_megabytes_of_deltas_add_up() {
    let piece = "x".repeat(1_000);
    let chunk = json!({"candidates": [{"content": {"parts": [{"text": piece}]}, "index": 0}]});
    let chunk = format!("data: {chunk}\r\n\r\n");
    let end = "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\r\n\r\n";
    let mut decoder = StreamDecoder::new();
    let mut whole = Accumulator::default();
    for _ in 0..10_000 {
        for event in decoder.push(chunk.as_bytes()) {
            whole.push(&event.unwrap());
        }
    }
    for event in decoder
        .push(end.as_bytes())
        .into_iter()
        .chain(decoder.finish())
    {
        whole.push(&event.unwrap());
    }
    assert_eq!(whole.finish().unwrap().plain_text().len(), 10_000_000);
}

#[test]
fn an_endless_answer_is_cut_off_at_its_limit() {
    let part = json!({"inlineData": {"mimeType": "image/png", "data": "A".repeat(1_000_000)}});
    let extra = json!({"candidates": [{"index": 0, "groundingMetadata": "A".repeat(1_000_000)}]});
    let content = json!({"candidates": [{"content": {"parts": [part]}, "index": 0}]});
    for chunk in [extra, content] {
        let chunk = format!("data: {chunk}\n\n");
        let mut decoder = StreamDecoder::new();
        let failed = (0..100).any(|_| decoder.push(chunk.as_bytes()).iter().any(Result::is_err));
        assert!(failed && decoder.is_over());
    }
}

#[test]
fn ten_thousand_calls_are_all_read_and_written() {
    let call = json!({"functionCall": {"name": "f", "args": {"n": 1}}});
    let calls: Vec<Value> = (0..10_000).map(|_| call.clone()).collect();
    let body = json!({"candidates": [{"content": {"parts": calls, "role": "model"}, "finishReason": "STOP", "index": 0}]});
    let bytes = body.to_string();
    let read = decode_answer(&Reply::new(Server::Gemini, 200, bytes.as_bytes())).unwrap();
    let mut ids: Vec<&str> = read.tool_calls().map(|call| call.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 10_000);
    let written = encode_response(&read, "");
    let parts = written["candidates"][0]["content"]["parts"].as_array();
    assert_eq!(parts.map(Vec::len), Some(10_000));
    let events = decode(format!("data: {bytes}\n\n").as_bytes(), usize::MAX);
    assert!(matches!(events.last(), Some(Ok(StreamEvent::End))));
}

#[test]
fn a_history_of_ten_thousand_calls_and_results_is_paired() {
    let calls: Vec<Value> = (0..10_000)
        .map(|n| json!({"functionCall": {"name": "f", "args": {"n": n}}}))
        .collect();
    let results: Vec<Value> = (0..10_000)
        .map(|n| json!({"functionResponse": {"name": "f", "response": {"output": n.to_string()}}}))
        .collect();
    let body = json!({"contents": [{"role": "model", "parts": calls}, {"role": "user", "parts": results}]});
    let read = decode_request("m", false, body.to_string().as_bytes()).unwrap();
    assert_eq!(
        encode_request(&read.request, "m", &Options::default()).body,
        body
    );
}

#[test]
fn deep_nesting_is_refused_and_not_followed() {
    let deep = "[".repeat(10_000);
    let deep_objects = "{\"a\":".repeat(10_000);
    for (open, close) in [(&deep, "]"), (&deep_objects, "}")] {
        let value = format!("{open}1{}", close.repeat(10_000));
        let answer = format!(
            "{{\"candidates\":[{{\"content\":{{\"parts\":[{{\"functionCall\":{{\"name\":\"f\",\"args\":{{\"a\":{value}}}}}}}]}},\"finishReason\":\"STOP\"}}]}}"
        );
        let failure =
            decode_answer(&Reply::new(Server::Gemini, 200, answer.as_bytes())).unwrap_err();
        assert_eq!(failure.class, Class::Malformed);
        let events = decode(format!("data: {answer}\n\n").as_bytes(), 1_000);
        assert!(events.last().unwrap().is_err());
        let request =
            format!("{{\"contents\":[{{\"parts\":[{{\"text\":\"a\"}}]}}],\"tools\":{value}}}");
        let error = decode_request("m", false, request.as_bytes()).unwrap_err();
        assert_eq!(error.code, Some("invalid_json"));
        read_all(value.as_bytes());
    }
}

#[test]
fn the_deepest_nesting_that_is_read_is_written_too() {
    let value = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let body = format!(
        "{{\"contents\":[{{\"role\":\"model\",\"parts\":[{{\"functionCall\":{{\"name\":\"f\",\"args\":{{\"a\":{value}}}}}}}]}}]}}"
    );
    let read = decode_request("m", false, body.as_bytes()).unwrap();
    assert!(matches!(
        read.request.messages[0].parts[0],
        Part::ToolCall(_)
    ));
    let written = encode_request(&read.request, "m", &Options::default());
    assert!(written.adapted.is_empty());
    assert!(written.body.to_string().contains(&value));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    let name = "parts|role|text|functionCall|functionResponse|name|args|id|thought|response|inlineData|mimeType|data|[a-z]{1,3}";
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name, inner, 0..4)
                .prop_map(|map| Value::from(map.into_iter().collect::<evenkeel_core::Map<_, _>>())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in vec(any::<u8>(), 0..200), text in ".{0,200}") {
        read_all(&bytes);
        read_all(text.as_bytes());
    }

    #[test]
    fn no_json_makes_a_reader_panic(
        inner in any_json(),
        name in "candidates|contents|tools|usageMetadata|promptFeedback|error|generationConfig|toolConfig|systemInstruction",
    ) {
        for value in [
            json!({&name: inner}),
            json!({&name: [inner]}),
            json!({&name: [{"content": inner, "parts": inner, "functionDeclarations": inner, "finishReason": "STOP"}]}),
            json!({"contents": [{"role": "model", "parts": [inner]}], "candidates": [{"content": {"parts": [inner]}, "finishReason": "STOP"}]}),
        ] {
            let body = value.to_string();
            read_all(body.as_bytes());
            if let Ok(read) = decode_request("m", false, body.as_bytes()) {
                encode_request(&read.request, "gemini-3-pro", &Options::default());
            }
        }
    }
}

//! Streams of Anthropic's format, read and written, event by event.

use evenkeel_core::{
    Accumulator, ChatResponse, Class, Delta, Failure, Finish, Part, ReasoningPart, StreamEvent,
    Usage, Value,
};
use evenkeel_providers::wire::anthropic::{
    DIALECT, StreamDecoder, StreamEncoder, decode_response, encode_error,
};
use evenkeel_providers::wire::{EventDecoder, StreamLimits, openai};
use secrecy::SecretString;
use serde_json::json;

pub(crate) fn sse(events: &[Value]) -> String {
    let text = |e: &Value| format!("event: {}\ndata: {e}\n\n", e["type"].as_str().unwrap());
    events.iter().map(text).collect::<Vec<_>>().concat()
}

fn decode(text: &str) -> Vec<Result<StreamEvent, Failure>> {
    let mut decoder = StreamDecoder::new();
    let mut events = decoder.push(text.as_bytes());
    events.extend(decoder.finish());
    assert!(decoder.is_over());
    events
}

pub(crate) fn answer(text: &str) -> Result<ChatResponse, Failure> {
    let mut whole = Accumulator::default();
    for event in decode(text) {
        whole.push(&event?);
    }
    whole.finish()
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message",
        "role": "assistant", "model": "m-a", "content": [], "stop_reason": null,
        "stop_sequence": null, "usage": {"input_tokens": 9, "output_tokens": 1}}})
}

fn block_start(index: u64, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn end(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": {"output_tokens": 12}}),
        json!({"type": "message_stop"}),
    ]
}

fn stream(middle: &[Value], reason: &str) -> String {
    let mut events = vec![start()];
    events.extend_from_slice(middle);
    events.extend(end(reason));
    sse(&events)
}

fn text_block(index: u64, text: &str) -> [Value; 3] {
    [
        block_start(index, &json!({"type": "text", "text": ""})),
        delta(index, &json!({"type": "text_delta", "text": text})),
        stop(index),
    ]
}

fn call_start(index: u64, id: &str) -> Value {
    block_start(
        index,
        &json!({"type": "tool_use", "id": id, "name": "f", "input": {}}),
    )
}

fn json_piece(index: u64, piece: &str) -> Value {
    delta(
        index,
        &json!({"type": "input_json_delta", "partial_json": piece}),
    )
}

/// C201, trap 16.
#[test]
fn a_call_without_arguments_has_an_empty_object() {
    let text = stream(
        &[
            call_start(0, "t1"),
            json!({"type": "ping"}),
            json_piece(0, ""),
            stop(0),
        ],
        "tool_use",
    );
    let read = answer(&text).unwrap();
    assert_eq!(read.tool_calls().next().unwrap().arguments, "{}");
    assert_eq!(read.finish, Finish::ToolUse);
    assert_eq!(read.usage.map(|u| (u.input, u.output)), Some((9, 12)));
    let mut chunks = openai::StreamEncoder::new("s", 1, "m", false);
    let mut written = Vec::new();
    for event in decode(&text) {
        chunks.write(&event.unwrap(), &mut written);
    }
    let written = String::from_utf8(written).unwrap();
    assert!(written.contains(r#""arguments":"{}""#), "{written}");
    assert!(written.contains(r#""finish_reason":"tool_calls""#));
}

/// C155, trap 12.
#[test]
fn arguments_that_are_no_json_are_kept_as_they_came() {
    let text = stream(
        &[call_start(0, "t1"), json_piece(0, "{\"a\": 1,"), stop(0)],
        "tool_use",
    );
    let read = answer(&text).unwrap();
    assert_eq!(read.tool_calls().next().unwrap().arguments, "{\"a\": 1,");
    assert_eq!(read.verify().unwrap_err().class, Class::Malformed);
}

/// Trap 19.
#[test]
fn calls_are_numbered_without_the_blocks_between() {
    let mut middle = text_block(0, "a").to_vec();
    middle.extend([
        call_start(1, "t1"),
        json_piece(1, "{"),
        json_piece(1, "}"),
        stop(1),
    ]);
    middle.extend(text_block(2, "b"));
    middle.extend([call_start(3, "t2"), stop(3)]);
    let indexes: Vec<usize> = decode(&stream(&middle, "tool_use"))
        .into_iter()
        .filter_map(|e| match e.unwrap() {
            StreamEvent::Delta(Delta::ToolCallStart { index, .. }) => Some(index),
            _ => None,
        })
        .collect();
    assert_eq!(indexes, [0, 1]);
}

/// Section 5.3: a signature replaces, texts append.
#[test]
fn a_signature_replaces_the_one_before_it() {
    let piece = |kind: &str, name: &str, value: &str| delta(0, &json!({"type": kind, name: value}));
    let read = answer(&stream(
        &[
            block_start(
                0,
                &json!({"type": "thinking", "thinking": "", "signature": ""}),
            ),
            piece("thinking_delta", "thinking", "a"),
            piece("signature_delta", "signature", "S1"),
            piece("thinking_delta", "thinking", ""),
            piece("signature_delta", "signature", "S2"),
            stop(0),
        ],
        "end_turn",
    ))
    .unwrap();
    assert_eq!(
        read.parts,
        [Part::Reasoning(ReasoningPart {
            text: "a".into(),
            signature: Some("S2".into()),
            dialect: DIALECT,
        })]
    );
}

/// Trap 32: each signature stays with its own text.
#[test]
fn blocks_of_one_kind_that_follow_each_other_stay_apart() {
    let thinking = |index: u64, text: &str, signature: &str| {
        [
            block_start(
                index,
                &json!({"type": "thinking", "thinking": text, "signature": signature}),
            ),
            stop(index),
        ]
    };
    let mut middle = thinking(0, "a", "S1").to_vec();
    middle.extend(thinking(1, "", "S2"));
    middle.extend(thinking(2, "c", ""));
    middle.extend(text_block(3, "x"));
    middle.extend(text_block(4, ""));
    middle.extend(text_block(5, "y"));
    let text = stream(&middle, "end_turn");
    let reasoning = |text: &str, signature: Option<&str>| {
        Part::Reasoning(ReasoningPart {
            text: text.into(),
            signature: signature.map(str::to_owned),
            dialect: signature.map_or("", |_| DIALECT),
        })
    };
    let expected = [
        reasoning("a", Some("S1")),
        reasoning("", Some("S2")),
        reasoning("c", None),
        Part::Text("x".into()),
        Part::Text("y".into()),
    ];
    assert_eq!(answer(&text).unwrap().parts, expected);
    // And so they do on the way to a client.
    let mut encoder = StreamEncoder::new("msg_1", "m-a");
    let mut written = Vec::new();
    for event in decode(&text) {
        encoder.write(&event.unwrap(), &mut written);
    }
    let again = answer(std::str::from_utf8(&written).unwrap()).unwrap();
    assert_eq!(again.parts, expected);
}

/// Trap 31, section 5.3: the provider's own calls stream their input too.
#[test]
fn blocks_without_a_neutral_form_are_kept_whole() {
    let read = answer(&stream(
        &[
            block_start(0, &json!({"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {}})),
            json_piece(0, "{\"query\":"),
            json_piece(0, "\"q\"}"),
            stop(0),
            block_start(1, &json!({"type": "web_search_tool_result", "tool_use_id": "srv1", "content": []})),
            stop(1),
            block_start(2, &json!({"type": "fixture_new", "content": "a"})),
            delta(2, &json!({"type": "fixture_delta", "content": "b", "n": 1})),
            stop(2),
        ],
        "pause_turn",
    ))
    .unwrap();
    let blocks: Vec<Value> = read
        .parts
        .iter()
        .map(|part| match part {
            Part::Other(extra) => Value::Object(extra.fields.clone()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        blocks,
        [
            json!({"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {"query": "q"}}),
            json!({"type": "web_search_tool_result", "tool_use_id": "srv1", "content": []}),
            json!({"type": "fixture_new", "content": "ab", "n": 1}),
        ]
    );
    assert_eq!(read.finish, Finish::Pause);
    assert!(read.verify().is_ok());
}

/// Trap 10.
#[test]
fn citations_stand_after_the_text_they_belong_to() {
    let cited = json!({"type": "char_location", "cited_text": "x", "document_index": 0});
    let mut middle = vec![
        block_start(0, &json!({"type": "text", "text": ""})),
        delta(0, &json!({"type": "citations_delta", "citation": cited})),
        delta(0, &json!({"type": "text_delta", "text": "a"})),
        stop(0),
    ];
    middle.extend(text_block(1, "b"));
    let text = stream(&middle, "end_turn");
    let read = answer(&text).unwrap();
    assert_eq!(read.plain_text(), "ab");
    assert_eq!(read.parts.len(), 3);
    let written = evenkeel_providers::wire::anthropic::encode_response(&read, "m-a");
    assert_eq!(
        written["content"],
        json!([{"type": "text", "text": "a", "citations": [cited]}, {"type": "text", "text": "b"}])
    );
    let mut encoder = StreamEncoder::new("msg_1", "m-a");
    let mut bytes = Vec::new();
    for event in decode(&text) {
        encoder.write(&event.unwrap(), &mut bytes);
    }
    assert_eq!(
        answer(std::str::from_utf8(&bytes).unwrap()).unwrap().parts,
        read.parts
    );
}

/// Trap 48.
#[test]
fn counts_are_totals_and_what_is_not_said_again_stays() {
    let text = sse(&[
        json!({"type": "message_start", "message": {"id": "m", "model": "m", "usage":
            {"input_tokens": 12, "cache_read_input_tokens": 30, "output_tokens": 1}}}),
        json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 5}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage":
            {"input_tokens": null, "output_tokens": 7}}),
        json!({"type": "message_stop"}),
    ]);
    let seen: Vec<Usage> = decode(&text)
        .into_iter()
        .filter_map(|e| match e.unwrap() {
            StreamEvent::Usage(usage) => Some(usage),
            _ => None,
        })
        .collect();
    let counts: Vec<_> = seen.iter().map(|u| (u.input, u.output)).collect();
    assert_eq!(counts, [(42, 1), (42, 5), (42, 7)]);
    assert_eq!(seen[2].cached, Some(30));
}

/// Trap 9: a refusal's words stand beside the content.
#[test]
fn a_refusal_brings_its_explanation() {
    let details = json!({"type": "refusal", "category": "bio", "explanation": "Not this."});
    let text = sse(&[
        start(),
        json!({"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details},
            "usage": {"output_tokens": 1}}),
        json!({"type": "message_stop"}),
    ]);
    let read = answer(&text).unwrap();
    assert_eq!(read.parts, [Part::Refusal("Not this.".into())]);
    assert_eq!(read.finish, Finish::Refusal);
    assert_eq!(read.extra.fields["stop_details"], details);
    let written = evenkeel_providers::wire::anthropic::encode_response(&read, "m");
    assert_eq!(written["stop_details"], details);
    assert_eq!(written["content"], json!([]));
}

/// Trap 78.
#[test]
fn what_is_not_known_is_a_sign_of_life_or_skipped() {
    let events = decode(&format!(
        "{}event: message_delta\ndata: {{\"type\":\"mess\n\ndata: 7\n\ndata: null\n\n: hello\n\n{}",
        sse(&[
            start(),
            json!({"type": "fixture_future_event", "x": 1}),
            json!({"type": "ping"}),
            block_start(0, &json!({"type": "text", "text": ""})),
            delta(0, &json!({"type": "fixture_future_delta", "x": 1})),
        ]),
        sse(&end("fixture_future_reason"))
    ));
    let count = |want: &StreamEvent| {
        events
            .iter()
            .filter(|e| e.as_ref().is_ok_and(|e| e == want))
            .count()
    };
    assert_eq!(count(&StreamEvent::Skipped), 3);
    assert_eq!(count(&StreamEvent::KeepAlive), 5);
    assert!(events.iter().flatten().all(|e| !e.is_content()));
    let mut whole = Accumulator::default();
    for event in &events {
        whole.push(event.as_ref().unwrap());
    }
    let read = whole.finish().unwrap();
    assert_eq!(read.finish, Finish::Unknown);
    assert_eq!(read.extra.fields["stop_reason"], "fixture_future_reason");
    let written = evenkeel_providers::wire::anthropic::encode_response(&read, "m");
    assert_eq!(written["stop_reason"], "fixture_future_reason");
}

/// C101 and section 2: the end before a stop reason is no end.
#[test]
fn a_stream_is_whole_once_a_stop_reason_came() {
    let mut cut = vec![start()];
    cut.extend(text_block(0, "half"));
    for more in [vec![], vec![json!({"type": "message_stop"})]] {
        let text = sse(&[cut.clone(), more].concat());
        let events = decode(&text);
        let said = |e: &Result<StreamEvent, Failure>| {
            e.as_ref()
                .is_ok_and(|e| *e == StreamEvent::Delta(Delta::Text("half".into())))
        };
        assert!(events.iter().any(said));
        assert!(
            !events
                .iter()
                .any(|e| matches!(e, Ok(StreamEvent::Finish(_))))
        );
        assert_eq!(answer(&text).unwrap_err().class, Class::Transient);
    }
    cut.extend(end("end_turn").into_iter().take(1));
    assert_eq!(answer(&sse(&cut)).unwrap().plain_text(), "half");
    // The last event without its blank line, and a proxy's own terminator.
    let text = sse(&cut);
    assert!(answer(text.trim_end()).is_ok());
    assert!(answer(&format!("{text}data: [DONE]\n\n")).is_ok());
    assert_eq!(
        answer("data: [DONE]\n\n").unwrap_err().class,
        Class::Transient
    );
    assert_eq!(answer("").unwrap_err().class, Class::Transient);
}

/// C001, C106, traps 50, 51, 55.
#[test]
fn an_error_inside_a_success_has_the_class_of_its_type() {
    let error = |kind: &str, message: &str| encode_error(message, kind, None, Some("req_1"));
    for (error, class) in [
        (error("overloaded_error", "Overloaded"), Class::Overloaded),
        (error("rate_limit_error", "slow"), Class::RateLimited),
        (
            error("api_error", "Internal server error"),
            Class::Transient,
        ),
        (error("timeout_error", "late"), Class::Timeout),
        (error("authentication_error", "no"), Class::Auth),
        (error("billing_error", "no"), Class::QuotaExhausted),
        (error("not_found_error", "model: m-x"), Class::ModelGone),
        (
            error(
                "invalid_request_error",
                "prompt is too long: 2 tokens > 1 maximum",
            ),
            Class::ContextWindow,
        ),
        (
            error("request_too_large", "too many bytes"),
            Class::ContextWindow,
        ),
        (error("fixture_future_error", "?"), Class::Transient),
        (
            error(
                "internal_error",
                "[HTTP 502] <!DOCTYPE html><title>Error 502</title>",
            ),
            Class::Transient,
        ),
        (
            encode_error(
                "spent",
                "rate_limit_error",
                Some("enforced_spend_limit_reached"),
                None,
            ),
            Class::QuotaExhausted,
        ),
    ] {
        for text in [
            format!("event: error\ndata: {error}\n\n"),
            format!("data: {error}\n\n"),
            error.to_string(),
            sse(&[start(), error.clone()]),
        ] {
            let failure = answer(&text).unwrap_err();
            assert_eq!(failure.class, class, "{text}");
            assert!(!failure.message.contains('<'), "{failure}");
        }
    }
    let page = answer("<html><title>Sign in</title></html>").unwrap_err();
    assert_eq!(page.class, Class::Malformed);
    assert!(page.message.contains("Sign in"), "{page}");
    // No data is an event without a meaning; without JSON it is an error still.
    assert_eq!(
        answer("event: error\ndata: boom\n\n").unwrap_err().class,
        Class::Transient
    );
}

/// Trap 79.
#[test]
fn the_key_that_was_sent_is_masked_in_errors() {
    let key = SecretString::from("harbour");
    let mut decoder = StreamDecoder::with_limits(StreamLimits::default()).with_key(Some(key));
    let error = encode_error("no such key: harbour", "authentication_error", None, None);
    let events = decoder.push(format!("event: error\ndata: {error}\n\n").as_bytes());
    let Some(Err(failure)) = events.last() else {
        panic!("{events:?}")
    };
    assert!(!failure.to_string().contains("harbour"), "{failure}");
}

/// A whole answer although a stream was asked for.
#[test]
fn a_whole_answer_in_place_of_a_stream_is_read() {
    let whole = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m-a",
        "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn",
        "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}});
    let read = answer(&whole.to_string()).unwrap();
    assert_eq!(
        (read.plain_text().as_str(), read.finish),
        ("Hi", Finish::Stop)
    );
    assert_eq!(read.id, "msg_1");
}

/// Trap 52.
#[test]
fn halves_of_a_character_join_across_events() {
    let piece = |text: &str| {
        format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\
             \"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
        )
    };
    let text = format!(
        "{}{}{}{}{}",
        sse(&[
            start(),
            block_start(0, &json!({"type": "text", "text": ""}))
        ]),
        piece("a \\ud83c"),
        piece("\\udf0a \\ud83c"),
        sse(&[stop(0)]),
        sse(&end("end_turn"))
    );
    assert_eq!(answer(&text).unwrap().plain_text(), "a 🌊 \u{FFFD}");
}

/// A proxy that leaves block starts and ends out.
#[test]
fn missing_starts_and_ends_of_blocks_are_forgiven() {
    let text = stream(
        &[
            delta(0, &json!({"type": "text_delta", "text": "a"})),
            call_start(1, "t1"),
            json_piece(1, "{}"),
            call_start(1, "t2"),
        ],
        "end_turn",
    );
    let read = answer(&text).unwrap();
    assert_eq!(read.plain_text(), "a");
    assert_eq!(read.tool_calls().count(), 2);
    assert!(read.tool_calls().all(|c| c.arguments == "{}"));
    // Calls mean tool use, whatever was said.
    assert_eq!(read.finish, Finish::ToolUse);
}

#[test]
fn a_call_without_an_id_or_with_anothers_gets_one_of_its_own() {
    let block = |id: Value| {
        let mut block = json!({"type": "tool_use", "name": "f", "input": {}});
        if !id.is_null() {
            block["id"] = id;
        }
        block
    };
    let blocks = ["x", "x", ""].map(|id| block(id.into()));
    let blocks: Vec<Value> = blocks.into_iter().chain([block(Value::Null)]).collect();
    let mut middle = Vec::new();
    for (at, block) in (0..).zip(&blocks) {
        middle.extend([block_start(at, block), stop(at)]);
    }
    let whole = json!({"id": "msg_1", "type": "message", "model": "m-a", "content": blocks,
        "stop_reason": "tool_use", "usage": {"input_tokens": 9, "output_tokens": 1}});
    let answers = [
        answer(&stream(&middle, "tool_use")).unwrap(),
        decode_response(&whole).unwrap(),
    ];
    for answer in answers {
        let ids: Vec<&str> = answer.tool_calls().map(|c| c.id.as_str()).collect();
        assert_eq!(ids, ["x", "call_msg1_1", "call_msg1_2", "call_msg1_3"]);
        assert_eq!(answer.finish, Finish::ToolUse);
    }
}

#[test]
fn a_zero_behind_a_count_takes_nothing_away() {
    let text = json!({"type": "text_delta", "text": "a"});
    let last = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
        "usage": {"input_tokens": 0, "output_tokens": 7}});
    let whole = answer(&sse(&[start(), delta(0, &text), last])).unwrap();
    let usage = whole.usage.unwrap();
    assert_eq!((usage.input, usage.output), (9, 7));
}

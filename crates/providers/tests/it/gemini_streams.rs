//! Streams in Gemini's format that broke other readers, and how ours are written.

use evenkeel_core::{
    Accumulator, ChatResponse, Class, Delta, Failure, Finish, Part, ReasoningPart, StreamEvent,
};
use evenkeel_providers::wire::gemini::{
    DIALECT, StreamDecoder, StreamEncoder, decode_response, encode_error,
};
use evenkeel_providers::wire::{EventDecoder, StreamLimits};
use secrecy::SecretString;
use serde_json::{Value, json};

pub(crate) fn decode(stream: &str) -> Vec<Result<StreamEvent, Failure>> {
    let mut decoder = StreamDecoder::new();
    let mut events = decoder.push(stream.as_bytes());
    events.extend(decoder.finish());
    events
}

pub(crate) fn answer(stream: &str) -> Result<ChatResponse, Failure> {
    let mut whole = Accumulator::default();
    for event in decode(stream) {
        whole.push(&event?);
    }
    whole.finish()
}

/// The text before a failure, and the failure.
pub(crate) fn broken(stream: &str) -> (String, Failure) {
    let mut text = String::new();
    for event in decode(stream) {
        match event {
            Ok(StreamEvent::Delta(Delta::Text(piece))) => text.push_str(&piece),
            Ok(event) => assert_ne!(event, StreamEvent::End),
            Err(failure) => return (text, failure),
        }
    }
    panic!("the stream did not fail")
}

pub(crate) fn chunk(parts: &Value, reason: Option<&str>) -> String {
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
    if let Some(reason) = reason {
        candidate["finishReason"] = reason.into();
    }
    let chunk = json!({"candidates": [candidate], "modelVersion": "m", "responseId": "r1"});
    format!("data: {chunk}\r\n\r\n")
}

/// C206.
#[test]
fn an_error_inside_a_stream_is_typed_and_keeps_what_came_before() {
    for (code, status, class) in [
        (503, "UNAVAILABLE", Class::Overloaded),
        (429, "RESOURCE_EXHAUSTED", Class::RateLimited),
        (400, "INVALID_ARGUMENT", Class::BadRequest),
        (500, "INTERNAL", Class::Transient),
        (504, "DEADLINE_EXCEEDED", Class::Timeout),
        (499, "CANCELLED", Class::Transient),
    ] {
        let error = encode_error(code, "No.", &[]);
        assert_eq!(error["error"]["status"], status);
        let pretty = serde_json::to_string_pretty(&error).unwrap();
        for told in [
            format!("data: {error}\r\n\r\n"),
            format!("{pretty}\n"),
            format!("[{pretty}]"),
        ] {
            let (text, failure) = broken(&(chunk(&json!([{"text": "half an"}]), None) + &told));
            assert_eq!((text.as_str(), failure.class), ("half an", class), "{told}");
            assert_eq!(failure.status, Some(code));
        }
        let (_, failure) = broken(&format!("[{pretty}]\r\n"));
        assert_eq!(failure.class, class);
    }
}

/// C101.
#[test]
fn an_end_without_a_reason_is_no_stop() {
    let (text, failure) = broken(&chunk(&json!([{"text": "half"}]), None));
    assert_eq!((text.as_str(), failure.class), ("half", Class::Transient));
    let body = json!({"candidates": [{"content": {"parts": [{"text": "half"}]}}]});
    assert_eq!(decode_response(&body).unwrap_err().class, Class::Transient);
}

#[test]
fn a_last_event_without_its_blank_line_is_kept_and_a_cut_one_is_not() {
    let stream =
        chunk(&json!([{"text": "a"}]), None) + &chunk(&json!([{"text": "b"}]), Some("STOP"));
    assert_eq!(answer(stream.trim_end()).unwrap().plain_text(), "ab");
    let cut = &stream[..stream.len() - 40];
    let (text, failure) = broken(cut);
    assert_eq!((text.as_str(), failure.class), ("a", Class::Transient));
}

#[test]
fn an_array_is_read_piece_by_piece() {
    let mut decoder = StreamDecoder::new();
    let element = chunk(&json!([{"text": "Neap"}]), None);
    let element = element.trim_start_matches("data: ").trim_end();
    let events = decoder.push(format!("[{element}\r\n,").as_bytes());
    let said = Ok(StreamEvent::Delta(Delta::Text("Neap".into())));
    assert_eq!(
        format!("{:?}", events.last()),
        format!("{:?}", Some::<Result<StreamEvent, Failure>>(said))
    );
    let (_, failure) = broken(&format!("[{element}\n"));
    assert_eq!(failure.class, Class::Transient);
}

#[test]
fn a_reason_on_every_chunk_ends_nothing_early() {
    let stream = chunk(&json!([{"text": "a"}]), Some("STOP"))
        + &chunk(&json!([{"text": "b"}]), Some("MAX_TOKENS"));
    let events: Vec<_> = decode(&stream).into_iter().map(Result::unwrap).collect();
    let finish = events
        .iter()
        .position(|e| matches!(e, StreamEvent::Finish(_)))
        .unwrap();
    assert!(events[finish..].iter().all(|e| !e.is_content()));
    assert_eq!(events[finish], StreamEvent::Finish(Finish::Length));
}

/// Trap 52.
#[test]
fn halves_of_a_character_join_across_chunks_and_inside_arguments() {
    let text = |escaped: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{escaped}\"}}]}},\"index\":0}}]}}\r\n\r\n"
        )
    };
    let stream = text("wave \\ud83c") + &text("\\udf0a ok") + &chunk(&json!([]), Some("STOP"));
    assert_eq!(answer(&stream).unwrap().plain_text(), "wave 🌊 ok");
    let stream = text("wave \\ud83c") + &chunk(&json!([]), Some("STOP"));
    assert_eq!(answer(&stream).unwrap().plain_text(), "wave \u{FFFD}");
    let call = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\",\"args\":{\"a\":\"x\\ud83c\"}}}]},\"finishReason\":\"STOP\"}]}\n\n";
    let read = answer(call).unwrap();
    assert_eq!(
        read.tool_calls().next().unwrap().arguments,
        "{\"a\":\"x\u{FFFD}\"}"
    );
}

/// C004.
#[test]
fn an_event_that_cannot_be_read_is_skipped_and_told() {
    let stream = chunk(&json!([{"text": "a"}]), None)
        + "data: {\"candidates\":[{\"cont\n\ndata: 7\n\ndata: [DONE]\n\n: hm\n\n"
        + &chunk(&json!([{"text": "b"}]), Some("STOP"));
    let events: Vec<_> = decode(&stream).into_iter().map(Result::unwrap).collect();
    let skipped = events.iter().filter(|e| **e == StreamEvent::Skipped);
    assert_eq!(skipped.count(), 2);
    assert_eq!(answer(&stream).unwrap().plain_text(), "ab");
}

/// Trap 79, C039.
#[test]
fn a_key_that_is_echoed_is_masked() {
    let key = SecretString::from("AIzaTESTKEY0123456789");
    let mut decoder = StreamDecoder::new().with_key(Some(key));
    let events = decoder.push(
        b"data: {\"error\":{\"code\":400,\"message\":\"bad key AIzaTESTKEY0123456789\"}}\n\n",
    );
    let told = format!("{events:?} {decoder:?}");
    assert!(!told.contains("AIzaTESTKEY"), "{told}");
}

#[test]
fn google_clients_get_neither_comments_nor_bare_line_feeds() {
    let mut encoder = StreamEncoder::new("r1", "m");
    let mut out = Vec::new();
    for event in [
        StreamEvent::KeepAlive,
        StreamEvent::Delta(Delta::Text("a\nb".into())),
        StreamEvent::KeepAlive,
        StreamEvent::Finish(Finish::Stop),
        StreamEvent::End,
    ] {
        encoder.write(&event, &mut out);
    }
    let text = String::from_utf8(out).unwrap();
    let events: Vec<&str> = text.split_terminator("\r\n\r\n").collect();
    assert_eq!(events.len(), 2);
    for event in events {
        let data = event.strip_prefix("data: ").unwrap();
        assert!(serde_json::from_str::<Value>(data).is_ok(), "{data}");
        assert!(!event.contains('\n'));
    }
}

#[test]
fn a_call_is_sent_whole_however_its_pieces_came() {
    let start = |index: usize, name: &str| {
        StreamEvent::Delta(Delta::ToolCallStart {
            index,
            id: format!("c{index}"),
            name: name.into(),
        })
    };
    let piece = |index: usize, fragment: &str| {
        StreamEvent::Delta(Delta::ToolCallArguments {
            index,
            fragment: fragment.into(),
        })
    };
    let mut encoder = StreamEncoder::new("r1", "m");
    let mut chunks = Vec::new();
    for event in [
        start(0, "f"),
        piece(0, "{\"a\""),
        start(1, "g"),
        piece(1, "{}"),
        piece(0, ":1}"),
        StreamEvent::Finish(Finish::ToolUse),
        StreamEvent::End,
    ] {
        chunks.extend(encoder.push(&event));
    }
    assert_eq!(
        chunks[0]["candidates"][0]["content"]["parts"],
        json!([
            {"functionCall": {"id": "c0", "name": "f", "args": {"a": 1}}},
            {"functionCall": {"id": "c1", "name": "g", "args": {}}},
        ])
    );
    assert_eq!(chunks[1]["candidates"][0]["finishReason"], "STOP");
    assert_eq!(chunks.len(), 2);
}

#[test]
fn a_stream_larger_than_its_limits_is_ended() {
    let mut decoder = StreamDecoder::with_limits(StreamLimits {
        max_event_bytes: 1_000,
        max_answer_bytes: 100,
    });
    let long = chunk(&json!([{"text": "x".repeat(101)}]), None);
    let events = decoder.push(long.as_bytes());
    assert_eq!(
        events.last().unwrap().as_ref().unwrap_err().class,
        Class::Malformed
    );
    assert!(decoder.is_over() && decoder.push(long.as_bytes()).is_empty());
    for start in ["data: {\"a\":\"", "[{\"a\":\"", "{\"a\":\""] {
        let mut decoder = StreamDecoder::with_limits(StreamLimits {
            max_event_bytes: 1_000,
            max_answer_bytes: 100,
        });
        let events = decoder.push((start.to_owned() + &"x".repeat(2_000)).as_bytes());
        assert_eq!(
            events.last().unwrap().as_ref().unwrap_err().class,
            Class::Malformed
        );
    }
}

/// C205.
#[test]
fn a_malformed_call_is_a_failure_and_no_empty_success() {
    let stream = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"thoughtSignature\":\"c2ln\"}],\"role\":\"model\"},\"finishReason\":\"MALFORMED_FUNCTION_CALL\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":9,\"totalTokenCount\":9}}\n\n";
    let (text, failure) = broken(stream);
    assert_eq!((text.as_str(), failure.class), ("", Class::Malformed));
    let content = decode(stream)
        .into_iter()
        .filter(|e| e.as_ref().is_ok_and(StreamEvent::is_content));
    assert_eq!(content.count(), 0, "nothing was delivered");
}

/// C204.
#[test]
fn a_last_candidate_may_hold_only_a_reason() {
    let read = answer(concat!(
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"plan\",\"thought\":true}],\"role\":\"model\"},\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":9,\"totalTokenCount\":19,\"thoughtsTokenCount\":10}}\n\n",
        "data: {\"candidates\":[{\"finishReason\":\"MAX_TOKENS\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":9,\"totalTokenCount\":73,\"thoughtsTokenCount\":64}}\n\n",
    ))
    .unwrap();
    let thought = ReasoningPart {
        text: "plan".into(),
        signature: None,
        dialect: DIALECT,
    };
    assert_eq!(read.parts, [Part::Reasoning(thought)]);
    assert_eq!(read.finish, Finish::Length);
    let usage = read.usage.unwrap();
    assert_eq!(
        (usage.input, usage.output, usage.reasoning),
        (9, 64, Some(64))
    );
    assert_eq!(read.verify().unwrap_err().class, Class::Semantic);
}

/// C070.
#[test]
fn a_prompt_blocked_inside_a_stream_is_one_too() {
    let read = answer("data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"},\"usageMetadata\":{\"promptTokenCount\":12}}\r\n\r\n").unwrap();
    assert_eq!(read.finish, Finish::ContentFilter);
    assert_eq!(read.extra.fields["promptFeedback"]["blockReason"], "SAFETY");
    assert_eq!(read.usage.unwrap().input, 12);
    assert!(read.parts.is_empty());
}

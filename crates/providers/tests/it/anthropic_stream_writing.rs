//! Streams of other formats, written for a client that speaks Anthropic's.

use crate::anthropic_streams::{answer, sse};
use evenkeel_core::{Class, Delta, Extra, Finish, Part, ReasoningPart, StreamEvent, Usage, Value};
use evenkeel_providers::wire::anthropic::StreamEncoder;
use serde_json::json;

fn written(events: &[StreamEvent]) -> Vec<Value> {
    let mut encoder = StreamEncoder::new("msg_gw", "m-client");
    events.iter().flat_map(|e| encoder.push(e)).collect()
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|e| e["type"].as_str().unwrap()).collect()
}

fn begin() -> StreamEvent {
    StreamEvent::Start {
        id: "chatcmpl-1".into(),
        model: "m-b".into(),
        created: 7,
        extra: Extra {
            dialect: "openai",
            fields: [("system_fingerprint".to_owned(), json!("fp"))]
                .into_iter()
                .collect(),
        },
    }
}

fn say(text: &str) -> StreamEvent {
    StreamEvent::Delta(Delta::Text(text.into()))
}

/// Section 15: the order of events, ids and model of the gateway's own.
#[test]
fn a_stream_of_another_format_is_written_in_order() {
    let usage = Usage {
        input: 12,
        output: 5,
        cached: Some(10),
        ..Usage::default()
    };
    let start_call = StreamEvent::Delta(Delta::ToolCallStart {
        index: 0,
        id: "c1".into(),
        name: "f".into(),
    });
    let events = written(&[
        begin(),
        say("Hel"),
        say("lo"),
        start_call,
        StreamEvent::Delta(Delta::ToolCallArguments {
            index: 0,
            fragment: "{}".into(),
        }),
        StreamEvent::Finish(Finish::ToolUse),
        StreamEvent::Usage(usage),
        StreamEvent::End,
    ]);
    assert_eq!(
        types(&events),
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    let message = &events[0]["message"];
    assert_eq!(
        (&message["id"], &message["model"]),
        (&json!("msg_gw"), &json!("m-client"))
    );
    assert_eq!(message.get("system_fingerprint"), None);
    assert_eq!(events[5]["index"], 1);
    assert_eq!(
        events[5]["content_block"],
        json!({"type": "tool_use", "id": "c1", "name": "f", "input": {}})
    );
    assert_eq!(events[8]["delta"]["stop_reason"], "tool_use");
    assert_eq!(
        events[8]["usage"],
        json!({"input_tokens": 2, "cache_read_input_tokens": 10, "output_tokens": 5})
    );
}

/// Section 15: pings keep the stream alive, but never come first.
#[test]
fn a_keep_alive_is_a_ping_after_the_start() {
    let events = written(&[StreamEvent::KeepAlive, begin(), StreamEvent::KeepAlive]);
    assert_eq!(types(&events), ["message_start", "ping", "ping"]);
}

#[test]
fn an_answer_without_content_is_still_a_stream() {
    let events = written(&[begin(), StreamEvent::Finish(Finish::Stop), StreamEvent::End]);
    assert_eq!(
        types(&events),
        ["message_start", "message_delta", "message_stop"]
    );
    let read = answer(&sse(&events)).unwrap();
    assert_eq!((read.finish, read.usage), (Finish::Stop, None));
}

/// Section 15.
#[test]
fn a_stream_that_breaks_ends_with_a_named_error() {
    let mut encoder = StreamEncoder::new("msg_gw", "m");
    let mut bytes = Vec::new();
    encoder.write(&begin(), &mut bytes);
    encoder.write(&say("Half"), &mut bytes);
    encoder.write_error("Overloaded", "overloaded_error", &mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    assert!(
        text.contains("event: error\ndata: {\"type\":\"error\""),
        "{text}"
    );
    for line in text.split("\n\n").filter(|e| !e.is_empty()) {
        let (name, data) = line.split_once("\ndata: ").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(name, format!("event: {}", data["type"].as_str().unwrap()));
    }
    assert_eq!(answer(&text).unwrap_err().class, Class::Overloaded);
}

/// Section 10: to Anthropic.
#[test]
fn finishes_of_other_formats_become_the_nearest_stop_reason() {
    for (finish, reason) in [
        (Finish::Stop, "end_turn"),
        (Finish::StopSequence, "stop_sequence"),
        (Finish::Length, "max_tokens"),
        (Finish::ToolUse, "tool_use"),
        (Finish::ContentFilter, "refusal"),
        (Finish::Refusal, "refusal"),
        (Finish::Pause, "pause_turn"),
        (Finish::ContextWindow, "model_context_window_exceeded"),
        (Finish::Unknown, "end_turn"),
    ] {
        let events = written(&[begin(), StreamEvent::Finish(finish), StreamEvent::End]);
        assert_eq!(events[1]["delta"]["stop_reason"], reason);
    }
}

/// A signature of another provider means nothing to a client of this format,
/// which would send it back as this provider's own.
#[test]
fn foreign_signatures_are_not_given_to_a_client() {
    let events = written(&[
        begin(),
        StreamEvent::Delta(Delta::Reasoning(ReasoningPart {
            text: "hm".into(),
            signature: Some("SIG-G".into()),
            dialect: "gemini",
        })),
        StreamEvent::Finish(Finish::Stop),
        StreamEvent::End,
    ]);
    assert!(!sse(&events).contains("SIG-G"));
    let read = answer(&sse(&events)).unwrap();
    let unsigned = ReasoningPart {
        text: "hm".into(),
        ..ReasoningPart::default()
    };
    assert_eq!(read.parts, [Part::Reasoning(unsigned)]);
}

//! Streams of `OpenAI`'s dialect as compatible servers really send them.

use evenkeel_core::{Accumulator, ChatResponse, Delta, Failure, Finish, StreamEvent};
use evenkeel_providers::Server;
use evenkeel_providers::wire::EventDecoder;
use evenkeel_providers::wire::openai::{StreamDecoder, decode_response};
use serde_json::{Value, json};

fn decode(bytes: &[u8]) -> Vec<Result<StreamEvent, Failure>> {
    let mut decoder = StreamDecoder::new(Server::Compatible);
    let mut events = decoder.push(bytes);
    events.extend(decoder.finish());
    events
}

fn answer(bytes: &[u8]) -> Result<ChatResponse, Failure> {
    let mut whole = Accumulator::default();
    for event in decode(bytes) {
        whole.push(&event?);
    }
    whole.finish()
}

fn chunk(delta: &Value, reason: Option<&str>) -> Value {
    json!({"id": "s1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
}

/// A stream of these deltas that ends with `reason`.
fn stream(deltas: &[Value], reason: &str) -> Vec<u8> {
    let chunks = deltas.iter().map(|delta| chunk(delta, None));
    let chunks = chunks.chain([chunk(&json!({}), Some(reason))]);
    let lines = chunks.map(|chunk| format!("data: {chunk}\n\n"));
    let text = lines.collect::<Vec<_>>().concat() + "data: [DONE]\n\n";
    text.into_bytes()
}

fn reasoning(events: &[Result<StreamEvent, Failure>]) -> Vec<&str> {
    let pieces = events.iter().flatten().filter_map(|event| match event {
        StreamEvent::Delta(Delta::Reasoning(part)) => Some(part.text.as_str()),
        _ => None,
    });
    pieces.filter(|text| !text.is_empty()).collect()
}

#[test]
fn reasoning_that_comes_in_details_alone_is_read() {
    let entry = |kind: &str, field: &str, text: &str| json!({"reasoning_details": [{"type": kind, field: text, "index": 0}]});
    let text = |said: &str| entry("reasoning.text", "text", said);
    let summary = |said: &str| entry("reasoning.summary", "summary", said);
    let both = |said: &str| {
        let mut delta = text(said);
        delta["reasoning"] = said.into();
        delta
    };
    for deltas in [
        [text("One "), text("two.")],
        [text("One "), text("One two.")],
        [summary("One "), summary("two.")],
        [both("One "), both("two.")],
    ] {
        let events = decode(&stream(&deltas, "stop"));
        assert_eq!(reasoning(&events), ["One ", "two."], "{deltas:?}");
        let content = events.iter().flatten().filter(|e| e.is_content());
        assert_eq!(content.count(), 2);
    }
    let mut signed = text("One two.");
    signed["reasoning_details"][0]["signature"] = "s".into();
    let [one, two] = ["One ", "two."].map(|said| json!({"reasoning": said}));
    let events = decode(&stream(&[one, two, signed], "stop"));
    assert_eq!(reasoning(&events), ["One ", "two."]);
}

#[test]
fn a_call_in_the_field_before_tool_calls_is_read() {
    let piece = |name: &str, arguments: &str| {
        let mut call = json!({"arguments": arguments});
        if !name.is_empty() {
            call["name"] = name.into();
        }
        json!({"function_call": call})
    };
    let mut doubled = piece("f", "{\"a\":1}");
    doubled["tool_calls"] = json!([{"index": 0, "id": "x", "function": doubled["function_call"]}]);
    for (deltas, id) in [
        (
            vec![piece("f", ""), piece("", "{\"a\""), piece("", ":1}")],
            "call_s1_0",
        ),
        (vec![doubled.clone()], "x"),
    ] {
        let answer = answer(&stream(&deltas, "function_call")).unwrap();
        let calls: Vec<_> = answer.tool_calls().collect();
        assert_eq!(calls.len(), 1);
        assert_eq!(
            (calls[0].id.as_str(), calls[0].arguments.as_str()),
            (id, "{\"a\":1}")
        );
        assert_eq!(answer.finish, Finish::ToolUse);
        assert!(answer.extra.fields.is_empty());
    }
    let mut message = doubled;
    message["role"] = "assistant".into();
    let whole = json!({"id": "s1", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
    let whole = decode_response(whole.to_string().as_bytes(), Server::Compatible).unwrap();
    assert_eq!(whole.tool_calls().count(), 1);
}

#[test]
fn a_stream_whose_events_have_no_blank_lines_between_them_is_read_whole() {
    let deltas = ["Hel", "lo", "!"].map(|text| json!({"content": text}));
    let spaced = String::from_utf8(stream(&deltas, "stop")).unwrap();
    let unspaced = spaced.replace("\n\n", "\n");
    assert_eq!(
        answer(unspaced.as_bytes()).unwrap(),
        answer(spaced.as_bytes()).unwrap()
    );
}

#[test]
fn zeros_in_the_place_of_counts_are_no_usage() {
    let usage = |counts: [u64; 3]| {
        let [prompt, completion, total] = counts;
        let usage = json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total});
        format!(
            "data: {}\n\n",
            json!({"id": "s1", "choices": [], "usage": usage})
        )
    };
    let text = String::from_utf8(stream(&[json!({"content": "a"})], "stop")).unwrap();
    let text = text.replace("data: [DONE]\n\n", "");
    let counted = |usages: &[String]| {
        let whole = answer((text.clone() + &usages.concat()).as_bytes()).unwrap();
        whole.usage.map(|usage| (usage.input, usage.output))
    };
    assert_eq!(counted(&[usage([5, 3, 8]), usage([0, 0, 0])]), Some((5, 3)));
    assert_eq!(counted(&[usage([0, 0, 0])]), None);
}

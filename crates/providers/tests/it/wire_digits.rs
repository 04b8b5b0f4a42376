//! Arguments keep the digits that the provider wrote. Trap 13.

use crate::{anthropic_streams, gemini_streams};
use evenkeel_core::ChatResponse;
use evenkeel_providers::Server;
use evenkeel_providers::wire::classify::Reply;
use evenkeel_providers::wire::{anthropic, gemini};

/// An integer beyond 64 bits, its neighbour, which a float cannot tell from it, and a long fraction.
const ARGUMENTS: &str =
    r#"{"a":12345678901234567890123,"b":[-12345678901234567890124],"c":0.12345678901234567890}"#;

fn arguments(answer: &ChatResponse) -> Vec<&str> {
    answer.tool_calls().map(|c| c.arguments.as_str()).collect()
}

fn gemini_body() -> String {
    let call = |arguments| format!(r#"{{"functionCall":{{"name":"f","args":{arguments}}}}}"#);
    let parts = [
        r#"{"text":"I call"}"#.to_owned(),
        call(ARGUMENTS),
        call(r#"{"n":1}"#),
    ];
    format!(
        r#"{{"candidates":[{{"content":{{"parts":[{}]}},"finishReason":"STOP"}}],"responseId":"r1"}}"#,
        parts.join(",")
    )
}

#[test]
fn gemini_whole_and_streamed() {
    let body = gemini_body();
    let whole = gemini::decode_answer(&Reply::new(Server::Gemini, 200, body.as_bytes())).unwrap();
    assert_eq!(arguments(&whole), [ARGUMENTS, r#"{"n":1}"#]);
    for stream in [format!("data: {body}\n\n"), format!("[{body}]")] {
        let streamed = gemini_streams::answer(&stream).unwrap();
        assert_eq!(arguments(&streamed), arguments(&whole), "{stream}");
    }
}

#[test]
fn anthropic_whole_and_streamed() {
    let body = format!(
        r#"{{"type":"message","id":"m","model":"m","role":"assistant","stop_reason":"tool_use","content":[
            {{"type":"text","text":"I call"}},
            {{"type":"tool_use","id":"t1","name":"f","input":{ARGUMENTS}}},
            {{"type":"tool_use","id":"t2","name":"f","input":{{"n":1}}}}]}}"#
    );
    let reply = Reply::new(Server::Anthropic, 200, body.as_bytes());
    let whole = anthropic::decode_answer(&reply).unwrap();
    assert_eq!(arguments(&whole), [ARGUMENTS, r#"{"n":1}"#]);
    // Some servers write all of it into the block's beginning.
    let begun = format!(
        r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"tool_use","id":"t1","name":"f","input":{ARGUMENTS}}}}}"#
    );
    let stream = [
        r#"{"type":"message_start","message":{"id":"m","model":"m","content":[]}}"#,
        &begun,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#,
        r#"{"type":"message_stop"}"#,
    ]
    .map(|data| format!("data: {data}\n\n"))
    .concat();
    let streamed = anthropic_streams::answer(&stream).unwrap();
    assert_eq!(arguments(&streamed), [ARGUMENTS]);
}

//! Signatures of Gemini's format: each stays on its part, and no other passes for one.

use crate::gemini_build::{call, conversation, decode, encode, message, result, signed, strict};
use evenkeel_core::{Extra, Message, Part, ReasoningPart, Role};
use evenkeel_providers::wire::gemini::{DIALECT, Options, encode_request};
use serde_json::json;

/// `skip_thought_signature_validator`, in base64.
const PLACEHOLDER: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";

/// Trap 33.
#[test]
fn every_signature_goes_back_on_the_part_it_came_on() {
    let body = json!({"contents": [
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": [
            {"text": "moon", "thought": true, "thoughtSignature": "dGhvdWdodA=="},
            {"text": "Looking.", "thoughtSignature": "dGV4dA=="},
            {"functionCall": {"id": "a", "name": "f", "args": {}}, "thoughtSignature": "Y2FsbA=="},
            {"functionCall": {"id": "b", "name": "f", "args": {}}},
            {"text": "", "thoughtSignature": "ZW5k"},
        ]},
        {"role": "user", "parts": [
            {"functionResponse": {"id": "a", "name": "f", "response": {"output": "1"}}},
            {"functionResponse": {"id": "b", "name": "f", "response": {"output": "2"}}},
        ]},
        {"role": "model", "parts": [
            {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thoughtSignature": "aW1n"},
            {"text": "Done."},
        ]},
        {"role": "user", "parts": [{"text": "thanks"}]},
    ]});
    let mut request = decode(&body);
    // Also where the messages keep no written form, as in a history that a
    // library user put together from answers.
    for message in &mut request.messages {
        assert!(message.extra.fields.is_empty(), "{:?}", message.extra);
        message.extra = Extra::default();
    }
    assert_eq!(strict(&request).body, body);
    assert!(strict(&request).adapted.is_empty());
}

#[test]
fn a_call_of_another_provider_gets_the_placeholder_where_signatures_are_needed() {
    let request = conversation(vec![
        Message::text(Role::User, "q"),
        message(Role::Assistant, vec![call("a", "f"), call("b", "f")]),
        message(Role::Tool, vec![result("a", "1"), result("b", "2")]),
        message(Role::Assistant, vec![call("c", "f")]),
        message(Role::Tool, vec![result("c", "3")]),
    ]);
    let needed = strict(&request);
    let contents = &needed.body["contents"];
    assert_eq!(contents[1]["parts"][0]["thoughtSignature"], PLACEHOLDER);
    assert!(contents[1]["parts"][1].get("thoughtSignature").is_none());
    assert_eq!(contents[3]["parts"][0]["thoughtSignature"], PLACEHOLDER);
    assert_eq!(needed.adapted.len(), 1);
    let by_name = encode_request(&request, "gemini-3-pro-preview", &Options::default());
    assert_eq!(by_name.body, needed.body);
    let not_needed = encode_request(&request, "gemini-2.5-flash", &Options::default());
    assert!(!not_needed.body.to_string().contains("thoughtSignature"));
    assert!(not_needed.adapted.is_empty());
}

/// C135.
#[test]
fn a_call_never_carries_another_providers_signature() {
    let request = conversation(vec![
        Message::text(Role::User, "q"),
        message(
            Role::Assistant,
            vec![
                Part::Reasoning(ReasoningPart {
                    text: "hm".into(),
                    signature: Some("SIG-CLAUDE".into()),
                    dialect: "anthropic",
                }),
                signed("t1", "anthropic", "SIG-CLAUDE"),
                signed("t2", DIALECT, "SIG-GEM"),
            ],
        ),
        message(Role::Tool, vec![result("t1", "1"), result("t2", "2")]),
    ]);
    for written in [encode(&request), strict(&request)] {
        assert!(!written.body.to_string().contains("CLAUDE"));
        assert!(!written.body.to_string().contains("hm"));
        let parts = &written.body["contents"][1]["parts"];
        assert_eq!(parts[1]["thoughtSignature"], "SIG-GEM");
        assert!(
            written
                .adapted
                .contains(&"earlier reasoning: of another wire format, left out".to_owned())
        );
    }
    assert_eq!(
        strict(&request).body["contents"][1]["parts"][0]["thoughtSignature"],
        PLACEHOLDER
    );
}

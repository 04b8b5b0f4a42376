//! Conversations that other formats wrote, as Gemini's format takes them.

use crate::gemini_build::{call, conversation, decode, encode, message, result, signed, user};
use evenkeel_core::{ChatRequest, Image, Message, Part, Role, ToolResult};
use evenkeel_providers::wire::gemini::{DIALECT, Options, Platform, encode_request};
use serde_json::json;

#[test]
fn the_system_message_becomes_the_system_instruction() {
    let request = conversation(vec![
        Message::text(Role::Developer, "Be brief."),
        Message::text(Role::User, "Hi"),
    ]);
    let written = encode(&request);
    assert_eq!(
        written.body,
        json!({
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        })
    );
    assert!(written.adapted.is_empty());
}

/// Trap 2.
#[test]
fn several_system_messages_are_joined_and_told() {
    let request = conversation(vec![
        Message::text(Role::System, "Be brief."),
        Message::text(Role::User, "Hi"),
        Message::text(Role::System, "Be kind."),
    ]);
    let written = encode(&request);
    assert_eq!(
        written.body["systemInstruction"]["parts"],
        json!([{"text": "Be brief.\n\nBe kind."}])
    );
    assert_eq!(
        written.adapted,
        [
            "system message in mid-conversation: moved to the system prompt",
            "system message: joined with the others into one",
        ]
    );
}

#[test]
fn a_system_message_alone_is_sent_as_the_users() {
    let written = encode(&conversation(vec![Message::text(Role::System, "Go.")]));
    assert_eq!(
        written.body,
        json!({"contents": [{"role": "user", "parts": [{"text": "Go."}]}]})
    );
    assert_eq!(
        written.adapted,
        ["system message: there is nothing else, sent as the user's"]
    );
}

/// Trap 7.
#[test]
fn turns_of_one_side_are_merged_so_that_the_sides_alternate() {
    let request = conversation(vec![
        Message::text(Role::User, "a"),
        Message::text(Role::User, "b"),
        Message::text(Role::Assistant, "c"),
        Message::text(Role::Assistant, ""),
        Message::text(Role::Assistant, "d"),
        Message::text(Role::User, "e"),
    ]);
    assert_eq!(
        encode(&request).body["contents"],
        json!([
            {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]},
            {"role": "model", "parts": [{"text": "c"}, {"text": "d"}]},
            {"role": "user", "parts": [{"text": "e"}]},
        ])
    );
}

/// Traps 8 and 22.
#[test]
fn results_are_objects_and_named_after_their_calls() {
    let mut failed = ToolResult {
        call_id: "b".into(),
        parts: vec![Part::Text("offline".into())],
        is_error: true,
    };
    let mut request = conversation(vec![
        Message::text(Role::User, "q"),
        message(Role::Assistant, vec![call("a", "f"), call("b", "g")]),
        message(Role::Tool, vec![result("a", "[1]")]),
        message(Role::Tool, vec![Part::ToolResult(failed.clone())]),
    ]);
    let written = encode(&request).body;
    assert_eq!(
        written["contents"][2],
        json!({"role": "user", "parts": [
            {"functionResponse": {"id": "a", "name": "f", "response": {"output": "[1]"}}},
            {"functionResponse": {"id": "b", "name": "g", "response": {"error": "offline"}}},
        ]})
    );
    let back = decode(&written);
    failed.is_error = true;
    let expected = message(
        Role::Tool,
        vec![result("a", "[1]"), Part::ToolResult(failed)],
    );
    request.messages.truncate(2);
    assert_eq!(back.messages[2].parts, expected.parts);
    assert_eq!(
        back.messages[1].parts.len(),
        request.messages[1].parts.len()
    );
}

#[test]
fn a_result_of_any_object_is_unwrapped_to_text_and_goes_back_as_it_was() {
    let body = user(json!({"contents": [
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"temp": 9, "unit": "c"}}}]},
    ]}));
    let mut request = decode(&body);
    let Part::ToolResult(read) = &request.messages[2].parts[0] else {
        panic!("a result")
    };
    assert_eq!(read.parts, [Part::Text(r#"{"temp":9,"unit":"c"}"#.into())]);
    assert!(!read.call_id.is_empty());
    assert_eq!(encode(&request).body, body);
    if let Part::ToolResult(read) = &mut request.messages[2].parts[0] {
        read.parts = vec![Part::Text("edited".into())];
    }
    assert_eq!(
        encode(&request).body["contents"][2]["parts"][0]["functionResponse"]["response"],
        json!({"output": "edited"})
    );
}

/// C130. Without contents, or with the model's words last, the format refuses a request.
#[test]
fn an_empty_last_message_of_the_user_keeps_its_turn() {
    let filled = json!({"role": "user", "parts": [{"text": "(empty message)"}]});
    let alone = encode(&ChatRequest::user(""));
    assert_eq!(alone.body["contents"], json!([filled]));
    assert_eq!(
        alone.adapted,
        ["empty message of the user: refused by this provider, sent as a placeholder"]
    );
    let last = encode(&conversation(vec![
        Message::text(Role::User, "a"),
        Message::text(Role::Assistant, "b"),
        Message::text(Role::User, ""),
    ]));
    assert_eq!(last.body["contents"][2], filled);
    let begun = encode(&conversation(vec![
        Message::text(Role::User, "a"),
        Message::text(Role::Assistant, "b"),
    ]));
    assert_eq!(begun.body["contents"].as_array().map(Vec::len), Some(2));
}

/// C136.
#[test]
fn there_are_as_many_results_as_calls_in_one_content_and_in_their_order() {
    let request = conversation(vec![
        Message::text(Role::User, "q"),
        message(Role::Assistant, vec![call("a", "f"), call("b", "g")]),
        message(Role::Tool, vec![result("b", "B")]),
        Message::text(Role::User, "never mind"),
    ]);
    let written = encode(&request);
    assert_eq!(
        written.body["contents"][2],
        json!({"role": "user", "parts": [
            {"functionResponse": {"id": "a", "name": "f", "response": {"error": "no result was given for this call"}}},
            {"functionResponse": {"id": "b", "name": "g", "response": {"output": "B"}}},
            {"text": "never mind"},
        ]})
    );
    assert_eq!(
        written.adapted,
        ["tool call without its result: an error was put in its place"]
    );
    let late = conversation(vec![
        message(Role::Assistant, vec![call("a", "f"), call("b", "f")]),
        Message::text(Role::User, "wait"),
        message(Role::Tool, vec![result("b", "B")]),
        message(Role::Tool, vec![result("a", "A")]),
    ]);
    let parts = &encode(&late).body["contents"][1]["parts"];
    assert_eq!(parts[0]["functionResponse"]["response"]["output"], "A");
    assert_eq!(parts[1]["functionResponse"]["response"]["output"], "B");
    assert_eq!(parts[2]["text"], "wait");
}

#[test]
fn a_result_without_its_call_is_sent_as_text() {
    let request = conversation(vec![
        message(Role::Tool, vec![result("gone", "42")]),
        Message::text(Role::User, "and?"),
    ]);
    let written = encode(&request);
    assert_eq!(
        written.body["contents"],
        json!([{"role": "user", "parts": [{"text": "Tool result: 42"}, {"text": "and?"}]}])
    );
    assert_eq!(
        written.adapted,
        ["tool result without its call: sent as text"]
    );
}

/// Trap 21.
#[test]
fn calls_without_ids_are_matched_by_name_and_order_and_stay_without() {
    let body = json!({"contents": [
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": [
            {"functionCall": {"name": "f", "args": {"n": 1}}},
            {"functionCall": {"name": "g", "args": {}}},
            {"functionCall": {"name": "f", "args": {"n": 2}}},
        ]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "f", "response": {"output": "one"}}},
            {"functionResponse": {"name": "g", "response": {"output": "gee"}}},
            {"functionResponse": {"name": "f", "response": {"output": "two"}}},
        ]},
        {"role": "model", "parts": [{"functionCall": {"name": "f"}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "three"}}}]},
    ]});
    let mut request = decode(&body);
    let ids = |message: &Message| -> Vec<String> {
        let ids = message.parts.iter().map(|part| match part {
            Part::ToolCall(call) => call.id.clone(),
            Part::ToolResult(result) => result.call_id.clone(),
            _ => panic!("a call or a result"),
        });
        ids.collect()
    };
    let (calls, later) = (ids(&request.messages[1]), ids(&request.messages[3]));
    let mut all = [calls.clone(), later.clone()].concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 4, "no id is used twice");
    assert_eq!(ids(&request.messages[2]), calls);
    assert_eq!(ids(&request.messages[4]), later);
    assert_eq!(encode(&request).body, body);
    // Results that come back in another order are put in that of the calls.
    request.messages[2].parts.reverse();
    assert_eq!(encode(&request).body, body);
}

#[test]
fn vertex_gets_no_ids() {
    let body = json!({"contents": [
        {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "f", "args": {}}, "thoughtSignature": "c2ln"}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "f", "response": {"n": 1}}}]},
    ]});
    let options = Options {
        platform: Platform::Vertex,
        ..Options::default()
    };
    let written = encode_request(&decode(&body), "m", &options);
    assert_eq!(
        written.body,
        json!({"contents": [
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln"}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"n": 1}}}]},
        ]})
    );
}

/// Trap 23.
#[test]
fn an_image_in_a_result_stands_inside_it_or_beside_it() {
    let image = Part::Image(Image {
        url: "data:image/png;base64,aGk=".into(),
        detail: None,
    });
    let shown = Part::ToolResult(ToolResult {
        call_id: "a".into(),
        parts: vec![Part::Text("chart".into()), image],
        is_error: false,
    });
    let request = conversation(vec![
        message(Role::Assistant, vec![signed("a", DIALECT, "c2ln")]),
        message(Role::Tool, vec![shown.clone()]),
    ]);
    let data = json!({"inlineData": {"mimeType": "image/png", "data": "aGk="}});
    let newer = encode_request(&request, "gemini-3-flash", &Options::default());
    let parts = &newer.body["contents"][1]["parts"];
    assert_eq!(parts[0]["functionResponse"]["parts"], json!([data]));
    assert_eq!(decode(&newer.body).messages[1].parts, [shown]);
    assert!(newer.adapted.is_empty());
    let older = encode_request(&request, "gemini-2.5-flash", &Options::default());
    assert_eq!(older.body["contents"][1]["parts"][1], data);
    assert_eq!(older.adapted, ["image in a tool result: sent beside it"]);
}

/// Traps 12, 13 and 16.
#[test]
fn arguments_become_an_object_whatever_they_were() {
    for (arguments, args, is_adapted) in [
        ("", None, false),
        ("{}", Some(json!({})), false),
        (r#"{"b":1.0,"a":2}"#, Some(json!({"b": 1.0, "a": 2})), false),
        (r#"{"cut":"#, Some(json!({"arguments": "{\"cut\":"})), true),
        ("[1]", Some(json!({"arguments": [1]})), true),
    ] {
        let mut part = call("a", "f");
        if let Part::ToolCall(call) = &mut part {
            call.arguments = arguments.into();
        }
        let written = encode(&conversation(vec![message(Role::Assistant, vec![part])]));
        let function = &written.body["contents"][0]["parts"][0]["functionCall"];
        assert_eq!(function.get("args"), args.as_ref(), "{arguments}");
        assert_eq!(!written.adapted.is_empty(), is_adapted, "{arguments}");
    }
    let mut part = call("a", "f");
    if let Part::ToolCall(call) = &mut part {
        call.arguments = r#"{"z":1.0,"a":{"y":2,"b":[]}}"#.into();
    }
    let body = encode(&conversation(vec![message(
        Role::Assistant,
        vec![part.clone()],
    )]))
    .body;
    let back = decode(&body);
    assert_eq!(back.messages[0].parts[0], {
        if let Part::ToolCall(call) = &mut part {
            call.extra.dialect = DIALECT;
        }
        part
    });
}

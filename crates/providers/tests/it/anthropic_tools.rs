//! Tools, their calls and their results on the way to Anthropic.

use crate::anthropic_requests::{
    call, client, encode, fields, message, messages, reasoning, result, say, tool,
};
use evenkeel_core::{ChatRequest, Extra, Image, Part, Role, ToolChoice, Value};
use serde_json::json;

/// Section 13: every result of a turn in one user message, first in it.
#[test]
fn all_results_of_a_turn_stand_first_in_one_user_message() {
    let mut request = messages(vec![
        say(Role::User, "q"),
        message(
            Role::Assistant,
            vec![call("t1", "{}"), call("t2", "{\"a\":1}")],
        ),
        say(Role::User, "and be short"),
        result("t2", "two"),
        result("t1", "one"),
    ]);
    request.tools = vec![tool("look")];
    let encoded = encode(&request);
    let messages = encoded.body["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3);
    assert_eq!(
        messages[2]["content"],
        json!([
            {"type": "tool_result", "tool_use_id": "t2", "content": "two"},
            {"type": "tool_result", "tool_use_id": "t1", "content": "one"},
            {"type": "text", "text": "and be short"},
        ])
    );
    assert_eq!(messages[1]["content"][1]["input"], json!({"a": 1}));
    assert!(encoded.adapted.is_empty());
}

/// Section 13.
#[test]
fn a_result_without_its_call_is_sent_as_text() {
    let encoded = encode(&messages(vec![
        result("gone", "42"),
        say(Role::User, "so?"),
    ]));
    assert_eq!(
        encoded.body["messages"][0]["content"],
        json!([{"type": "text", "text": "42"}, {"type": "text", "text": "so?"}])
    );
    assert_eq!(
        encoded.adapted,
        ["tool result without its call: sent as text"]
    );
    // A second result of the same call has no call of its own either.
    let mut twice = messages(vec![
        say(Role::User, "q"),
        message(Role::Assistant, vec![call("t1", "{}")]),
        result("t1", "one"),
        result("t1", "again"),
    ]);
    twice.tools = vec![tool("look")];
    let content = &encode(&twice).body["messages"][2]["content"];
    assert_eq!(content[0]["type"], "tool_result");
    assert_eq!(content[1], json!({"type": "text", "text": "again"}));
}

/// Section 13.
#[test]
fn a_call_without_its_result_gets_an_error_for_one() {
    let mut request = messages(vec![
        say(Role::User, "q"),
        message(Role::Assistant, vec![call("t1", "{}"), call("t2", "{}")]),
        result("t2", "two"),
        message(Role::Assistant, vec![call("t3", "{}")]),
    ]);
    request.tools = vec![tool("look")];
    let encoded = encode(&request);
    let turns = encoded.body["messages"].as_array().unwrap();
    assert_eq!(turns.len(), 5);
    let ids = |turn: &Value| -> Vec<String> {
        turn["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|b| b["tool_use_id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids(&turns[2]), ["t2", "t1"]);
    assert_eq!(ids(&turns[4]), ["t3"]);
    assert_eq!(turns[4]["content"][0]["is_error"], true);
    assert_eq!(encoded.adapted.len(), 1);
}

/// Trap 24.
#[test]
fn a_tools_error_is_marked_and_never_empty() {
    let mut failed = result("t1", "");
    let Part::ToolResult(inner) = &mut failed.parts[0] else {
        unreachable!()
    };
    inner.is_error = true;
    let mut request = messages(vec![
        say(Role::User, "q"),
        message(Role::Assistant, vec![call("t1", "{}")]),
        failed,
    ]);
    request.tools = vec![tool("look")];
    let block = &encode(&request).body["messages"][2]["content"][0];
    assert_eq!(block["is_error"], true);
    assert_eq!(block["content"], "the tool failed");
}

/// Trap 23: a result may hold an image here.
#[test]
fn an_image_in_a_result_stays_in_it() {
    let mut shown = result("t1", "see");
    let Part::ToolResult(inner) = &mut shown.parts[0] else {
        unreachable!()
    };
    inner.parts.push(Part::Image(Image {
        url: "https://h/i.png".into(),
        detail: None,
    }));
    let mut request = messages(vec![
        say(Role::User, "q"),
        message(Role::Assistant, vec![call("t1", "{}")]),
        shown,
    ]);
    request.tools = vec![tool("look")];
    let content = &encode(&request).body["messages"][2]["content"][0]["content"];
    assert_eq!(
        content[1]["source"],
        json!({"type": "url", "url": "https://h/i.png"})
    );
}

/// Trap 25.
#[test]
fn ids_get_the_characters_that_the_api_takes_and_stay_apart() {
    let turn = |a: &str, b: &str| {
        [
            message(Role::Assistant, vec![call(a, "{}"), call(b, "{}")]),
            result(a, "one"),
            result(b, "two"),
        ]
    };
    let mut request = ChatRequest::user("q");
    request.tools = vec![tool("look")];
    // Two of one turn that differ in what is refused only; ids used again in a
    // later turn; the same id twice; none at all.
    for (a, b) in [
        ("f.a:0", "f_a_0"),
        ("f.a:0", "f:a.0"),
        ("call_0", "call_0"),
        ("", ""),
    ] {
        request.messages.extend(turn(a, b));
    }
    let encoded = encode(&request);
    let mut seen = std::collections::HashSet::new();
    let turns = encoded.body["messages"].as_array().unwrap();
    for pair in turns[1..].chunks(2) {
        for at in [0, 1] {
            let id = pair[0]["content"][at]["id"].as_str().unwrap();
            assert!(
                id.bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)),
                "{id}"
            );
            assert!(!id.is_empty() && seen.insert(id.to_owned()), "{id}");
            assert_eq!(pair[1]["content"][at]["tool_use_id"], id);
            let texts = ["one", "two"];
            assert_eq!(pair[1]["content"][at]["content"], texts[at]);
        }
    }
    assert_eq!(encode(&request), encoded);
    assert!(encoded.adapted.is_empty());
}

/// Traps 12, 15 and 16.
#[test]
fn arguments_become_an_object_and_broken_ones_stand_in_one() {
    for (arguments, input, told) in [
        ("", json!({}), false),
        (" ", json!({}), false),
        ("{\"b\":1.0,\"a\":[]}", json!({"b": 1.0, "a": []}), false),
        ("{\"a\": 1,", json!({"INVALID_JSON": "{\"a\": 1,"}), true),
        ("[1]", json!({"INVALID_JSON": "[1]"}), true),
    ] {
        let mut request = messages(vec![
            say(Role::User, "q"),
            message(Role::Assistant, vec![call("t1", arguments)]),
            result("t1", "r"),
        ]);
        request.tools = vec![tool("look")];
        let encoded = encode(&request);
        assert_eq!(encoded.body["messages"][1]["content"][0]["input"], input);
        assert_eq!(encoded.adapted.len(), usize::from(told), "{arguments}");
    }
}

/// Trap 26.
#[test]
fn a_tool_without_parameters_has_an_object_schema() {
    let mut loose = tool("loose");
    loose.parameters = Some(json!({"properties": {"a": {"type": "string"}}}));
    let request = ChatRequest {
        tools: vec![tool("now"), loose],
        ..ChatRequest::user("q")
    };
    let encoded = encode(&request);
    assert_eq!(
        encoded.body["tools"],
        json!([
            {"name": "now", "input_schema": {"type": "object"}},
            {"name": "loose", "input_schema": {"properties": {"a": {"type": "string"}}, "type": "object"}},
        ])
    );
}

/// Trap 27.
#[test]
fn a_tool_name_that_is_refused_goes_under_another_everywhere() {
    let mut calling = call("t1", "{}");
    if let Part::ToolCall(call) = &mut calling {
        call.name = "fs.read".into();
    }
    let request = ChatRequest {
        tools: vec![tool("fs.read")],
        tool_choice: Some(ToolChoice::Named("fs.read".into())),
        ..messages(vec![
            say(Role::User, "q"),
            message(Role::Assistant, vec![calling]),
            result("t1", "r"),
        ])
    };
    let encoded = encode(&request);
    let name = encoded.body["tools"][0]["name"].as_str().unwrap();
    assert_ne!(name, "fs.read");
    assert_eq!(encoded.body["tool_choice"]["name"], name);
    assert_eq!(encoded.body["messages"][1]["content"][0]["name"], name);
    assert_eq!(encoded.tool_names[name], "fs.read");
    assert_eq!(encoded.adapted.len(), 1);
}

/// Section 8 and trap 30.
#[test]
fn tool_choices_and_parallel_calls_are_said_together() {
    use ToolChoice as C;
    for (choice, parallel, expected) in [
        (None, None, Value::Null),
        (Some(C::Auto), None, json!({"type": "auto"})),
        (Some(C::None), Some(false), json!({"type": "none"})),
        (Some(C::Required), None, json!({"type": "any"})),
        (
            Some(C::Named("look".into())),
            Some(false),
            json!({"type": "tool", "name": "look", "disable_parallel_tool_use": true}),
        ),
        (
            None,
            Some(false),
            json!({"type": "auto", "disable_parallel_tool_use": true}),
        ),
        (
            Some(C::Required),
            Some(true),
            json!({"type": "any", "disable_parallel_tool_use": false}),
        ),
    ] {
        let request = ChatRequest {
            tools: vec![tool("look")],
            tool_choice: choice,
            parallel_tool_calls: parallel,
            ..ChatRequest::user("q")
        };
        let encoded = encode(&request);
        assert_eq!(encoded.body["tool_choice"], expected);
        assert!(encoded.adapted.is_empty());
    }
}

#[test]
fn a_choice_without_tools_is_left_out() {
    let mut request = ChatRequest::user("q");
    request.tool_choice = Some(ToolChoice::Auto);
    let encoded = encode(&request);
    assert_eq!(encoded.body.get("tool_choice"), None);
    assert!(encoded.adapted.is_empty());
    request.tool_choice = Some(ToolChoice::Required);
    assert_eq!(
        encode(&request).adapted,
        ["tool_choice: there are no tools, left out"]
    );
}

#[test]
fn tools_of_the_history_are_named_where_the_request_has_none() {
    let encoded = encode(&messages(vec![
        say(Role::User, "q"),
        message(Role::Assistant, vec![call("t1", "{}"), call("t2", "{}")]),
        result("t1", "one"),
        result("t2", "two"),
    ]));
    assert_eq!(
        encoded.body["tools"],
        json!([{"name": "look", "input_schema": {"type": "object"}}])
    );
    assert_eq!(encoded.body["tool_choice"], json!({"type": "none"}));
    assert_eq!(encoded.adapted.len(), 1);
}

/// Trap 29.
#[test]
fn a_forced_call_beside_thinking_falls_back_to_auto() {
    for choice in [ToolChoice::Required, ToolChoice::Named("look".into())] {
        let request = ChatRequest {
            tools: vec![tool("look")],
            tool_choice: Some(choice),
            max_output_tokens: Some(8_000),
            ..reasoning(None, Some(2_000))
        };
        let encoded = encode(&request);
        assert_eq!(encoded.body["tool_choice"], json!({"type": "auto"}));
        assert_eq!(encoded.body["thinking"]["type"], "enabled");
        assert_eq!(
            encoded.adapted,
            ["tool_choice: cannot be forced beside reasoning, sent as auto"]
        );
    }
}

/// Trap 31.
#[test]
fn the_providers_own_tools_go_to_it_alone() {
    let body = json!({"model": "m-a", "max_tokens": 9, "messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
            {"type": "text", "text": "found", "citations": [{"type": "web_search_result_location", "url": "https://h"}]}]},
        {"role": "user", "content": "r"}],
        "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 3}]});
    let request = client(&body);
    assert_eq!(encode(&request).body, body);
    let elsewhere = evenkeel_providers::wire::openai::encode_request(
        &request,
        "m",
        false,
        &evenkeel_providers::wire::openai::Options::default(),
    )
    .body;
    let history = elsewhere["messages"].to_string();
    assert!(
        !history.contains("srvtoolu_1") && history.contains("found"),
        "{history}"
    );

    let mut foreign = tool("web_search");
    foreign.extra = Extra {
        dialect: "openai",
        fields: fields(json!({"type": "web_search"})),
    };
    let encoded = encode(&ChatRequest {
        tools: vec![foreign],
        ..ChatRequest::user("q")
    });
    assert_eq!(encoded.body.get("tools"), None);
    assert_eq!(
        encoded.adapted,
        ["tool that a provider runs: of another wire format, left out"]
    );
}

/// Trap 80.
#[test]
fn cache_marks_are_kept_for_this_provider() {
    let mark = json!({"type": "ephemeral"});
    let body = json!({"model": "m-a", "max_tokens": 9,
        "cache_control": mark,
        "system": [{"type": "text", "text": "s", "cache_control": mark}],
        "tools": [{"name": "look", "input_schema": {"type": "object"}, "cache_control": mark}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "q", "cache_control": mark}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "t1", "name": "look", "input": {}, "cache_control": mark}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "r", "cache_control": mark},
                {"type": "image", "source": {"type": "url", "url": "https://h/i"}, "cache_control": mark}]}]});
    let request = client(&body);
    assert_eq!(encode(&request).body, body);
    let elsewhere = evenkeel_providers::wire::openai::encode_request(
        &request,
        "m",
        false,
        &evenkeel_providers::wire::openai::Options::default(),
    )
    .body;
    assert!(!elsewhere["messages"].to_string().contains("cache_control"));

    // An edited message is never sent in its old words.
    let mut edited = request;
    edited.messages[1].parts = vec![Part::Text("other".into())];
    assert_eq!(encode(&edited).body["messages"][0]["content"], "other");
}

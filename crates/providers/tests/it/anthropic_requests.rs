//! Traps on the way to Anthropic: what the API refuses is repaired, what it
//! has no place for is told.

use evenkeel_core::{
    ChatRequest, Effort, Extra, Image, Map, Message, Output, Part, Reasoning, ReasoningPart, Role,
    Tool, ToolCall, ToolChoice, ToolResult, Value,
};
use evenkeel_providers::wire::Encoded;
use evenkeel_providers::wire::anthropic::{
    DEFAULT_MAX_TOKENS, DIALECT, Options, Support, Thinking, Version, decode_request,
    encode_request,
};
use serde_json::json;

fn encode(request: &ChatRequest) -> Encoded {
    encode_for(request, &Options::default())
}

fn encode_for(request: &ChatRequest, options: &Options) -> Encoded {
    encode_request(request, "m-a", false, options)
}

fn messages(messages: Vec<Message>) -> ChatRequest {
    ChatRequest {
        messages,
        ..ChatRequest::default()
    }
}

fn message(role: Role, parts: Vec<Part>) -> Message {
    Message {
        role,
        parts,
        name: None,
        extra: Extra::default(),
    }
}

fn say(role: Role, text: &str) -> Message {
    Message::text(role, text)
}

fn call(id: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall {
        id: id.into(),
        name: "look".into(),
        arguments: arguments.into(),
        extra: Extra::default(),
    })
}

fn result(id: &str, text: &str) -> Message {
    message(
        Role::Tool,
        vec![Part::ToolResult(ToolResult {
            call_id: id.into(),
            parts: vec![Part::Text(text.into())],
            is_error: false,
        })],
    )
}

fn signed(text: &str, dialect: &'static str) -> Part {
    Part::Reasoning(ReasoningPart {
        text: text.into(),
        signature: Some("SIG-A".into()),
        dialect,
    })
}

fn tool(name: &str) -> Tool {
    Tool {
        name: name.into(),
        description: None,
        parameters: None,
        strict: None,
        extra: Extra::default(),
    }
}

fn reasoning(effort: Option<Effort>, budget_tokens: Option<u64>) -> ChatRequest {
    ChatRequest {
        reasoning: Some(Reasoning {
            effort,
            budget_tokens,
        }),
        ..ChatRequest::user("Hi")
    }
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other}"),
    }
}

fn other(dialect: &'static str, value: Value) -> Part {
    Part::Other(Extra {
        dialect,
        fields: fields(value),
    })
}

fn client(body: &Value) -> ChatRequest {
    decode_request(body.to_string().as_bytes()).unwrap().request
}

/// Traps 1 and 2.
#[test]
fn leading_instructions_become_the_system_prompt_joined_by_blank_lines() {
    let encoded = encode(&messages(vec![
        say(Role::System, "Be brief."),
        say(Role::Developer, "Be kind."),
        say(Role::User, "Hi"),
    ]));
    assert_eq!(encoded.body["system"], "Be brief.\n\nBe kind.");
    assert_eq!(
        encoded.body["messages"],
        json!([{"role": "user", "content": "Hi"}])
    );
    assert!(encoded.adapted.is_empty());
}

/// Trap 2.
#[test]
fn instructions_in_mid_conversation_stay_where_the_model_takes_them() {
    let request = messages(vec![
        say(Role::User, "a"),
        say(Role::System, "Now in French."),
        say(Role::User, "b"),
    ]);
    let moved = encode(&request);
    assert_eq!(moved.body["system"], "Now in French.");
    assert_eq!(
        moved.adapted,
        ["system message in mid-conversation: moved to the system prompt"]
    );
    assert_eq!(moved.body["messages"].as_array().unwrap().len(), 1);
    let options = Options {
        system_turns: Support::Yes,
        ..Options::default()
    };
    let kept = encode_for(&request, &options);
    assert_eq!(
        kept.body["messages"][1],
        json!({"role": "system", "content": "Now in French."})
    );
    assert_eq!(kept.body.get("system"), None);
    assert!(kept.adapted.is_empty());
}

/// Trap 2: a caller who writes this format knows what it takes.
#[test]
fn instructions_written_in_this_format_stay_where_they_were() {
    let body = json!({"model": "m-a", "max_tokens": 9, "messages": [
        {"role": "user", "content": "a"}, {"role": "system", "content": "s"},
        {"role": "user", "content": "b"}]});
    assert_eq!(encode(&client(&body)).body, body);
}

/// Trap 5, C130.
#[test]
fn empty_texts_are_dropped_and_turns_still_alternate() {
    let encoded = encode(&messages(vec![
        say(Role::User, "a"),
        say(Role::Assistant, ""),
        say(Role::User, "b"),
        say(Role::Assistant, "   "),
        message(
            Role::User,
            vec![Part::Text("c".into()), Part::Text("\n".into())],
        ),
    ]));
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(
        encoded.body["messages"],
        json!([{"role": "user", "content": [text("a"), text("b"), text("c")]}])
    );
}

/// Trap 5, for a history that an Anthropic client wrote.
#[test]
fn empty_texts_of_a_client_are_dropped_too() {
    let body = json!({"model": "m-a", "max_tokens": 9, "messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "text", "text": ""},
            {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]},
        {"role": "user", "content": "r"}]});
    let encoded = encode(&client(&body));
    assert_eq!(
        encoded.body["messages"][1]["content"],
        json!([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}])
    );
}

/// Trap 6.
#[test]
fn white_space_after_a_prefill_is_removed() {
    let request = messages(vec![say(Role::User, "a"), say(Role::Assistant, "{ \n")]);
    let encoded = encode(&request);
    assert_eq!(encoded.body["messages"][1]["content"], "{");
    assert_eq!(
        encoded.adapted,
        ["begun answer at the end: white space after it was removed"]
    );
}

/// Trap 6.
#[test]
fn a_model_without_prefill_is_asked_to_continue() {
    let request = messages(vec![say(Role::User, "a"), say(Role::Assistant, "{")]);
    let options = Options {
        prefill: Support::No,
        ..Options::default()
    };
    let encoded = encode_for(&request, &options);
    let roles: Vec<_> = encoded.body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    assert_eq!(
        encoded.adapted,
        ["begun answer at the end: refused by this model, asked to continue instead"]
    );
}

/// A paused turn goes back as it was, also where prefill is refused.
#[test]
fn a_paused_turn_is_no_prefill() {
    let body = json!({"model": "m-a", "max_tokens": 9, "messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [
            {"type": "text", "text": "Searching"},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}]}]});
    let options = Options {
        prefill: Support::No,
        ..Options::default()
    };
    let encoded = encode_for(&client(&body), &options);
    assert_eq!(encoded.body["messages"], body["messages"]);
}

/// The first turn must be the user's.
#[test]
fn a_conversation_that_begins_with_the_model_gets_a_user_turn() {
    let encoded = encode(&messages(vec![
        say(Role::Assistant, "Welcome!"),
        say(Role::User, "Hi"),
    ]));
    assert_eq!(encoded.body["messages"][0]["role"], "user");
    assert_eq!(encoded.body["messages"][1]["content"], "Welcome!");
    assert_eq!(encoded.adapted.len(), 1);
    let only_system = encode(&messages(vec![say(Role::System, "s")]));
    assert_eq!(only_system.body["messages"].as_array().unwrap().len(), 1);
}

/// Trap 8.
#[test]
fn names_of_speakers_are_told_as_lost() {
    let mut named = say(Role::User, "Hi");
    named.name = Some("ada".into());
    assert_eq!(
        encode(&messages(vec![named])).adapted,
        ["messages.name: not known to this provider, left out"]
    );
}

/// Trap 32.
#[test]
fn thinking_goes_back_unchanged_with_its_signature() {
    let body = json!({"model": "m-a", "max_tokens": 9, "messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm ", "signature": "SIG-A"},
            {"type": "redacted_thinking", "data": "b3BhcXVl"},
            {"type": "thinking", "thinking": "", "signature": "SIG-B"},
            {"type": "tool_use", "id": "t1", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "r"}]}],
        "tools": [{"name": "look", "input_schema": {"type": "object"}}]});
    let encoded = encode(&client(&body));
    assert_eq!(encoded.body, body);
    assert!(encoded.adapted.is_empty());
}

/// Trap 32, C133.
#[test]
fn reasoning_of_another_model_is_left_out_and_told() {
    let history = |reasoning: Part| {
        let mut request = messages(vec![
            say(Role::User, "q"),
            message(
                Role::Assistant,
                vec![reasoning, Part::Text("a".into()), call("t1", "{}")],
            ),
            result("t1", "r"),
        ]);
        request.tools = vec![tool("look")];
        request
    };
    let another_model = Options {
        drop_reasoning: true,
        ..Options::default()
    };
    let unsigned = Part::Reasoning(ReasoningPart {
        text: "hm".into(),
        ..ReasoningPart::default()
    });
    for (part, options) in [
        (signed("hm", DIALECT), another_model.clone()),
        (
            other(DIALECT, json!({"type": "redacted_thinking", "data": "x"})),
            another_model,
        ),
        (signed("hm", "gemini"), Options::default()),
        (unsigned, Options::default()),
    ] {
        let encoded = encode_for(&history(part), &options);
        let text = encoded.body.to_string();
        assert!(
            !text.contains("thinking") && !text.contains("SIG-A"),
            "{text}"
        );
        let answer = &encoded.body["messages"][1]["content"];
        assert_eq!(answer[0]["text"], "a");
        assert_eq!(answer[1]["type"], "tool_use");
        assert_eq!(encoded.adapted.len(), 1);
        assert!(encoded.adapted[0].starts_with("earlier reasoning: of another "));
    }
    let kept = encode(&history(signed("hm", DIALECT)));
    assert_eq!(kept.body["messages"][1]["content"][0]["signature"], "SIG-A");
}

/// C133: a budget demands reasoning before the calls of an open loop.
#[test]
fn a_budget_is_off_while_calls_made_without_reasoning_are_answered() {
    let mut request = reasoning(None, Some(2_000));
    request.max_output_tokens = Some(8_000);
    request.tools = vec![tool("look")];
    request.messages.extend([
        message(Role::Assistant, vec![call("t1", "{}")]),
        result("t1", "r"),
    ]);
    let encoded = encode(&request);
    assert_eq!(encoded.body.get("thinking"), None);
    assert_eq!(
        encoded.adapted,
        ["reasoning: left out, since the calls being answered were made without it"]
    );
    request.messages.push(say(Role::Assistant, "done"));
    request.messages.push(say(Role::User, "next"));
    assert_eq!(encode(&request).body["thinking"]["budget_tokens"], 2_000);
}

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

/// Traps 23 and 25 of section 13: a result may hold an image here.
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

/// Images of both kinds, documents, and what cannot be said.
#[test]
fn images_and_documents_go_as_their_data_says() {
    let image = |url: &str| {
        Part::Image(Image {
            url: url.into(),
            detail: Some("high".into()),
        })
    };
    let file = other(
        "openai",
        json!({"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"}}),
    );
    let encoded = encode(&messages(vec![message(
        Role::User,
        vec![
            image("data:image/png;base64,iVBO"),
            image("https://h/i.png"),
            image("data:application/pdf;base64,JVBE"),
            file,
            image("data:image/svg+xml,<svg/>"),
            other("openai", json!({"type": "input_audio", "input_audio": {}})),
        ],
    )]));
    let base64 = |media_type: &str, data: &str| json!({"type": "base64", "media_type": media_type, "data": data});
    assert_eq!(
        encoded.body["messages"][0]["content"],
        json!([
            {"type": "image", "source": base64("image/png", "iVBO")},
            {"type": "image", "source": {"type": "url", "url": "https://h/i.png"}},
            {"type": "document", "source": base64("application/pdf", "JVBE")},
            {"type": "document", "source": base64("application/pdf", "JVBE"), "title": "a.pdf"},
        ])
    );
    assert_eq!(
        encoded.adapted,
        [
            "image detail: not known to this provider, left out",
            "image: its data is not in base64, left out",
            "part without a neutral form: of another wire format, left out",
        ]
    );
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

/// Section 12.
#[test]
fn a_schema_goes_as_the_output_format() {
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let mut request = ChatRequest {
        output: Output::JsonSchema {
            name: "n".into(),
            schema: schema.clone(),
            strict: true,
            description: None,
        },
        ..ChatRequest::user("q")
    };
    let encoded = encode(&request);
    assert_eq!(
        encoded.body["output_config"],
        json!({"format": {"type": "json_schema", "schema": schema}})
    );
    assert!(encoded.adapted.is_empty());
    request.output = Output::JsonObject;
    let encoded = encode(&request);
    assert_eq!(encoded.body.get("output_config"), None);
    assert_eq!(
        encoded.adapted,
        ["response_format json_object: not known to this provider, left out"]
    );
}

/// Section 5.1: `budget_tokens` at least 1024 and below `max_tokens`.
#[test]
fn a_budget_is_kept_between_its_bounds() {
    for (budget, cap, sent, told) in [
        (2_000, Some(8_000), Some(2_000), false),
        (100, Some(8_000), Some(1_024), true),
        (9_000, Some(8_000), Some(7_999), true),
        (2_000, Some(1_000), None, true),
        (2_000, Some(1_025), Some(1_024), true),
        (60_000, None, Some(60_000), false),
    ] {
        let mut request = reasoning(None, Some(budget));
        request.max_output_tokens = cap;
        let encoded = encode(&request);
        assert_eq!(
            encoded.body["thinking"]["budget_tokens"].as_u64(),
            sent,
            "{budget}"
        );
        assert_eq!(
            encoded.adapted.len(),
            usize::from(told),
            "{:?}",
            encoded.adapted
        );
        let cap = encoded.body["max_tokens"].as_u64().unwrap();
        assert!(sent.is_none_or(|sent| sent < cap));
    }
}

/// C114 and section 8: how a level is said to each kind of model.
#[test]
fn a_level_is_said_as_the_model_takes_it() {
    let with = |thinking: Thinking, effort: Effort| {
        let mut request = reasoning(Some(effort), None);
        request.max_output_tokens = Some(10_000);
        let options = Options {
            thinking,
            ..Options::default()
        };
        let encoded = encode_for(&request, &options);
        let body = encoded.body;
        (
            body["thinking"].clone(),
            body["output_config"]["effort"].clone(),
            encoded.adapted.len(),
        )
    };
    let budget = |n: u64| json!({"type": "enabled", "budget_tokens": n});
    let adaptive = json!({"type": "adaptive"});
    let off = json!({"type": "disabled"});
    let none = Value::Null;
    assert_eq!(
        with(Thinking::Unknown, Effort::High),
        (budget(8_000), none.clone(), 0)
    );
    assert_eq!(
        with(Thinking::Budget, Effort::Minimal),
        (budget(1_024), none.clone(), 0)
    );
    assert_eq!(
        with(Thinking::Budget, Effort::Max),
        (budget(9_500), none.clone(), 0)
    );
    assert_eq!(
        with(Thinking::Adaptive, Effort::XHigh),
        (adaptive.clone(), json!("xhigh"), 0)
    );
    assert_eq!(
        with(Thinking::Adaptive, Effort::Minimal),
        (adaptive, json!("low"), 1)
    );
    assert_eq!(
        with(Thinking::Budget, Effort::None),
        (off.clone(), none.clone(), 0)
    );
    assert_eq!(
        with(Thinking::Adaptive, Effort::None),
        (off, none.clone(), 0)
    );
    assert_eq!(
        with(Thinking::No, Effort::None),
        (none.clone(), none.clone(), 0)
    );
    assert_eq!(with(Thinking::No, Effort::High), (none.clone(), none, 1));
}

/// What an Anthropic client says of thinking stays in its words, or is
/// translated for a model that knows budgets only.
#[test]
fn thinking_of_a_client_stays_in_its_words() {
    let mut body = json!({"model": "m-a", "max_tokens": 10_000, "messages": [{"role": "user", "content": "q"}]});
    for (thinking, effort) in [
        (
            json!({"type": "adaptive", "display": "summarized"}),
            json!("max"),
        ),
        (json!({"type": "between_tools"}), Value::Null),
        (
            json!({"type": "enabled", "budget_tokens": 2_000, "display": "omitted"}),
            json!("low"),
        ),
        (json!({"type": "disabled"}), Value::Null),
    ] {
        body["thinking"] = thinking;
        if effort.is_null() {
            body.as_object_mut().unwrap().remove("output_config");
        } else {
            body["output_config"] = json!({"effort": effort});
        }
        assert_eq!(encode(&client(&body)).body, body);
    }
    body["thinking"] = json!({"type": "adaptive", "display": "summarized"});
    body["output_config"] = json!({"effort": "high"});
    let options = Options {
        thinking: Thinking::Budget,
        ..Options::default()
    };
    let encoded = encode_for(&client(&body), &options);
    assert_eq!(
        encoded.body["thinking"],
        json!({"type": "enabled", "budget_tokens": 8_000, "display": "summarized"})
    );
    assert_eq!(encoded.body.get("output_config"), None);
}

/// Trap 41.
#[test]
fn the_required_cap_is_the_callers_or_the_models_or_the_default() {
    for (own, limit, sent, told) in [
        (None, None, DEFAULT_MAX_TOKENS, false),
        (None, Some(64_000), 64_000, false),
        (Some(100), Some(64_000), 100, false),
        (Some(100_000), Some(64_000), 64_000, true),
        (Some(100_000), None, 100_000, false),
    ] {
        let mut request = ChatRequest::user("q");
        request.max_output_tokens = own;
        let options = Options {
            max_output_tokens: limit,
            ..Options::default()
        };
        let encoded = encode_for(&request, &options);
        assert_eq!(encoded.body["max_tokens"], sent);
        assert_eq!(encoded.adapted.len(), usize::from(told));
    }
}

/// Traps 38, 39 and 43.
#[test]
fn sampling_is_sent_only_where_it_is_taken() {
    let mut request = ChatRequest::user("q");
    request.sampling.temperature = Some(1.5);
    request.sampling.top_p = Some(0.5);
    request.sampling.top_k = Some(7);
    let taken = encode(&request);
    assert_eq!(taken.body["temperature"], 1.0);
    assert_eq!(
        (&taken.body["top_p"], &taken.body["top_k"]),
        (&json!(0.5), &json!(7))
    );
    assert_eq!(
        taken.adapted,
        ["temperature: outside of this provider's range, sent as its nearest"]
    );
    let new_version = Options {
        version: Version::V2026,
        sampling: Support::Yes,
        ..Options::default()
    };
    let new_model = Options {
        sampling: Support::No,
        ..Options::default()
    };
    for options in [new_version, new_model] {
        let encoded = encode_for(&request, &options);
        for name in ["temperature", "top_p", "top_k"] {
            assert_eq!(encoded.body.get(name), None);
        }
        assert_eq!(
            encoded.adapted,
            [
                "temperature: not taken by this model, left out",
                "top_p: not taken by this model, left out",
                "top_k: not taken by this model, left out",
            ]
        );
    }
    request.max_output_tokens = Some(8_000);
    request.reasoning = reasoning(None, Some(2_000)).reasoning;
    request.sampling.top_p = Some(0.97);
    let beside_thinking = encode(&request);
    assert_eq!(beside_thinking.body.get("temperature"), None);
    assert_eq!(beside_thinking.body["top_p"], 0.97);
    assert_eq!(beside_thinking.adapted.len(), 2);
}

/// Traps 42, 43, 45 and section 8.
#[test]
fn what_the_format_has_no_place_for_is_told_by_its_name() {
    let mut request = ChatRequest::user("q");
    request.sampling.seed = Some(7);
    request.sampling.presence_penalty = Some(0.1);
    request.sampling.frequency_penalty = Some(0.1);
    request.stop = vec!["###".into(), "\n".into()];
    request.user = Some("u-1".into());
    request.metadata = fields(json!({"k": "v"}));
    request.extra = Extra {
        dialect: "openai",
        fields: fields(json!({"logit_bias": {"5": 1}, "max_tokens": 5})),
    };
    let encoded = encode(&request);
    assert_eq!(encoded.body["stop_sequences"], json!(["###"]));
    assert_eq!(encoded.body["metadata"], json!({"user_id": "u-1"}));
    assert_eq!(
        encoded.adapted,
        [
            "presence_penalty: not known to this provider, left out",
            "frequency_penalty: not known to this provider, left out",
            "seed: not known to this provider, left out",
            "stop: white space alone is refused, left out",
            "metadata: not known to this provider, left out",
            "logit_bias: not known to this provider, left out",
        ]
    );
}

#[test]
fn what_a_client_writes_wrongly_is_named() {
    let ok =
        json!({"model": "m-a", "max_tokens": 9, "messages": [{"role": "user", "content": "q"}]});
    let with = |name: &str, value: Value| {
        let mut body = ok.clone();
        body[name] = value;
        body
    };
    let without = |name: &str| {
        let mut body = ok.clone();
        body.as_object_mut().unwrap().remove(name);
        body
    };
    for (body, param) in [
        (without("model"), "model"),
        (without("max_tokens"), "max_tokens"),
        (without("messages"), "messages"),
        (with("model", json!("")), "model"),
        (with("messages", json!([])), "messages"),
        (
            with("messages", json!([{"role": "tool", "content": ""}])),
            "messages[0].role",
        ),
        (
            with("messages", json!([{"role": "user"}])),
            "messages[0].content",
        ),
        (
            with("messages", json!([{"role": "user", "content": 7}])),
            "messages[0].content",
        ),
        (
            with(
                "messages",
                json!([{"role": "user", "content": [{"type": "text"}]}]),
            ),
            "messages[0].content[0].text",
        ),
        (
            with(
                "messages",
                json!([{"role": "user", "content": [{"type": "tool_result"}]}]),
            ),
            "messages[0].content[0].tool_use_id",
        ),
        (with("system", json!(7)), "system"),
        (with("max_tokens", json!(-1)), "max_tokens"),
        (
            with("tools", json!([{"name": "t"}])),
            "tools[0].input_schema",
        ),
        (
            with("tool_choice", json!({"type": "some"})),
            "tool_choice.type",
        ),
        (
            with("tool_choice", json!({"type": "tool"})),
            "tool_choice.name",
        ),
        (
            with("thinking", json!({"type": "enabled"})),
            "thinking.budget_tokens",
        ),
        (
            with("output_config", json!({"effort": "huge"})),
            "output_config.effort",
        ),
        (
            with("output_config", json!({"format": {"type": "json_schema"}})),
            "output_config.format.schema",
        ),
        (with("stop_sequences", json!([7])), "stop_sequences[0]"),
    ] {
        let error = decode_request(body.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(param), "{error}");
    }
    for body in ["", "[]", "{\"model\":", "7"] {
        assert_eq!(decode_request(body.as_bytes()).unwrap_err().param, None);
    }
    let deep = format!("{{\"model\":{}", "[".repeat(10_000));
    assert!(decode_request(deep.as_bytes()).is_err());
}

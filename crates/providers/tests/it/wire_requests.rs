//! Requests as clients write them: kept in full, or refused with the field's
//! name; and as each server wants them.

use crate::fixtures;
use evenkeel_core::{ChatRequest, Message, Output, Part, Role, ToolChoice};
use evenkeel_providers::Server;
use evenkeel_providers::wire::RequestError;
use evenkeel_providers::wire::openai::{self, Options, decode_request};
use serde_json::{Value, json};

/// As the caller said it.
fn encode_request(request: &ChatRequest, model: &str, stream: bool) -> Value {
    let encoded = openai::encode_request(request, model, stream, &Options::default());
    encoded.body
}

/// In the words of a server.
fn encode_request_for(server: Server, request: &ChatRequest, model: &str, stream: bool) -> Value {
    openai::encode_request(request, model, stream, &Options::of(server)).body
}

fn decode(body: &Value) -> ChatRequest {
    decode_request(body.to_string().as_bytes()).unwrap().request
}

fn refused(body: &Value) -> RequestError {
    decode_request(body.to_string().as_bytes()).unwrap_err()
}

fn user(fields: Value) -> Value {
    let mut body = json!({"model": "planner", "messages": [{"role": "user", "content": "Hi"}]});
    let Value::Object(fields) = fields else {
        panic!("fields are an object")
    };
    body.as_object_mut().unwrap().extend(fields);
    body
}

#[test]
fn every_request_fixture_is_written_back_as_it_was() {
    let mut seen = 0;
    for fixture in fixtures::all() {
        let native = fixture.file.contains("native");
        if fixture.kind != "request" || !fixture.speaks_openai() || native {
            continue;
        }
        let mut body: Value = serde_json::from_slice(&fixture.bytes).unwrap();
        // Servers with the model in the path need none in the body.
        body.as_object_mut()
            .unwrap()
            .entry("model")
            .or_insert_with(|| "m".into());
        let read = decode_request(body.to_string().as_bytes()).unwrap();
        let mut written = encode_request(&read.request, &read.model, read.stream);
        for value in [&mut body, &mut written] {
            let map = value.as_object_mut().unwrap();
            map.remove("stream_options");
            if map.get("stream") == Some(&Value::Bool(false)) {
                map.remove("stream");
            }
            if let Some(Value::String(stop)) = map.get("stop").cloned() {
                map.insert("stop".into(), json!([stop]));
            }
        }
        assert_eq!(written, body, "{}", fixture.file);
        seen += 1;
    }
    assert!(seen >= 14, "{seen}");
}

#[test]
fn unknown_fields_of_every_level_are_kept() {
    let body = json!({
        "model": "planner",
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Brief.", "cache_control": {"type": "ephemeral"}}], "weight": 1},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}]},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "t", "arguments": "{\"a\": 1.0}"}, "extra_content": {"google": {"thought_signature": "c2ln"}}}]},
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "ok", "x": null}]},
        ],
        "tools": [
            {"type": "function", "function": {"name": "t", "parameters": {"type": "object"}, "x_inner": 1}, "x_outer": 2},
            {"type": "web_search", "max_uses": 3},
        ],
        "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}},
        "response_format": {"type": "json_object", "schema": {"type": "object"}},
        "top_k": 40, "user": "u-1", "logit_bias": {"50256": -100}, "store": true,
    });
    let request = decode(&body);
    assert_eq!(request.messages[0].plain_text(), "Brief.");
    assert_eq!(request.output, Output::JsonObject);
    assert_eq!(encode_request(&request, "planner", false), body);
}

#[test]
fn what_was_edited_is_never_sent_in_its_old_words() {
    let mut request = decode(&json!({
        "model": "planner",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "old", "cache_control": {"type": "ephemeral"}}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}, "x": 1}]},
        ],
        "max_tokens": 5,
        "response_format": {"type": "json_object", "schema": {}},
    }));
    request.messages[0].parts = vec![Part::Text("new".into())];
    if let Part::ToolCall(call) = &mut request.messages[1].parts[0] {
        call.id = "d".into();
    }
    request.max_output_tokens = Some(9);
    request.output = Output::Text;
    let written = encode_request(&request, "m", false);
    assert_eq!(written["messages"][0]["content"], "new");
    assert_eq!(written["messages"][1]["tool_calls"][0]["id"], "d");
    assert_eq!(written["max_tokens"], 9);
    assert!(written.get("response_format").is_none());
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table, a row a field")]
fn a_bad_request_is_told_by_the_name_of_its_field() {
    for (body, param, code) in [
        (
            json!({"messages": [{"role": "user", "content": "a"}]}),
            "model",
            "missing_required_parameter",
        ),
        (user(json!({"model": ""})), "model", "invalid_value"),
        (user(json!({"model": 7})), "model", "invalid_type"),
        (
            json!({"model": "m"}),
            "messages",
            "missing_required_parameter",
        ),
        (user(json!({"messages": []})), "messages", "empty_array"),
        (user(json!({"messages": "Hi"})), "messages", "invalid_type"),
        (
            user(json!({"messages": ["Hi"]})),
            "messages[0]",
            "invalid_type",
        ),
        (
            user(json!({"messages": [{"content": "a"}]})),
            "messages[0].role",
            "missing_required_parameter",
        ),
        (
            user(json!({"messages": [{"role": "pirate", "content": "a"}]})),
            "messages[0].role",
            "invalid_value",
        ),
        (
            user(json!({"messages": [{"role": "user"}]})),
            "messages[0].content",
            "missing_required_parameter",
        ),
        (
            user(json!({"messages": [{"role": "user", "content": null}]})),
            "messages[0].content",
            "missing_required_parameter",
        ),
        (
            user(json!({"messages": [{"role": "user", "content": 7}]})),
            "messages[0].content",
            "invalid_type",
        ),
        (
            user(json!({"messages": [{"role": "user", "content": [{"type": "text"}]}]})),
            "messages[0].content[0].text",
            "missing_required_parameter",
        ),
        (
            user(
                json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}),
            ),
            "messages[0].content[0].image_url.url",
            "missing_required_parameter",
        ),
        (
            user(json!({"messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]})),
            "messages[0].tool_calls[0].function",
            "missing_required_parameter",
        ),
        (
            user(json!({"messages": [{"role": "tool", "content": "a"}]})),
            "messages[0].tool_call_id",
            "missing_required_parameter",
        ),
        (user(json!({"n": 2})), "n", "unsupported_parameter"),
        (user(json!({"n": 0})), "n", "invalid_value"),
        (user(json!({"n": "2"})), "n", "invalid_type"),
        (
            user(json!({"functions": []})),
            "functions",
            "unsupported_parameter",
        ),
        (
            user(json!({"temperature": "hot"})),
            "temperature",
            "invalid_type",
        ),
        (user(json!({"seed": 1.5})), "seed", "invalid_type"),
        (
            user(json!({"max_tokens": -1})),
            "max_tokens",
            "invalid_type",
        ),
        (user(json!({"stream": "yes"})), "stream", "invalid_type"),
        (
            user(json!({"stream_options": {"include_usage": 1}})),
            "stream_options.include_usage",
            "invalid_type",
        ),
        (user(json!({"stop": ["a", 1]})), "stop[1]", "invalid_type"),
        (
            user(json!({"tools": [{"type": "function"}]})),
            "tools[0].function",
            "missing_required_parameter",
        ),
        (
            user(json!({"tools": [{"type": "function", "function": {"parameters": {}}}]})),
            "tools[0].function.name",
            "missing_required_parameter",
        ),
        (
            user(json!({"tools": [{"type": "custom", "custom": {"name": "x"}}]})),
            "tools[0].type",
            "unsupported_parameter",
        ),
        (
            user(json!({"tool_choice": "perhaps"})),
            "tool_choice",
            "invalid_value",
        ),
        (
            user(json!({"response_format": {"type": "json_schema"}})),
            "response_format.json_schema",
            "missing_required_parameter",
        ),
        (user(json!({"metadata": 1})), "metadata", "invalid_type"),
    ] {
        let error = refused(&body);
        assert_eq!(error.param.as_deref(), Some(param), "{body}: {error}");
        assert_eq!(error.code, Some(code), "{body}: {error}");
        assert!(error.message.contains(&format!("`{param}`")), "{error}");
    }
}

#[test]
fn a_body_that_is_no_json_object_is_told_so() {
    let deep = format!("{{\"a\":{}", "[".repeat(100_000));
    for body in [
        &b""[..],
        b"{",
        b"\xff\xfe",
        b"{\"model\":\"\xc3(\"}",
        deep.as_bytes(),
    ] {
        let error = decode_request(body).unwrap_err();
        assert_eq!((error.param, error.code), (None, Some("invalid_json")));
    }
    assert_eq!(
        decode_request(b"[]").unwrap_err().code,
        Some("invalid_type")
    );
}

#[test]
fn nulls_count_as_absent_and_lone_halves_of_characters_do_not_kill_a_request() {
    let body = br#"{"model":"m","messages":[{"role":"user","content":"x\ud83c"}],"temperature":null,"tools":null,"n":1,"stop":null,"tool_choice":null,"stream":null}"#;
    let read = decode_request(body).unwrap();
    assert_eq!(read.request.messages[0].plain_text(), "x\u{FFFD}");
    assert_eq!(read.request.sampling.temperature, None);
    assert!(!read.stream);
}

#[test]
fn what_beside_the_request_is_asked_is_read() {
    let body = user(
        json!({"stream": true, "stream_options": {"include_usage": true, "include_obfuscation": false}, "tool_choice": {"type": "function", "function": {"name": "t"}}}),
    );
    let read = decode_request(body.to_string().as_bytes()).unwrap();
    assert!(read.stream && read.include_usage);
    assert_eq!(read.model, "planner");
    assert_eq!(
        read.request.tool_choice,
        Some(ToolChoice::Named("t".into()))
    );
    let written = encode_request(&read.request, "m", true);
    assert_eq!(
        written["stream_options"],
        json!({"include_usage": true, "include_obfuscation": false})
    );
    assert!(
        encode_request(&read.request, "m", false)
            .get("stream_options")
            .is_none()
    );
}

/// C138 and trap 40.
#[test]
fn the_cap_goes_into_the_field_that_the_server_obeys() {
    let old = decode(&user(json!({"max_tokens": 64})));
    let new = decode(&user(json!({"max_completion_tokens": 64})));
    let neutral = ChatRequest {
        max_output_tokens: Some(64),
        ..ChatRequest::user("Hi")
    };
    for (server, names) in [
        (Server::OpenAi, ["max_completion_tokens"; 3]),
        (Server::Azure, ["max_completion_tokens"; 3]),
        (Server::Groq, ["max_completion_tokens"; 3]),
        (Server::Ollama, ["max_tokens"; 3]),
        (Server::OpenRouter, ["max_tokens"; 3]),
        (
            Server::Compatible,
            ["max_tokens", "max_completion_tokens", "max_tokens"],
        ),
        (
            Server::Vllm,
            ["max_tokens", "max_completion_tokens", "max_tokens"],
        ),
    ] {
        for (request, name) in [&old, &new, &neutral].into_iter().zip(names) {
            let written = encode_request_for(server, request, "m", false);
            let keys: Vec<&String> = written
                .as_object()
                .unwrap()
                .keys()
                .filter(|k| k.starts_with("max_"))
                .collect();
            assert_eq!(keys, [name], "{server:?}");
            assert_eq!(written[name], 64);
        }
    }
}

#[test]
fn each_server_is_addressed_in_its_own_words() {
    let request = decode(&json!({"model": "m", "messages": [
        {"role": "developer", "content": "Brief."},
        {"role": "assistant", "content": "Yes.", "reasoning_content": "moon"},
    ]}));
    for (server, role, reasoning) in [
        (Server::OpenAi, "developer", None),
        (Server::DeepSeek, "system", Some("reasoning_content")),
        (Server::Ollama, "system", Some("reasoning")),
        (Server::OpenRouter, "developer", Some("reasoning")),
    ] {
        let written = encode_request_for(server, &request, "m", true);
        assert_eq!(written["messages"][0]["role"], role);
        let assistant = &written["messages"][1];
        for name in ["reasoning", "reasoning_content"] {
            let expected = (reasoning == Some(name)).then(|| json!("moon"));
            assert_eq!(assistant.get(name), expected.as_ref(), "{server:?}");
        }
        assert!(written.get("stream_options").is_some());
    }
}

#[test]
fn tool_results_beside_text_become_messages_of_their_own() {
    let result = |id: &str, is_error| {
        Part::ToolResult(evenkeel_core::ToolResult {
            call_id: id.into(),
            parts: vec![Part::Text("low".into())],
            is_error,
        })
    };
    let mut message = Message::text(Role::User, "and now?");
    message.parts.insert(0, result("a", false));
    message.parts.insert(1, result("b", true));
    let request = ChatRequest {
        messages: vec![message],
        ..ChatRequest::default()
    };
    assert_eq!(
        encode_request(&request, "m", false)["messages"],
        json!([
            {"role": "tool", "tool_call_id": "a", "content": "low"},
            {"role": "tool", "tool_call_id": "b", "content": "error: low"},
            {"role": "user", "content": "and now?"},
        ])
    );
}

//! Mistral's format against its fixtures, its rules, and itself.

use crate::fixtures;
use crate::wire_streams::{Outcome, check, expected_class};
use evenkeel_core::{
    Accumulator, ChatRequest, Class, Delta, Extra, Failure, Finish, Map, Message, Part,
    ReasoningPart, Role, StreamEvent, ToolCall, ToolChoice, ToolResult, Usage,
};
use evenkeel_providers::Server;
use evenkeel_providers::wire::classify::Reply;
use evenkeel_providers::wire::mistral::{
    DIALECT, Options, StreamDecoder, StreamEncoder, decode_answer, decode_request, encode_error,
    encode_request, encode_response,
};
use evenkeel_providers::wire::{EventDecoder, StreamLimits};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

fn encode(request: &ChatRequest) -> (Value, Vec<String>) {
    let encoded = encode_request(request, "m", false, &Options::default());
    (encoded.body, encoded.adapted)
}

#[test]
fn every_fixture_decodes_as_its_index_line_says() {
    let mut seen = [0; 3];
    for fixture in fixtures::all() {
        if fixture.provider != "mistral" {
            continue;
        }
        match fixture.kind.as_str() {
            "stream" | "stream_error" => {
                seen[0] += 1;
                let whole = read_stream(&fixture.bytes, usize::MAX);
                let outcome = Outcome::of_events(&whole);
                check(&fixture, &outcome);
                let class = outcome.class.map(Class::as_str);
                assert_eq!(class, expected_class(&fixture), "{}", fixture.file);
                for read in [1, 7] {
                    let split = read_stream(&fixture.bytes, read);
                    assert_eq!(
                        format!("{whole:?}"),
                        format!("{split:?}"),
                        "{}",
                        fixture.file
                    );
                }
            }
            "response" => {
                seen[1] += 1;
                let reply = Reply::new(Server::Mistral, 200, &fixture.bytes);
                let outcome = Outcome::of_answer(&decode_answer(&reply));
                check(&fixture, &outcome);
            }
            "request" => {
                seen[2] += 1;
                let body: Value = serde_json::from_slice(&fixture.bytes).unwrap();
                let read = decode_request(&fixture.bytes).unwrap();
                let encoded =
                    encode_request(&read.request, &read.model, false, &Options::default());
                assert_eq!(encoded.body, body, "{}", fixture.file);
                assert_eq!(encoded.adapted, Vec::<String>::new(), "{}", fixture.file);
            }
            _ => {}
        }
    }
    assert_eq!(seen, [5, 4, 5]);
}

fn read_stream(bytes: &[u8], read: usize) -> Vec<Result<StreamEvent, Failure>> {
    let mut decoder = StreamDecoder::new();
    let mut events: Vec<_> = bytes
        .chunks(read.min(bytes.len()))
        .flat_map(|bytes| decoder.push(bytes))
        .collect();
    events.extend(decoder.finish());
    assert!(decoder.is_over() && decoder.is_complete() == events.last().unwrap().is_ok());
    events
}

/// Traps 1, 16, 24, 25, 26, 39, 40 and 43.
#[test]
fn what_mistral_has_other_words_for_is_said_in_them() {
    let mut request = ChatRequest::user("Hi");
    request
        .messages
        .insert(0, Message::text(Role::Developer, "Brief."));
    let mut turn = Message::text(Role::Assistant, "");
    turn.parts = vec![Part::ToolCall(ToolCall {
        id: "fxLlamaToolCallIdOf32Characters0".into(),
        name: "now".into(),
        ..ToolCall::default()
    })];
    let mut result = Message::text(Role::Tool, "");
    result.parts = vec![Part::ToolResult(ToolResult {
        call_id: "fxLlamaToolCallIdOf32Characters0".into(),
        parts: vec![Part::Text("broken".into())],
        is_error: true,
    })];
    request.messages.extend([turn, result]);
    request.sampling.seed = Some(7);
    request.sampling.temperature = Some(2.0);
    request.max_output_tokens = Some(9);
    request.user = Some("u".into());
    request.tool_choice = Some(ToolChoice::Required);
    request.tools = vec![evenkeel_core::Tool {
        name: "now".into(),
        description: None,
        parameters: None,
        strict: None,
        extra: Extra::default(),
    }];
    let (body, adapted) = encode(&request);
    let messages = &body["messages"];
    assert_eq!(messages[0]["role"], "system");
    let call = &messages[2]["tool_calls"][0];
    assert_eq!(call["function"]["arguments"], "{}");
    assert_eq!(messages[2]["content"], "");
    let id = call["id"].as_str().unwrap();
    assert!(
        id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
        "{id}"
    );
    assert_eq!(messages[3]["tool_call_id"], id);
    assert_eq!(messages[3]["content"], "error: broken");
    assert_eq!(body["random_seed"], 7);
    assert_eq!(body["temperature"], 1.5);
    assert_eq!(body["max_tokens"], 9);
    assert_eq!(body["metadata"], json!({"user_id": "u"}));
    assert_eq!(body["tool_choice"], "any");
    let parameters = &body["tools"][0]["function"]["parameters"];
    assert_eq!(parameters["type"], "object");
    assert_eq!(
        adapted,
        [
            "tool call ids: sent as the provider allows them",
            "role developer: sent as system",
            "is_error of a tool result: said in its text",
            "temperature: lowered to the provider's highest",
        ]
    );
}

#[test]
fn ten_thousand_calls_keep_ids_of_their_own() {
    let mut turn = Message::text(Role::Assistant, "");
    turn.parts = (0..10_000)
        .map(|i| {
            Part::ToolCall(ToolCall {
                id: format!("call_{i}"),
                name: "t".into(),
                ..ToolCall::default()
            })
        })
        .collect();
    let request = ChatRequest {
        messages: vec![turn],
        ..ChatRequest::default()
    };
    let (body, _) = encode(&request);
    let calls = body["messages"][0]["tool_calls"].as_array().unwrap();
    let ids: std::collections::HashSet<&str> =
        calls.iter().map(|c| c["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 10_000);
}

/// Trap 6: an answer that is to be gone on from is marked.
#[test]
fn a_final_assistant_message_is_a_prefix() {
    let mut request = ChatRequest::user("What is this?");
    request
        .messages
        .push(Message::text(Role::Assistant, "It is"));
    let (body, adapted) = encode(&request);
    assert_eq!(body["messages"][1]["prefix"], true);
    assert!(adapted.is_empty());
}

/// Trap 32: another format's signed reasoning means nothing here.
#[test]
fn foreign_reasoning_is_left_out_and_own_goes_back() {
    let reasoning = |dialect| {
        Part::Reasoning(ReasoningPart {
            text: "moon".into(),
            signature: Some("c2ln".into()),
            dialect,
        })
    };
    for (dialect, kept) in [(DIALECT, true), ("anthropic", false)] {
        let mut request = ChatRequest::user("Hi");
        let mut turn = Message::text(Role::Assistant, "Ebb.");
        turn.parts.insert(0, reasoning(dialect));
        request.messages.push(turn);
        request.messages.push(Message::text(Role::User, "And?"));
        let (body, adapted) = encode(&request);
        assert_eq!(body.to_string().contains("c2ln"), kept);
        assert_eq!(body.to_string().contains("moon"), kept);
        assert_eq!(adapted.is_empty(), kept, "{adapted:?}");
    }
}

#[test]
fn an_error_is_read_back_in_its_class() {
    let body = encode_error("Rate limit exceeded", "rate_limited", Some("1300"));
    let bytes = body.to_string().into_bytes();
    let failure =
        evenkeel_providers::wire::classify::classify(&Reply::new(Server::Mistral, 429, &bytes));
    assert_eq!(failure.class, Class::RateLimited);
    assert_eq!(failure.code.as_deref(), Some("1300"));
}

/// The place of a validation error names the field.
#[test]
fn a_validation_error_names_the_field() {
    let body = br#"{"detail":[{"type":"extra_forbidden","loc":["body","max_completion_tokens"],"msg":"Extra inputs are not permitted"}]}"#;
    let failure =
        evenkeel_providers::wire::classify::classify(&Reply::new(Server::Mistral, 422, body));
    assert_eq!(failure.param.as_deref(), Some("max_completion_tokens"));
    assert!(failure.capability_gap);
}

#[test]
fn ten_megabytes_of_deltas_are_read_and_the_limit_holds() {
    let piece = format!(
        "data: {}\n\n",
        json!({"choices": [{"index": 0, "delta": {"content": "x".repeat(1_000)}}]})
    );
    let mut decoder = StreamDecoder::new();
    let mut bytes = 0;
    for _ in 0..10_000 {
        for event in decoder.push(piece.as_bytes()) {
            if let StreamEvent::Delta(Delta::Text(text)) = event.unwrap() {
                bytes += text.len();
            }
        }
    }
    assert_eq!(bytes, 10_000_000);
    let limits = StreamLimits {
        max_event_bytes: 1 << 20,
        max_answer_bytes: 1 << 20,
    };
    let mut decoder = StreamDecoder::with_limits(limits);
    let failed = (0..2_000).any(|_| decoder.push(piece.as_bytes()).iter().any(Result::is_err));
    assert!(failed && decoder.is_over());
}

fn id() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9]{9}"
}

fn reasoning() -> impl Strategy<Value = Part> {
    (".{1,12}", option::of("[A-Za-z0-9+/]{4,8}")).prop_map(|(text, signature)| {
        Part::Reasoning(ReasoningPart {
            text,
            dialect: signature.as_ref().map_or("", |_| DIALECT),
            signature,
        })
    })
}

/// The parts of an assistant's turn in the order they are read.
fn turn() -> impl Strategy<Value = Vec<Part>> {
    let call = ("[a-z_]{1,8}", ".{1,12}")
        .prop_filter("arguments say something", |(_, a)| !a.trim().is_empty());
    (option::of(reasoning()), ".{1,12}", vec((id(), call), 0..3)).prop_map(
        |(reasoning, text, calls)| {
            let calls = calls.into_iter().map(|(id, (name, arguments))| {
                Part::ToolCall(ToolCall {
                    id,
                    name,
                    arguments,
                    extra: Extra::default(),
                })
            });
            reasoning
                .into_iter()
                .chain([Part::Text(text)])
                .chain(calls)
                .collect()
        },
    )
}

fn own() -> Extra {
    Extra {
        dialect: DIALECT,
        fields: Map::new(),
    }
}

fn message(role: Role, parts: Vec<Part>) -> Message {
    Message {
        role,
        parts,
        name: None,
        extra: own(),
    }
}

/// A result for each call of a turn.
fn results_of(turn: &[Part]) -> Vec<Message> {
    let calls = turn.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(call.id.clone()),
        _ => None,
    });
    let result = |call_id| {
        let parts = vec![Part::Text("done".into())];
        Part::ToolResult(ToolResult {
            call_id,
            parts,
            is_error: false,
        })
    };
    calls
        .map(|id| message(Role::Tool, vec![result(id)]))
        .collect()
}

fn chat_request() -> impl Strategy<Value = ChatRequest> {
    let sampling = (
        option::of(0.0..1.5),
        option::of(0.0..1.0),
        option::of(any::<u64>()),
        option::of(any::<i64>()),
    );
    (
        option::of(".{1,8}"),
        vec((".{1,8}", turn()), 0..3),
        ".{1,8}",
        sampling,
        (
            option::of(any::<u64>()),
            vec(".{1,6}", 0..3),
            option::of(".{1,8}"),
        ),
    )
        .prop_map(|(system, turns, last, sampling, (cap, stop, user))| {
            let said = |text: String| vec![Part::Text(text)];
            let mut messages: Vec<Message> = system
                .map(|text| message(Role::System, said(text)))
                .into_iter()
                .collect();
            for (asked, turn) in turns {
                messages.push(message(Role::User, said(asked)));
                let results = results_of(&turn);
                messages.push(message(Role::Assistant, turn));
                if !results.is_empty() {
                    messages.extend(results);
                    messages.push(message(Role::Assistant, said("so".to_owned())));
                }
            }
            messages.push(message(Role::User, said(last)));
            ChatRequest {
                messages,
                sampling: evenkeel_core::Sampling {
                    temperature: sampling.0,
                    top_p: sampling.1,
                    top_k: sampling.2,
                    seed: sampling.3,
                    ..evenkeel_core::Sampling::default()
                },
                max_output_tokens: cap,
                stop,
                user,
                extra: own(),
                ..ChatRequest::default()
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_request_is_read_as_it_was_written(request in chat_request()) {
        prop_assume!(!request.messages.iter().flat_map(|m| &m.parts).any(|p| matches!(p, Part::Text(t) if t.contains('\0'))));
        let encoded = encode_request(&request, "m", true, &Options::default());
        prop_assert_eq!(encoded.adapted, Vec::<String>::new());
        let read = decode_request(encoded.body.to_string().as_bytes()).unwrap();
        prop_assert_eq!(read.request, request);
        prop_assert!(read.stream);
    }

    #[test]
    fn an_answer_is_read_as_it_was_written(parts in turn(), count in any::<u32>()) {
        let calls = parts.iter().any(|p| matches!(p, Part::ToolCall(_)));
        let response = evenkeel_core::ChatResponse {
            id: "a".into(),
            model: "m".into(),
            created: 7,
            parts,
            finish: if calls { Finish::ToolUse } else { Finish::ContextWindow },
            usage: Some(Usage { input: count.into(), output: 1, ..Usage::default() }),
            adapted: Vec::new(),
            rate_limits: None,
            extra: own(),
        };
        let written = encode_response(&response, "m").to_string();
        let read = decode_answer(&Reply::new(Server::Mistral, 200, written.as_bytes())).unwrap();
        prop_assert_eq!(read, response);
    }

    #[test]
    fn a_stream_is_read_as_it_was_written_in_any_split(parts in turn(), read in 1usize..64) {
        let calls = parts.iter().any(|p| matches!(p, Part::ToolCall(_)));
        let response = evenkeel_core::ChatResponse {
            id: "a".into(),
            model: "m".into(),
            created: 7,
            parts,
            finish: if calls { Finish::ToolUse } else { Finish::Stop },
            usage: Some(Usage { input: 3, output: 1, ..Usage::default() }),
            adapted: Vec::new(),
            rate_limits: None,
            extra: own(),
        };
        let mut encoder = StreamEncoder::new("a", 7, "m");
        let mut bytes = Vec::new();
        for event in evenkeel_core::events_of(&response).into_iter().chain([StreamEvent::End]) {
            encoder.write(&event, &mut bytes);
        }
        let mut whole = Accumulator::default();
        for event in read_stream(&bytes, read) {
            whole.push(&event.unwrap());
        }
        prop_assert_eq!(whole.finish().unwrap(), response);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = decode_request(&bytes);
        let _ = decode_answer(&Reply::new(Server::Mistral, 200, &bytes));
        let mut decoder = StreamDecoder::new();
        decoder.push(&[b"data: ", &bytes[..], b"\n\n"].concat());
        decoder.finish();
    }
}

/// "Not the same number of function calls and responses", and C136.
#[test]
fn a_call_without_its_result_gets_one_and_a_result_without_its_call_is_text() {
    let mut request = ChatRequest::user("q");
    let call = |id: &str| {
        Part::ToolCall(ToolCall {
            id: id.into(),
            name: "f".into(),
            arguments: "{}".into(),
            extra: Extra::default(),
        })
    };
    let result = |id: &str, text: &str| {
        let parts = vec![Part::Text(text.into())];
        Part::ToolResult(ToolResult {
            call_id: id.into(),
            parts,
            is_error: false,
        })
    };
    request.messages.extend([
        message(Role::Tool, vec![result("cccccccc3", "old")]),
        message(Role::Assistant, vec![call("aaaaaaaa1"), call("bbbbbbbb2")]),
        message(Role::Tool, vec![result("bbbbbbbb2", "B")]),
        message(Role::Assistant, vec![Part::Text("so".into())]),
        Message::text(Role::User, "go on"),
    ]);
    let written = encode_request(&request, "m", false, &Options::default());
    let said: Vec<(&str, &str)> = written.body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| {
            let text = |name: &str| m[name].as_str().unwrap_or_default();
            (text("tool_call_id"), text("content"))
        })
        .collect();
    assert_eq!(
        said,
        [
            ("", "q"),
            ("", "Tool result: old"),
            ("", ""),
            ("aaaaaaaa1", "error: no result was given for this call"),
            ("bbbbbbbb2", "B"),
            ("", "so"),
            ("", "go on"),
        ]
    );
    assert!(
        written
            .adapted
            .contains(&"tool call without its result: an error was put in its place".to_owned()),
        "{:?}",
        written.adapted
    );
}

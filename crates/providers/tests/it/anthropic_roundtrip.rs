//! What is written in Anthropic's format is read back the same, whatever it
//! is, and what Anthropic signed survives other formats.

use evenkeel_core::{
    Accumulator, ChatRequest, ChatResponse, Effort, Extra, Failure, Finish, Image, Map, Message,
    Output, Part, Reasoning, ReasoningPart, Role, Sampling, StreamEvent, Tool, ToolCall,
    ToolChoice, ToolResult, Usage, Value, events_of,
};
use evenkeel_providers::Server;
use evenkeel_providers::wire::anthropic::{
    DIALECT, Options, StreamDecoder, StreamEncoder, decode_answer, decode_request, decode_response,
    encode_request, encode_response,
};
use evenkeel_providers::wire::classify::Reply;
use evenkeel_providers::wire::{EventDecoder, openai};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::json;

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            object(inner).prop_map(Value::from),
        ]
    })
}

fn object(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    btree_map("[a-z]{1,5}", value, 0..4).prop_map(|m| m.into_iter().collect())
}

fn own(fields: Map<String, Value>) -> Extra {
    Extra {
        dialect: DIALECT,
        fields,
    }
}

/// Extra fields whose names no field of the format has; null says nothing.
fn extra() -> impl Strategy<Value = Extra> {
    let said = json_value().prop_filter("says something", |v| !v.is_null());
    btree_map("x_[a-z]{1,6}", said, 0..3).prop_map(|m| own(m.into_iter().collect()))
}

/// Text that the API takes.
fn text() -> impl Strategy<Value = String> {
    "\\PC{0,12}[a-zæ🌊]\\PC{0,3}"
}

fn block(kind: &'static str) -> impl Strategy<Value = Part> {
    object(json_value()).prop_map(move |mut fields| {
        fields.insert("type".into(), kind.into());
        Part::Other(own(fields))
    })
}

fn signed() -> impl Strategy<Value = Part> {
    ("\\PC{0,9}", "[a-zA-Z0-9+/=]{1,12}").prop_map(|(text, signature)| {
        Part::Reasoning(ReasoningPart {
            text,
            signature: Some(signature),
            dialect: DIALECT,
        })
    })
}

fn said_by_user() -> impl Strategy<Value = Part> {
    prop_oneof![
        text().prop_map(Part::Text),
        prop_oneof![
            "https://h/[a-z]{1,5}",
            "[a-zA-Z0-9+/]{0,8}".prop_map(|data| format!("data:image/png;base64,{data}")),
        ]
        .prop_map(|url| Part::Image(Image { url, detail: None })),
        block("document"),
    ]
}

fn call_fields() -> impl Strategy<Value = (String, Map<String, Value>, Extra)> {
    let extra = extra().prop_map(|extra| {
        if extra.fields.is_empty() {
            Extra::default()
        } else {
            extra
        }
    });
    ("[a-z_]{1,12}", object(json_value()), extra)
}

fn call((name, arguments, extra): (String, Map<String, Value>, Extra), id: String) -> Part {
    Part::ToolCall(ToolCall {
        id,
        name,
        arguments: Value::Object(arguments).to_string(),
        extra,
    })
}

/// A result's parts and whether it is an error, which is never empty.
fn result() -> impl Strategy<Value = (Vec<Part>, bool)> {
    prop_oneof![
        (vec(said_by_user(), 0..3), Just(false)),
        (vec(said_by_user(), 1..3), Just(true)),
    ]
}

fn citations() -> impl Strategy<Value = Part> {
    vec(json_value(), 1..3).prop_map(|found| {
        let fields = json!({"type": "citations", "citations": found});
        Part::Other(own(fields.as_object().unwrap().clone()))
    })
}

/// What a model says beside calls: texts, cited or not, and opaque blocks.
fn said_by_model() -> impl Strategy<Value = Vec<Part>> {
    let piece = prop_oneof![
        text().prop_map(|t| vec![Part::Text(t)]),
        (text(), citations()).prop_map(|(t, c)| vec![Part::Text(t), c]),
        signed().prop_map(|p| vec![p]),
        block("server_tool_use").prop_map(|p| vec![p]),
        block("redacted_thinking").prop_map(|p| vec![p]),
    ];
    vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

/// One exchange: what the user says, what the model says and calls, and what
/// the tools answer.
type Exchange = (
    Vec<Part>,
    (Part, Vec<Part>, Extra),
    Vec<((String, Map<String, Value>, Extra), (Vec<Part>, bool))>,
);

fn exchange() -> impl Strategy<Value = Exchange> {
    (
        vec(said_by_user(), 1..3),
        (signed(), said_by_model(), extra()),
        vec((call_fields(), result()), 0..3),
    )
}

fn message(role: Role, parts: Vec<Part>, extra: Extra) -> Message {
    Message {
        role,
        parts,
        name: None,
        extra,
    }
}

fn conversation() -> impl Strategy<Value = Vec<Message>> {
    (
        option::of(text()),
        vec(exchange(), 0..3),
        vec(said_by_user(), 1..3),
    )
        .prop_map(|(system, exchanges, last)| {
            let nothing = || own(Map::new());
            let mut out = Vec::new();
            out.extend(system.map(|s| message(Role::System, vec![Part::Text(s)], nothing())));
            let mut calls = 0;
            for (asked, (reasoning, mut said, extra), called) in exchanges {
                out.push(message(Role::User, asked, nothing()));
                said.insert(0, reasoning);
                let mut results = Vec::new();
                for (fields, (parts, is_error)) in called {
                    calls += 1;
                    let call_id = format!("toolu_{calls}");
                    said.push(call(fields, call_id.clone()));
                    let result = ToolResult {
                        call_id,
                        parts,
                        is_error,
                    };
                    results.push(message(
                        Role::Tool,
                        vec![Part::ToolResult(result)],
                        nothing(),
                    ));
                }
                out.push(message(Role::Assistant, said, extra));
                out.extend(results);
            }
            out.push(message(Role::User, last, nothing()));
            out
        })
}

fn tool() -> impl Strategy<Value = Tool> {
    (
        "[a-z_]{1,12}",
        option::of(any::<String>()),
        option::of(object(json_value()).prop_map(|mut schema| {
            schema.insert("type".into(), "object".into());
            schema.insert("properties".into(), json!({}));
            Value::from(schema)
        })),
        option::of(any::<bool>()),
        extra(),
    )
        .prop_map(|(name, description, parameters, strict, extra)| Tool {
            name,
            description,
            parameters,
            strict,
            extra,
        })
}

/// How tools are chosen, sampling, and reasoning: beside reasoning the format
/// takes neither force nor sampling.
type Manner = (
    Option<ToolChoice>,
    Option<bool>,
    Sampling,
    Option<Reasoning>,
);

fn manner() -> impl Strategy<Value = Manner> {
    let effort = option::of(proptest::sample::select(Effort::ALL[2..].to_vec()));
    let free = (
        option::of(prop_oneof![
            (Just(ToolChoice::Auto), option::of(any::<bool>())),
            (Just(ToolChoice::Required), option::of(any::<bool>())),
            (
                "[a-z]{1,5}".prop_map(ToolChoice::Named),
                option::of(any::<bool>())
            ),
            (Just(ToolChoice::None), Just(None)),
        ]),
        (
            option::of(0.0..=1.0),
            option::of(0.0..=1.0),
            option::of(any::<u64>()),
        ),
        effort.clone(),
        any::<bool>(),
    )
        .prop_map(|(choice, (temperature, top_p, top_k), effort, off)| {
            let sampling = Sampling {
                temperature,
                // The two do not go together.
                top_p: top_p.filter(|_| temperature.is_none()),
                top_k,
                ..Sampling::default()
            };
            let (choice, parallel) = choice.map_or((None, None), |(c, p)| (Some(c), p));
            let reasoning = (off || effort.is_some()).then_some(Reasoning {
                effort,
                budget_tokens: off.then_some(0),
            });
            (choice, parallel, sampling, reasoning)
        });
    let thinking = (effort, 1024..100_000u64).prop_map(|(effort, budget)| {
        let reasoning = Reasoning {
            effort,
            budget_tokens: Some(budget),
        };
        (None, None, Sampling::default(), Some(reasoning))
    });
    prop_oneof![free, thinking]
}

fn output() -> impl Strategy<Value = Output> {
    prop_oneof![
        Just(Output::Text),
        object(json_value()).prop_map(|schema| Output::JsonSchema {
            name: "output".into(),
            schema: schema.into(),
            strict: true,
            description: None,
        })
    ]
}

fn request() -> impl Strategy<Value = ChatRequest> {
    (
        conversation(),
        vec(tool(), 1..3),
        manner(),
        output(),
        100_001..1_000_000u64,
        vec(text(), 0..3),
        option::of(any::<String>()),
        extra(),
    )
        .prop_map(
            |(messages, tools, manner, output, cap, stop, user, extra)| ChatRequest {
                messages,
                tools,
                tool_choice: manner.0,
                parallel_tool_calls: manner.1,
                output,
                sampling: manner.2,
                max_output_tokens: Some(cap),
                stop,
                reasoning: manner.3,
                user,
                metadata: Map::new(),
                extra,
            },
        )
}

fn usage() -> impl Strategy<Value = Usage> {
    (
        1..1_000_000u64,
        option::of(0..1_000_000u64),
        option::of(0..1_000_000u64),
        0..1_000_000u64,
        option::of(0..1_000_000u64),
    )
        .prop_map(|(fresh, cached, cache_write, output, reasoning)| Usage {
            input: fresh + cached.unwrap_or(0) + cache_write.unwrap_or(0),
            output,
            cached,
            cache_write,
            reasoning,
        })
}

fn finish() -> impl Strategy<Value = (Finish, Vec<(&'static str, Value)>)> {
    prop_oneof![
        Just((Finish::Stop, vec![])),
        text().prop_map(|s| (Finish::StopSequence, vec![("stop_sequence", s.into())])),
        Just((Finish::Length, vec![])),
        Just((
            Finish::Refusal,
            vec![(
                "stop_details",
                json!({"type": "refusal", "category": "bio"})
            )]
        )),
        Just((Finish::Pause, vec![])),
        Just((Finish::ContextWindow, vec![])),
        "fixture_[a-z]{1,5}".prop_map(|s| (Finish::Unknown, vec![("stop_reason", s.into())])),
    ]
}

fn answer() -> impl Strategy<Value = ChatResponse> {
    let unsigned = "[a-z]{1,9}".prop_map(|text| {
        Part::Reasoning(ReasoningPart {
            text,
            ..ReasoningPart::default()
        })
    });
    (
        option::of(unsigned),
        said_by_model(),
        vec(call_fields(), 0..3),
        finish(),
        option::of(usage()),
        extra(),
        ("[a-z0-9_]{1,9}", "[a-z0-9-]{1,9}"),
    )
        .prop_map(
            |(unsigned, said, calls, (finish, told), usage, mut extra, (id, model))| {
                let calls = calls.into_iter().enumerate();
                let calls: Vec<Part> = calls.map(|(i, c)| call(c, format!("t{i}"))).collect();
                let calling = !calls.is_empty() && matches!(finish, Finish::Stop | Finish::Unknown);
                if !calling {
                    extra
                        .fields
                        .extend(told.into_iter().map(|(n, v)| (n.to_owned(), v)));
                }
                ChatResponse {
                    id,
                    model,
                    created: 0,
                    parts: unsigned.into_iter().chain(said).chain(calls).collect(),
                    finish: if calling { Finish::ToolUse } else { finish },
                    usage,
                    adapted: Vec::new(),
                    rate_limits: None,
                    extra,
                }
            },
        )
}

/// The answer as a stream of neutral events in which parts of one kind stay
/// apart, as the decoder gives them.
fn events(answer: &ChatResponse) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    for event in events_of(&ChatResponse {
        parts: vec![],
        ..answer.clone()
    }) {
        let is_start = matches!(event, StreamEvent::Start { .. });
        events.push(event);
        if is_start {
            let mut calls = 0;
            for part in &answer.parts {
                events.extend(part_events(part, &mut calls));
            }
        }
    }
    events.push(StreamEvent::End);
    events
}

fn part_events(part: &Part, calls: &mut usize) -> Vec<StreamEvent> {
    let Part::ToolCall(call) = part else {
        return vec![StreamEvent::Delta(evenkeel_core::Delta::Part(part.clone()))];
    };
    let whole = ChatResponse {
        id: String::new(),
        model: String::new(),
        created: 0,
        parts: vec![Part::ToolCall(ToolCall {
            extra: Extra::default(),
            ..call.clone()
        })],
        finish: Finish::Stop,
        usage: None,
        adapted: vec![],
        rate_limits: None,
        extra: Extra::default(),
    };
    let index = *calls;
    *calls += 1;
    let mut out: Vec<StreamEvent> = events_of(&whole)
        .into_iter()
        .filter_map(|event| match event {
            StreamEvent::Delta(evenkeel_core::Delta::ToolCallStart { id, name, .. }) => {
                Some(evenkeel_core::Delta::ToolCallStart { index, id, name })
            }
            StreamEvent::Delta(evenkeel_core::Delta::ToolCallArguments { fragment, .. }) => {
                Some(evenkeel_core::Delta::ToolCallArguments { index, fragment })
            }
            _ => None,
        })
        .map(StreamEvent::Delta)
        .collect();
    if !call.extra.fields.is_empty() {
        let extra = call.extra.clone();
        out.insert(
            1,
            StreamEvent::Delta(evenkeel_core::Delta::ToolCallExtra { index, extra }),
        );
    }
    out
}

fn bytes(answer: &ChatResponse) -> Vec<u8> {
    let mut encoder = StreamEncoder::new(answer.id.clone(), answer.model.clone());
    let mut bytes = Vec::new();
    for event in events(answer) {
        encoder.write(&event, &mut bytes);
    }
    bytes
}

fn decode(bytes: &[u8], read: usize) -> Vec<Result<StreamEvent, Failure>> {
    let mut decoder = StreamDecoder::new();
    let mut events: Vec<_> = bytes.chunks(read).flat_map(|b| decoder.push(b)).collect();
    events.extend(decoder.finish());
    events
}

fn added_up(events: Vec<Result<StreamEvent, Failure>>) -> ChatResponse {
    let mut whole = Accumulator::default();
    for event in events {
        whole.push(&event.unwrap());
    }
    whole.finish().unwrap()
}

proptest! {
    #[test]
    fn requests_survive(request in request(), stream: bool) {
        let encoded = encode_request(&request, "m-a", stream, &Options::default());
        prop_assert_eq!(&encoded.adapted, &Vec::<String>::new());
        let read = decode_request(encoded.body.to_string().as_bytes()).unwrap();
        prop_assert_eq!((read.model.as_str(), read.stream), ("m-a", stream));
        // The written form of a message is kept where it says more.
        let mut got = read.request;
        for message in &mut got.messages {
            message.extra.fields.shift_remove("content");
        }
        prop_assert_eq!(got, request);
    }

    #[test]
    fn whatever_a_client_writes_goes_out_as_it_was(request in request()) {
        let body = encode_request(&request, "m-a", false, &Options::default()).body;
        let read = decode_request(body.to_string().as_bytes()).unwrap();
        let again = encode_request(&read.request, "m-a", false, &Options::default());
        prop_assert_eq!(again.body, body);
    }

    #[test]
    fn answers_survive(answer in answer()) {
        let body = encode_response(&answer, &answer.model);
        let read = decode_answer(&Reply::in_answer(Server::Anthropic, body.to_string().as_bytes()));
        prop_assert_eq!(read.unwrap(), answer.clone());
        prop_assert_eq!(decode_response(&body).unwrap(), answer);
    }

    #[test]
    fn streams_survive_and_no_split_changes_them(answer in answer(), read in 1usize..64) {
        let bytes = bytes(&answer);
        let whole = decode(&bytes, bytes.len());
        let split = decode(&bytes, read);
        prop_assert_eq!(format!("{whole:?}"), format!("{split:?}"));
        prop_assert_eq!(added_up(whole), answer);
    }

    #[test]
    fn a_signed_answer_survives_every_other_format_in_neutral_form(answer in answer()) {
        let spoken = message(Role::Assistant, answer.parts.clone(), Extra::default());
        let mut history = vec![Message::text(Role::User, "q"), spoken];
        let ids: Vec<String> = answer.tool_calls().map(|c| c.id.clone()).collect();
        history.extend(ids.into_iter().map(|call_id| {
            let result = ToolResult { call_id, parts: vec![Part::Text("r".into())], is_error: false };
            message(Role::Tool, vec![Part::ToolResult(result)], Extra::default())
        }));
        // The fallback, which speaks another format, answers in between.
        history.push(Message::text(Role::Assistant, "from elsewhere"));
        history.push(Message::text(Role::User, "next"));
        let request = ChatRequest { messages: history, ..ChatRequest::default() };
        let back = encode_request(&request, "m-a", false, &Options::default());
        let again = decode_request(back.body.to_string().as_bytes()).unwrap().request;
        let signed = |parts: &[Part]| -> Vec<Part> {
            parts.iter().filter(|p| match p {
                Part::Reasoning(part) => part.signature.is_some(),
                Part::Other(_) | Part::ToolCall(_) => true,
                _ => false,
            }).cloned().collect()
        };
        let kept: Vec<Part> = again.messages.iter()
            .filter(|m| m.role == Role::Assistant)
            .flat_map(|m| signed(&m.parts))
            .collect();
        prop_assert_eq!(kept, signed(&answer.parts));
    }
}

/// Every byte of a stream with everything in it.
#[test]
fn a_stream_split_at_every_byte_gives_the_same_events() {
    let parts = vec![
        Part::Reasoning(ReasoningPart {
            text: "hm æ".into(),
            signature: Some("SIG".into()),
            dialect: DIALECT,
        }),
        Part::Text("Ebb 🌊".into()),
        call(("look".into(), Map::new(), Extra::default()), "t0".into()),
    ];
    let answer = ChatResponse {
        id: "msg_1".into(),
        model: "m-a".into(),
        created: 0,
        parts,
        finish: Finish::ToolUse,
        usage: Some(Usage {
            input: 9,
            output: 3,
            ..Usage::default()
        }),
        adapted: vec![],
        rate_limits: None,
        extra: own(Map::new()),
    };
    let bytes = bytes(&answer);
    let whole = format!("{:?}", decode(&bytes, bytes.len()));
    assert_eq!(added_up(decode(&bytes, 1)), answer);
    for cut in 1..bytes.len() {
        let mut decoder = StreamDecoder::new();
        let mut events = decoder.push(&bytes[..cut]);
        events.extend(decoder.push(&bytes[cut..]));
        events.extend(decoder.finish());
        assert_eq!(format!("{events:?}"), whole, "cut at {cut}");
    }
}

/// A client that speaks `OpenAI`'s format carries what Anthropic signed.
#[test]
fn signatures_survive_a_client_of_another_format() {
    let body = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m-a",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "SIG-A"},
            {"type": "redacted_thinking", "data": "b3BhcXVl"},
            {"type": "text", "text": "Checking."},
            {"type": "tool_use", "id": "toolu_A", "name": "look", "input": {"a": 1}}],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {"input_tokens": 9, "output_tokens": 3}});
    let answer = decode_response(&body).unwrap();
    let shown = openai::encode_response(&answer, "role");
    let said = shown["choices"][0]["message"].clone();
    let client = json!({"model": "role", "messages": [
        {"role": "user", "content": "q"}, said,
        {"role": "tool", "tool_call_id": "toolu_A", "content": "r"}],
        "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]});
    let read = openai::decode_request(client.to_string().as_bytes()).unwrap();
    let back = encode_request(&read.request, "m-a", false, &Options::default());
    assert_eq!(back.body["messages"][1]["content"], body["content"]);
    assert_eq!(back.adapted, Vec::<String>::new());
}

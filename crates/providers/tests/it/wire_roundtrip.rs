//! What is written is read back the same, whatever it is.

use evenkeel_core::{
    ChatRequest, ChatResponse, Delta, Effort, Extra, Finish, Image, Map, Message, Output, Part,
    Reasoning, ReasoningPart, Role, Sampling, StreamEvent, Tool, ToolCall, ToolChoice, ToolResult,
    Usage, Value,
};
use evenkeel_providers::Server;
use evenkeel_providers::wire::EventDecoder;
use evenkeel_providers::wire::openai::{
    DIALECT, Options, StreamDecoder, StreamEncoder, decode_request, decode_response,
    encode_request, encode_response,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::json;

fn own() -> Extra {
    Extra {
        dialect: DIALECT,
        fields: Map::new(),
    }
}

/// Extra fields whose names no field of the format has.
fn extra() -> impl Strategy<Value = Extra> {
    proptest::collection::btree_map("x_[a-z]{1,6}", json_value(), 0..3).prop_map(|fields| Extra {
        dialect: DIALECT,
        fields: fields.into_iter().collect(),
    })
}

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
    proptest::collection::btree_map("[a-z]{1,5}", value, 0..4).prop_map(|m| m.into_iter().collect())
}

fn content_part() -> impl Strategy<Value = Part> {
    prop_oneof![
        any::<String>().prop_map(Part::Text),
        (any::<String>(), option::of(Just("low".to_owned())))
            .prop_map(|(url, detail)| Part::Image(Image { url, detail })),
        object(json_value()).prop_map(|mut fields| {
            fields.insert("type".into(), "input_audio".into());
            Part::Other(Extra {
                dialect: DIALECT,
                fields,
            })
        }),
    ]
}

/// Arguments that come back as they are: no empty text, which becomes an empty
/// object, and no empty object, which waits for the call's end.
fn arguments() -> impl Strategy<Value = String> {
    prop_oneof![
        object(json_value())
            .prop_filter("holds something", |fields| !fields.is_empty())
            .prop_map(|fields| json!(fields).to_string()),
        any::<String>().prop_map(|text| format!("no object: {text}")),
    ]
}

fn call() -> impl Strategy<Value = ToolCall> {
    let signature = option::of("[A-Za-z0-9+/]{4,12}");
    ("[a-zA-Z0-9_]{1,12}", "[a-z_]{1,12}", arguments(), signature).prop_map(
        |(id, name, arguments, signature)| ToolCall {
            id,
            name,
            arguments,
            extra: signature.map_or_else(Extra::default, |signature| {
                let mut fields = Map::new();
                fields.insert("thoughtSignature".into(), signature.into());
                Extra {
                    dialect: "gemini",
                    fields,
                }
            }),
        },
    )
}

/// Reasoning as it can be told apart again: one plain text, or blocks of which
/// one is signed or opaque.
fn reasoning() -> impl Strategy<Value = Vec<Part>> {
    let plain = ".{1,20}".prop_map(|text| {
        vec![Part::Reasoning(ReasoningPart {
            text,
            ..ReasoningPart::default()
        })]
    });
    let signed = (
        ".{0,20}",
        "[A-Za-z0-9+/]{4,12}",
        prop_oneof![
            Just("anthropic"),
            Just("gemini"),
            Just("mistral"),
            Just(DIALECT)
        ],
    )
        .prop_map(|(text, signature, dialect)| {
            Part::Reasoning(ReasoningPart {
                text,
                signature: Some(signature),
                dialect,
            })
        });
    let opaque = "[A-Za-z0-9+/]{4,12}".prop_map(|data| {
        let mut fields = Map::new();
        fields.insert("type".into(), "redacted_thinking".into());
        fields.insert("data".into(), data.into());
        Part::Other(Extra {
            dialect: "anthropic",
            fields,
        })
    });
    let blocks =
        (vec(prop_oneof![signed.clone(), opaque], 0..3), signed).prop_map(|(mut blocks, last)| {
            blocks.push(last);
            blocks
        });
    prop_oneof![Just(Vec::new()), plain, blocks]
}

fn message() -> impl Strategy<Value = Message> {
    let said = (
        prop_oneof![Just(Role::System), Just(Role::Developer), Just(Role::User)],
        vec(content_part(), 1..4),
    );
    let assistant = (
        reasoning(),
        vec(content_part(), 0..3),
        option::of(any::<String>().prop_map(Part::Refusal)),
        vec(call().prop_map(Part::ToolCall), 0..3),
    )
        .prop_map(|(reasoning, content, refusal, calls)| {
            let refusal = refusal.filter(|r| *r != Part::Refusal(String::new()));
            let parts: Vec<Part> = reasoning
                .into_iter()
                .chain(content)
                .chain(refusal)
                .chain(calls)
                .collect();
            (Role::Assistant, parts)
        });
    let tool = ("[a-z0-9]{1,9}", vec(content_part(), 1..3)).prop_map(|(call_id, parts)| {
        let result = ToolResult {
            call_id,
            parts,
            is_error: false,
        };
        (Role::Tool, vec![Part::ToolResult(result)])
    });
    (
        prop_oneof![said, assistant, tool],
        option::of("[a-z]{1,5}"),
        extra(),
    )
        .prop_map(|((role, parts), name, extra)| Message {
            role,
            parts,
            name,
            extra,
        })
}

fn tool() -> impl Strategy<Value = Tool> {
    (
        "[a-z_]{1,12}",
        option::of(any::<String>()),
        option::of(object(json_value()).prop_map(Value::from)),
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

fn output() -> impl Strategy<Value = Output> {
    prop_oneof![
        Just(Output::Text),
        Just(Output::JsonObject),
        (
            "[a-z]{1,8}",
            object(json_value()),
            any::<bool>(),
            option::of(any::<String>())
        )
            .prop_map(|(name, schema, strict, description)| Output::JsonSchema {
                name,
                schema: schema.into(),
                strict,
                description,
            }),
    ]
}

fn sampling() -> impl Strategy<Value = Sampling> {
    let number = || option::of(-1e6..1e6);
    (
        number(),
        number(),
        number(),
        number(),
        option::of(any::<i64>()),
        option::of(any::<u64>()),
    )
        .prop_map(
            |(temperature, top_p, presence_penalty, frequency_penalty, seed, top_k)| Sampling {
                temperature,
                top_p,
                presence_penalty,
                frequency_penalty,
                seed,
                top_k,
            },
        )
}

fn asked_reasoning() -> impl Strategy<Value = Option<Reasoning>> {
    let level = proptest::sample::select(&Effort::ALL[..]);
    (option::of(level), option::of(any::<u64>())).prop_map(|(effort, budget_tokens)| {
        let asked = Reasoning {
            effort,
            budget_tokens,
        };
        (asked != Reasoning::default()).then_some(asked)
    })
}

fn tool_choice() -> impl Strategy<Value = ToolChoice> {
    prop_oneof![
        Just(ToolChoice::Auto),
        Just(ToolChoice::None),
        Just(ToolChoice::Required),
        "[a-z]{1,8}".prop_map(ToolChoice::Named),
    ]
}

fn chat_request() -> impl Strategy<Value = ChatRequest> {
    (
        vec(message(), 1..4),
        vec(tool(), 0..3),
        option::of(tool_choice()),
        option::of(any::<bool>()),
        output(),
        sampling(),
        option::of(any::<u64>()),
        (vec(any::<String>(), 0..3), object(json_value()), extra()),
        (asked_reasoning(), option::of(".{1,8}")),
    )
        .prop_map(
            |(
                messages,
                tools,
                tool_choice,
                parallel_tool_calls,
                output,
                sampling,
                cap,
                rest,
                (reasoning, user),
            )| {
                let (stop, metadata, extra) = rest;
                ChatRequest {
                    messages,
                    tools,
                    tool_choice,
                    parallel_tool_calls,
                    output,
                    sampling,
                    max_output_tokens: cap,
                    stop,
                    reasoning,
                    user,
                    metadata,
                    extra,
                }
            },
        )
}

/// Parts of an answer in the order it is read, and the finish they allow.
fn answer() -> impl Strategy<Value = (Vec<Part>, Finish)> {
    let text = || ".{1,20}".prop_map(Part::Text);
    prop_oneof![
        (
            reasoning(),
            text(),
            prop_oneof![
                Just(Finish::Stop),
                Just(Finish::Length),
                Just(Finish::ContentFilter),
                Just(Finish::Unknown)
            ]
        )
            .prop_map(|(r, t, f)| (r.into_iter().chain([t]).collect(), f)),
        (option::of(text()), vec(call(), 1..4)).prop_map(|(t, calls)| {
            let calls = calls.into_iter().enumerate().map(|(i, mut call)| {
                // Ids of one answer are distinct.
                call.id = format!("{}{i}", call.id);
                Part::ToolCall(call)
            });
            (t.into_iter().chain(calls).collect(), Finish::ToolUse)
        }),
        ".{1,20}".prop_map(|r| (vec![Part::Refusal(r)], Finish::Refusal)),
    ]
}

fn usage() -> impl Strategy<Value = Usage> {
    let part = || option::of(any::<u64>());
    (1..=u64::MAX, any::<u64>(), part(), part(), part()).prop_map(
        |(input, output, cached, cache_write, reasoning)| Usage {
            input,
            output,
            cached,
            cache_write,
            reasoning,
        },
    )
}

fn chat_response() -> impl Strategy<Value = ChatResponse> {
    (
        ".{0,12}",
        ".{0,12}",
        any::<u64>(),
        answer(),
        option::of(usage()),
        extra(),
    )
        .prop_map(
            |(id, model, created, (parts, finish), usage, extra)| ChatResponse {
                id,
                model,
                created,
                parts,
                finish,
                usage,
                adapted: Vec::new(),
                rate_limits: None,
                extra,
            },
        )
}

/// The events of an answer, its texts cut into pieces of `size` characters.
fn events(response: &ChatResponse, size: usize) -> Vec<StreamEvent> {
    let pieces = |text: &str| -> Vec<String> {
        let chars: Vec<char> = text.chars().collect();
        chars
            .chunks(size)
            .map(|piece| piece.iter().collect())
            .collect()
    };
    let mut events = vec![StreamEvent::Start {
        id: response.id.clone(),
        model: response.model.clone(),
        created: response.created,
        extra: response.extra.clone(),
    }];
    let mut index = 0;
    for part in &response.parts {
        match part {
            Part::Text(text) => events.extend(
                pieces(text)
                    .into_iter()
                    .map(|t| StreamEvent::Delta(Delta::Text(t))),
            ),
            Part::Refusal(text) => events.extend(
                pieces(text)
                    .into_iter()
                    .map(|t| StreamEvent::Delta(Delta::Refusal(t))),
            ),
            Part::Reasoning(r) => {
                events.extend(pieces(&r.text).into_iter().map(|text| {
                    StreamEvent::Delta(Delta::Reasoning(ReasoningPart {
                        text,
                        ..ReasoningPart::default()
                    }))
                }));
                if r.signature.is_some() {
                    events.push(StreamEvent::Delta(Delta::Reasoning(ReasoningPart {
                        text: String::new(),
                        ..r.clone()
                    })));
                }
            }
            Part::Other(_) => events.push(StreamEvent::Delta(Delta::Part(part.clone()))),
            Part::ToolCall(call) => {
                events.push(StreamEvent::Delta(Delta::ToolCallStart {
                    index,
                    id: call.id.clone(),
                    name: call.name.clone(),
                }));
                events.extend(pieces(&call.arguments).into_iter().map(|fragment| {
                    StreamEvent::Delta(Delta::ToolCallArguments { index, fragment })
                }));
                if !call.extra.fields.is_empty() {
                    events.push(StreamEvent::Delta(Delta::ToolCallExtra {
                        index,
                        extra: call.extra.clone(),
                    }));
                }
                index += 1;
            }
            _ => {}
        }
    }
    events.push(StreamEvent::Finish(response.finish));
    events.extend(response.usage.map(StreamEvent::Usage));
    events.push(StreamEvent::End);
    events
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_request_is_read_as_it_was_written(request in chat_request(), stream: bool) {
        let encoded = encode_request(&request, "planner", stream, &Options::default());
        prop_assert_eq!(encoded.adapted, Vec::<String>::new());
        let written = encoded.body.to_string();
        let read = decode_request(written.as_bytes()).unwrap();
        prop_assert_eq!(read.request, request);
        prop_assert_eq!((read.model.as_str(), read.stream, read.include_usage), ("planner", stream, stream));
    }

    #[test]
    fn an_answer_is_read_as_it_was_written(response in chat_response()) {
        let written = encode_response(&response, &response.model).to_string();
        let read = decode_response(written.as_bytes(), Server::Compatible).unwrap();
        prop_assert_eq!(read, response);
    }

    #[test]
    fn a_stream_is_read_as_it_was_written_in_any_split(response in chat_response(), size in 1usize..8, read in 1usize..64) {
        let mut encoder = StreamEncoder::new(&response.id, response.created, &response.model, true);
        let mut bytes = Vec::new();
        for event in events(&response, size) {
            encoder.write(&event, &mut bytes);
            // Signs of life may stand anywhere but behind the end.
            if event != StreamEvent::End {
                encoder.write(&StreamEvent::KeepAlive, &mut bytes);
            }
        }
        let mut decoder = StreamDecoder::new(Server::Compatible);
        let mut got: Vec<StreamEvent> = bytes.chunks(read).flat_map(|b| decoder.push(b)).map(Result::unwrap).collect();
        got.extend(decoder.finish().into_iter().map(Result::unwrap));
        got.retain(|e| *e != StreamEvent::KeepAlive);
        prop_assert_eq!(got, expected(&response, size));
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in vec(any::<u8>(), 0..200), text in ".{0,200}") {
        for input in [&bytes[..], text.as_bytes()] {
            let _ = decode_request(input);
            let _ = decode_response(input, Server::OpenRouter);
            let mut decoder = StreamDecoder::new(Server::LlamaCpp);
            let event = [b"data: ", input, b"\n\n"].concat();
            decoder.push(&event);
            decoder.finish();
        }
    }

    #[test]
    fn no_json_makes_a_reader_panic(mut value in object(json_value()), inner in json_value(), name in "choices|error|usage|messages|tools|message|delta") {
        value.insert(name, json!([{"message": inner, "delta": inner, "role": "user", "content": inner, "tool_calls": inner, "function": inner}]));
        let body = json!(value).to_string();
        let _ = decode_request(body.as_bytes());
        let _ = decode_response(body.as_bytes(), Server::Ollama);
        let mut decoder = StreamDecoder::new(Server::Groq);
        decoder.push(format!("data: {body}\n\n").as_bytes());
    }
}

/// The events as they come back: a call is announced with its first argument
/// text, and usage is the stream's last word.
fn expected(response: &ChatResponse, size: usize) -> Vec<StreamEvent> {
    let mut silent = Vec::new();
    let mut out = Vec::new();
    for event in events(response, size) {
        match &event {
            StreamEvent::Delta(Delta::ToolCallStart { .. }) => {
                out.append(&mut silent);
                silent.push(event);
            }
            StreamEvent::Delta(Delta::ToolCallExtra { .. }) if !silent.is_empty() => {
                silent.push(event);
            }
            StreamEvent::Delta(Delta::ToolCallArguments { .. }) | StreamEvent::Finish(_) => {
                out.append(&mut silent);
                out.push(event);
            }
            _ => out.push(event),
        }
    }
    out
}

#[test]
fn the_usage_chunk_comes_only_where_it_was_asked_for() {
    let usage = Usage {
        input: 3,
        output: 1,
        ..Usage::default()
    };
    for asked in [true, false] {
        let mut encoder = StreamEncoder::new("a1", 7, "m", asked);
        let mut chunks = Vec::new();
        for event in [
            StreamEvent::Start {
                id: String::new(),
                model: String::new(),
                created: 0,
                extra: own(),
            },
            StreamEvent::Delta(Delta::Text("x".into())),
            StreamEvent::Finish(Finish::Stop),
            StreamEvent::Usage(usage),
            StreamEvent::End,
        ] {
            chunks.extend(encoder.push(&event));
        }
        assert_eq!(chunks.len(), if asked { 4 } else { 3 });
        assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
        for chunk in &chunks {
            assert_eq!(
                (&chunk["id"], &chunk["created"], &chunk["model"]),
                (&json!("a1"), &json!(7), &json!("m"))
            );
            assert_eq!(chunk.get("usage").is_some(), asked);
        }
        if asked {
            assert_eq!(chunks[3]["choices"], json!([]));
            assert_eq!(chunks[3]["usage"]["total_tokens"], 4);
        }
    }
}

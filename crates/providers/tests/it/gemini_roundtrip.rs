//! What is written in Gemini's format is read back the same, whatever it is.

use evenkeel_core::{
    Accumulator, ChatRequest, ChatResponse, Delta, Effort, Extra, Finish, Image, Map, Message,
    Output, Part, Reasoning, ReasoningPart, Role, Sampling, StreamEvent, Tool, ToolCall,
    ToolChoice, ToolResult, Usage, Value, events_of,
};
use evenkeel_providers::Server;
use evenkeel_providers::wire::EventDecoder;
use evenkeel_providers::wire::classify::Reply;
use evenkeel_providers::wire::gemini::{
    DIALECT, Options, SIGNATURE, StreamDecoder, StreamEncoder, Thinking, decode_answer,
    decode_request, decode_response, encode_request, encode_response,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::json;

fn own(fields: Map<String, Value>) -> Extra {
    Extra {
        dialect: DIALECT,
        fields,
    }
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
    btree_map("[a-z]{1,5}", value, 0..4).prop_map(|m| m.into_iter().collect())
}

/// Extra fields whose names no field of the format has.
fn extra() -> impl Strategy<Value = Extra> {
    btree_map("x[A-Z][a-z]{1,6}", json_value(), 0..3)
        .prop_map(|fields| own(fields.into_iter().collect()))
}

fn signature() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9+/]{4,16}={0,2}"
}

fn image() -> impl Strategy<Value = Part> {
    let url = prop_oneof![
        "[a-zA-Z0-9+/]{4,16}".prop_map(|data| format!("data:image/png;base64,{data}")),
        "[a-z]{1,8}".prop_map(|name| format!("https://files.example/{name}.webp")),
        "[a-z0-9]{1,8}".prop_map(|name| format!("https://files.example/v1/{name}")),
    ];
    url.prop_map(|url| Part::Image(Image { url, detail: None }))
}

/// A part that only this format knows.
fn other() -> impl Strategy<Value = Part> {
    object(json_value()).prop_map(|inner| {
        let mut fields = Map::new();
        fields.insert("executableCode".into(), inner.into());
        Part::Other(own(fields))
    })
}

fn user_parts() -> impl Strategy<Value = Vec<Part>> {
    let text = ".{1,20}".prop_map(Part::Text);
    vec(prop_oneof![3 => text, 1 => image(), 1 => other()], 1..4)
}

fn signed(mut part: Vec<Part>, signature: Option<String>) -> Vec<Part> {
    part.extend(signature.map(|signature| {
        Part::Reasoning(ReasoningPart {
            text: String::new(),
            signature: Some(signature),
            dialect: DIALECT,
        })
    }));
    part
}

/// What the model says beside calls, each with or without a signature.
fn spoken() -> impl Strategy<Value = Vec<Part>> {
    let thought = (".{1,20}", option::of(signature())).prop_map(|(text, signature)| {
        vec![Part::Reasoning(ReasoningPart {
            text,
            signature,
            dialect: DIALECT,
        })]
    });
    let text = (".{1,20}", option::of(signature()))
        .prop_map(|(text, signature)| signed(vec![Part::Text(text)], signature));
    let empty = signature().prop_map(|s| signed(vec![Part::Text(String::new())], Some(s)));
    let other = other().prop_map(|part| vec![part]);
    let image = image().prop_map(|part| vec![part]);
    prop_oneof![2 => thought, 3 => text, 1 => empty, 1 => other, 1 => image]
}

fn call() -> impl Strategy<Value = Part> {
    let arguments = option::of(object(json_value()));
    ("[a-z_]{1,12}", arguments, option::of(signature()), extra()).prop_map(
        |(name, arguments, signature, mut extra)| {
            extra
                .fields
                .extend(signature.map(|s| (SIGNATURE.to_owned(), s.into())));
            Part::ToolCall(ToolCall {
                id: String::new(),
                name,
                arguments: arguments.map_or(String::new(), |a| Value::from(a).to_string()),
                extra,
            })
        },
    )
}

/// A model's turn, not empty; its calls have no ids yet.
fn model_parts() -> impl Strategy<Value = Vec<Part>> {
    let pieces = prop_oneof![3 => spoken(), 2 => call().prop_map(|call| vec![call])];
    vec(pieces, 1..5).prop_map(|pieces| pieces.concat())
}

fn message(role: Role, parts: Vec<Part>, extra: Extra) -> Message {
    Message {
        role,
        parts,
        name: None,
        extra,
    }
}

/// A conversation as this format knows it: sides alternate, every call is
/// answered in the next turn, in order.
fn conversation() -> impl Strategy<Value = Vec<Message>> {
    let round = (
        user_parts(),
        extra(),
        option::of((model_parts(), extra(), vec((".{0,12}", any::<bool>()), 5))),
    );
    let system = option::of(vec(".{1,20}".prop_map(Part::Text), 1..3));
    (system, vec(round, 1..4)).prop_map(|(system, rounds)| {
        let mut messages: Vec<Message> = system
            .into_iter()
            .map(|parts| message(Role::System, parts, own(Map::new())))
            .collect();
        let mut calls = 0;
        for (parts, extra, answer) in rounds {
            // The fields of a content belong to its first message.
            let follows_results = messages.last().is_some_and(|m| m.role == Role::Tool);
            let follows_user = messages.last().is_some_and(|m| m.role == Role::User);
            if follows_user {
                continue;
            }
            let extra = if follows_results {
                own(Map::new())
            } else {
                extra
            };
            messages.push(message(Role::User, parts, extra));
            let Some((mut parts, extra, results)) = answer else {
                continue;
            };
            let answers = answers(&mut parts, &mut calls, &results);
            messages.push(message(Role::Assistant, parts, extra));
            if !answers.is_empty() {
                messages.push(message(Role::Tool, answers, own(Map::new())));
            }
        }
        messages
    })
}

/// Gives each call an id, and the answers to them.
fn answers(parts: &mut [Part], calls: &mut usize, results: &[(String, bool)]) -> Vec<Part> {
    let mut answers = Vec::new();
    for part in parts {
        if let Part::ToolCall(call) = part {
            *calls += 1;
            call.id = format!("c{calls}");
            let (text, is_error) = &results[answers.len() % results.len()];
            answers.push(Part::ToolResult(ToolResult {
                call_id: call.id.clone(),
                parts: vec![Part::Text(text.clone())],
                is_error: *is_error,
            }));
        }
    }
    answers
}

fn tool() -> impl Strategy<Value = Tool> {
    let parameters = object(json_value()).prop_map(|mut properties| {
        properties.insert("p".into(), json!({"type": "string"}));
        json!({"type": "object", "properties": properties})
    });
    (
        "[a-z_]{1,12}",
        option::of(any::<String>()),
        option::of(parameters),
        extra(),
    )
        .prop_map(|(name, description, parameters, extra)| Tool {
            name,
            description,
            parameters,
            strict: None,
            extra,
        })
}

fn output() -> impl Strategy<Value = Output> {
    prop_oneof![
        Just(Output::Text),
        Just(Output::JsonObject),
        object(json_value()).prop_map(|schema| Output::JsonSchema {
            name: "response".into(),
            schema: schema.into(),
            strict: true,
            description: None,
        }),
    ]
}

fn sampling() -> impl Strategy<Value = Sampling> {
    let number = || option::of(-2.0..2.0);
    (
        option::of(0.0..2.0),
        option::of(0.0..1.0),
        option::of(any::<u64>()),
        number(),
        number(),
        option::of(any::<i32>().prop_map(i64::from)),
    )
        .prop_map(
            |(temperature, top_p, top_k, presence_penalty, frequency_penalty, seed)| Sampling {
                temperature,
                top_p,
                top_k,
                presence_penalty,
                frequency_penalty,
                seed,
            },
        )
}

/// How much thought is asked for, and of which kind of model.
fn reasoning() -> impl Strategy<Value = (Option<Reasoning>, Thinking)> {
    let effort = prop_oneof![
        Just(Effort::Minimal),
        Just(Effort::Low),
        Just(Effort::Medium),
        Just(Effort::High),
        Just(Effort::XHigh),
    ];
    prop_oneof![
        Just((None, Thinking::Unsupported)),
        effort.prop_map(|effort| {
            let asked = Reasoning {
                effort: Some(effort),
                budget_tokens: None,
            };
            (Some(asked), Thinking::Level)
        }),
        option::of(0..100_000u64).prop_map(|budget_tokens| {
            let asked = Reasoning {
                effort: None,
                budget_tokens,
            };
            (Some(asked), Thinking::Budget)
        }),
    ]
}

fn chat_request() -> impl Strategy<Value = (ChatRequest, Thinking)> {
    let choice = prop_oneof![
        Just(ToolChoice::Auto),
        Just(ToolChoice::None),
        Just(ToolChoice::Required),
        "[a-z]{1,8}".prop_map(ToolChoice::Named),
    ];
    let tools = prop_oneof![
        Just((Vec::new(), None)),
        (vec(tool(), 1..3), option::of(choice)),
    ];
    (
        conversation(),
        tools,
        output(),
        sampling(),
        option::of(any::<u64>()),
        vec(any::<String>(), 0..5),
        reasoning(),
        extra(),
    )
        .prop_map(
            |(messages, (tools, tool_choice), output, sampling, cap, stop, thought, extra)| {
                let request = ChatRequest {
                    messages,
                    tools,
                    tool_choice,
                    output,
                    sampling,
                    max_output_tokens: cap,
                    stop,
                    reasoning: thought.0,
                    extra,
                    ..ChatRequest::default()
                };
                (request, thought.1)
            },
        )
}

fn usage() -> impl Strategy<Value = Usage> {
    let count = || 0..1_000_000u64;
    (
        1..1_000_000u64,
        count(),
        option::of(count()),
        option::of(count()),
    )
        .prop_map(|(input, candidates, cached, reasoning)| Usage {
            input,
            output: candidates + reasoning.unwrap_or(0),
            cached,
            cache_write: None,
            reasoning,
        })
}

fn chat_response() -> impl Strategy<Value = ChatResponse> {
    let finish = prop_oneof![
        Just(Finish::Stop),
        Just(Finish::Length),
        Just(Finish::ContentFilter),
        Just(Finish::Pause),
        Just(Finish::Unknown),
    ];
    (
        ".{0,12}",
        ".{0,12}",
        model_parts(),
        finish,
        option::of(usage()),
        extra(),
    )
        .prop_map(|(id, model, mut parts, finish, usage, extra)| {
            let has_calls = !answers(&mut parts, &mut 0, &[(String::new(), false)]).is_empty();
            let ends = matches!(finish, Finish::Stop | Finish::Unknown);
            // An answer's call without arguments is read as one of an empty object.
            for part in &mut parts {
                if let Part::ToolCall(call) = part
                    && call.arguments.is_empty()
                {
                    "{}".clone_into(&mut call.arguments);
                }
            }
            ChatResponse {
                id,
                model,
                created: 0,
                parts,
                finish: if has_calls && ends {
                    Finish::ToolUse
                } else {
                    finish
                },
                usage,
                adapted: Vec::new(),
                rate_limits: None,
                extra,
            }
        })
}

fn whole(events: impl IntoIterator<Item = StreamEvent>) -> ChatResponse {
    let mut whole = Accumulator::default();
    for event in events {
        whole.push(&event);
    }
    whole.finish().unwrap()
}

/// An event in pieces of one character.
fn pieces(event: StreamEvent) -> Vec<StreamEvent> {
    let cut = |text: &str| -> Vec<String> { text.chars().map(String::from).collect() };
    let delta = match event {
        StreamEvent::Delta(delta) => delta,
        other => return vec![other],
    };
    let deltas: Vec<Delta> = match &delta {
        Delta::Text(text) if !text.is_empty() => cut(text).into_iter().map(Delta::Text).collect(),
        Delta::ToolCallArguments { index, fragment } => cut(fragment)
            .into_iter()
            .map(|fragment| Delta::ToolCallArguments {
                index: *index,
                fragment,
            })
            .collect(),
        Delta::Reasoning(piece) if !piece.text.is_empty() => {
            let texts = cut(&piece.text).into_iter().map(|text| ReasoningPart {
                text,
                signature: None,
                dialect: piece.dialect,
            });
            let signature = piece.signature.iter().map(|signature| ReasoningPart {
                text: String::new(),
                signature: Some(signature.clone()),
                dialect: piece.dialect,
            });
            texts.chain(signature).map(Delta::Reasoning).collect()
        }
        _ => vec![delta],
    };
    deltas.into_iter().map(StreamEvent::Delta).collect()
}

fn streamed(response: &ChatResponse, cut: bool) -> (Vec<StreamEvent>, Vec<u8>) {
    let mut events = events_of(response);
    if cut {
        events = events.into_iter().flat_map(pieces).collect();
    }
    events.push(StreamEvent::End);
    let mut encoder = StreamEncoder::new(&response.id, &response.model);
    let mut bytes = Vec::new();
    for event in &events {
        encoder.write(event, &mut bytes);
    }
    (events, bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_request_is_read_as_it_was_written((request, thinking) in chat_request(), stream: bool) {
        let options = Options { thinking: Some(thinking), ..Options::default() };
        let written = encode_request(&request, "planner", &options);
        prop_assert!(written.adapted.is_empty(), "{:?}", written.adapted);
        let body = written.body.to_string();
        let read = decode_request("planner", stream, body.as_bytes()).unwrap();
        prop_assert_eq!(&read.request, &request);
        prop_assert_eq!((read.model.as_str(), read.stream), ("planner", stream));
        // And a client's own history goes on to this provider unchanged.
        prop_assert_eq!(encode_request(&read.request, "planner", &options).body, written.body);
    }

    #[test]
    fn an_answer_is_read_as_it_was_written(response in chat_response()) {
        let written = encode_response(&response, &response.model);
        prop_assert_eq!(&decode_response(&written).unwrap(), &response);
        let bytes = written.to_string();
        let read = decode_answer(&Reply::new(Server::Gemini, 200, bytes.as_bytes())).unwrap();
        prop_assert_eq!(read, response);
    }

    #[test]
    fn a_stream_adds_up_to_the_answer_it_was_written_from(response in chat_response(), cut: bool, size in 1usize..64) {
        let (events, bytes) = streamed(&response, cut);
        let mut decoder = StreamDecoder::new();
        let mut got: Vec<StreamEvent> = bytes.chunks(size).flat_map(|b| decoder.push(b)).map(Result::unwrap).collect();
        got.extend(decoder.finish().into_iter().map(Result::unwrap));
        prop_assert_eq!(whole(got), whole(events));
    }

    #[test]
    fn an_answer_put_into_a_history_goes_back_with_its_signatures(response in chat_response()) {
        let message = message(Role::Assistant, response.parts.clone(), Extra::default());
        let request = ChatRequest { messages: vec![message], ..ChatRequest::default() };
        let sent = encode_request(&request, "planner", &Options::default()).body;
        let written = encode_response(&response, "");
        prop_assert_eq!(&sent["contents"][0]["parts"], &written["candidates"][0]["content"]["parts"]);
    }
}

proptest! {
    // Each case is read at many splits.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_stream_split_anywhere_gives_the_same_events(response in chat_response()) {
        let (_, bytes) = streamed(&response, false);
        let decode = |pieces: &[&[u8]]| -> Vec<StreamEvent> {
            let mut decoder = StreamDecoder::new();
            let mut got: Vec<_> = pieces.iter().flat_map(|b| decoder.push(b)).map(Result::unwrap).collect();
            got.extend(decoder.finish().into_iter().map(Result::unwrap));
            got
        };
        let expected = decode(&[&bytes]);
        for at in (0..bytes.len()).step_by(7) {
            prop_assert_eq!(&decode(&[&bytes[..at], &bytes[at..]]), &expected);
        }
    }
}

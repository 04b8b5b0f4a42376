//! What `OpenAI`'s format says beside text and calls: token probabilities,
//! signatures, images; and what its servers are told instead.

use evenkeel_core::{
    Accumulator, ChatRequest, ChatResponse, Delta, Extra, Image, Message, Part, ReasoningPart,
    Role, StreamEvent, Tool, ToolChoice,
};
use evenkeel_providers::Server;
use evenkeel_providers::wire::EventDecoder;
use evenkeel_providers::wire::openai::{
    Options, StreamDecoder, StreamEncoder, decode_request, encode_request, encode_response,
};
use serde_json::{Value, json};

fn chunk(choice: &Value, beside: &Value) -> String {
    let mut chunk = json!({"id": "s1", "created": 7, "model": "m", "choices": [choice]});
    let (Some(map), Some(beside)) = (chunk.as_object_mut(), beside.as_object()) else {
        panic!("objects")
    };
    map.extend(beside.clone());
    format!("data: {chunk}\n\n")
}

fn read(text: &str) -> Vec<StreamEvent> {
    let mut decoder = StreamDecoder::new(Server::Compatible);
    let mut events = decoder.push(text.as_bytes());
    events.extend(decoder.finish());
    events.into_iter().map(Result::unwrap).collect()
}

fn whole(events: &[StreamEvent]) -> ChatResponse {
    let mut whole = Accumulator::default();
    for event in events {
        whole.push(event);
    }
    whole.finish().unwrap()
}

fn written(events: &[StreamEvent]) -> Vec<Value> {
    let mut encoder = StreamEncoder::new("s1", 7, "m", true);
    events.iter().flat_map(|e| encoder.push(e)).collect()
}

/// Token by token in a stream, all of them in the whole.
#[test]
fn token_probabilities_ride_on_their_chunks_and_add_up() {
    let piece = |text: &str| {
        let choice = json!({"index": 0, "delta": {"content": text},
            "logprobs": {"content": [{"token": text, "logprob": -0.5}]}, "finish_reason": null});
        chunk(&choice, &json!({"service_tier": "default"}))
    };
    let end = chunk(
        &json!({"index": 0, "delta": {"annotations": [{"type": "url_citation"}]}, "finish_reason": "stop"}),
        &json!({"timings": {"predicted_n": 2}}),
    );
    let events = read(&[piece("Ti"), piece("de"), end].concat());
    let answer = encode_response(&whole(&events), "m");
    let tokens = answer["choices"][0]["logprobs"]["content"]
        .as_array()
        .unwrap();
    assert_eq!(tokens.len(), 2);
    assert_eq!(answer["timings"]["predicted_n"], 2);
    assert_eq!(
        answer["choices"][0]["message"]["annotations"][0]["type"],
        "url_citation"
    );
    let chunks = written(&events);
    let with_tokens: Vec<&str> = chunks
        .iter()
        .filter(|c| c["choices"][0]["logprobs"]["content"].is_array())
        .map(|c| c["choices"][0]["delta"]["content"].as_str().unwrap())
        .collect();
    assert_eq!(with_tokens, ["Ti", "de"]);
    let told = chunks.iter().filter(|c| c.get("service_tier").is_some());
    assert_eq!(told.count(), 1, "what does not change is told once");
    let last = &chunks[chunks.len() - 1]["choices"][0];
    assert_eq!(last["finish_reason"], "stop");
    assert_eq!(last["delta"]["annotations"][0]["type"], "url_citation");
}

/// A client that sends back what it received gives the signature back.
#[test]
fn signed_reasoning_and_opaque_blocks_come_back_from_a_client() {
    let part = |text: &str, signature: Option<&str>| {
        StreamEvent::Delta(Delta::Reasoning(ReasoningPart {
            text: text.into(),
            signature: signature.map(str::to_owned),
            dialect: signature.map_or("", |_| "anthropic"),
        }))
    };
    let redacted = Part::Other(Extra {
        dialect: "anthropic",
        fields: json!({"type": "redacted_thinking", "data": "b3BhcXVl"})
            .as_object()
            .unwrap()
            .clone(),
    });
    let chunks = written(&[
        part("Moon ", None),
        part("pulls.", None),
        part("", Some("c2ln")),
        StreamEvent::Delta(Delta::Part(redacted.clone())),
        StreamEvent::Delta(Delta::Text("Yes.".into())),
    ]);
    let field = |name: &str| -> Vec<Value> {
        let deltas = chunks.iter().map(|c| &c["choices"][0]["delta"][name]);
        deltas.filter(|v| !v.is_null()).cloned().collect()
    };
    let reasoning: String = field("reasoning_content")
        .iter()
        .map(|v| v.as_str().unwrap())
        .collect();
    let details: Vec<Value> = field("reasoning_details")
        .iter()
        .flat_map(|v| v.as_array().unwrap().clone())
        .collect();
    assert_eq!(details[0]["text"], "Moon pulls.");
    assert_eq!(
        (&details[0]["index"], &details[1]["index"]),
        (&json!(0), &json!(1))
    );
    let history = |reasoning: &str| {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "?"},
            {"role": "assistant", "content": "Yes.", "reasoning_content": reasoning, "reasoning_details": details}]});
        decode_request(body.to_string().as_bytes())
            .unwrap()
            .request
            .messages[1]
            .parts
            .clone()
    };
    let signed = Part::Reasoning(ReasoningPart {
        text: "Moon pulls.".into(),
        signature: Some("c2ln".into()),
        dialect: "anthropic",
    });
    assert_eq!(
        history(&reasoning),
        [signed, redacted.clone(), Part::Text("Yes.".into())]
    );
    // Words that were edited lose their signature.
    let edited = history("Sun pulls.");
    assert!(
        matches!(&edited[0], Part::Reasoning(r) if r.signature.is_none() && r.text == "Sun pulls.")
    );
    assert_eq!(edited[1], redacted);
}

#[test]
fn images_of_an_answer_are_parts_of_it() {
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}});
    let events = read(&chunk(
        &json!({"index": 0, "delta": {"images": [image]}, "finish_reason": "stop"}),
        &json!({}),
    ));
    let answer = whole(&events);
    let part = Part::Image(Image {
        url: "data:image/png;base64,AA==".into(),
        detail: None,
    });
    assert_eq!(answer.parts, [part]);
    let body = encode_response(&answer, "m");
    assert_eq!(body["choices"][0]["message"]["images"], json!([image]));
}

fn asked() -> ChatRequest {
    let body = json!({"model": "m", "max_tokens": 9, "top_k": 4, "user": "u", "logit_bias": {"1": 2},
        "reasoning": {"max_tokens": 2000}, "metadata": {"a": "b"}, "parallel_tool_calls": false,
        "stop": ["a", "b", "c", "d", "e"],
        "messages": [{"role": "developer", "content": "Brief."}, {"role": "user", "content": "nul \u{0}"}]});
    let mut request = decode_request(body.to_string().as_bytes()).unwrap().request;
    request.tools = vec![Tool {
        name: "t".into(),
        description: None,
        parameters: None,
        strict: None,
        extra: Extra::default(),
    }];
    request.tool_choice = Some(ToolChoice::None);
    request
}

/// What each server has no place for, and in which words it is told.
#[test]
fn each_server_is_told_what_it_can_take_and_the_caller_the_rest() {
    let nul = "NUL characters: replaced";
    let system = "role developer: sent as system";
    let top_k = "top_k: not known to this provider, left out";
    let level = "reasoning: its budget sent as a level";
    let stop = "stop: more than the provider takes, the last left out";
    let user = "user: not known to this provider, left out";
    let metadata = "metadata: not known to this provider, left out";
    let bias = "logit_bias: not known to this provider, left out";
    let cases: [(Server, &[&str]); 5] = [
        (Server::OpenAi, &[nul, top_k, stop, level]),
        (Server::OpenRouter, &[nul]),
        (
            Server::Groq,
            &[nul, system, top_k, stop, level, metadata, bias],
        ),
        (
            Server::DeepSeek,
            &[
                nul,
                system,
                top_k,
                "reasoning: not known to this provider, left out",
                metadata,
                user,
                bias,
            ],
        ),
        (
            Server::Ollama,
            &[
                nul,
                system,
                "tool_choice: sent without tools, so that none is called",
                "parallel_tool_calls: not known to this provider, left out",
                top_k,
                level,
                metadata,
                user,
                bias,
            ],
        ),
    ];
    for (server, lines) in cases {
        let encoded = encode_request(&asked(), "m", false, &Options::of(server));
        assert_eq!(encoded.adapted, lines, "{server:?}");
        let body = &encoded.body;
        assert_eq!(body.get("tools").is_none(), server == Server::Ollama);
        assert_eq!(
            body.get("reasoning").is_some(),
            server == Server::OpenRouter
        );
        assert!(!body.to_string().contains("\\u0000"));
    }
}

/// C138: a model that refuses sampling is not sent any, and that is told.
#[test]
fn a_model_with_fixed_sampling_is_sent_none() {
    let mut request = ChatRequest::user("Hi");
    request.sampling.temperature = Some(0.16);
    request.max_output_tokens = Some(64);
    let options = Options {
        fixed_sampling: true,
        ..Options::of(Server::OpenAi)
    };
    let encoded = encode_request(&request, "m", false, &options);
    assert!(encoded.body.get("temperature").is_none());
    assert_eq!(encoded.body["max_completion_tokens"], 64);
    assert_eq!(
        encoded.adapted,
        ["temperature: not taken by this model, left out"]
    );
}

/// DeepSeek: reasoning goes back inside of a tool loop and nowhere else.
#[test]
fn reasoning_goes_back_in_the_loop_that_is_still_going_on() {
    let thought = |text: &str| {
        let mut message = Message::text(Role::Assistant, "said");
        let part = ReasoningPart {
            text: text.into(),
            ..ReasoningPart::default()
        };
        message.parts.insert(0, Part::Reasoning(part));
        message
    };
    let request = ChatRequest {
        messages: vec![
            Message::text(Role::User, "a"),
            thought("old"),
            Message::text(Role::User, "b"),
            thought("new"),
        ],
        ..ChatRequest::default()
    };
    let encoded = encode_request(&request, "m", false, &Options::of(Server::DeepSeek));
    let messages = &encoded.body["messages"];
    assert!(messages[1].get("reasoning_content").is_none());
    assert_eq!(messages[3]["reasoning_content"], "new");
    assert_eq!(
        encoded.adapted,
        ["earlier reasoning: not known to this provider, left out"]
    );
}

/// Anthropic and Gemini take arguments as an object, so a number that no
/// parser keeps is told.
#[test]
fn arguments_whose_numbers_are_rounded_are_told() {
    use evenkeel_core::{Extra, Message, Part, Role, ToolCall};
    use evenkeel_providers::wire::{anthropic, gemini};
    let request = |arguments: &str| {
        let mut request = ChatRequest::user("go");
        let call = ToolCall {
            id: "c1".into(),
            name: "pump".into(),
            arguments: arguments.into(),
            extra: Extra::default(),
        };
        let mut message = Message::text(Role::Assistant, "");
        message.parts = vec![Part::ToolCall(call)];
        request.messages.push(message);
        request
    };
    for (arguments, told) in [
        (r#"{"serial":12345678901234567890123}"#, true),
        (r#"{"serial":1234567890123456789}"#, false),
    ] {
        let request = request(arguments);
        let notes = [
            anthropic::encode_request(&request, "m", false, &anthropic::Options::default()).adapted,
            gemini::encode_request(&request, "m", &gemini::Options::default()).adapted,
        ];
        for notes in notes {
            let rounded = notes.iter().any(|note| note.contains("digits rounded"));
            assert_eq!(rounded, told, "{arguments} {notes:?}");
        }
    }
}

//! A conversation read in one format and written in another: each thing it
//! says is carried, or told to be not.
//!
//! Every text, id and number of a generated request is a token of its own. A
//! token that stands in the body of the first format must stand in that of the
//! second, or the second must have a line about its kind.

use evenkeel_core::{
    ChatRequest, Effort, Extra, Image, Map, Message, Output, Part, Reasoning, ReasoningPart, Role,
    Sampling, Tool, ToolCall, ToolChoice, ToolResult, Value,
};
use evenkeel_providers::Server;
use evenkeel_providers::wire::{Encoded, anthropic, gemini, mistral, openai};
use proptest::prelude::*;
use serde_json::json;

/// What a request is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// As any caller of `OpenAI`'s format writes it.
    OpenAi,
    /// As one of its servers wants it.
    Server(Server),
    Anthropic,
    Gemini,
    Mistral,
}

const SOURCES: [Format; 4] = [
    Format::OpenAi,
    Format::Anthropic,
    Format::Gemini,
    Format::Mistral,
];
const TARGETS: [Format; 9] = [
    Format::Server(Server::OpenAi),
    Format::Server(Server::OpenRouter),
    Format::Server(Server::Groq),
    Format::Server(Server::DeepSeek),
    Format::Server(Server::Ollama),
    Format::Server(Server::Compatible),
    Format::Anthropic,
    Format::Gemini,
    Format::Mistral,
];

impl Format {
    fn encode(self, request: &ChatRequest) -> Encoded {
        match self {
            Self::OpenAi => {
                openai::encode_request(request, "m", false, &openai::Options::default())
            }
            Self::Server(server) => {
                openai::encode_request(request, "m", false, &openai::Options::of(server))
            }
            Self::Anthropic => {
                anthropic::encode_request(request, "m", false, &anthropic::Options::default())
            }
            Self::Gemini => gemini::encode_request(request, "m", &gemini::Options::default()),
            Self::Mistral => {
                mistral::encode_request(request, "m", false, &mistral::Options::default())
            }
        }
    }

    fn decode(self, body: &Value) -> ChatRequest {
        let bytes = body.to_string().into_bytes();
        let read = match self {
            Self::OpenAi | Self::Server(_) => openai::decode_request(&bytes),
            Self::Anthropic => anthropic::decode_request(&bytes),
            Self::Gemini => gemini::decode_request("m", false, &bytes),
            Self::Mistral => mistral::decode_request(&bytes),
        };
        read.unwrap_or_else(|e| panic!("{self:?} does not read what it wrote: {e}\n{body}"))
            .request
    }

    fn dialect(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Server(_) => openai::DIALECT,
            Self::Anthropic => anthropic::DIALECT,
            Self::Gemini => gemini::DIALECT,
            Self::Mistral => mistral::DIALECT,
        }
    }
}

/// A token, and the words of which a line about it has one.
type Thing = (&'static str, &'static [&'static str]);

/// What a request may say, bit by bit.
struct Builder {
    bits: u32,
    things: Vec<Thing>,
}

impl Builder {
    fn has(&self, bit: u32) -> bool {
        self.bits & (1 << bit) != 0
    }

    /// Whether a thing is said; then its token is one.
    fn says(&mut self, bit: u32, token: &'static str, words: &'static [&'static str]) -> bool {
        let said = self.has(bit);
        if said {
            self.things.push((token, words));
        }
        said
    }
}

fn text(token: &str) -> Part {
    Part::Text(token.to_owned())
}

fn image(token: &str) -> Part {
    Part::Image(Image {
        url: format!("data:image/png;base64,{token}"),
        detail: None,
    })
}

/// The request of `bits`, as a client of `format` may make it.
fn request(bits: u32, format: Format) -> (ChatRequest, Vec<Thing>) {
    let mut b = Builder {
        bits,
        things: Vec::new(),
    };
    let mut messages = Vec::new();
    if b.says(0, "systemTokenA", &[]) {
        messages.push(Message::text(Role::System, "systemTokenA"));
    }
    b.things.push(("userTokenA", &[]));
    let mut user = Message::text(Role::User, "userTokenA");
    if b.says(1, "aW1hZ2VU", &["image"]) {
        user.parts.push(image("aW1hZ2VU"));
    }
    if b.says(2, "speakerName", &["name"]) {
        user.name = Some("speakerName".into());
    }
    messages.push(user);
    calls(&mut b, format, &mut messages);
    if b.says(3, "assistantTokenB", &[]) {
        messages.push(Message::text(Role::Assistant, "assistantTokenB"));
        if b.says(4, "systemTokenB", &[]) {
            messages.push(Message::text(Role::System, "systemTokenB"));
        }
        b.things.push(("userTokenB", &[]));
        messages.push(Message::text(Role::User, "userTokenB"));
    }
    let request = ChatRequest {
        messages,
        tools: tools(&mut b),
        stop: if b.says(5, "stopTokenA", &["stop"]) {
            vec!["stopTokenA".to_owned()]
        } else {
            Vec::new()
        },
        max_output_tokens: b.says(6, "31337", &["max_tokens"]).then_some(31_337),
        sampling: sampling(&mut b),
        user: b.says(7, "endUserA", &["user"]).then(|| "endUserA".into()),
        reasoning: b.has(8).then_some(Reasoning {
            effort: Some(Effort::Medium),
            budget_tokens: None,
        }),
        metadata: if b.says(9, "metaTokenA", &["metadata"]) {
            object(json!({"key": "metaTokenA"}))
        } else {
            Map::new()
        },
        output: if b.says(10, "schemaField", &["schema", "output", "response_format"]) {
            Output::JsonSchema {
                name: "reply".into(),
                schema: json!({"type": "object", "properties": {"schemaField": {"type": "string"}},
                    "required": ["schemaField"], "additionalProperties": false}),
                strict: true,
                description: None,
            }
        } else {
            Output::Text
        },
        ..ChatRequest::default()
    };
    let mut request = request;
    if !request.tools.is_empty() {
        choice(&mut b, &mut request);
    }
    (request, b.things)
}

/// A turn of two calls with their results.
fn calls(b: &mut Builder, format: Format, messages: &mut Vec<Message>) {
    if !b.says(11, "argumentTokenA", &[]) {
        return;
    }
    let mut turn = Message::text(Role::Assistant, "assistantTokenA");
    b.things.push(("assistantTokenA", &[]));
    if b.says(12, "reasoningTokenA", &["reasoning"]) {
        let signature = b.says(13, "c2lnbmVk", &["reasoning", "signature"]);
        let part = ReasoningPart {
            text: "reasoningTokenA".into(),
            signature: signature.then(|| "c2lnbmVk".into()),
            dialect: if signature { format.dialect() } else { "" },
        };
        turn.parts.insert(0, Part::Reasoning(part));
    }
    let long = "a_longer_id_that_no_provider_of_ours_would_give";
    let ids = if b.says(14, long, &["ids"]) {
        [long, "callIdAAB"]
    } else {
        ["callIdAAA", "callIdAAB"]
    };
    b.things.push(("callIdAAB", &["ids"]));
    b.things.push(("argumentTokenB", &[]));
    for (id, token) in ids.into_iter().zip(["argumentTokenA", "argumentTokenB"]) {
        turn.parts.push(Part::ToolCall(ToolCall {
            id: id.into(),
            name: "look_up".into(),
            arguments: json!({"q": token}).to_string(),
            extra: Extra::default(),
        }));
    }
    messages.push(turn);
    for (at, (id, token)) in ids
        .into_iter()
        .zip(["resultTokenA", "resultTokenB"])
        .enumerate()
    {
        b.things.push((token, &[]));
        let mut parts = vec![text(token)];
        if at == 0 && b.says(15, "cmVzdWx0", &["image"]) {
            parts.push(image("cmVzdWx0"));
        }
        let mut message = Message::text(Role::Tool, "");
        message.parts = vec![Part::ToolResult(ToolResult {
            call_id: id.into(),
            parts,
            is_error: false,
        })];
        messages.push(message);
    }
}

fn tools(b: &mut Builder) -> Vec<Tool> {
    let with_calls = b.has(11);
    if !b.says(16, "parameterTokenA", &[]) && !with_calls {
        return Vec::new();
    }
    b.things.push(("descriptionTokenA", &[]));
    vec![Tool {
        name: "look_up".into(),
        description: Some("descriptionTokenA".into()),
        parameters: Some(json!({"type": "object",
            "properties": {"q": {"type": "string", "description": "parameterTokenA"}}})),
        strict: None,
        extra: Extra::default(),
    }]
}

fn choice(b: &mut Builder, request: &mut ChatRequest) {
    if b.has(17) {
        request.tool_choice = Some(ToolChoice::Required);
    }
    if b.has(18) {
        request.parallel_tool_calls = Some(false);
    }
}

fn sampling(b: &mut Builder) -> Sampling {
    Sampling {
        temperature: b.says(19, "0.3125", &["temperature"]).then_some(0.3125),
        top_p: b.says(20, "0.8125", &["top_p"]).then_some(0.8125),
        top_k: b.says(21, "4711", &["top_k"]).then_some(4711),
        presence_penalty: b
            .says(22, "0.4375", &["presence_penalty"])
            .then_some(0.4375),
        frequency_penalty: b
            .says(23, "0.1875", &["frequency_penalty"])
            .then_some(0.1875),
        seed: b.says(24, "815162", &["seed"]).then_some(815_162),
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Whether a line is about one of `words`.
fn told(encoded: &Encoded, words: &[&str]) -> bool {
    let about = |line: &String| words.iter().any(|word| line.contains(word));
    encoded.adapted.iter().any(about)
}

fn lost(source: Format, target: Format, bits: u32) -> Vec<String> {
    let (asked, things) = request(bits, source);
    let written = source.encode(&asked).body;
    let read = source.decode(&written);
    let encoded = target.encode(&read);
    let (from, to) = (written.to_string(), encoded.body.to_string());
    let mut lost: Vec<String> = things
        .iter()
        .filter(|(token, words)| {
            from.contains(token) && !to.contains(token) && !told(&encoded, words)
        })
        .map(|(token, _)| (*token).to_owned())
        .collect();
    let said = |body: &str, forms: &[&str]| forms.iter().any(|form| body.contains(form));
    let required = [
        "\"required\",\"",
        "\"tool_choice\":\"required\"",
        "\"any\"",
        "\"ANY\"",
    ];
    if read.tool_choice == Some(ToolChoice::Required)
        && !said(&to, &required)
        && !told(&encoded, &["tool_choice"])
    {
        lost.push("tool_choice".into());
    }
    let parallel = [
        "\"parallel_tool_calls\":false",
        "\"disable_parallel_tool_use\":true",
    ];
    if read.parallel_tool_calls == Some(false)
        && !said(&to, &parallel)
        && !told(&encoded, &["parallel"])
    {
        lost.push("parallel_tool_calls".into());
    }
    // A level in one format is a budget in another.
    let effort = [
        "\"reasoning_effort\"",
        "\"reasoning\":{",
        "thinkingConfig",
        "\"effort\"",
        "\"thinking\":{",
    ];
    if read.reasoning.is_some() && !said(&to, &effort) && !told(&encoded, &["reasoning"]) {
        lost.push("reasoning".into());
    }
    for line in &encoded.adapted {
        let (what, done) = line.split_once(": ").unwrap_or_default();
        assert!(
            !what.is_empty() && !done.is_empty() && !line.contains('\n'),
            "{line}"
        );
        let quoted = things.iter().find(|(token, _)| line.contains(token));
        assert!(quoted.is_none(), "{line}");
    }
    lost
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn what_one_format_says_the_other_carries_or_tells(bits in any::<u32>()) {
        for source in SOURCES {
            for target in TARGETS {
                let lost = lost(source, target, bits);
                prop_assert!(lost.is_empty(), "{source:?} to {target:?}: {lost:?}");
            }
        }
    }
}

/// A conversation that a fallback went on with is taken back by the primary:
/// calls and results still pair, under ids that each format allows.
#[test]
fn a_history_survives_the_way_there_and_back() {
    for first in SOURCES {
        for second in SOURCES {
            let (asked, _) = request((1 << 11) | (1 << 14) | (1 << 3), first);
            let there = second.decode(&second.encode(&asked).body);
            let back = first.decode(&first.encode(&there).body);
            let ids = |wanted: fn(&Part) -> Option<&str>| -> Vec<String> {
                let parts = back.messages.iter().flat_map(|m| &m.parts);
                parts.filter_map(wanted).map(str::to_owned).collect()
            };
            let calls = ids(|part| match part {
                Part::ToolCall(call) => Some(&call.id),
                _ => None,
            });
            let results = ids(|part| match part {
                Part::ToolResult(result) => Some(&result.call_id),
                _ => None,
            });
            assert_eq!(calls, results, "{first:?} {second:?}");
            assert_eq!(calls.len(), 2);
            assert_ne!(calls[0], calls[1]);
        }
    }
}

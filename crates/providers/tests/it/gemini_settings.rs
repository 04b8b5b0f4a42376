//! What a request asks of the answer, in Gemini's format.

use crate::gemini_build::{conversation, decode, encode, tool, user};
use evenkeel_core::{ChatRequest, Effort, Message, Output, Reasoning, Role, Sampling};
use evenkeel_providers::wire::gemini::{Options, Platform, Thinking, encode_request};
use serde_json::{Value, json};

#[test]
fn what_the_format_cannot_say_is_told() {
    let mut strict_tool = tool(
        "f",
        Some(json!({"type": "object", "properties": {"a": {}}})),
    );
    strict_tool.strict = Some(true);
    let mut searched = tool("web_search", None);
    searched.extra.dialect = "openai";
    searched
        .extra
        .fields
        .insert("type".into(), "web_search".into());
    let mut named = Message::text(Role::User, "Hi");
    named.name = Some("ada".into());
    let mut request = ChatRequest {
        tools: vec![strict_tool, searched],
        parallel_tool_calls: Some(false),
        user: Some("u-1".into()),
        output: Output::JsonSchema {
            name: "n".into(),
            schema: json!({"type": "object"}),
            strict: true,
            description: Some("d".into()),
        },
        ..conversation(vec![named])
    };
    request.metadata.insert("k".into(), "v".into());
    request.extra.dialect = "openai";
    request.extra.fields.insert("logit_bias".into(), json!({}));
    let written = encode(&request);
    let mut told = written.adapted.clone();
    told.sort_unstable();
    let line = |what: &str| format!("{what}: not known to this provider, left out");
    assert_eq!(
        told,
        [
            line("logit_bias"),
            line("messages.name"),
            line("metadata"),
            line("parallel_tool_calls"),
            line("schema description"),
            line("strict tool arguments"),
            "tool that a provider runs: of another wire format, left out".to_owned(),
            line("user"),
        ]
    );
    assert_eq!(
        written.body["tools"][0]["functionDeclarations"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn the_user_is_a_label_where_labels_are_known() {
    let options = Options {
        platform: Platform::Vertex,
        ..Options::default()
    };
    let mut request = ChatRequest::user("Hi");
    request.user = Some("team-7".into());
    let written = encode_request(&request, "m", &options);
    assert_eq!(written.body["labels"], json!({"user": "team-7"}));
    assert_eq!(decode(&written.body).user.as_deref(), Some("team-7"));
    request.user = Some("Ada Lovelace".into());
    assert!(
        encode_request(&request, "m", &options)
            .body
            .get("labels")
            .is_none()
    );
}

#[test]
fn json_is_asked_for_with_its_mime_type() {
    let mut request = ChatRequest::user("Hi");
    request.output = Output::JsonObject;
    let body = encode(&request).body;
    assert_eq!(
        body["generationConfig"],
        json!({"responseMimeType": "application/json"})
    );
    assert_eq!(decode(&body).output, Output::JsonObject);
    let schema =
        json!({"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "string"}}});
    request.output = Output::JsonSchema {
        name: "response".into(),
        schema: schema.clone(),
        strict: true,
        description: None,
    };
    let body = encode(&request).body;
    assert_eq!(
        body["generationConfig"],
        json!({"responseMimeType": "application/json", "responseJsonSchema": schema})
    );
    // Trap 62: the order of properties is the caller's.
    assert!(body.to_string().contains(r#""properties":{"z""#));
    assert_eq!(decode(&body).output, request.output);
}

#[test]
fn an_answer_of_another_kind_keeps_its_schema() {
    let config = json!({"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": ["a", "b"]}});
    let body = user(json!({"generationConfig": config}));
    let mut request = decode(&body);
    assert_eq!(request.output, Output::Text);
    assert_eq!(encode(&request).body, body);
    request.output = Output::JsonObject;
    assert_eq!(
        encode(&request).body["generationConfig"],
        json!({"responseMimeType": "application/json"})
    );
}

/// Traps 38, 39, 42 and 43.
#[test]
fn sampling_is_kept_within_what_the_provider_takes() {
    let mut request = ChatRequest::user("Hi");
    request.sampling = Sampling {
        temperature: Some(2.5),
        top_p: Some(0.9),
        top_k: Some(40),
        presence_penalty: Some(0.5),
        frequency_penalty: Some(-0.5),
        seed: Some(1 << 40),
    };
    request.max_output_tokens = Some(64);
    request.stop = (0..7).map(|n| n.to_string()).collect();
    let written = encode(&request);
    assert_eq!(
        written.body["generationConfig"],
        json!({
            "temperature": 2.0, "topP": 0.9, "topK": 40,
            "presencePenalty": 0.5, "frequencyPenalty": -0.5,
            "seed": 2_147_483_647, "maxOutputTokens": 64,
            "stopSequences": ["0", "1", "2", "3", "4"],
        })
    );
    assert_eq!(written.adapted.len(), 3, "{:?}", written.adapted);
    request.sampling.temperature = Some(0.0);
    assert_eq!(
        encode(&request).body["generationConfig"]["temperature"],
        0.0
    );
}

fn thinking_of(reasoning: Reasoning, thinking: Thinking) -> (Value, Vec<String>) {
    let options = Options {
        thinking: Some(thinking),
        ..Options::default()
    };
    let mut request = ChatRequest::user("Hi");
    request.reasoning = Some(reasoning);
    let mut written = encode_request(&request, "m", &options);
    let config = written.body["generationConfig"]["thinkingConfig"].take();
    (config, written.adapted)
}

fn effort(effort: Effort) -> Reasoning {
    Reasoning {
        effort: Some(effort),
        budget_tokens: None,
    }
}

fn budget(tokens: u64) -> Reasoning {
    Reasoning {
        effort: None,
        budget_tokens: Some(tokens),
    }
}

#[test]
fn reasoning_is_asked_for_by_level_where_the_model_has_levels() {
    for (asked, config, lines) in [
        (effort(Effort::None), json!({"thinkingLevel": "MINIMAL"}), 1),
        (
            effort(Effort::Low),
            json!({"thinkingLevel": "LOW", "includeThoughts": true}),
            0,
        ),
        (
            effort(Effort::XHigh),
            json!({"thinkingLevel": "XHIGH", "includeThoughts": true}),
            0,
        ),
        (
            effort(Effort::Max),
            json!({"thinkingLevel": "XHIGH", "includeThoughts": true}),
            1,
        ),
        (budget(0), json!({"thinkingLevel": "MINIMAL"}), 1),
        (
            budget(512),
            json!({"thinkingBudget": 512, "includeThoughts": true}),
            0,
        ),
        (
            Reasoning {
                effort: Some(Effort::High),
                budget_tokens: Some(512),
            },
            json!({"thinkingLevel": "HIGH", "includeThoughts": true}),
            1,
        ),
        (Reasoning::default(), json!({"includeThoughts": true}), 0),
    ] {
        let (written, adapted) = thinking_of(asked, Thinking::Level);
        assert_eq!(written, config, "{asked:?}");
        assert_eq!(adapted.len(), lines, "{asked:?}: {adapted:?}");
    }
}

#[test]
fn reasoning_is_asked_for_by_budget_where_the_model_has_none() {
    for (asked, config, lines) in [
        (effort(Effort::None), json!({"thinkingBudget": 0}), 0),
        (
            effort(Effort::Medium),
            json!({"thinkingBudget": 8192, "includeThoughts": true}),
            0,
        ),
        (
            effort(Effort::Max),
            json!({"thinkingBudget": 24_576, "includeThoughts": true}),
            1,
        ),
        (budget(0), json!({"thinkingBudget": 0}), 0),
        (
            budget(512),
            json!({"thinkingBudget": 512, "includeThoughts": true}),
            0,
        ),
        (
            Reasoning::default(),
            json!({"thinkingBudget": -1, "includeThoughts": true}),
            0,
        ),
    ] {
        let (written, adapted) = thinking_of(asked, Thinking::Budget);
        assert_eq!(written, config, "{asked:?}");
        assert_eq!(adapted.len(), lines, "{asked:?}: {adapted:?}");
    }
    let (written, adapted) = thinking_of(effort(Effort::High), Thinking::Unsupported);
    assert_eq!((written, adapted.len()), (Value::Null, 1));
}

#[test]
fn what_a_client_says_of_thinking_is_kept() {
    for config in [
        json!({"thinkingBudget": -1}),
        json!({"thinkingBudget": 0, "includeThoughts": true}),
        json!({"thinkingBudget": 512, "includeThoughts": true, "later": 1}),
        json!({"includeThoughts": true}),
    ] {
        let body = user(json!({"generationConfig": {"thinkingConfig": config}}));
        let options = Options {
            thinking: Some(Thinking::Budget),
            ..Options::default()
        };
        assert_eq!(encode_request(&decode(&body), "m", &options).body, body);
    }
    let body = user(json!({"generationConfig": {"thinkingConfig": {"thinkingLevel": "HIGH"}}}));
    assert_eq!(decode(&body).reasoning, Some(effort(Effort::High)));
}

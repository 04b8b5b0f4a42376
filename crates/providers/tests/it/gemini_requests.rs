//! Requests in Gemini's format: what clients write is kept or refused by the
//! field's name; what other formats say is said here as far as it can be.

use evenkeel_core::{
    ChatRequest, Effort, Extra, Image, Message, Output, Part, Reasoning, ReasoningPart, Role,
    Sampling, Tool, ToolCall, ToolChoice, ToolResult,
};
use evenkeel_providers::wire::gemini::{
    DIALECT, Options, Platform, SIGNATURE, Thinking, decode_request, encode_request,
};
use evenkeel_providers::wire::{Encoded, RequestError};
use serde_json::{Value, json};

/// `skip_thought_signature_validator`, in base64.
const PLACEHOLDER: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";

fn decode(body: &Value) -> ChatRequest {
    decode_request("m", false, body.to_string().as_bytes())
        .unwrap()
        .request
}

fn refused(body: &Value) -> RequestError {
    decode_request("m", false, body.to_string().as_bytes()).unwrap_err()
}

fn encode(request: &ChatRequest) -> Encoded {
    encode_request(request, "fixture-flash", &Options::default())
}

fn strict(request: &ChatRequest) -> Encoded {
    let options = Options {
        needs_signatures: Some(true),
        ..Options::default()
    };
    encode_request(request, "fixture-flash", &options)
}

fn conversation(messages: Vec<Message>) -> ChatRequest {
    ChatRequest {
        messages,
        ..ChatRequest::default()
    }
}

fn message(role: Role, parts: Vec<Part>) -> Message {
    Message {
        parts,
        ..Message::text(role, "")
    }
}

fn call(id: &str, name: &str) -> Part {
    Part::ToolCall(ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: "{}".into(),
        extra: Extra::default(),
    })
}

fn signed(id: &str, dialect: &'static str, signature: &str) -> Part {
    let mut fields = evenkeel_core::Map::new();
    fields.insert(SIGNATURE.into(), signature.into());
    Part::ToolCall(ToolCall {
        id: id.into(),
        name: "f".into(),
        arguments: "{}".into(),
        extra: Extra { dialect, fields },
    })
}

fn result(id: &str, text: &str) -> Part {
    Part::ToolResult(ToolResult {
        call_id: id.into(),
        parts: vec![Part::Text(text.into())],
        is_error: false,
    })
}

fn tool(name: &str, parameters: Option<Value>) -> Tool {
    Tool {
        name: name.into(),
        description: None,
        parameters,
        strict: None,
        extra: Extra::default(),
    }
}

fn user(fields: Value) -> Value {
    let mut body = json!({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]});
    let Value::Object(fields) = fields else {
        panic!("fields are an object")
    };
    body.as_object_mut().unwrap().extend(fields);
    body
}

#[test]
fn the_system_message_becomes_the_system_instruction() {
    let request = conversation(vec![
        Message::text(Role::Developer, "Be brief."),
        Message::text(Role::User, "Hi"),
    ]);
    let written = encode(&request);
    assert_eq!(
        written.body,
        json!({
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        })
    );
    assert!(written.adapted.is_empty());
}

/// Trap 2.
#[test]
fn several_system_messages_are_joined_and_told() {
    let request = conversation(vec![
        Message::text(Role::System, "Be brief."),
        Message::text(Role::User, "Hi"),
        Message::text(Role::System, "Be kind."),
    ]);
    let written = encode(&request);
    assert_eq!(
        written.body["systemInstruction"]["parts"],
        json!([{"text": "Be brief.\n\nBe kind."}])
    );
    assert_eq!(
        written.adapted,
        [
            "a system message in mid-conversation: moved to the start",
            "several system messages: joined into one",
        ]
    );
}

#[test]
fn a_system_message_alone_is_sent_as_the_users() {
    let written = encode(&conversation(vec![Message::text(Role::System, "Go.")]));
    assert_eq!(
        written.body,
        json!({"contents": [{"role": "user", "parts": [{"text": "Go."}]}]})
    );
    assert_eq!(
        written.adapted,
        ["a system message alone: sent as the user's"]
    );
}

/// Trap 7.
#[test]
fn turns_of_one_side_are_merged_so_that_the_sides_alternate() {
    let request = conversation(vec![
        Message::text(Role::User, "a"),
        Message::text(Role::User, "b"),
        Message::text(Role::Assistant, "c"),
        Message::text(Role::Assistant, ""),
        Message::text(Role::Assistant, "d"),
        Message::text(Role::User, "e"),
    ]);
    assert_eq!(
        encode(&request).body["contents"],
        json!([
            {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]},
            {"role": "model", "parts": [{"text": "c"}, {"text": "d"}]},
            {"role": "user", "parts": [{"text": "e"}]},
        ])
    );
}

/// Traps 8 and 22.
#[test]
fn results_are_objects_and_named_after_their_calls() {
    let mut failed = ToolResult {
        call_id: "b".into(),
        parts: vec![Part::Text("offline".into())],
        is_error: true,
    };
    let mut request = conversation(vec![
        Message::text(Role::User, "q"),
        message(Role::Assistant, vec![call("a", "f"), call("b", "g")]),
        message(Role::Tool, vec![result("a", "[1]")]),
        message(Role::Tool, vec![Part::ToolResult(failed.clone())]),
    ]);
    let written = encode(&request).body;
    assert_eq!(
        written["contents"][2],
        json!({"role": "user", "parts": [
            {"functionResponse": {"id": "a", "name": "f", "response": {"output": "[1]"}}},
            {"functionResponse": {"id": "b", "name": "g", "response": {"error": "offline"}}},
        ]})
    );
    let back = decode(&written);
    failed.is_error = true;
    let expected = message(
        Role::Tool,
        vec![result("a", "[1]"), Part::ToolResult(failed)],
    );
    request.messages.truncate(2);
    assert_eq!(back.messages[2].parts, expected.parts);
    assert_eq!(
        back.messages[1].parts.len(),
        request.messages[1].parts.len()
    );
}

#[test]
fn a_result_of_any_object_is_unwrapped_to_text_and_goes_back_as_it_was() {
    let body = user(json!({"contents": [
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"temp": 9, "unit": "c"}}}]},
    ]}));
    let mut request = decode(&body);
    let Part::ToolResult(read) = &request.messages[2].parts[0] else {
        panic!("a result")
    };
    assert_eq!(read.parts, [Part::Text(r#"{"temp":9,"unit":"c"}"#.into())]);
    assert!(!read.call_id.is_empty());
    assert_eq!(encode(&request).body, body);
    if let Part::ToolResult(read) = &mut request.messages[2].parts[0] {
        read.parts = vec![Part::Text("edited".into())];
    }
    assert_eq!(
        encode(&request).body["contents"][2]["parts"][0]["functionResponse"]["response"],
        json!({"output": "edited"})
    );
}

/// C136.
#[test]
fn there_are_as_many_results_as_calls_in_one_content_and_in_their_order() {
    let request = conversation(vec![
        Message::text(Role::User, "q"),
        message(Role::Assistant, vec![call("a", "f"), call("b", "g")]),
        message(Role::Tool, vec![result("b", "B")]),
        Message::text(Role::User, "never mind"),
    ]);
    let written = encode(&request);
    assert_eq!(
        written.body["contents"][2],
        json!({"role": "user", "parts": [
            {"functionResponse": {"id": "a", "name": "f", "response": {"error": "no result was given for this call"}}},
            {"functionResponse": {"id": "b", "name": "g", "response": {"output": "B"}}},
            {"text": "never mind"},
        ]})
    );
    assert_eq!(
        written.adapted,
        ["a tool call without a result: answered with a placeholder"]
    );
    let late = conversation(vec![
        message(Role::Assistant, vec![call("a", "f"), call("b", "f")]),
        Message::text(Role::User, "wait"),
        message(Role::Tool, vec![result("b", "B")]),
        message(Role::Tool, vec![result("a", "A")]),
    ]);
    let parts = &encode(&late).body["contents"][1]["parts"];
    assert_eq!(parts[0]["functionResponse"]["response"]["output"], "A");
    assert_eq!(parts[1]["functionResponse"]["response"]["output"], "B");
    assert_eq!(parts[2]["text"], "wait");
}

#[test]
fn a_result_without_its_call_is_sent_as_text() {
    let request = conversation(vec![
        message(Role::Tool, vec![result("gone", "42")]),
        Message::text(Role::User, "and?"),
    ]);
    let written = encode(&request);
    assert_eq!(
        written.body["contents"],
        json!([{"role": "user", "parts": [{"text": "Tool result: 42"}, {"text": "and?"}]}])
    );
    assert_eq!(
        written.adapted,
        ["a tool result without its call: sent as text"]
    );
}

/// Trap 21.
#[test]
fn calls_without_ids_are_matched_by_name_and_order_and_stay_without() {
    let body = json!({"contents": [
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": [
            {"functionCall": {"name": "f", "args": {"n": 1}}},
            {"functionCall": {"name": "g", "args": {}}},
            {"functionCall": {"name": "f", "args": {"n": 2}}},
        ]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "f", "response": {"output": "one"}}},
            {"functionResponse": {"name": "g", "response": {"output": "gee"}}},
            {"functionResponse": {"name": "f", "response": {"output": "two"}}},
        ]},
        {"role": "model", "parts": [{"functionCall": {"name": "f"}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "three"}}}]},
    ]});
    let mut request = decode(&body);
    let ids = |message: &Message| -> Vec<String> {
        let ids = message.parts.iter().map(|part| match part {
            Part::ToolCall(call) => call.id.clone(),
            Part::ToolResult(result) => result.call_id.clone(),
            _ => panic!("a call or a result"),
        });
        ids.collect()
    };
    let (calls, later) = (ids(&request.messages[1]), ids(&request.messages[3]));
    let mut all = [calls.clone(), later.clone()].concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 4, "no id is used twice");
    assert_eq!(ids(&request.messages[2]), calls);
    assert_eq!(ids(&request.messages[4]), later);
    assert_eq!(encode(&request).body, body);
    // Results that come back in another order are put in that of the calls.
    request.messages[2].parts.reverse();
    assert_eq!(encode(&request).body, body);
}

#[test]
fn vertex_gets_no_ids() {
    let body = json!({"contents": [
        {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "f", "args": {}}, "thoughtSignature": "c2ln"}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "f", "response": {"n": 1}}}]},
    ]});
    let options = Options {
        platform: Platform::Vertex,
        ..Options::default()
    };
    let written = encode_request(&decode(&body), "m", &options);
    assert_eq!(
        written.body,
        json!({"contents": [
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln"}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"n": 1}}}]},
        ]})
    );
}

/// Trap 33.
#[test]
fn every_signature_goes_back_on_the_part_it_came_on() {
    let body = json!({"contents": [
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": [
            {"text": "moon", "thought": true, "thoughtSignature": "dGhvdWdodA=="},
            {"text": "Looking.", "thoughtSignature": "dGV4dA=="},
            {"functionCall": {"id": "a", "name": "f", "args": {}}, "thoughtSignature": "Y2FsbA=="},
            {"functionCall": {"id": "b", "name": "f", "args": {}}},
            {"text": "", "thoughtSignature": "ZW5k"},
        ]},
        {"role": "user", "parts": [
            {"functionResponse": {"id": "a", "name": "f", "response": {"output": "1"}}},
            {"functionResponse": {"id": "b", "name": "f", "response": {"output": "2"}}},
        ]},
        {"role": "model", "parts": [
            {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thoughtSignature": "aW1n"},
            {"text": "Done."},
        ]},
        {"role": "user", "parts": [{"text": "thanks"}]},
    ]});
    let mut request = decode(&body);
    // Also where the messages keep no written form, as in a history that a
    // library user put together from answers.
    for message in &mut request.messages {
        assert!(message.extra.fields.is_empty(), "{:?}", message.extra);
        message.extra = Extra::default();
    }
    assert_eq!(strict(&request).body, body);
    assert!(strict(&request).adapted.is_empty());
}

#[test]
fn a_call_of_another_provider_gets_the_placeholder_where_signatures_are_needed() {
    let request = conversation(vec![
        Message::text(Role::User, "q"),
        message(Role::Assistant, vec![call("a", "f"), call("b", "f")]),
        message(Role::Tool, vec![result("a", "1"), result("b", "2")]),
        message(Role::Assistant, vec![call("c", "f")]),
        message(Role::Tool, vec![result("c", "3")]),
    ]);
    let needed = strict(&request);
    let contents = &needed.body["contents"];
    assert_eq!(contents[1]["parts"][0]["thoughtSignature"], PLACEHOLDER);
    assert!(contents[1]["parts"][1].get("thoughtSignature").is_none());
    assert_eq!(contents[3]["parts"][0]["thoughtSignature"], PLACEHOLDER);
    assert_eq!(needed.adapted.len(), 1);
    let by_name = encode_request(&request, "gemini-3-pro-preview", &Options::default());
    assert_eq!(by_name.body, needed.body);
    let not_needed = encode_request(&request, "gemini-2.5-flash", &Options::default());
    assert!(!not_needed.body.to_string().contains("thoughtSignature"));
    assert!(not_needed.adapted.is_empty());
}

/// C135.
#[test]
fn a_call_never_carries_another_providers_signature() {
    let request = conversation(vec![
        Message::text(Role::User, "q"),
        message(
            Role::Assistant,
            vec![
                Part::Reasoning(ReasoningPart {
                    text: "hm".into(),
                    signature: Some("SIG-CLAUDE".into()),
                    dialect: "anthropic",
                }),
                signed("t1", "anthropic", "SIG-CLAUDE"),
                signed("t2", DIALECT, "SIG-GEM"),
            ],
        ),
        message(Role::Tool, vec![result("t1", "1"), result("t2", "2")]),
    ]);
    for written in [encode(&request), strict(&request)] {
        assert!(!written.body.to_string().contains("CLAUDE"));
        assert!(!written.body.to_string().contains("hm"));
        let parts = &written.body["contents"][1]["parts"];
        assert_eq!(parts[1]["thoughtSignature"], "SIG-GEM");
        assert!(
            written
                .adapted
                .contains(&"reasoning of another provider: left out".to_owned())
        );
    }
    assert_eq!(
        strict(&request).body["contents"][1]["parts"][0]["thoughtSignature"],
        PLACEHOLDER
    );
}

/// Traps 12, 13 and 16.
#[test]
fn arguments_become_an_object_whatever_they_were() {
    for (arguments, args, is_adapted) in [
        ("", None, false),
        ("{}", Some(json!({})), false),
        (r#"{"b":1.0,"a":2}"#, Some(json!({"b": 1.0, "a": 2})), false),
        (r#"{"cut":"#, Some(json!({"arguments": "{\"cut\":"})), true),
        ("[1]", Some(json!({"arguments": [1]})), true),
    ] {
        let mut part = call("a", "f");
        if let Part::ToolCall(call) = &mut part {
            call.arguments = arguments.into();
        }
        let written = encode(&conversation(vec![message(Role::Assistant, vec![part])]));
        let function = &written.body["contents"][0]["parts"][0]["functionCall"];
        assert_eq!(function.get("args"), args.as_ref(), "{arguments}");
        assert_eq!(!written.adapted.is_empty(), is_adapted, "{arguments}");
    }
    let mut part = call("a", "f");
    if let Part::ToolCall(call) = &mut part {
        call.arguments = r#"{"z":1.0,"a":{"y":2,"b":[]}}"#.into();
    }
    let body = encode(&conversation(vec![message(
        Role::Assistant,
        vec![part.clone()],
    )]))
    .body;
    let back = decode(&body);
    assert_eq!(back.messages[0].parts[0], {
        if let Part::ToolCall(call) = &mut part {
            call.extra.dialect = DIALECT;
        }
        part
    });
}

/// Trap 26.
#[test]
fn a_tool_without_parameters_has_no_schema() {
    let request = ChatRequest {
        tools: vec![
            tool("a", None),
            tool("b", Some(json!({"type": "object", "properties": {}}))),
            tool(
                "c",
                Some(
                    json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false}),
                ),
            ),
            tool(
                "d",
                Some(
                    json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}),
                ),
            ),
        ],
        ..ChatRequest::user("Hi")
    };
    assert_eq!(
        encode(&request).body["tools"],
        json!([{"functionDeclarations": [
            {"name": "a"}, {"name": "b"}, {"name": "c"},
            {"name": "d", "parametersJsonSchema": {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}},
        ]}])
    );
}

#[test]
fn an_openapi_schema_of_a_tool_is_read_as_json_schema_and_written_back_as_it_was() {
    let declaration = json!({"name": "f", "parameters": {
        "type": "OBJECT",
        "properties": {"city": {"type": "STRING", "nullable": true}},
        "required": ["city"],
    }, "behavior": "BLOCKING"});
    let body = user(json!({"tools": [{"functionDeclarations": [declaration]}]}));
    let mut request = decode(&body);
    assert_eq!(
        request.tools[0].parameters,
        Some(json!({
            "type": "object",
            "properties": {"city": {"type": ["string", "null"]}},
            "required": ["city"],
        }))
    );
    assert_eq!(encode(&request).body, body);
    request.tools[0].parameters = Some(json!({"type": "object", "properties": {"x": {}}}));
    let edited = &encode(&request).body["tools"][0]["functionDeclarations"][0];
    assert!(edited.get("parameters").is_none());
    assert!(edited.get("parametersJsonSchema").is_some());
}

/// C094, trap 27.
#[test]
fn tool_names_are_renamed_with_a_way_back() {
    let long = "a".repeat(64);
    let names = [
        "7zip.extract".to_owned(),
        "mcp/server/do thing".to_owned(),
        format!("{long}_1"),
        format!("{long}_2"),
        "ok_name".to_owned(),
        "a.b:c-d".to_owned(),
    ];
    let mut request = ChatRequest {
        tools: names.iter().map(|name| tool(name, None)).collect(),
        tool_choice: Some(ToolChoice::Named(names[1].clone())),
        ..ChatRequest::user("Hi")
    };
    request.messages.push(message(
        Role::Assistant,
        vec![call("c", "mcp/server/do thing")],
    ));
    request
        .messages
        .push(message(Role::Tool, vec![result("c", "ok")]));
    let written = encode(&request);
    let functions = written.body["tools"][0]["functionDeclarations"]
        .as_array()
        .unwrap();
    let mut wires: Vec<&str> = functions
        .iter()
        .map(|f| f["name"].as_str().unwrap())
        .collect();
    for (wire, own) in wires.iter().zip(&names) {
        let back = written.tool_names.get(*wire).map_or(*wire, String::as_str);
        assert_eq!(back, own);
        assert!(wire.len() <= 64);
        assert!(wire.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'));
        assert!(
            wire.chars()
                .all(|c| c.is_ascii_alphanumeric() || "_.:-".contains(c))
        );
    }
    assert_eq!((wires[4], wires[5]), ("ok_name", "a.b:c-d"));
    let config = &written.body["toolConfig"]["functionCallingConfig"];
    assert_eq!(config["allowedFunctionNames"], json!([wires[1]]));
    let contents = &written.body["contents"];
    assert_eq!(contents[1]["parts"][0]["functionCall"]["name"], wires[1]);
    assert_eq!(
        contents[2]["parts"][0]["functionResponse"]["name"],
        wires[1]
    );
    assert_eq!(written, encode(&request), "the same on every request");
    wires.sort_unstable();
    wires.dedup();
    assert_eq!(wires.len(), 6);
}

#[test]
fn tool_choices_are_modes() {
    for (choice, config) in [
        (ToolChoice::Auto, json!({"mode": "AUTO"})),
        (ToolChoice::None, json!({"mode": "NONE"})),
        (ToolChoice::Required, json!({"mode": "ANY"})),
        (
            ToolChoice::Named("f".into()),
            json!({"mode": "ANY", "allowedFunctionNames": ["f"]}),
        ),
    ] {
        let mut request = ChatRequest {
            tools: vec![tool("f", None)],
            tool_choice: Some(choice.clone()),
            ..ChatRequest::user("Hi")
        };
        let body = encode(&request).body;
        assert_eq!(body["toolConfig"]["functionCallingConfig"], config);
        assert_eq!(decode(&body).tool_choice, Some(choice.clone()));
        request.tools.clear();
        let says_nothing = matches!(choice, ToolChoice::Auto | ToolChoice::None);
        assert_eq!(
            encode(&request).body.get("toolConfig").is_none(),
            says_nothing
        );
    }
}

#[test]
fn modes_that_no_choice_says_are_kept() {
    for (calling, choice) in [
        (json!({"mode": "VALIDATED"}), Some(ToolChoice::Auto)),
        (
            json!({"mode": "ANY", "allowedFunctionNames": ["f", "g"]}),
            Some(ToolChoice::Required),
        ),
        (json!({"mode": "LATER"}), None),
    ] {
        let config =
            json!({"functionCallingConfig": calling, "retrievalConfig": {"languageCode": "nb"}});
        let body = user(json!({
            "tools": [{"functionDeclarations": [{"name": "f"}]}, {"googleSearch": {}}],
            "toolConfig": config,
        }));
        let mut request = decode(&body);
        assert_eq!(request.tool_choice, choice);
        assert_eq!(encode(&request).body, body);
        request.tool_choice = Some(ToolChoice::None);
        assert_eq!(
            encode(&request).body["toolConfig"],
            json!({"functionCallingConfig": {"mode": "NONE"}, "retrievalConfig": {"languageCode": "nb"}})
        );
    }
}

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
            line("a tool that another provider runs"),
            line("logit_bias"),
            line("metadata"),
            line("parallel_tool_calls"),
            line("strict tool arguments"),
            line("the description of a schema"),
            line("the name of a message's speaker"),
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

#[test]
fn images_are_inline_or_by_address_and_other_media_are_kept() {
    let parts = json!([
        {"text": "What is this?"},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://a.example/b.JPG?x=1"}},
        {"fileData": {"fileUri": "https://a.example/files/7"}},
        {"inlineData": {"mimeType": "application/pdf", "data": "aGk="}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/c"}},
    ]);
    let body = json!({"contents": [{"role": "user", "parts": parts}]});
    let request = decode(&body);
    let images: Vec<&str> = request.messages[0]
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Image(image) => Some(image.url.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(
        images,
        [
            "data:image/png;base64,aGk=",
            "https://a.example/b.JPG?x=1",
            "https://a.example/files/7"
        ]
    );
    assert!(request.messages[0].extra.fields.is_empty());
    assert_eq!(encode(&request).body, body);
    let odd = Image {
        url: "data:image/svg+xml,%3Csvg/%3E".into(),
        detail: Some("high".into()),
    };
    let written = encode(&conversation(vec![message(
        Role::User,
        vec![Part::Text("see".into()), Part::Image(odd)],
    )]));
    assert_eq!(written.adapted.len(), 2);
}

/// Trap 23.
#[test]
fn an_image_in_a_result_stands_inside_it_or_beside_it() {
    let image = Part::Image(Image {
        url: "data:image/png;base64,aGk=".into(),
        detail: None,
    });
    let shown = Part::ToolResult(ToolResult {
        call_id: "a".into(),
        parts: vec![Part::Text("chart".into()), image],
        is_error: false,
    });
    let request = conversation(vec![
        message(Role::Assistant, vec![signed("a", DIALECT, "c2ln")]),
        message(Role::Tool, vec![shown.clone()]),
    ]);
    let data = json!({"inlineData": {"mimeType": "image/png", "data": "aGk="}});
    let newer = encode_request(&request, "gemini-3-flash", &Options::default());
    let parts = &newer.body["contents"][1]["parts"];
    assert_eq!(parts[0]["functionResponse"]["parts"], json!([data]));
    assert_eq!(decode(&newer.body).messages[1].parts, [shown]);
    assert!(newer.adapted.is_empty());
    let older = encode_request(&request, "gemini-2.5-flash", &Options::default());
    assert_eq!(older.body["contents"][1]["parts"][1], data);
    assert_eq!(older.adapted, ["an image in a tool result: sent beside it"]);
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

#[test]
fn unknown_fields_of_every_level_are_kept() {
    let body = json!({
        "systemInstruction": {"role": "system", "parts": [{"text": "Brief.", "partMetadata": {"a": 1}}]},
        "contents": [
            {"role": "user", "parts": [{"text": "a", "videoMetadata": {"fps": 1}}], "x": 1},
            {"role": "model", "parts": [
                {"functionCall": {"id": "c", "name": "t", "args": {"a": 1.0}, "y": 2}, "z": 3},
                {"executableCode": {"language": "PYTHON", "code": "1"}},
                {"later": {"b": [null]}},
            ]},
            {"role": "user", "parts": [{"functionResponse": {"id": "c", "name": "t", "response": {"output": "ok"}, "scheduling": "SILENT"}}]},
        ],
        "tools": [
            {"functionDeclarations": [{"name": "t", "response": {"type": "STRING"}}]},
            {"codeExecution": {}},
        ],
        "safetySettings": [{"category": "c", "threshold": "t"}],
        "cachedContent": "cachedContents/1",
        "labels": {"team": "x"},
        "generationConfig": {"mediaResolution": "LOW", "responseModalities": ["TEXT"], "logprobs": 2},
        "serviceTier": "flex",
    });
    assert_eq!(encode(&decode(&body)).body, body);
}

#[test]
fn both_spellings_of_names_are_read_the_same() {
    let camel = json!({
        "systemInstruction": {"parts": [{"text": "s"}]},
        "contents": [
            {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"snake_case": 1}}, "thoughtSignature": "c2ln"}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"some_key": 1}}}]},
        ],
        "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object", "properties": {"snake_case": {}}}}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
        "generationConfig": {"topP": 0.5, "maxOutputTokens": 9, "thinkingConfig": {"thinkingBudget": 7}, "responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}},
        "safetySettings": [],
    });
    let snake = json!({
        "system_instruction": {"parts": [{"text": "s"}]},
        "contents": [
            {"role": "user", "parts": [{"inline_data": {"mime_type": "image/png", "data": "aGk="}}]},
            {"role": "model", "parts": [{"function_call": {"name": "f", "args": {"snake_case": 1}}, "thought_signature": "c2ln"}]},
            {"role": "user", "parts": [{"function_response": {"name": "f", "response": {"some_key": 1}}}]},
        ],
        "tools": [{"function_declarations": [{"name": "f", "parameters_json_schema": {"type": "object", "properties": {"snake_case": {}}}}]}],
        "tool_config": {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["f"]}},
        "generation_config": {"top_p": 0.5, "max_output_tokens": 9.0, "thinking_config": {"thinking_budget": 7}, "response_mime_type": "application/json", "response_json_schema": {"type": "object"}},
        "safety_settings": [],
    });
    assert_eq!(decode(&snake), decode(&camel));
}

#[test]
fn single_values_count_as_lists_and_a_missing_role_as_the_users() {
    let body = json!({"model": "models/x", "contents": {"parts": {"text": "Hi"}}});
    let read = decode_request("models/m", true, body.to_string().as_bytes()).unwrap();
    assert_eq!(read.request.messages[0].plain_text(), "Hi");
    assert_eq!(read.request.messages[0].role, Role::User);
    assert_eq!((read.model.as_str(), read.stream), ("models/m", true));
    assert!(encode(&read.request).body.get("model").is_none());
}

#[test]
fn a_bad_request_is_told_by_the_name_of_its_field() {
    let content = |part: Value| json!({"contents": [{"role": "user", "parts": [part]}]});
    let config = |config: Value| user(json!({"generationConfig": config}));
    for (body, param) in [
        (json!({}), "contents"),
        (json!({"contents": []}), "contents"),
        (json!({"contents": "Hi"}), "contents"),
        (json!({"contents": ["Hi"]}), "contents[0]"),
        (
            json!({"contents": [{"role": "pirate", "parts": []}]}),
            "contents[0].role",
        ),
        (
            json!({"contents": [{"parts": ["Hi"]}]}),
            "contents[0].parts[0]",
        ),
        (content(json!({"text": 7})), "contents[0].parts[0].text"),
        (
            content(json!({"functionCall": 7})),
            "contents[0].parts[0].functionCall",
        ),
        (
            content(json!({"functionCall": {}})),
            "contents[0].parts[0].functionCall.name",
        ),
        (
            content(json!({"functionCall": {"name": "f", "args": "{}"}})),
            "contents[0].parts[0].functionCall.args",
        ),
        (
            content(json!({"functionResponse": {"name": "f", "response": "x"}})),
            "contents[0].parts[0].functionResponse.response",
        ),
        (
            content(json!({"inlineData": {"mimeType": "image/png"}})),
            "contents[0].parts[0].inlineData.data",
        ),
        (
            config(json!({"temperature": "hot"})),
            "generationConfig.temperature",
        ),
        (
            config(json!({"maxOutputTokens": -1})),
            "generationConfig.maxOutputTokens",
        ),
        (
            config(json!({"candidateCount": 2})),
            "generationConfig.candidateCount",
        ),
        (
            config(json!({"candidateCount": 0})),
            "generationConfig.candidateCount",
        ),
        (
            config(json!({"stopSequences": [1]})),
            "generationConfig.stopSequences[0]",
        ),
        (user(json!({"tools": [7]})), "tools[0]"),
        (
            user(json!({"tools": [{"functionDeclarations": [{}]}]})),
            "tools[0].functionDeclarations[0].name",
        ),
        (user(json!({"toolConfig": []})), "toolConfig"),
        (user(json!({"systemInstruction": "x"})), "systemInstruction"),
    ] {
        let error = refused(&body);
        assert_eq!(error.param.as_deref(), Some(param), "{body}: {error}");
        assert!(error.message.contains(&format!("`{param}`")), "{error}");
    }
    for body in [&b""[..], b"{", b"\xff", b"[]"] {
        assert_eq!(decode_request("m", false, body).unwrap_err().param, None);
    }
}

//! Tools and the choice among them, in Gemini's format.

use crate::gemini_build::{call, decode, encode, message, result, tool, user};
use evenkeel_core::{ChatRequest, Output, Role, ToolChoice};
use serde_json::json;

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

/// What a schema adapter writes for `gemini_openapi` is no JSON Schema.
#[test]
fn a_schema_in_the_openapi_form_goes_into_the_fields_of_that_form() {
    let written = json!({"type": "OBJECT", "required": ["city"], "properties": {
        "city": {"type": "STRING", "nullable": true}}});
    let mut request = ChatRequest {
        tools: vec![tool("f", Some(written.clone()))],
        ..ChatRequest::user("Hi")
    };
    request.output = Output::JsonSchema {
        name: "n".to_owned(),
        schema: written.clone(),
        strict: true,
        description: None,
    };
    let body = encode(&request).body;
    let config = &body["generationConfig"];
    assert_eq!(config["responseSchema"], written);
    assert!(config.get("responseJsonSchema").is_none(), "{config}");
    let function = &body["tools"][0]["functionDeclarations"][0];
    assert_eq!(*function, json!({"name": "f", "parameters": written}));
}

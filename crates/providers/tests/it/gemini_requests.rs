//! Requests in Gemini's format as clients write them: kept, or refused by the
//! field's name.

use crate::gemini_build::{conversation, decode, encode, message, user};
use evenkeel_core::{Image, Part, Role};
use evenkeel_providers::wire::RequestError;
use evenkeel_providers::wire::gemini::decode_request;
use serde_json::{Value, json};

fn refused(body: &Value) -> RequestError {
    decode_request("m", false, body.to_string().as_bytes()).unwrap_err()
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

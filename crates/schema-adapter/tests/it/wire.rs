//! The structured requests and answers of `fixtures/wire`.

use evenkeel_core::{Class, Finish};
use evenkeel_schema_adapter::{Adapter, AnswerFault, Dialect, ModelSupport};
use serde_json::{Value, json};

use crate::asking::{answer, demand, said};

/// The demand behind the fixtures: `owner` may be null.
fn ticket() -> Value {
    json!({
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "severity": {"type": "string", "enum": ["low", "high"]},
            "owner": {"type": ["string", "null"]}
        },
        "required": ["title", "severity", "owner"],
        "additionalProperties": false
    })
}

fn fixture(file: &str) -> Value {
    let path = format!("{}/../../fixtures/wire/{file}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn schemas_go_out_as_the_fixtures_have_them() {
    for (dialect, file, pointer) in [
        (
            Dialect::OpenAiStrict,
            "openai/requests/structured.json",
            "/response_format/json_schema/schema",
        ),
        (
            Dialect::Vllm,
            "vllm/requests/structured_extra.json",
            "/response_format/json_schema/schema",
        ),
        (
            Dialect::LlamaCpp,
            "llamacpp/requests/schema_variants.json",
            "/response_format/json_schema/schema",
        ),
        (
            Dialect::GeminiOpenApi,
            "gemini/requests/structured_openapi_schema.json",
            "/generationConfig/responseSchema",
        ),
    ] {
        let sent = Adapter::new().rewrite(&ticket(), dialect, false).unwrap();
        assert_eq!(
            Some(&sent.schema),
            fixture(file).pointer(pointer),
            "{dialect:?}"
        );
        assert_eq!(sent.losses, [], "{dialect:?}");
    }
    // Gemini's newer field also takes the order of properties.
    let mut gemini = fixture("gemini/requests/structured_json_schema.json")["generationConfig"]["responseJsonSchema"].take();
    gemini["propertyOrdering"] = json!(["title", "severity", "owner"]);
    let sent = Adapter::new()
        .rewrite(&ticket(), Dialect::Gemini, false)
        .unwrap();
    assert_eq!(sent.schema, gemini);
    // Anthropic's own client turns a list of types into `anyOf`, and so does this crate; Mistral's
    // subset is not documented, and gets the same.
    for (dialect, file, pointer) in [
        (
            Dialect::Anthropic,
            "anthropic/requests/structured.json",
            "/output_config/format/schema",
        ),
        (
            Dialect::Mistral,
            "mistral/requests/structured.json",
            "/response_format/json_schema/schema",
        ),
    ] {
        let mut expected = fixture(file).pointer(pointer).unwrap().clone();
        expected["properties"]["owner"] = json!({"anyOf": [{"type": "string"}, {"type": "null"}]});
        let sent = Adapter::new().rewrite(&ticket(), dialect, false).unwrap();
        assert_eq!(sent.schema, expected, "{dialect:?}");
    }
}

#[test]
fn answers_of_the_fixtures_are_told_apart() {
    let adapted = Adapter::new()
        .adapt(&demand(ticket()), ModelSupport::of(Dialect::OpenAiStrict))
        .unwrap();
    let content = |file: &str| {
        let body = fixture(&format!("openai/responses/{file}"));
        body["choices"][0]["message"]["content"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let text = content("json_schema.json");
    let good = adapted.back.read(said(&text)).unwrap();
    assert_eq!(good.value.unwrap()["owner"], Value::Null);
    assert_eq!(good.response.plain_text(), text);
    let text = content("json_schema_truncated.json");
    let error = adapted
        .back
        .read(answer(said(&text).parts, Finish::Length))
        .unwrap_err();
    assert_eq!(
        (error.fault, error.class()),
        (AnswerFault::Cut, Class::Malformed)
    );
    let error = adapted
        .back
        .read(said(&content("json_wrong_schema.json")))
        .unwrap_err();
    assert_eq!(
        (error.fault, error.class()),
        (AnswerFault::Invalid, Class::Semantic)
    );
    assert_eq!(
        error.message,
        r#"at the answer: "owner" is a required property (and 1 more)"#
    );
}

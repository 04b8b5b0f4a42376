//! Faults that others met, each with the behaviour that is right.

use evenkeel_core::{ChatRequest, Extra, Finish, Part, Tool, ToolCall};
use evenkeel_schema_adapter::{
    AdaptError, Adapter, AnswerFault, Dialect, Mode, ModelSupport, Reason, Treatment,
};
use serde_json::{Value, json};

use crate::asking::{answer, demand, said};

/// The schema as `dialect` is sent it.
fn wire(schema: &Value, dialect: Dialect) -> Value {
    let rewritten = Adapter::new().rewrite(schema, dialect, false).unwrap();
    rewritten.schema.clone()
}

fn read(schema: &Value, dialect: Dialect, text: &str) -> Result<Value, AnswerFault> {
    let adapted = Adapter::new()
        .adapt(&demand(schema.clone()), ModelSupport::of(dialect))
        .unwrap();
    assert_eq!(adapted.mode, Some(Mode::Native));
    let read = adapted.back.read(said(text)).map_err(|e| e.fault)?;
    Ok(read.value.unwrap())
}

/// Every object in a schema of ours that is no map of names.
fn schemas(schema: &Value) -> Vec<&Value> {
    let mut all = Vec::new();
    let mut open = vec![schema];
    while let Some(schema) = open.pop() {
        all.push(schema);
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            match (keyword.as_str(), value) {
                ("properties" | "$defs", Value::Object(map)) => open.extend(map.values()),
                ("anyOf" | "prefixItems", Value::Array(list)) => open.extend(list),
                ("items" | "additionalProperties", Value::Object(_)) => open.push(value),
                _ => {}
            }
        }
    }
    all
}

/// Case C071.
#[test]
fn words_that_gemini_does_not_know_are_gone_at_every_depth() {
    let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object", "additionalProperties": false,
        "properties": {
            "xs": {"type": "array", "items": {"type": "object", "additionalProperties": false,
                "properties": {"k": {"type": "string", "const": "a"}}}},
            "p": {"type": "string"},
            "const": {"type": "string"}
        }, "required": ["p"]});
    let sent = wire(&schema, Dialect::GeminiOpenApi);
    for part in schemas(&sent) {
        for word in ["$schema", "additionalProperties", "const"] {
            assert!(part.get(word).is_none(), "{word} in {part}");
        }
    }
    assert_eq!(sent["properties"]["const"]["type"], "STRING");
    let key = &sent["properties"]["xs"]["items"]["properties"]["k"];
    assert_eq!(*key, json!({"type": "STRING", "enum": ["a"]}));
    let off = read(&schema, Dialect::GeminiOpenApi, r#"{"p":"x","extra":1}"#);
    assert_eq!(off, Err(AnswerFault::Invalid));
}

/// Case C072.
#[test]
fn a_union_of_constants_is_an_enum() {
    let schema = json!({"type": "object", "required": ["mode"],
        "properties": {"mode": {"anyOf": [{"const": "fast"}, {"const": "slow"}]}}});
    let sent = wire(&schema, Dialect::GeminiOpenApi);
    assert_eq!(
        sent["properties"]["mode"],
        json!({"type": "STRING", "enum": ["fast", "slow"]})
    );
    for dialect in [
        Dialect::GeminiOpenApi,
        Dialect::Gemini,
        Dialect::OpenAiStrict,
        Dialect::Anthropic,
    ] {
        assert_eq!(
            read(&schema, dialect, r#"{"mode":"medium"}"#),
            Err(AnswerFault::Invalid)
        );
        assert!(read(&schema, dialect, r#"{"mode":"slow"}"#).is_ok());
    }
}

/// Case C074.
#[test]
fn objects_are_closed_wherever_they_are_and_a_second_pass_changes_nothing() {
    let schema = json!({"type": "object", "properties": {
        "u": {"anyOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"type": "null"}]},
        "xs": {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}}
    }, "required": ["u", "xs"]});
    for dialect in [Dialect::OpenAiStrict, Dialect::Anthropic] {
        let sent = wire(&schema, dialect);
        let closed = schemas(&sent)
            .iter()
            .filter(|s| s.get("additionalProperties") == Some(&json!(false)))
            .count();
        assert_eq!(closed, 3, "{sent}");
        assert_eq!(wire(&sent, dialect), sent);
    }
}

/// Cases C075 and C078.
#[test]
fn recursion_is_kept_or_refused_and_ends() {
    let schema = json!({"$ref": "#/$defs/Node", "$defs": {"Node": {"type": "object",
        "properties": {"name": {"type": "string"}, "next": {
            "anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}], "description": "Optional next node"}},
        "required": ["name", "next"]}}});
    let sent = wire(&schema, Dialect::OpenAiStrict);
    assert_eq!(sent["type"], "object");
    let next = json!({"description": "Optional next node",
        "anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]});
    assert_eq!(sent["properties"]["next"], next);
    assert_eq!(sent["$defs"]["Node"]["properties"]["next"], next);
    let text = r#"{"name":"a","next":{"name":"b","next":null}}"#;
    assert_eq!(
        read(&schema, Dialect::OpenAiStrict, text),
        Ok(serde_json::from_str(text).unwrap())
    );
    // Required on the way round: Gemini unrolls only through what may be missing.
    for dialect in [
        Dialect::Gemini,
        Dialect::GeminiOpenApi,
        Dialect::Anthropic,
        Dialect::LlamaCpp,
    ] {
        let error = Adapter::new().rewrite(&schema, dialect, false).unwrap_err();
        let AdaptError::Refused(refusal) = error else {
            panic!("{error}")
        };
        assert!(
            matches!(refusal.reasons[0].1, Reason::Recursive { .. }),
            "{refusal}"
        );
    }
}

/// Case C082.
#[test]
fn a_tuple_has_items_that_admit_its_members() {
    let schema = json!({"type": "object", "required": ["pt"], "properties": {"pt": {"type": "array",
        "prefixItems": [{"type": "number"}, {"type": "string"}], "minItems": 2, "maxItems": 2}}});
    for dialect in [Dialect::Gemini, Dialect::OpenAiStrict, Dialect::Anthropic] {
        let sent = wire(&schema, dialect);
        let items = &sent["properties"]["pt"]["items"]["anyOf"];
        assert_eq!(
            *items,
            json!([{"type": "number"}, {"type": "string"}]),
            "{dialect:?}"
        );
        assert_eq!(
            read(&schema, dialect, r#"{"pt":["a",1]}"#),
            Err(AnswerFault::Invalid)
        );
        assert!(read(&schema, dialect, r#"{"pt":[1,"a"]}"#).is_ok());
    }
}

/// Case C083.
#[test]
fn an_object_or_null_is_a_nullable_object() {
    let schema = json!({"type": "object", "properties": {"c": {"anyOf": [
        {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]}, {"type": "null"}]}}});
    let sent = wire(&schema, Dialect::GeminiOpenApi);
    let expected = json!({"type": "OBJECT", "properties": {"n": {"type": "STRING"}}, "required": ["n"], "nullable": true});
    assert_eq!(sent["properties"]["c"], expected);
}

/// Case C087.
#[test]
fn free_text_from_a_server_that_promised_json_is_a_violation() {
    let schema = json!({"type": "object", "properties": {"x": {"type": "string", "pattern": "^a\\!$"}}, "required": ["x"]});
    let text = "Sure! Here is what you asked for.";
    assert_eq!(
        read(&schema, Dialect::LlamaCpp, text),
        Err(AnswerFault::NoJson)
    );
    assert!(
        !wire(&schema, Dialect::LlamaCpp)
            .to_string()
            .contains("\"pattern\"")
    );
}

/// Case C091, by each of the two limits.
#[test]
fn json_that_was_cut_is_never_closed() {
    let schema = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "items": {"type": "array", "items": {"type": "string"}}}});
    let adapted = Adapter::new()
        .adapt(&demand(schema), ModelSupport::of(Dialect::OpenAiStrict))
        .unwrap();
    let text = r#"{"name":"K","items":["one","tw"#;
    for finish in [Finish::Length, Finish::ContextWindow] {
        let cut = answer(said(text).parts, finish);
        let error = adapted.back.read(cut).unwrap_err();
        assert_eq!((error.fault, error.text.as_str()), (AnswerFault::Cut, text));
        assert_eq!(error.hint(), None);
    }
}

/// Case C095.
#[test]
fn an_optional_property_is_required_and_nullable_on_the_wire_and_absent_again_afterwards() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"},
        "b": {"type": "integer", "minimum": 0, "default": 3}}, "required": ["a"]});
    let sent = wire(&schema, Dialect::OpenAiStrict);
    assert_eq!(sent["required"], json!(["a", "b"]));
    assert_eq!(sent["properties"]["b"]["type"], json!(["integer", "null"]));
    assert!(sent["properties"]["b"].get("default").is_none());
    assert_eq!(
        read(&schema, Dialect::OpenAiStrict, r#"{"a":"x","b":null}"#),
        Ok(json!({"a": "x"}))
    );
    assert_eq!(
        read(&schema, Dialect::OpenAiStrict, r#"{"a":"x","b":-1}"#),
        Err(AnswerFault::Invalid)
    );
}

/// Case C096.
#[test]
fn what_is_nullable_already_stays_null() {
    let schema = json!({"type": "object", "title": "T", "properties": {"a": {"type": "string"},
        "b": {"type": ["string", "null"], "default": null},
        "c": {"type": "integer", "format": "uint32", "minimum": 0.0}}, "required": ["a", "c"]});
    let sent = wire(&schema, Dialect::OpenAiStrict);
    assert_eq!(sent["required"], json!(["a", "b", "c"]));
    assert_eq!(sent["properties"]["b"], json!({"type": ["string", "null"]}));
    assert!(sent["properties"]["c"].get("format").is_none());
    for text in [r#"{"a":"x","b":null,"c":1}"#, r#"{"a":"x","c":1}"#] {
        let value = read(&schema, Dialect::OpenAiStrict, text);
        assert_eq!(value, Ok(serde_json::from_str(text).unwrap()));
    }
}

#[test]
fn a_null_that_one_branch_means_is_not_taken_out_for_another() {
    let schema = json!({"type": "object", "required": ["x"], "properties": {"x": {"anyOf": [
        {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"], "additionalProperties": false},
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "null"}}, "required": ["a", "b"], "additionalProperties": false}
    ]}}});
    let back = |text: &str| read(&schema, Dialect::OpenAiStrict, text).unwrap();
    assert_eq!(back(r#"{"x":{"a":1,"b":null}}"#), json!({"x": {"a": 1}}));
    assert_eq!(
        back(r#"{"x":{"a":"s","b":null}}"#),
        json!({"x": {"a": "s", "b": null}})
    );
}

#[test]
fn nothing_that_is_required_or_enumerated_goes_without_a_note() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "enum": [1, 2]}}, "required": ["n"]});
    let rewritten = Adapter::new()
        .rewrite(&schema, Dialect::GeminiOpenApi, false)
        .unwrap();
    assert_eq!(
        rewritten.schema["properties"]["n"]["description"],
        "(one of 1, 2)"
    );
    let lost = rewritten
        .losses
        .iter()
        .find(|l| l.keyword == "enum")
        .unwrap();
    assert_eq!(
        (lost.pointer.as_str(), lost.treatment),
        ("/properties/n", Treatment::Told)
    );
    let free = json!({"type": "object", "properties": {}, "required": ["n"]});
    assert!(
        Adapter::new()
            .rewrite(&free, Dialect::OpenAiStrict, false)
            .is_err()
    );
}

/// Generators for `OpenAPI` 3.0 write `nullable: true` in the place of a type.
#[test]
fn nullable_lets_null_in_whatever_the_dialect() {
    let schema = json!({"type": "object", "additionalProperties": false,
        "required": ["p", "e", "r"],
        "properties": {
            "p": {"type": "string", "nullable": true},
            "e": {"type": "string", "enum": ["a"], "nullable": true},
            "r": {"allOf": [{"$ref": "#/$defs/s"}], "nullable": true},
        },
        "$defs": {"s": {"type": "string"}}});
    let text = r#"{"p":null,"e":null,"r":null}"#;
    for dialect in Dialect::ALL {
        let adapted = Adapter::new()
            .adapt(&demand(schema.clone()), ModelSupport::of(dialect))
            .unwrap();
        let read = adapted.back.read(said(text)).unwrap();
        assert_eq!(read.response.plain_text(), text, "{dialect:?}");
        let wrong = said(r#"{"p":1,"e":null,"r":null}"#);
        assert!(adapted.back.read(wrong).is_err(), "{dialect:?}");
    }
    let sent = wire(&schema, Dialect::OpenAiStrict);
    assert_eq!(sent["properties"]["p"]["type"], json!(["string", "null"]));
    assert_eq!(sent["properties"]["e"]["enum"], json!(["a", null]));
}

#[test]
fn a_tool_whose_parameters_are_nullable_says_so_and_takes_null() {
    let mut request = ChatRequest::user("Hi");
    request.tools.push(Tool {
        name: "set".to_owned(),
        description: None,
        parameters: Some(json!({"type": "object", "nullable": true, "properties": {
            "p": {"type": "string", "nullable": true}}, "required": ["p"]})),
        strict: None,
        extra: Extra::default(),
    });
    for dialect in Dialect::ALL {
        let adapted = Adapter::new()
            .adapt(&request, ModelSupport::of(dialect))
            .unwrap();
        let mut sent = request.clone();
        adapted.apply(&mut sent);
        let parameters = sent.tools[0].parameters.as_ref().unwrap();
        let object = if dialect == Dialect::GeminiOpenApi {
            "OBJECT"
        } else {
            "object"
        };
        assert_eq!(parameters["type"], object, "{dialect:?}");
        let p = &parameters["properties"]["p"];
        assert_ne!(*p, json!({"type": "string"}), "{dialect:?}");
        if dialect != Dialect::GeminiOpenApi {
            assert!(p.get("nullable").is_none(), "{dialect:?}: {p}");
        }
        let call = ToolCall {
            id: "call_1".to_owned(),
            name: "set".to_owned(),
            arguments: r#"{"p":null}"#.to_owned(),
            extra: Extra::default(),
        };
        let called = answer(vec![Part::ToolCall(call)], Finish::ToolUse);
        adapted.back.read(called).unwrap();
    }
}

/// `NULL` is no type of the `OpenAPI` form.
#[test]
fn null_alone_is_a_nullable_value_that_is_told_where_null_is_no_type() {
    let schema = json!({"type": "object", "additionalProperties": false,
        "properties": {"a": {"const": null}, "b": {"type": "array", "items": {"type": "null"}},
            "c": {"anyOf": [{"type": "null"}, {"type": "string"}]}},
        "required": ["a", "b", "c"]});
    let rewritten = Adapter::new()
        .rewrite(&schema, Dialect::GeminiOpenApi, false)
        .unwrap();
    let text = rewritten.schema.to_string();
    assert!(!text.contains("NULL"), "{text}");
    let a = json!({"type": "STRING", "nullable": true, "description": "(null)"});
    assert_eq!(rewritten.schema["properties"]["a"], a);
    assert_eq!(rewritten.schema["properties"]["b"]["items"], a);
    assert_eq!(
        rewritten.schema["properties"]["c"],
        json!({"type": "STRING", "nullable": true})
    );
    let told: Vec<&str> = rewritten
        .losses
        .iter()
        .map(|l| l.pointer.as_str())
        .collect();
    assert_eq!(told, ["/properties/a", "/properties/b/items"]);
}

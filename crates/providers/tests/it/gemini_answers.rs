//! Answers in Gemini's format that broke other readers, whole and streamed.

use crate::gemini_streams::{answer, broken, chunk};
use evenkeel_core::{Class, Finish, Part, ReasoningPart, StreamEvent, Usage};
use evenkeel_providers::Server;
use evenkeel_providers::wire::classify::{Reply, classify};
use evenkeel_providers::wire::gemini::{
    DIALECT, StreamEncoder, decode_answer, decode_response, encode_error, encode_response,
};
use serde_json::{Value, json};
use std::time::Duration;

fn whole(reason: &str, parts: &Value) -> Value {
    json!({"candidates": [{"content": {"parts": parts}, "finishReason": reason}], "responseId": "r1"})
}

/// The table of finish reasons, row by row.
#[test]
fn every_finish_reason_means_what_the_table_says() {
    let filtered = [
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "MODEL_ARMOR",
        "ESCALATION",
    ]
    .map(|reason| (reason, Ok(Finish::ContentFilter)));
    let malformed = [
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE",
    ]
    .map(|reason| (reason, Err(Class::Malformed)));
    let unknown = [
        "OTHER",
        "FINISH_REASON_UNSPECIFIED",
        "IMAGE_OTHER",
        "NO_IMAGE",
        "INVENTED_LATER",
    ]
    .map(|reason| (reason, Ok(Finish::Unknown)));
    let rest = [
        ("STOP", Ok(Finish::Stop)),
        ("MAX_TOKENS", Ok(Finish::Length)),
        ("CONTINUATION", Ok(Finish::Pause)),
        ("PUP_LIMITED_DISABLED", Err(Class::Auth)),
    ];
    let rows = filtered
        .into_iter()
        .chain(malformed)
        .chain(unknown)
        .chain(rest);
    for (reason, expected) in rows {
        let parts = json!([{"text": "so far"}]);
        let read = decode_response(&whole(reason, &parts));
        let streamed = answer(&chunk(&parts, Some(reason)));
        for read in [read, streamed] {
            match (&read, expected) {
                (Ok(read), Ok(finish)) => {
                    assert_eq!((read.finish, &*read.plain_text()), (finish, "so far"));
                    assert_eq!(
                        encode_response(read, "m")["candidates"][0]["finishReason"],
                        reason
                    );
                }
                (Err(failure), Err(class)) => {
                    assert_eq!(failure.class, class, "{reason}");
                    assert_eq!(failure.code.as_deref(), Some(reason));
                }
                other => panic!("{reason}: {other:?}"),
            }
        }
    }
}

/// Trap 20.
#[test]
fn a_stop_with_calls_is_tool_use() {
    let parts = json!([{"functionCall": {"name": "f", "args": {}}}]);
    for reason in ["STOP", "OTHER"] {
        let read = decode_response(&whole(reason, &parts)).unwrap();
        assert_eq!(read.finish, Finish::ToolUse);
    }
    let read = answer(&(chunk(&parts, None) + &chunk(&json!([]), Some("STOP")))).unwrap();
    assert_eq!(read.finish, Finish::ToolUse);
}

/// C069.
#[test]
fn a_blocked_prompt_is_a_content_filter_with_its_reason_and_its_tokens() {
    let body = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 12, "totalTokenCount": 12}, "modelVersion": "m-g"});
    let read = decode_response(&body).unwrap();
    assert_eq!(read.finish, Finish::ContentFilter);
    assert_eq!(
        read.extra.fields["promptFeedback"]["blockReason"],
        "PROHIBITED_CONTENT"
    );
    assert_eq!(read.usage.unwrap().input, 12);
    assert_eq!(read.verify().unwrap_err().class, Class::ContentFilter);
    assert!(encode_response(&read, "m-g").get("candidates").is_none());
}

/// C028.
#[test]
fn an_error_says_how_long_to_wait() {
    let details =
        [json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"})];
    let body = encode_error(429, "slow", &details).to_string();
    for reply in [
        Reply::new(Server::Gemini, 429, body.as_bytes()),
        Reply::in_answer(Server::Gemini, body.as_bytes()),
    ] {
        let failure = classify(&reply);
        assert_eq!(failure.class, Class::RateLimited);
        assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
    }
}

#[test]
fn an_error_that_names_no_number_is_told_by_its_status() {
    for (status, class) in [
        ("UNAVAILABLE", Class::Overloaded),
        ("RESOURCE_EXHAUSTED", Class::RateLimited),
        ("DEADLINE_EXCEEDED", Class::Timeout),
        ("PERMISSION_DENIED", Class::Auth),
        ("INVALID_ARGUMENT", Class::BadRequest),
        ("INTERNAL", Class::Transient),
    ] {
        let body = json!({"error": {"status": status, "message": "No."}}).to_string();
        let failure = classify(&Reply::in_answer(Server::Gemini, body.as_bytes()));
        assert_eq!(failure.class, class, "{status}");
    }
}

/// Traps 48 and 73.
#[test]
fn tokens_are_counted_as_the_table_says() {
    for (raw, expected) in [
        (
            json!({"promptTokenCount": 10, "toolUsePromptTokenCount": 5, "candidatesTokenCount": 3, "thoughtsTokenCount": 4, "cachedContentTokenCount": 8, "totalTokenCount": 22}),
            Some(Usage {
                input: 15,
                output: 7,
                cached: Some(8),
                cache_write: None,
                reasoning: Some(4),
            }),
        ),
        (
            json!({"promptTokenCount": 9, "totalTokenCount": 9}),
            Some(Usage {
                input: 9,
                ..Usage::default()
            }),
        ),
        (
            json!({"candidatesTokenCount": 2, "totalTokenCount": 11}),
            Some(Usage {
                input: 9,
                output: 2,
                ..Usage::default()
            }),
        ),
        (json!({"trafficType": "ON_DEMAND"}), None),
    ] {
        let mut body = whole("STOP", &json!([{"text": "a"}]));
        body["usageMetadata"] = raw.clone();
        let read = decode_response(&body).unwrap();
        assert_eq!(read.usage, expected);
        let streamed = answer(&format!("data: {body}\n\n")).unwrap();
        assert_eq!(streamed.usage, expected);
        for read in [read, streamed] {
            let written = encode_response(&read, "m");
            if expected.is_some() {
                assert_eq!(written["usageMetadata"], raw, "what counts more is kept");
            }
        }
    }
}

#[test]
fn what_has_no_neutral_place_survives() {
    let body = json!({
        "candidates": [{
            "content": {"parts": [{"text": "ok", "partMetadata": {"a": 1}}, {"later": {}}], "role": "model"},
            "finishReason": "INVENTED_LATER",
            "finishMessage": "why",
            "index": 0,
            "safetyRatings": [{"category": "c", "probability": "LOW"}],
            "groundingMetadata": {"webSearchQueries": ["q"]},
            "avgLogprobs": -0.5,
        }],
        "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 1, "totalTokenCount": 6, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 5}]},
        "modelVersion": "fixture-flash-002",
        "responseId": "fxG1",
        "modelStatus": {"modelStage": "LEGACY", "retirementTime": "2027-02-01T00:00:00Z"},
        "createTime": "2026-11-29T00:00:00Z",
    });
    let read = decode_response(&body).unwrap();
    assert_eq!(read.model, "fixture-flash-002");
    assert_eq!(read.extra.fields["modelStatus"]["modelStage"], "LEGACY");
    assert_eq!(encode_response(&read, "fixture-flash-002"), body);
    let streamed = answer(&format!("data: {body}\r\n\r\n")).unwrap();
    assert_eq!(streamed.extra.fields["modelStatus"]["modelStage"], "LEGACY");
    let candidate = &streamed.extra.fields["candidates"][0];
    assert_eq!(candidate["finishReason"], "INVENTED_LATER");
    assert_eq!(
        candidate["groundingMetadata"],
        json!({"webSearchQueries": ["q"]})
    );
}

/// Trap 33.
#[test]
fn a_signature_over_the_end_of_a_text_stays_behind_it() {
    let stream = chunk(&json!([{"text": "Fri"}]), None)
        + &chunk(&json!([{"text": "day."}]), None)
        + &chunk(
            &json!([{"text": "", "thoughtSignature": "c2ln"}]),
            Some("STOP"),
        );
    let signature = Part::Reasoning(ReasoningPart {
        text: String::new(),
        signature: Some("c2ln".into()),
        dialect: DIALECT,
    });
    let expected = [Part::Text("Friday.".into()), signature];
    assert_eq!(answer(&stream).unwrap().parts, expected);
    let signed = json!([{"text": "Friday.", "thoughtSignature": "c2ln"}]);
    let read = decode_response(&whole("STOP", &signed)).unwrap();
    assert_eq!(read.parts, expected);
    assert_eq!(
        encode_response(&read, "m")["candidates"][0]["content"]["parts"],
        signed
    );
}

#[test]
fn made_up_ids_differ_from_call_to_call_and_answer_to_answer() {
    let parts = json!([{"functionCall": {"name": "f"}}, {"functionCall": {"name": "f"}}]);
    let ids = |body: &Value| -> Vec<String> {
        let read = decode_response(body).unwrap();
        read.tool_calls().map(|call| call.id.clone()).collect()
    };
    let mut first = whole("STOP", &parts);
    let mut all = ids(&first);
    first["responseId"] = "r2".into();
    all.extend(ids(&first));
    // Without an id of the answer what it calls tells it from another.
    first.as_object_mut().unwrap().remove("responseId");
    all.extend(ids(&first));
    let other =
        json!([{"functionCall": {"name": "f", "args": {"a": 1}}}, {"functionCall": {"name": "g"}}]);
    first["candidates"][0]["content"]["parts"] = other;
    all.extend(ids(&first));
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 8, "{all:?}");
    assert!(all.iter().all(|id| id.len() <= 40));
    let streamed = answer(&chunk(&parts, Some("STOP"))).unwrap();
    let streamed: Vec<_> = streamed.tool_calls().map(|call| call.id.clone()).collect();
    assert!(
        streamed.iter().all(|id| all.contains(id)),
        "as in a whole answer"
    );
}

#[test]
fn arguments_in_pieces_are_refused_and_not_taken_for_whole() {
    let parts = json!([{"functionCall": {"name": "f", "partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}], "willContinue": true}}]);
    let (_, failure) = broken(&chunk(&parts, None));
    assert_eq!(failure.class, Class::Malformed);
    let failure = decode_response(&whole("STOP", &parts)).unwrap_err();
    assert_eq!(failure.class, Class::Malformed);
}

#[test]
fn of_several_candidates_the_first_is_read() {
    let candidate = |index: u64, text: &str| json!({"index": index, "content": {"parts": [{"text": text}]}, "finishReason": "STOP"});
    let body = json!({"candidates": [candidate(1, "B"), candidate(0, "A")]});
    assert_eq!(decode_response(&body).unwrap().plain_text(), "A");
    let second = json!({"candidates": [candidate(1, "B")]});
    let stream = format!("data: {second}\n\ndata: {body}\n\n");
    assert_eq!(answer(&stream).unwrap().plain_text(), "A");
}

#[test]
fn a_page_in_place_of_an_answer_is_malformed() {
    let page = "<!DOCTYPE html><title>Sign in</title>";
    let (_, failure) = broken(page);
    assert_eq!(failure.class, Class::Malformed);
    for body in [page, "", "[]", "7", "{}", "{\"candidates\":[]}"] {
        let reply = Reply::new(Server::Gemini, 200, body.as_bytes());
        assert_eq!(
            decode_answer(&reply).unwrap_err().class,
            Class::Malformed,
            "{body}"
        );
    }
    let error = json!([{"error": {"code": 503, "message": "No.", "status": "UNAVAILABLE"}}]);
    let body = error.to_string();
    let reply = Reply::new(Server::Gemini, 200, body.as_bytes());
    assert_eq!(decode_answer(&reply).unwrap_err().class, Class::Overloaded);
    assert_eq!(
        decode_response(&error).unwrap_err().class,
        Class::Overloaded
    );
}

/// Trap 12.
#[test]
fn a_call_that_the_model_could_not_write_ends_as_the_provider_ends_it() {
    let mut read = decode_response(&whole(
        "STOP",
        &json!([{"text": "a"}, {"functionCall": {"id": "c", "name": "f", "args": {}}}]),
    ))
    .unwrap();
    if let Some(Part::ToolCall(call)) = read.parts.last_mut() {
        call.arguments = "{\"cut\":".into();
    }
    let written = encode_response(&read, "m");
    assert_eq!(
        decode_response(&written).unwrap_err().class,
        Class::Malformed
    );
    let mut encoder = StreamEncoder::new("r1", "m");
    let mut out = Vec::new();
    for event in evenkeel_core::events_of(&read) {
        encoder.write(&event, &mut out);
    }
    encoder.write(&StreamEvent::End, &mut out);
    let (text, failure) = broken(&String::from_utf8(out).unwrap());
    assert_eq!((text.as_str(), failure.class), ("a", Class::Malformed));
}

#[test]
fn a_call_has_arguments_and_an_id_of_its_own() {
    let parts = json!([
        {"functionCall": {"name": "f", "args": {"a": 1}, "id": "c"}},
        {"functionCall": {"name": "g", "args": null, "id": "c"}},
        {"functionCall": {"name": "h"}},
    ]);
    let said = |answer: &evenkeel_core::ChatResponse| -> Vec<(String, String)> {
        let calls = answer.tool_calls();
        calls.map(|c| (c.id.clone(), c.arguments.clone())).collect()
    };
    let expected = [
        ("c", r#"{"a":1}"#),
        ("gcall_r1_0", "{}"),
        ("gcall_r1_1", "{}"),
    ]
    .map(|(id, arguments)| (id.to_owned(), arguments.to_owned()));
    let answers = [
        decode_response(&whole("STOP", &parts)).unwrap(),
        answer(&chunk(&parts, Some("STOP"))).unwrap(),
    ];
    for answer in answers {
        assert_eq!(said(&answer), expected);
    }
}

#[test]
fn zeros_in_the_place_of_counts_are_no_usage() {
    let mut answer = whole("STOP", &json!([{"text": "a"}]));
    answer["usageMetadata"] = json!({"promptTokenCount": 0, "totalTokenCount": 0});
    assert_eq!(decode_response(&answer).unwrap().usage, None);
}

//! Every error fixture of every provider gets its class and its wait.

use crate::fixtures;
use evenkeel_core::{Class, Phase, Scope};
use evenkeel_providers::Server;
use evenkeel_providers::wire::classify::{Reply, classify};
use serde_json::json;
use std::time::{Duration, UNIX_EPOCH};

#[test]
fn every_error_fixture_gets_its_class_and_wait() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for fixture in fixtures::all() {
        if fixture.kind != "error" {
            continue;
        }
        seen += 1;
        let status = u16::try_from(fixture.line["status"].as_u64().unwrap()).unwrap();
        let headers = fixture.headers();
        let reply = Reply::new(fixture.server(), status, &fixture.bytes)
            .with_headers(&headers)
            .at(UNIX_EPOCH);
        let failure = classify(&reply);
        let wait = failure.retry_after.map(|w| w.as_millis());
        if Some(failure.class.as_str()) != fixture.class() {
            wrong.push(format!("{}: {}", fixture.file, failure.class));
        }
        if let Some(expected) = fixture.line["retry_after_ms"].as_u64()
            && wait.is_none_or(|w| w.abs_diff(u128::from(expected)) > 1)
        {
            wrong.push(format!("{}: waits {wait:?}", fixture.file));
        }
        if fixture.line["retry_same"].as_bool().unwrap_or(true) != failure.same_model_may_help {
            wrong.push(format!("{}: {}", fixture.file, failure.same_model_may_help));
        }
        assert_eq!(failure.status, Some(status), "{}", fixture.file);
        assert!(!failure.message.contains('\n') && failure.message.chars().count() <= 300);
        assert!(!failure.message.contains("fx01"), "{failure}");
        let timed = failure.phase == Some(Phase::Upstream);
        assert_eq!(timed, failure.class == Class::Timeout);
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(seen, 151);
}

/// Error objects inside an answer that began as a success (class of the
/// object alone, in the dialects whose streams are not read here).
#[test]
fn every_error_object_inside_an_answer_gets_its_class() {
    let mut seen = 0;
    for fixture in fixtures::all() {
        let in_stream = fixture.kind == "stream_error" && !fixture.file.ends_with("ndjson");
        let error = match error_object(&fixture.bytes) {
            Some(error) if in_stream || fixture.file.contains("error_in_200") => error,
            _ => continue,
        };
        seen += 1;
        let failure = classify(&Reply::in_answer(fixture.server(), error.as_bytes()));
        assert_eq!(
            Some(failure.class.as_str()),
            fixture.class(),
            "{}: {error}",
            fixture.file
        );
    }
    assert_eq!(seen, 18);
}

/// The first error object of a stream's text.
fn error_object(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?.replace('\r', "");
    if let Some(at) = text.find("\n{\n  \"error\"") {
        return Some(text[at..].to_owned());
    }
    if serde_json::from_str::<serde_json::Value>(&text).is_ok() {
        return Some(text);
    }
    text.lines().find_map(|line| {
        let is_field = line.strip_prefix("error: ");
        let data = is_field.or(line.strip_prefix("data: ")).unwrap_or(line);
        let value: serde_json::Value = serde_json::from_str(data).ok()?;
        let failed = value.get("type").and_then(|t| t.as_str()) == Some("response.failed");
        if failed {
            return Some(serde_json::json!({"error": value["response"]["error"]}).to_string());
        }
        let is_error = value.get("error").is_some_and(|e| !e.is_null())
            || value["object"] == "error"
            || value["type"] == "error"
            || is_field.is_some();
        is_error.then(|| data.to_owned())
    })
}

fn class_of(server: Server, status: u16, body: &serde_json::Value) -> Class {
    classify(&Reply::new(server, status, body.to_string().as_bytes())).class
}

/// C017
#[test]
fn a_context_overflow_is_told_in_every_wording() {
    for body in [
        serde_json::json!({"object": "error", "message": "The input (9120 tokens) is longer than the model's context length (8192 tokens).", "type": "BadRequestError", "code": 400}),
        serde_json::json!({"error": {"code": 400, "type": "exceed_context_size_error", "message": "the request exceeds the available context size", "n_prompt_tokens": 15000, "n_ctx": 8192}}),
        serde_json::json!({"object": "error", "message": "This model's maximum context length is 4096 tokens. However, you requested 5100 tokens (1100 in the messages, 4000 in the completion).", "type": "BadRequestError", "code": 400}),
    ] {
        assert_eq!(
            class_of(Server::Compatible, 400, &body),
            Class::ContextWindow,
            "{body}"
        );
    }
    let plain = serde_json::json!({"error": {"message": "Invalid value for temperature", "type": "invalid_request_error"}});
    assert_eq!(class_of(Server::Compatible, 400, &plain), Class::BadRequest);
}

/// C028
#[test]
fn every_dialect_keeps_the_wait_it_was_asked() {
    let mut headers = http::HeaderMap::new();
    headers.insert("retry-after", "7".parse().unwrap());
    let none = http::HeaderMap::new();
    for (server, status, headers, body, class) in [
        (
            Server::OpenAi,
            429,
            &headers,
            r#"{"error":{"message":"slow"}}"#,
            Class::RateLimited,
        ),
        (
            Server::Anthropic,
            429,
            &headers,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}"#,
            Class::RateLimited,
        ),
        (
            Server::Mistral,
            429,
            &headers,
            r#"{"object":"error","message":"slow"}"#,
            Class::RateLimited,
        ),
        (
            Server::Gemini,
            429,
            &none,
            r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"slow","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7s"}]}}"#,
            Class::RateLimited,
        ),
        (
            Server::Anthropic,
            529,
            &headers,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            Class::Overloaded,
        ),
    ] {
        let failure = classify(&Reply::new(server, status, body.as_bytes()).with_headers(headers));
        assert_eq!(failure.class, class, "{body}");
        assert_eq!(failure.retry_after, Some(Duration::from_secs(7)), "{body}");
    }
}

/// C157, and how far each reaches.
#[test]
fn used_up_credit_is_no_rate_limit() {
    for (status, body, class, scope) in [
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            Class::QuotaExhausted,
            Scope::Provider,
        ),
        (
            429,
            r#"{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}"#,
            Class::RateLimited,
            Scope::Model,
        ),
        (
            402,
            r#"{"error":{"message":"Insufficient Balance"}}"#,
            Class::QuotaExhausted,
            Scope::Provider,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}"#,
            Class::QuotaExhausted,
            Scope::Provider,
        ),
        (
            429,
            r#"{"error":{"message":"Limit of tokens per day (TPD) reached","code":"rate_limit_exceeded"}}"#,
            Class::QuotaExhausted,
            Scope::Model,
        ),
    ] {
        let failure = classify(&Reply::new(Server::Compatible, status, body.as_bytes()));
        assert_eq!((failure.class, failure.scope), (class, scope), "{body}");
    }
}

/// C106 and C108: what a proxy left of a status inside an answer.
#[test]
fn an_error_inside_an_answer_without_a_usable_status_is_the_providers_trouble() {
    for (body, class, status) in [
        (
            r#"{"error":{"message":"x","code":"proxy_error","status":"error"}}"#,
            Class::Transient,
            200,
        ),
        (
            r#"{"error":{"message":"x","code":"503"}}"#,
            Class::Overloaded,
            503,
        ),
        (
            r#"{"error":{"message":"x","code":99999}}"#,
            Class::Transient,
            200,
        ),
        (
            r#"{"error":{"message":"x","code":-1}}"#,
            Class::Transient,
            200,
        ),
        (
            r#"{"error":{"message":"x","code":1e300}}"#,
            Class::Transient,
            200,
        ),
        (
            r#"{"type":"error","error":{"type":"internal_error","message":"[HTTP 502] <!DOCTYPE html><title>Error 502</title>"}}"#,
            Class::Transient,
            502,
        ),
        (r#"{"error":"out of luck"}"#, Class::Transient, 200),
    ] {
        let failure = classify(&Reply::in_answer(Server::Compatible, body.as_bytes()));
        assert_eq!(
            (failure.class, failure.status),
            (class, Some(status)),
            "{body}"
        );
        assert!(!failure.message.contains('<'), "{failure}");
    }
}

#[test]
fn a_refused_capability_is_told_from_a_bad_request() {
    for fixture in fixtures::all() {
        let lacks = [
            "400_unsupported_parameter",
            "400_unsupported_value",
            "400_no_tools",
            "400_no_thinking",
            "501_not_supported",
            "400_schema_unsupported",
            "400_schema_keyword",
            "400_schema_bounds",
            "400_prefill_unsupported",
            "400_tool_choice_disabled",
            "500_template",
            "422_extra_forbidden",
            "404_resource_not_found",
            "400_max_tokens_too_large",
            "400_max_tokens_above_model",
        ];
        let bad = ["400_tool_pairing", "400_message_order", "422_validation"];
        let name = |list: &[&str]| list.iter().any(|n| fixture.file.contains(n));
        if fixture.kind != "error" || !(name(&lacks) || name(&bad)) {
            continue;
        }
        let status = u16::try_from(fixture.line["status"].as_u64().unwrap()).unwrap();
        let failure = classify(&Reply::new(fixture.server(), status, &fixture.bytes));
        assert_eq!(failure.class, Class::BadRequest, "{}", fixture.file);
        assert_eq!(failure.capability_gap, name(&lacks), "{}", fixture.file);
    }
}

#[test]
fn a_redirect_is_no_wire_format() {
    assert_eq!(
        classify(&Reply::new(Server::Compatible, 302, b"")).class,
        Class::Malformed
    );
}

#[test]
fn what_stands_behind_a_router_of_models_is_heard() {
    let body = r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":\"This model's maximum context length is 8192 tokens.\"}","provider_name":"FixtureAI"}}}"#;
    let failure = classify(&Reply::new(Server::OpenRouter, 400, body.as_bytes()));
    assert_eq!(failure.class, Class::ContextWindow);
    assert!(failure.message.starts_with("Provider returned error: "));
    // A code that repeats the status is none.
    assert_eq!(failure.code, None);
}

/// Mistral's codes are numbers of its own; the status stands beside them.
#[test]
fn an_error_in_a_mistral_stream_is_told_by_the_status_it_repeats() {
    let body = br#"{"object":"error","message":"Rate limit exceeded","type":"rate_limited","param":null,"code":"1300","raw_status_code":429}"#;
    let failure = classify(&Reply::in_answer(Server::Mistral, body));
    assert_eq!(
        (failure.class, failure.status),
        (Class::RateLimited, Some(429))
    );
}

#[test]
fn an_overflow_is_told_by_any_servers_words_and_throttling_is_none() {
    let overflows = [
        (
            400,
            json!({"error": {"message": "Prompt 超长", "code": "1261"}}),
        ),
        (
            400,
            json!({"error": {"message": "x", "code": "model_max_prompt_tokens_exceeded"}}),
        ),
        (
            422,
            json!({"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096.", "error_type": "validation"}),
        ),
        (
            400,
            json!({"code": "Client specified an invalid argument", "error": "This model's maximum prompt length is 131072 but the request contains 140000 tokens."}),
        ),
        (
            400,
            json!({"message": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000."}),
        ),
        (
            400,
            json!({"code": 20015, "message": "number of input tokens (204703) has exceeded max_prompt_tokens (202752) limit.", "data": null}),
        ),
    ];
    for (status, body) in overflows {
        assert_eq!(
            class_of(Server::Compatible, status, &body),
            Class::ContextWindow,
            "{body}"
        );
    }
    let throttled = json!({"message": "Too many tokens, please wait before trying again."});
    assert_eq!(
        class_of(Server::Compatible, 429, &throttled),
        Class::RateLimited
    );
}

#[test]
fn used_up_credit_is_known_in_other_words() {
    let error = |message: &str, kind: &str, code: &str| json!({"error": {"message": message, "type": kind, "code": code}});
    for (status, body) in [
        (
            429,
            error(
                "Your account is suspended",
                "exceeded_current_quota_error",
                "",
            ),
        ),
        (429, error("余额不足或无可用资源包,请充值。", "", "1113")),
        (
            429,
            json!({"error": {"message": "Please recharge", "code": 1113}}),
        ),
        (
            403,
            json!({"code": "INSUFFICIENT_BALANCE", "message": "Insufficient account balance"}),
        ),
        (
            403,
            error(
                "用户额度不足, 剩余额度: 0",
                "new_api_error",
                "insufficient_user_quota",
            ),
        ),
        (
            403,
            json!({"error": {"message": "Key limit exceeded (total limit).", "code": 403}}),
        ),
        (400, error("Access denied", "Arrearage", "Arrearage")),
        (
            403,
            error(
                "The free tier is exhausted.",
                "AllocationQuota.FreeTierOnly",
                "",
            ),
        ),
        (
            429,
            error(
                "insufficient balance (1008)",
                "insufficient_balance_error",
                "",
            ),
        ),
    ] {
        let class = class_of(Server::Compatible, status, &body);
        assert_eq!(class, Class::QuotaExhausted, "{body}");
    }
}

#[test]
fn an_error_inside_an_answer_is_told_by_its_type_or_code() {
    for (error, class) in [
        (json!({"message": "x", "type": "timeout"}), Class::Timeout),
        (
            json!({"message": "x", "type": "rate_limit_exceeded"}),
            Class::RateLimited,
        ),
        (
            json!({"message": "x", "code": "server_is_overloaded"}),
            Class::Overloaded,
        ),
        (
            json!({"message": "x", "type": "server_error", "code": "server_is_overloaded"}),
            Class::Overloaded,
        ),
        (
            json!({"message": "x", "type": "service_unavailable_error"}),
            Class::Overloaded,
        ),
        (
            json!({"message": "x", "type": "odd", "code": "timeout"}),
            Class::Timeout,
        ),
        (
            json!({"message": "The requested model `m` was not found", "type": "not_found_error"}),
            Class::ModelGone,
        ),
        (
            json!({"message": "x", "type": "insufficient_quota"}),
            Class::QuotaExhausted,
        ),
    ] {
        let body = json!({"error": error}).to_string();
        let failure = classify(&Reply::in_answer(Server::Compatible, body.as_bytes()));
        assert_eq!(failure.class, class, "{body}");
        let phase = (class == Class::Timeout).then_some(Phase::Upstream);
        assert_eq!(failure.phase, phase, "{body}");
    }
}

/// Nobody of ours left: the next rung may answer.
#[test]
fn a_request_that_somebody_upstream_gave_up_is_the_providers_trouble() {
    for status in [421, 424, 425, 499] {
        let class = class_of(
            Server::Compatible,
            status,
            &json!({"error": {"message": "x"}}),
        );
        assert_eq!(class, Class::Transient, "{status}");
    }
    let cancelled = json!({"error": {"code": 499, "status": "CANCELLED", "message": "x"}});
    assert_eq!(class_of(Server::Gemini, 200, &cancelled), Class::Transient);
}

//! Reasoning, sampling, caps and schemas on the way to Anthropic, and what a
//! client writes wrongly.

use crate::anthropic_requests::{
    call, client, encode, encode_for, fields, message, messages, other, reasoning, result, say,
    signed, tool,
};
use evenkeel_core::{ChatRequest, Effort, Extra, Output, Part, ReasoningPart, Role, Value};
use evenkeel_providers::wire::anthropic::{
    DEFAULT_MAX_TOKENS, DIALECT, Options, Support, Thinking, Version, decode_request,
};
use serde_json::json;

/// Trap 32.
#[test]
fn thinking_goes_back_unchanged_with_its_signature() {
    let body = json!({"model": "m-a", "max_tokens": 9, "messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm ", "signature": "SIG-A"},
            {"type": "redacted_thinking", "data": "b3BhcXVl"},
            {"type": "thinking", "thinking": "", "signature": "SIG-B"},
            {"type": "tool_use", "id": "t1", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "r"}]}],
        "tools": [{"name": "look", "input_schema": {"type": "object"}}]});
    let encoded = encode(&client(&body));
    assert_eq!(encoded.body, body);
    assert!(encoded.adapted.is_empty());
}

/// Trap 32, C133.
#[test]
fn reasoning_of_another_model_is_left_out_and_told() {
    let history = |reasoning: Part| {
        let mut request = messages(vec![
            say(Role::User, "q"),
            message(
                Role::Assistant,
                vec![reasoning, Part::Text("a".into()), call("t1", "{}")],
            ),
            result("t1", "r"),
        ]);
        request.tools = vec![tool("look")];
        request
    };
    let another_model = Options {
        drop_reasoning: true,
        ..Options::default()
    };
    let unsigned = Part::Reasoning(ReasoningPart {
        text: "hm".into(),
        ..ReasoningPart::default()
    });
    for (part, options) in [
        (signed("hm", DIALECT), another_model.clone()),
        (
            other(DIALECT, json!({"type": "redacted_thinking", "data": "x"})),
            another_model,
        ),
        (signed("hm", "gemini"), Options::default()),
        (unsigned, Options::default()),
    ] {
        let encoded = encode_for(&history(part), &options);
        let text = encoded.body.to_string();
        assert!(
            !text.contains("thinking") && !text.contains("SIG-A"),
            "{text}"
        );
        let answer = &encoded.body["messages"][1]["content"];
        assert_eq!(answer[0]["text"], "a");
        assert_eq!(answer[1]["type"], "tool_use");
        assert_eq!(encoded.adapted.len(), 1);
        assert!(encoded.adapted[0].starts_with("earlier reasoning: of another "));
    }
    let kept = encode(&history(signed("hm", DIALECT)));
    assert_eq!(kept.body["messages"][1]["content"][0]["signature"], "SIG-A");
}

/// C133: a budget demands reasoning before the calls of an open loop.
#[test]
fn a_budget_is_off_while_calls_made_without_reasoning_are_answered() {
    let mut request = reasoning(None, Some(2_000));
    request.max_output_tokens = Some(8_000);
    request.tools = vec![tool("look")];
    request.messages.extend([
        message(Role::Assistant, vec![call("t1", "{}")]),
        result("t1", "r"),
    ]);
    let encoded = encode(&request);
    assert_eq!(encoded.body.get("thinking"), None);
    assert_eq!(
        encoded.adapted,
        ["reasoning: left out, since the calls being answered were made without it"]
    );
    request.messages.push(say(Role::Assistant, "done"));
    request.messages.push(say(Role::User, "next"));
    assert_eq!(encode(&request).body["thinking"]["budget_tokens"], 2_000);
}

/// Section 12.
#[test]
fn a_schema_goes_as_the_output_format() {
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let mut request = ChatRequest {
        output: Output::JsonSchema {
            name: "n".into(),
            schema: schema.clone(),
            strict: true,
            description: None,
        },
        ..ChatRequest::user("q")
    };
    let encoded = encode(&request);
    assert_eq!(
        encoded.body["output_config"],
        json!({"format": {"type": "json_schema", "schema": schema}})
    );
    assert!(encoded.adapted.is_empty());
    request.output = Output::JsonObject;
    let encoded = encode(&request);
    assert_eq!(encoded.body.get("output_config"), None);
    assert_eq!(
        encoded.adapted,
        ["response_format json_object: not known to this provider, left out"]
    );
}

/// Section 5.1: `budget_tokens` at least 1024 and below `max_tokens`.
#[test]
fn a_budget_is_kept_between_its_bounds() {
    for (budget, cap, sent, told) in [
        (2_000, Some(8_000), Some(2_000), false),
        (100, Some(8_000), Some(1_024), true),
        (9_000, Some(8_000), Some(7_999), true),
        (2_000, Some(1_000), None, true),
        (2_000, Some(1_025), Some(1_024), true),
        (60_000, None, Some(60_000), false),
    ] {
        let mut request = reasoning(None, Some(budget));
        request.max_output_tokens = cap;
        let encoded = encode(&request);
        assert_eq!(
            encoded.body["thinking"]["budget_tokens"].as_u64(),
            sent,
            "{budget}"
        );
        assert_eq!(
            encoded.adapted.len(),
            usize::from(told),
            "{:?}",
            encoded.adapted
        );
        let cap = encoded.body["max_tokens"].as_u64().unwrap();
        assert!(sent.is_none_or(|sent| sent < cap));
    }
}

/// C114 and section 8: how a level is said to each kind of model.
#[test]
fn a_level_is_said_as_the_model_takes_it() {
    let with = |thinking: Thinking, effort: Effort| {
        let mut request = reasoning(Some(effort), None);
        request.max_output_tokens = Some(10_000);
        let options = Options {
            thinking,
            ..Options::default()
        };
        let encoded = encode_for(&request, &options);
        let body = encoded.body;
        (
            body["thinking"].clone(),
            body["output_config"]["effort"].clone(),
            encoded.adapted.len(),
        )
    };
    let budget = |n: u64| json!({"type": "enabled", "budget_tokens": n});
    let adaptive = json!({"type": "adaptive"});
    let off = json!({"type": "disabled"});
    let none = Value::Null;
    assert_eq!(
        with(Thinking::Unknown, Effort::High),
        (budget(8_000), none.clone(), 0)
    );
    assert_eq!(
        with(Thinking::Budget, Effort::Minimal),
        (budget(1_024), none.clone(), 0)
    );
    assert_eq!(
        with(Thinking::Budget, Effort::Max),
        (budget(9_500), none.clone(), 0)
    );
    assert_eq!(
        with(Thinking::Adaptive, Effort::XHigh),
        (adaptive.clone(), json!("xhigh"), 0)
    );
    assert_eq!(
        with(Thinking::Adaptive, Effort::Minimal),
        (adaptive, json!("low"), 1)
    );
    assert_eq!(
        with(Thinking::Budget, Effort::None),
        (off.clone(), none.clone(), 0)
    );
    assert_eq!(
        with(Thinking::Adaptive, Effort::None),
        (off, none.clone(), 0)
    );
    assert_eq!(
        with(Thinking::No, Effort::None),
        (none.clone(), none.clone(), 0)
    );
    assert_eq!(with(Thinking::No, Effort::High), (none.clone(), none, 1));
}

/// What an Anthropic client says of thinking stays in its words, or is
/// translated for a model that knows budgets only.
#[test]
fn thinking_of_a_client_stays_in_its_words() {
    let mut body = json!({"model": "m-a", "max_tokens": 10_000, "messages": [{"role": "user", "content": "q"}]});
    for (thinking, effort) in [
        (
            json!({"type": "adaptive", "display": "summarized"}),
            json!("max"),
        ),
        (json!({"type": "between_tools"}), Value::Null),
        (
            json!({"type": "enabled", "budget_tokens": 2_000, "display": "omitted"}),
            json!("low"),
        ),
        (json!({"type": "disabled"}), Value::Null),
    ] {
        body["thinking"] = thinking;
        if effort.is_null() {
            body.as_object_mut().unwrap().remove("output_config");
        } else {
            body["output_config"] = json!({"effort": effort});
        }
        assert_eq!(encode(&client(&body)).body, body);
    }
    body["thinking"] = json!({"type": "adaptive", "display": "summarized"});
    body["output_config"] = json!({"effort": "high"});
    let options = Options {
        thinking: Thinking::Budget,
        ..Options::default()
    };
    let encoded = encode_for(&client(&body), &options);
    assert_eq!(
        encoded.body["thinking"],
        json!({"type": "enabled", "budget_tokens": 8_000, "display": "summarized"})
    );
    assert_eq!(encoded.body.get("output_config"), None);
}

/// Trap 41.
#[test]
fn the_required_cap_is_the_callers_or_the_models_or_the_default() {
    for (own, limit, sent, told) in [
        (None, None, DEFAULT_MAX_TOKENS, false),
        (None, Some(64_000), 64_000, false),
        (Some(100), Some(64_000), 100, false),
        (Some(100_000), Some(64_000), 64_000, true),
        (Some(100_000), None, 100_000, false),
    ] {
        let mut request = ChatRequest::user("q");
        request.max_output_tokens = own;
        let options = Options {
            max_output_tokens: limit,
            ..Options::default()
        };
        let encoded = encode_for(&request, &options);
        assert_eq!(encoded.body["max_tokens"], sent);
        assert_eq!(encoded.adapted.len(), usize::from(told));
    }
}

/// Traps 38, 39 and 43.
#[test]
fn sampling_is_sent_only_where_it_is_taken() {
    let mut request = ChatRequest::user("q");
    request.sampling.temperature = Some(1.5);
    request.sampling.top_p = Some(0.5);
    request.sampling.top_k = Some(7);
    let takes_all = Options {
        sampling: Support::Yes,
        ..Options::default()
    };
    let taken = encode_for(&request, &takes_all);
    assert_eq!(taken.body["temperature"], 1.0);
    assert_eq!(
        (&taken.body["top_p"], &taken.body["top_k"]),
        (&json!(0.5), &json!(7))
    );
    assert_eq!(
        taken.adapted,
        ["temperature: outside of this provider's range, sent as its nearest"]
    );
    let new_version = Options {
        version: Version::V2026,
        sampling: Support::Yes,
        ..Options::default()
    };
    let new_model = Options {
        sampling: Support::No,
        ..Options::default()
    };
    for options in [new_version, new_model] {
        let encoded = encode_for(&request, &options);
        for name in ["temperature", "top_p", "top_k"] {
            assert_eq!(encoded.body.get(name), None);
        }
        assert_eq!(
            encoded.adapted,
            [
                "temperature: not taken by this model, left out",
                "top_p: not taken by this model, left out",
                "top_k: not taken by this model, left out",
            ]
        );
    }
    request.max_output_tokens = Some(8_000);
    request.reasoning = reasoning(None, Some(2_000)).reasoning;
    request.sampling.top_p = Some(0.97);
    let beside_thinking = encode(&request);
    assert_eq!(beside_thinking.body.get("temperature"), None);
    assert_eq!(beside_thinking.body["top_p"], 0.97);
    assert_eq!(beside_thinking.adapted.len(), 2);
}

/// Newer models: "`temperature` and `top_p` cannot both be specified for this model".
#[test]
fn temperature_is_sent_alone_where_top_p_is_asked_for_too() {
    let mut request = ChatRequest::user("q");
    request.sampling.temperature = Some(0.5);
    request.sampling.top_p = Some(0.97);
    let both = encode(&request);
    assert_eq!(both.body["temperature"], 0.5);
    assert_eq!(both.body.get("top_p"), None);
    assert_eq!(
        both.adapted,
        ["top_p: newer models refuse it beside temperature, left out"]
    );
    request.sampling.temperature = None;
    let alone = encode(&request);
    assert_eq!(alone.body["top_p"], 0.97);
    assert_eq!(alone.adapted, Vec::<String>::new());
}

/// Traps 42, 43, 45 and section 8.
#[test]
fn what_the_format_has_no_place_for_is_told_by_its_name() {
    let mut request = ChatRequest::user("q");
    request.sampling.seed = Some(7);
    request.sampling.presence_penalty = Some(0.1);
    request.sampling.frequency_penalty = Some(0.1);
    request.stop = vec!["###".into(), "\n".into()];
    request.user = Some("u-1".into());
    request.metadata = fields(json!({"k": "v"}));
    request.extra = Extra {
        dialect: "openai",
        fields: fields(json!({"logit_bias": {"5": 1}, "max_tokens": 5})),
    };
    let encoded = encode(&request);
    assert_eq!(encoded.body["stop_sequences"], json!(["###"]));
    assert_eq!(encoded.body["metadata"], json!({"user_id": "u-1"}));
    assert_eq!(
        encoded.adapted,
        [
            "presence_penalty: not known to this provider, left out",
            "frequency_penalty: not known to this provider, left out",
            "seed: not known to this provider, left out",
            "stop: white space alone is refused, left out",
            "metadata: not known to this provider, left out",
            "logit_bias: not known to this provider, left out",
        ]
    );
}

#[test]
fn what_a_client_writes_wrongly_is_named() {
    let ok =
        json!({"model": "m-a", "max_tokens": 9, "messages": [{"role": "user", "content": "q"}]});
    let with = |name: &str, value: Value| {
        let mut body = ok.clone();
        body[name] = value;
        body
    };
    let without = |name: &str| {
        let mut body = ok.clone();
        body.as_object_mut().unwrap().remove(name);
        body
    };
    for (body, param) in [
        (without("model"), "model"),
        (without("max_tokens"), "max_tokens"),
        (without("messages"), "messages"),
        (with("model", json!("")), "model"),
        (with("messages", json!([])), "messages"),
        (
            with("messages", json!([{"role": "tool", "content": ""}])),
            "messages[0].role",
        ),
        (
            with("messages", json!([{"role": "user"}])),
            "messages[0].content",
        ),
        (
            with("messages", json!([{"role": "user", "content": 7}])),
            "messages[0].content",
        ),
        (
            with(
                "messages",
                json!([{"role": "user", "content": [{"type": "text"}]}]),
            ),
            "messages[0].content[0].text",
        ),
        (
            with(
                "messages",
                json!([{"role": "user", "content": [{"type": "tool_result"}]}]),
            ),
            "messages[0].content[0].tool_use_id",
        ),
        (with("system", json!(7)), "system"),
        (with("max_tokens", json!(-1)), "max_tokens"),
        (
            with("tools", json!([{"name": "t"}])),
            "tools[0].input_schema",
        ),
        (
            with("tool_choice", json!({"type": "some"})),
            "tool_choice.type",
        ),
        (
            with("tool_choice", json!({"type": "tool"})),
            "tool_choice.name",
        ),
        (
            with("thinking", json!({"type": "enabled"})),
            "thinking.budget_tokens",
        ),
        (
            with("output_config", json!({"effort": "huge"})),
            "output_config.effort",
        ),
        (
            with("output_config", json!({"format": {"type": "json_schema"}})),
            "output_config.format.schema",
        ),
        (with("stop_sequences", json!([7])), "stop_sequences[0]"),
    ] {
        let error = decode_request(body.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(param), "{error}");
    }
    for body in ["", "[]", "{\"model\":", "7"] {
        assert_eq!(decode_request(body.as_bytes()).unwrap_err().param, None);
    }
    let deep = format!("{{\"model\":{}", "[".repeat(10_000));
    assert!(decode_request(deep.as_bytes()).is_err());
}

//! Every dialect over real sockets, read by the product's own decoders.

use crate::client::{Client, End};
use crate::dialect_faults::error_in_stream;
use crate::spoken::{ask, hear, written};
use evenkeel_chaos::{Behaviour, Dialect, Fault, Stats, Upstream, UpstreamConfig, check_answer};
use evenkeel_core::{ChatRequest, ChatResponse, Extra, Finish, Output, Part, Tool, ToolChoice};
use serde_json::{Value, json};

pub(crate) async fn start(behaviour: Behaviour, dialect: Dialect) -> Upstream {
    let config = UpstreamConfig::named("p")
        .with_dialect(dialect)
        .with_behaviour(behaviour);
    Upstream::start(config).await.expect("a free port")
}

pub(crate) fn three() -> Behaviour {
    Behaviour::default().with_tokens(3)
}

fn with_tools(choice: Option<ToolChoice>) -> ChatRequest {
    let tool = |name: &str| Tool {
        name: name.into(),
        description: Some("weather".into()),
        parameters: Some(json!({"type": "object", "required": ["city", "days"],
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}}})),
        strict: None,
        extra: Extra::default(),
    };
    ChatRequest {
        tools: vec![tool("weather"), tool("tides")],
        tool_choice: choice,
        ..ChatRequest::user("n4")
    }
}

/// Each dialect, whole and streamed, to the same request.
async fn everywhere(behaviour: Behaviour, request: &ChatRequest) -> Vec<(String, ChatResponse)> {
    let mut all = Vec::new();
    for dialect in Dialect::ALL {
        let upstream = start(behaviour.clone(), dialect).await;
        for stream in [false, true] {
            let what = format!("{dialect:?}, stream {stream}");
            match ask(&upstream, dialect, request, stream).await {
                Ok(answer) => all.push((what, answer)),
                Err(failure) => panic!("{what}: {failure:?}"),
            }
        }
        let stats = upstream.stats();
        assert_eq!((stats.ok, stats.started), (2, 2), "{dialect:?}");
    }
    all
}

#[tokio::test]
async fn answers_are_whole_in_every_dialect() {
    for (what, answer) in everywhere(three(), &ChatRequest::user("n9")).await {
        assert_eq!(
            check_answer(&answer.plain_text(), 9, 3),
            Ok("p/m"),
            "{what}"
        );
        assert_eq!(
            (answer.finish, answer.model.as_str()),
            (Finish::Stop, "m"),
            "{what}"
        );
        let usage = answer.usage.expect("counts");
        assert!(usage.input > 0 && usage.output == 3, "{what}: {usage:?}");
        assert_eq!((usage.cached, usage.reasoning), (None, None), "{what}");
        assert!(!answer.id.is_empty(), "{what}");
    }
}

#[tokio::test]
async fn a_cap_and_a_stop_text_end_the_answer_in_every_dialect() {
    let mut capped = ChatRequest::user("n9");
    capped.max_output_tokens = Some(2);
    for (what, answer) in everywhere(three(), &capped).await {
        assert_eq!(
            (answer.finish, answer.plain_text()),
            (Finish::Length, "[[p/m]] n9 t0 t1".into()),
            "{what}"
        );
    }
    let mut stopped = ChatRequest::user("n9");
    stopped.stop = vec![" t1".into()];
    for (what, answer) in everywhere(three(), &stopped).await {
        assert_eq!(answer.plain_text(), "[[p/m]] n9 t0", "{what}");
        let told = what.starts_with("Anthropic");
        let finish = if told {
            Finish::StopSequence
        } else {
            Finish::Stop
        };
        assert_eq!(answer.finish, finish, "{what}");
        let met = answer
            .extra
            .fields
            .get("stop_sequence")
            .and_then(Value::as_str);
        assert_eq!(met, told.then_some(" t1"), "{what}: {:?}", answer.extra);
    }
}

#[tokio::test]
async fn a_demanded_call_comes_with_arguments_in_every_dialect() {
    let named = with_tools(Some(ToolChoice::Named("tides".into())));
    for (what, answer) in everywhere(three(), &named).await {
        let calls: Vec<_> = answer.tool_calls().collect();
        assert_eq!(
            (calls.len(), calls[0].name.as_str()),
            (1, "tides"),
            "{what}"
        );
        let arguments: Value = serde_json::from_str(&calls[0].arguments).unwrap();
        assert_eq!(arguments, json!({"city": "text", "days": 1}), "{what}");
        assert_eq!(answer.finish, Finish::ToolUse, "{what}");
    }
}

#[tokio::test]
async fn several_calls_keep_their_order_and_have_ids_of_their_own() {
    for (what, answer) in everywhere(three().with_calls(3), &with_tools(None)).await {
        let names: Vec<_> = answer.tool_calls().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["weather", "tides", "weather"], "{what}");
        let mut ids: Vec<_> = answer.tool_calls().map(|c| c.id.clone()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 3, "{what}");
    }
}

#[tokio::test]
async fn a_demanded_schema_is_obeyed_in_every_dialect() {
    let schema = json!({"type": "object", "required": ["sky"], "additionalProperties": false,
                        "properties": {"sky": {"type": "string", "enum": ["clear", "rain"]}}});
    let mut request = ChatRequest::user("n1");
    request.output = Output::JsonSchema {
        name: "w".into(),
        schema,
        strict: true,
        description: None,
    };
    for (what, answer) in everywhere(three(), &request).await {
        let said: Value = serde_json::from_str(&answer.plain_text()).unwrap();
        assert_eq!(said, json!({"sky": "clear"}), "{what}");
    }
}

#[tokio::test]
async fn reasoning_and_what_was_cached_are_told_where_the_dialect_has_a_place() {
    let thinking = three()
        .with_reasoning(2)
        .with_signature()
        .with_cached_tokens(4);
    for (what, answer) in everywhere(thinking.clone(), &ChatRequest::user("n2")).await {
        let Some(Part::Reasoning(thought)) = answer.parts.first() else {
            panic!("{what}: {:?}", answer.parts);
        };
        assert_eq!(thought.text, "r0 r1", "{what}");
        let signs = !what.starts_with("OpenAi");
        assert_eq!(thought.signature.is_some(), signs, "{what}");
        assert_eq!(answer.plain_text(), "[[p/m]] n2 t0 t1 t2", "{what}");
        let usage = answer.usage.unwrap();
        assert_eq!((usage.output, usage.cached), (5, Some(4)), "{what}");
        assert_eq!(usage.reasoning, Some(2), "{what}");
    }
    let called = with_tools(Some(ToolChoice::Required));
    for (what, answer) in everywhere(thinking, &called).await {
        let call = answer.tool_calls().next().expect("a call");
        let signed = call.extra.fields.contains_key("thoughtSignature");
        assert_eq!(signed, what.starts_with("Gemini"), "{what}");
    }
}

/// The order of events that Anthropic's reference gives.
#[tokio::test]
async fn anthropics_events_are_named_and_in_order() {
    let upstream = start(three().with_reasoning(1), Dialect::OpenAi).await;
    let request = ChatRequest::user("n1");
    let heard = hear(&upstream, Dialect::Anthropic, &request, true)
        .await
        .unwrap();
    let text = heard.text();
    let names: Vec<&str> = text
        .lines()
        .filter_map(|l| l.strip_prefix("event: "))
        .collect();
    let block = |deltas| {
        let mut names = vec!["content_block_start"];
        names.extend(std::iter::repeat_n("content_block_delta", deltas));
        names.push("content_block_stop");
        names
    };
    let expected = [
        vec!["message_start", "ping"],
        block(1),
        block(3),
        vec!["message_delta", "message_stop"],
    ];
    assert_eq!(names, expected.concat());
    assert!(!text.contains("[DONE]"));
    let first = text.lines().nth(1).unwrap().strip_prefix("data: ").unwrap();
    let first: Value = serde_json::from_str(first).unwrap();
    assert!(first["message"]["usage"]["input_tokens"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn gemini_streams_events_with_alt_sse_and_an_array_without() {
    let shown = async |behaviour: Behaviour, path: &str| {
        let upstream = start(behaviour, Dialect::OpenAi).await;
        let (_, body) = written(Dialect::Gemini, &ChatRequest::user("n1"), true);
        let mut client = Client::connect(&upstream).await;
        client.post(path, &body).await;
        let head = client.head().await.unwrap();
        let (bytes, end) = client.body(&head).await;
        assert_eq!(end, End::Whole, "{path}");
        let kind = head.headers["content-type"].clone();
        let seen = upstream.requests().remove(0);
        assert_eq!((seen.dialect, seen.stream), (Dialect::Gemini, true));
        (kind, String::from_utf8(bytes).unwrap(), seen)
    };
    let sse = "/v1/models/m:streamGenerateContent?alt=sse&key=secret";
    let (kind, text, seen) = shown(three(), sse).await;
    assert!(kind.starts_with("text/event-stream"));
    assert!(
        text.lines()
            .all(|l| l.is_empty() || l.starts_with("data: {")),
        "{text}"
    );
    assert_eq!(seen.path, "/v1/models/m:streamGenerateContent");
    assert_eq!(seen.model, "m");
    let plain = "/v1beta/models/m:streamGenerateContent";
    let (kind, text, _) = shown(three(), plain).await;
    assert_eq!(kind, "application/json");
    let elements: Vec<Value> = serde_json::from_str(&text).unwrap();
    let said = |e: &Value| {
        e["candidates"][0]["content"]["parts"][0]["text"]
            .as_str()
            .map(str::to_owned)
    };
    let joined: String = elements.iter().filter_map(said).collect();
    assert_eq!(check_answer(&joined, 1, 3), Ok("p/m"));
    let (_, text, _) = shown(
        three().with_fault(error_in_stream(Some("overloaded"), 1)),
        plain,
    )
    .await;
    let elements: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(elements.last().unwrap()["error"]["status"], "UNAVAILABLE");
    let (_, text, _) = shown(three().with_fault(error_in_stream(None, 1)), sse).await;
    assert!(
        text.contains("\r\n\r\n{\n  \"error\""),
        "bare lines: {text}"
    );
}

#[tokio::test]
async fn one_port_serves_all_dialects_and_knows_them_apart() {
    let upstream = start(three(), Dialect::OpenAi).await;
    upstream.set_model("sick", Behaviour::failing(Fault::status(500)));
    for dialect in [Dialect::OpenAi, Dialect::Anthropic, Dialect::Gemini] {
        ask(&upstream, dialect, &ChatRequest::user("n1"), false)
            .await
            .unwrap();
    }
    let dialects: Vec<_> = upstream.requests().iter().map(|r| r.dialect).collect();
    assert_eq!(
        dialects,
        [Dialect::OpenAi, Dialect::Anthropic, Dialect::Gemini]
    );
    let mut client = Client::connect(&upstream).await;
    for (request, at) in [
        ("GET /v1/models HTTP/1.1\r\n\r\n", "/data/0/id"),
        (
            "GET /v1/models HTTP/1.1\r\nanthropic-version: 2023-06-01\r\n\r\n",
            "/data/0/display_name",
        ),
        (
            "GET /v1beta/models HTTP/1.1\r\n\r\n",
            "/models/0/displayName",
        ),
    ] {
        client.send(request.as_bytes()).await;
        let head = client.head().await.unwrap();
        let list: Value = serde_json::from_slice(&client.sized(&head).await.0).unwrap();
        assert_eq!(list.pointer(at), Some(&json!("sick")), "{request}: {list}");
    }
}

#[tokio::test]
async fn tokens_are_counted_and_no_call_is() {
    let upstream = start(three(), Dialect::OpenAi).await;
    let mut client = Client::connect(&upstream).await;
    let messages = json!([{"role": "user", "content": "hello"}]);
    let contents = json!([{"role": "user", "parts": [{"text": "hello"}]}]);
    for (path, body, field) in [
        (
            "/v1/messages/count_tokens",
            json!({"model": "m", "messages": messages}),
            "input_tokens",
        ),
        (
            "/v1beta/models/m:countTokens",
            json!({"contents": contents}),
            "totalTokens",
        ),
    ] {
        client.post(path, &body).await;
        let head = client.head().await.unwrap();
        let counted: Value = serde_json::from_slice(&client.sized(&head).await.0).unwrap();
        let expected = ChatRequest::user("hello").estimated_input_tokens();
        assert_eq!(counted[field], json!(expected), "{path}");
    }
    assert_eq!(upstream.stats(), Stats::default());
}

#[tokio::test]
async fn a_request_that_cannot_be_read_is_refused_in_its_dialect() {
    let upstream = start(three(), Dialect::OpenAi).await;
    let mut client = Client::connect(&upstream).await;
    for (path, body, at, said) in [
        (
            "/v1/messages",
            json!({"model": "m", "messages": [{"role": "user", "content": "x"}]}),
            "/error/type",
            "invalid_request_error",
        ),
        (
            "/v1beta/models/m:generateContent",
            json!({}),
            "/error/status",
            "INVALID_ARGUMENT",
        ),
        (
            "/v1/chat/completions",
            json!({"model": "m"}),
            "/error/param",
            "messages",
        ),
    ] {
        client.post(path, &body).await;
        let head = client.head().await.unwrap();
        assert_eq!(head.status, 400, "{path}");
        let error: Value = serde_json::from_slice(&client.sized(&head).await.0).unwrap();
        assert_eq!(error.pointer(at), Some(&json!(said)), "{path}: {error}");
    }
    assert_eq!(upstream.stats(), Stats::default());
}

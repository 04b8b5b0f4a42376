//! How an endpoint is reached: keys, headers, proxies, connections, and each
//! format's own address.

use crate::server::{
    KEY, Key, Request, STOP_EVENT, STREAM_HEAD, Server, all, answer_body, call, chunk, client, ok,
    request, response, soon, text, text_event,
};
use evenkeel_core::{
    ChatRequest, Class, Delta, Message, Part, Provider, ProviderCall, Role, StreamEvent, Tool,
};
use evenkeel_providers::{
    Client, ClientConfig, ClientOptions, Dialect, Limits, ModelOptions, ProviderConfigError, Proxy,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;

type Log = Arc<Mutex<Vec<Request>>>;

/// A server that answers every request with `body` and keeps what it was asked.
async fn logging(body: String) -> (Server, Log) {
    logging_as("application/json", body).await
}

async fn logging_as(content_type: &'static str, body: String) -> (Server, Log) {
    let log = Log::default();
    let kept = Arc::clone(&log);
    let server = Server::new(move |_, mut socket| {
        let (kept, body) = (Arc::clone(&kept), body.clone());
        async move {
            while let Some(request) = request(&mut socket).await {
                kept.lock().unwrap().push(request);
                let answer = ok(content_type, &body);
                socket.write_all(&answer).await.unwrap();
            }
        }
    })
    .await;
    (server, log)
}

fn client_of(dialect: Dialect, url: &str, options: ClientOptions) -> Client {
    let config = ClientConfig {
        dialect,
        base_url: url.to_owned(),
        key: Arc::new(Key),
        propagate: false,
    };
    Client::with_options(config, options).unwrap()
}

fn has_line(request: &Request, line: &str) -> bool {
    request.head.lines().any(|l| l == line)
}

#[tokio::test]
async fn each_format_is_asked_at_its_own_path_with_its_own_key_header() {
    let anthropic = json!({"id": "m1", "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": "Yes."}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 1}});
    let gemini = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Yes."}]},
        "finishReason": "STOP"}], "modelVersion": "m"});
    let key = KEY.to_lowercase();
    for (dialect, base, body, line, header) in [
        (
            Dialect::Anthropic,
            "",
            anthropic.to_string(),
            "post /v1/messages http/1.1",
            format!("x-api-key: {key}"),
        ),
        (
            Dialect::Gemini,
            "/v1beta",
            gemini.to_string(),
            "post /v1beta/models/small:generatecontent http/1.1",
            format!("x-goog-api-key: {key}"),
        ),
        (
            Dialect::Gemini,
            "/v1/projects/p/locations/l/publishers/google",
            gemini.to_string(),
            "post /v1/projects/p/locations/l/publishers/google/models/small:generatecontent http/1.1",
            format!("authorization: bearer {key}"),
        ),
        (
            Dialect::Mistral,
            "/v1",
            answer_body("Yes."),
            "post /v1/chat/completions http/1.1",
            format!("authorization: bearer {key}"),
        ),
    ] {
        let (server, log) = logging(body).await;
        let base = format!("http://{}{base}", server.address);
        let client = client_of(dialect, &base, ClientOptions::default());
        let answer = client.complete(call()).await.unwrap();
        assert_eq!(answer.plain_text(), "Yes.", "{dialect:?}");
        let log = log.lock().unwrap();
        assert!(has_line(&log[0], line), "{}", log[0].head);
        assert!(has_line(&log[0], &header), "{}", log[0].head);
        let version = has_line(&log[0], "anthropic-version: 2023-06-01");
        assert_eq!(version, dialect == Dialect::Anthropic);
    }
}

#[tokio::test]
async fn a_version_can_be_a_models_own() {
    let body = json!({"id": "m1", "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": "Yes."}], "stop_reason": "end_turn"});
    let (server, log) = logging(body.to_string()).await;
    let models = [(
        "small".to_owned(),
        ModelOptions {
            api_version: Some("2026-10-21".into()),
            ..ModelOptions::default()
        },
    )];
    let options = ClientOptions {
        models: models.into(),
        key_header: Some(http::header::AUTHORIZATION),
        ..ClientOptions::default()
    };
    let client = client_of(Dialect::Anthropic, &server.url(), options);
    let mut request = ChatRequest::user("Hi");
    request.sampling.temperature = Some(0.2);
    let hot = |model: &str| ProviderCall {
        model: model.into(),
        request: Arc::new(request.clone()),
        ..call()
    };
    let adapted = client.complete(hot("small")).await.unwrap().adapted;
    assert_eq!(adapted.len(), 1, "{adapted:?}");
    assert!(adapted[0].starts_with("temperature: "));
    assert!(
        client
            .complete(hot("big"))
            .await
            .unwrap()
            .adapted
            .is_empty()
    );
    let log = log.lock().unwrap();
    assert!(has_line(&log[0], "anthropic-version: 2026-10-21"));
    assert!(has_line(&log[1], "anthropic-version: 2023-06-01"));
    assert!(has_line(
        &log[0],
        &format!("authorization: bearer {}", KEY.to_lowercase())
    ));
    assert!(!log[0].head.contains("x-api-key"));
}

#[test]
fn what_a_client_cannot_be_made_with_is_told() {
    let make = |options: ClientOptions| {
        let config = ClientConfig {
            dialect: Dialect::Anthropic,
            base_url: "https://h.test".into(),
            key: Arc::new(Key),
            propagate: false,
        };
        Client::with_options(config, options).unwrap_err()
    };
    let error = make(ClientOptions {
        api_version: Some("2024-01-01".into()),
        ..ClientOptions::default()
    });
    assert!(error.to_string().contains("2026-10-21"), "{error}");
    let mut headers = HeaderMap::new();
    headers.insert(http::header::HOST, HeaderValue::from_static("elsewhere"));
    let error = make(ClientOptions {
        headers,
        ..ClientOptions::default()
    });
    assert!(matches!(error, ProviderConfigError::Header(_)), "{error}");
}

#[tokio::test]
async fn headers_of_the_configuration_are_sent_and_never_shown() {
    let (server, log) = logging(answer_body("Yes.")).await;
    let mut headers = HeaderMap::new();
    headers.insert("x-title", HeaderValue::from_static("harbour"));
    headers.insert("user-agent", HeaderValue::from_static("own/1"));
    let options = ClientOptions {
        headers,
        key_header: Some(HeaderName::from_static("x-gate-key")),
        ..ClientOptions::default()
    };
    let client = client(&server.url(), options);
    client.complete(call()).await.unwrap();
    let shown = format!("{client:?}");
    assert!(
        shown.contains("x-title") && !shown.contains("harbour"),
        "{shown}"
    );
    let log = log.lock().unwrap();
    assert!(has_line(&log[0], "x-title: harbour"));
    assert!(has_line(&log[0], "user-agent: own/1"));
    assert!(has_line(
        &log[0],
        &format!("x-gate-key: {}", KEY.to_lowercase())
    ));
    assert!(!log[0].head.contains("authorization"));
}

/// Azure's older path names the deployment, so that the body does not.
#[tokio::test]
async fn a_deployment_is_named_by_the_path() {
    let (server, log) = logging(answer_body("Yes.")).await;
    let options = ClientOptions {
        server: Some(evenkeel_providers::Server::Azure),
        api_version: Some("2024-10-21".into()),
        ..ClientOptions::default()
    };
    let base = format!("http://{}", server.address);
    let client = client(&base, options);
    client.complete(call()).await.unwrap();
    let log = log.lock().unwrap();
    let line = "post /openai/deployments/small/chat/completions?api-version=2024-10-21 http/1.1";
    assert!(has_line(&log[0], line), "{}", log[0].head);
    assert!(has_line(
        &log[0],
        &format!("api-key: {}", KEY.to_lowercase())
    ));
    let body: Value = serde_json::from_slice(&log[0].body).unwrap();
    assert!(body.get("model").is_none() && body.get("messages").is_some());
}

#[tokio::test]
async fn what_was_adapted_comes_first_and_tools_come_back_under_their_own_names() {
    let server = Server::new(|_, mut socket| async move {
        while let Some(request) = request(&mut socket).await {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let name = body["tools"][0]["function"]["name"].as_str().unwrap();
            assert!(!name.contains('.'), "{name}");
            let call = json!({"index": 0, "id": "c1", "type": "function",
                "function": {"name": name, "arguments": "{}"}});
            let answer = if body["stream"] == true {
                let delta = json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]});
                ok("text/event-stream", &format!("data: {delta}\n\n{STOP_EVENT}"))
            } else {
                let whole = json!({"id": "a", "choices": [{"index": 0, "finish_reason": "tool_calls",
                    "message": {"role": "assistant", "content": null, "tool_calls": [call]}}]});
                ok("application/json", &whole.to_string())
            };
            socket.write_all(&answer).await.unwrap();
        }
    })
    .await;
    let mut request = ChatRequest::user("Hi");
    request.sampling.top_k = Some(5);
    request.tools = vec![Tool {
        name: "crm.find".into(),
        description: None,
        parameters: None,
        strict: None,
        extra: evenkeel_core::Extra::default(),
    }];
    let options = ClientOptions {
        server: Some(evenkeel_providers::Server::Groq),
        ..ClientOptions::default()
    };
    let client = client(&server.url(), options);
    let asked = || ProviderCall {
        request: Arc::new(request.clone()),
        ..call()
    };
    let expected = [
        "top_k: not known to this provider, left out".to_owned(),
        "tool names: sent as the provider allows them".to_owned(),
    ];
    let answer = client.complete(asked()).await.unwrap();
    assert_eq!(answer.adapted, expected);
    assert_eq!(answer.tool_calls().next().unwrap().name, "crm.find");
    let events = all(client.stream(asked()).await.unwrap()).await;
    assert!(matches!(&events[0], Ok(StreamEvent::Adapted(lines)) if *lines == expected));
    let named = events.iter().flatten().any(|event| {
        matches!(event, StreamEvent::Delta(Delta::ToolCallStart { name, .. }) if name == "crm.find")
    });
    assert!(named, "{events:?}");
}

/// A proxy that tunnels, and counts what it is asked.
async fn tunnelling(asked: Log) -> Server {
    Server::new(move |_, mut socket| {
        let asked = Arc::clone(&asked);
        async move {
            let Some(request) = request(&mut socket).await else {
                return;
            };
            let target = request.head.split_whitespace().nth(1).unwrap().to_owned();
            let tunnels = request.head.starts_with("connect ");
            asked.lock().unwrap().push(request);
            if !tunnels {
                return;
            }
            let mut behind = TcpStream::connect(&target).await.unwrap();
            let _ = socket.write_all(b"HTTP/1.1 200 -\r\n\r\n").await;
            let _ = copy_bidirectional(&mut socket, &mut behind).await;
        }
    })
    .await
}

fn by(proxy: &Server) -> Proxy {
    Proxy::new(&format!("http://user:p%40ss@{}", proxy.address)).unwrap()
}

#[tokio::test]
async fn https_goes_through_a_tunnel_and_the_proxy_sees_no_request() {
    let server = crate::client_answers::tls_server().await;
    let asked = Log::default();
    let proxy = tunnelling(Arc::clone(&asked)).await;
    let options = ClientOptions {
        proxy: Some(by(&proxy)),
        root_certificates: Some(include_bytes!("../../../../fixtures/tls/ca.pem").to_vec()),
        ..ClientOptions::default()
    };
    let url = format!("https://localhost:{}/v1", server.address.port());
    let client = client(&url, options);
    let answer = client.complete(call()).await.unwrap();
    assert_eq!(answer.plain_text(), "Yes.");
    let asked = asked.lock().unwrap();
    let line = format!("connect localhost:{} http/1.1", server.address.port());
    assert!(has_line(&asked[0], &line), "{}", asked[0].head);
    assert!(asked[0].head.contains("proxy-authorization: basic "));
    assert!(!asked[0].head.contains(&KEY.to_lowercase()));
    assert_eq!(asked.len(), 1);
}

#[tokio::test]
async fn http_is_asked_of_the_proxy_in_whole_addresses() {
    let (proxy, log) = logging(answer_body("Yes.")).await;
    let options = ClientOptions {
        proxy: Some(by(&proxy)),
        ..ClientOptions::default()
    };
    let client = client("http://nowhere.test:8000/v1", options);
    assert_eq!(client.complete(call()).await.unwrap().plain_text(), "Yes.");
    let log = log.lock().unwrap();
    let line = "post http://nowhere.test:8000/v1/chat/completions http/1.1";
    assert!(has_line(&log[0], line), "{}", log[0].head);
    assert!(has_line(&log[0], "host: nowhere.test:8000"));
    assert!(log[0].head.contains("proxy-authorization: basic "));
}

#[tokio::test]
async fn a_proxy_that_refuses_is_unreachable_and_named_without_its_password() {
    let refuses = response(407, "proxy-authenticate: Basic\r\n", b"");
    let proxy = Server::answering(refuses).await;
    for url in ["http://nowhere.test/v1", "https://nowhere.test/v1"] {
        let options = ClientOptions {
            proxy: Some(by(&proxy)),
            ..ClientOptions::default()
        };
        let failure = client(url, options).complete(call()).await.unwrap_err();
        assert_eq!(failure.class, Class::Unreachable, "{failure}");
        assert!(failure.message.contains("proxy"), "{failure}");
        let shown = format!("{failure:?}");
        assert!(
            !shown.contains("p@ss") && !shown.contains("p%40ss"),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn no_more_connections_are_open_than_allowed() {
    let open = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (now, peak) = (Arc::clone(&open), Arc::clone(&most));
    let server = Server::new(move |_, mut socket| {
        let (now, peak) = (Arc::clone(&now), Arc::clone(&peak));
        async move {
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            while request(&mut socket).await.is_some() {
                let pieces = [
                    STREAM_HEAD.to_owned(),
                    chunk(&text_event("a")),
                    chunk(STOP_EVENT),
                    "0\r\n\r\n".to_owned(),
                ];
                socket.write_all(pieces.concat().as_bytes()).await.unwrap();
            }
            now.fetch_sub(1, Ordering::SeqCst);
        }
    })
    .await;
    let options = ClientOptions {
        limits: Limits {
            max_connections: 2,
            ..Limits::default()
        },
        ..ClientOptions::default()
    };
    let client = client(&server.url(), options);
    let asked = (0..20).map(|_| async {
        let stream = client.stream(call()).await.unwrap();
        text(&all(stream).await)
    });
    let texts = soon(futures_util::future::join_all(asked)).await;
    assert!(texts.iter().all(|text| text == "a"), "{texts:?}");
    assert!(most.load(Ordering::SeqCst) <= 2);
}

/// Waiting for a connection to be free is no failure of the endpoint.
#[tokio::test]
async fn a_call_that_waits_for_a_connection_is_not_timed_by_the_connect_clock() {
    let server = Server::new(|_, mut socket| async move {
        while request(&mut socket).await.is_some() {
            tokio::time::sleep(Duration::from_millis(400)).await;
            let answer = ok("application/json", &answer_body("Yes."));
            socket.write_all(&answer).await.unwrap();
        }
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest).await;
    })
    .await;
    let options = ClientOptions {
        limits: Limits {
            max_connections: 1,
            ..Limits::default()
        },
        ..ClientOptions::default()
    };
    let client = client(&server.url(), options);
    let short = || ProviderCall {
        connect: Duration::from_millis(300),
        ..call()
    };
    let (first, second) = tokio::join!(client.complete(short()), client.complete(short()));
    assert_eq!(first.unwrap().plain_text(), "Yes.");
    assert_eq!(second.unwrap().plain_text(), "Yes.");
    assert_eq!(server.connections(), 1);
}

/// An image of a tool's result follows in a user message; nothing is lost.
#[tokio::test]
async fn an_image_in_a_result_is_shown_behind_it() {
    let (server, log) = logging(answer_body("Yes.")).await;
    let mut result = Message::text(Role::Tool, "");
    result.parts = vec![Part::ToolResult(evenkeel_core::ToolResult {
        call_id: "c1".into(),
        parts: vec![
            Part::Text("see".into()),
            Part::Image(evenkeel_core::Image {
                url: "data:image/png;base64,AA==".into(),
                detail: None,
            }),
        ],
        is_error: true,
    })];
    let mut called = Message::text(Role::Assistant, "");
    called.parts = vec![Part::ToolCall(evenkeel_core::ToolCall {
        id: "c1".into(),
        name: "look".into(),
        arguments: "{}".into(),
        extra: evenkeel_core::Extra::default(),
    })];
    let request = ChatRequest {
        messages: vec![called, result, Message::text(Role::User, "And?")],
        ..ChatRequest::default()
    };
    let options = ClientOptions {
        server: Some(evenkeel_providers::Server::OpenAi),
        ..ClientOptions::default()
    };
    let asked = ProviderCall {
        request: Arc::new(request),
        ..call()
    };
    let answer = client(&server.url(), options)
        .complete(asked)
        .await
        .unwrap();
    assert_eq!(
        answer.adapted,
        [
            "is_error of a tool result: said in its text",
            "image in a tool result: moved into a user message behind it"
        ]
    );
    let log = log.lock().unwrap();
    let body: Value = serde_json::from_slice(&log[0].body).unwrap();
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages[1]["content"], "error: see");
    assert_eq!(messages[2]["role"], "user");
    assert_eq!(messages[2]["content"][1]["type"], "image_url");
    assert_eq!(messages[3]["content"], "And?");
}

/// Answers without ids that call the same, turn after turn, whole and streamed.
#[tokio::test]
async fn no_call_has_the_id_of_an_earlier_one() {
    let gemini = json!({"candidates": [{"content": {"role": "model", "parts": [
        {"functionCall": {"name": "f", "args": {}}}]}, "finishReason": "STOP"}]});
    let openai = json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}}]});
    let (json, events) = ("application/json", "text/event-stream");
    for (dialect, kind, body) in [
        (Dialect::Gemini, events, format!("data: {gemini}\n\n")),
        (Dialect::Gemini, json, gemini.to_string()),
        (Dialect::OpenAi, json, openai.to_string()),
    ] {
        let (server, _) = logging_as(kind, body).await;
        let client = client_of(dialect, &server.url(), ClientOptions::default());
        let mut request = ChatRequest::user("q");
        let mut ids: Vec<String> = Vec::new();
        for _ in 0..3 {
            let asked = || ProviderCall {
                request: Arc::new(request.clone()),
                ..call()
            };
            let answer = client.complete(asked()).await.unwrap();
            let id = answer.tool_calls().next().unwrap().id.clone();
            let mut streamed = evenkeel_core::Accumulator::default();
            for event in crate::server::all(client.stream(asked()).await.unwrap()).await {
                streamed.push(&event.unwrap());
            }
            let streamed = streamed.finish().unwrap();
            assert_eq!(streamed.tool_calls().next().unwrap().id, id);
            assert!(!ids.contains(&id), "{dialect:?}: {id} after {ids:?}");
            let mut said = Message::text(Role::Assistant, "");
            said.parts = answer.parts;
            let mut result = Message::text(Role::Tool, "");
            result.parts = vec![Part::ToolResult(evenkeel_core::ToolResult {
                call_id: id.clone(),
                parts: vec![Part::Text("done".into())],
                is_error: false,
            })];
            request.messages.extend([said, result]);
            ids.push(id);
        }
    }
}

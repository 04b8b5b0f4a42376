//! Requests that cannot be taken: each gets an error in OpenAI's shape with a
//! code of its own, no upstream is asked, and the next good one is answered.

use crate::gateway::{Gateway, Setup, question, upstream};
use crate::wire::{self, Reply};
use evenkeel_chaos::{Behaviour, Upstream};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

async fn gateway() -> (Upstream, Gateway) {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = Gateway::start(&[&up]);
    (up, gateway)
}

/// Status, code and param of a refusal.
fn told(reply: &Reply) -> (u16, String, Value) {
    let error = reply.error();
    let code = error["code"].as_str().unwrap().to_owned();
    (reply.status, code, error["param"].clone())
}

#[tokio::test]
async fn a_body_that_cannot_be_read_says_why() {
    let (up, gateway) = gateway().await;
    let invalid_utf8 =
        b"{\"model\":\"planner\",\"messages\":[{\"role\":\"user\",\"content\":\"\xff\xfe\"}]}";
    let deep = "[".repeat(100_000);
    let cases: [(&[u8], u16, &str, Value); 15] = [
        (b"", 400, "invalid_json", json!(null)),
        (b"hello", 400, "invalid_json", json!(null)),
        (b"{\"model\":\"planner\",", 400, "invalid_json", json!(null)),
        (deep.as_bytes(), 400, "invalid_json", json!(null)),
        (invalid_utf8, 400, "invalid_utf8", json!(null)),
        (b"[1]", 400, "invalid_type", json!(null)),
        (b"{}", 400, "missing_required_parameter", json!("model")),
        (
            br#"{"model":"planner"}"#,
            400,
            "missing_required_parameter",
            json!("messages"),
        ),
        (
            br#"{"model":"planner","messages":[]}"#,
            400,
            "empty_array",
            json!("messages"),
        ),
        (
            br#"{"model":"planner","messages":"hi"}"#,
            400,
            "invalid_type",
            json!("messages"),
        ),
        (
            br#"{"model":7,"messages":[{"role":"user","content":"hi"}]}"#,
            400,
            "invalid_type",
            json!("model"),
        ),
        (
            br#"{"model":"planner","messages":[{"role":"user","content":7}]}"#,
            400,
            "invalid_type",
            json!("messages[0].content"),
        ),
        (
            br#"{"model":"planner","stream":"yes","messages":[{"role":"user","content":"hi"}]}"#,
            400,
            "invalid_type",
            json!("stream"),
        ),
        (
            br#"{"model":"planner","n":2,"messages":[{"role":"user","content":"hi"}]}"#,
            400,
            "unsupported_parameter",
            json!("n"),
        ),
        (
            br#"{"model":"plannr","messages":[{"role":"user","content":"hi"}]}"#,
            404,
            "role_not_found",
            json!("model"),
        ),
    ];
    for (body, status, code, param) in cases {
        let reply = gateway.chat(&[], body).await;
        let shown: String = String::from_utf8_lossy(body).chars().take(80).collect();
        assert_eq!(told(&reply), (status, code.to_owned(), param), "{shown}");
    }
    assert_eq!(up.requests().len(), 0);
    gateway.assert_well().await;
}

/// C180: a misspelt role goes nowhere, and the error helps.
#[tokio::test]
async fn an_unknown_role_is_told_which_names_are_close() {
    let (_up, gateway) = gateway().await;
    let body = question(&json!({ "model": "planer" }));
    let error = gateway.chat(&[], &body).await.error();
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("`planer`") && message.contains("did you mean `planner`?"),
        "{message}"
    );
    assert_eq!(error["type"], "model_not_found");
    let far = question(&json!({ "model": "zzz" }));
    let error = gateway.chat(&[], &far).await.error();
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("GET /v1/models")
    );
}

/// C210: the limit and its setting are named; nothing near it is refused.
#[tokio::test]
async fn a_body_over_the_limit_is_refused_and_one_below_is_not() {
    let (up, gateway) = gateway().await;
    let huge = question(&json!({ "padding": "x".repeat(50 * 1024 * 1024) }));
    let reply = gateway.chat(&[], &huge).await;
    let error = reply.error();
    assert_eq!(
        (reply.status, error["code"].as_str()),
        (413, Some("body_too_large"))
    );
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("33554432") && message.contains("server.max_body_bytes"),
        "{message}"
    );
    assert_eq!(reply.header("x-should-retry"), Some("false"));
    let large = question(&json!({ "padding": "x".repeat(5_000_000) }));
    assert_eq!(gateway.chat(&[], &large).await.status, 200);
    assert_eq!(up.requests().len(), 1);
}

#[tokio::test]
async fn a_chunked_body_over_the_limit_is_refused_too() {
    let up = upstream("up", Behaviour::default()).await;
    let setup = Setup {
        server: "max_body_bytes = 100000",
        ..Setup::default()
    };
    let gateway = Gateway::with(&[&up], setup);
    let mut connection = TcpStream::connect(gateway.address).await.unwrap();
    connection
        .write_all(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n",
        )
        .await
        .unwrap();
    let chunk = [b"4000\r\n".as_slice(), &[b'x'; 0x4000], b"\r\n"].concat();
    for _ in 0..8 {
        connection.write_all(&chunk).await.unwrap();
    }
    connection.write_all(b"0\r\n\r\n").await.unwrap();
    let reply = wire::receive(&mut connection).await;
    assert_eq!(
        told(&reply),
        (413, "body_too_large".to_owned(), json!(null))
    );
    gateway.assert_well().await;
}

#[tokio::test]
async fn a_client_that_asks_first_is_refused_before_it_sends() {
    let (_up, gateway) = gateway().await;
    let mut connection = TcpStream::connect(gateway.address).await.unwrap();
    connection
        .write_all(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 52428800\r\n\r\n",
        )
        .await
        .unwrap();
    let reply = wire::receive(&mut connection).await;
    assert_eq!(told(&reply).0, 413);
}

#[tokio::test]
async fn clocks_that_are_no_numbers_are_refused() {
    let (up, gateway) = gateway().await;
    for name in [
        "x-evenkeel-connect-ms",
        "x-evenkeel-first-token-ms",
        "x-evenkeel-stall-ms",
        "x-evenkeel-deadline-ms",
    ] {
        let reply = gateway.chat(&[(name, "soon")], &question(&json!({}))).await;
        assert_eq!(
            told(&reply),
            (400, "invalid_header".to_owned(), json!(name))
        );
    }
    let long = "s".repeat(300);
    for (name, value) in [
        ("x-evenkeel-session", long.as_str()),
        ("x-evenkeel-workflow", "\u{e9}"),
    ] {
        let reply = gateway.chat(&[(name, value)], &question(&json!({}))).await;
        assert_eq!(
            told(&reply),
            (400, "invalid_header".to_owned(), json!(name))
        );
    }
    assert_eq!(up.requests().len(), 0);
}

#[tokio::test]
async fn other_addresses_and_methods_are_told_apart() {
    let (_up, gateway) = gateway().await;
    for (line, status, code) in [
        ("GET /v1/nothing", 404, "unknown_path"),
        ("POST /", 404, "unknown_path"),
        ("GET /v1/chat/completions", 405, "method_not_allowed"),
        ("DELETE /v1/models", 405, "method_not_allowed"),
    ] {
        let reply = wire::send(gateway.address, &wire::request(line, &[], b"")).await;
        assert_eq!(
            told(&reply),
            (status, code.to_owned(), json!(null)),
            "{line}"
        );
    }
}

/// The server stops reading early and answers; what the client still sends is
/// taken off it for a moment, so that no reset runs over the answer.
#[tokio::test]
async fn a_flood_of_headers_is_refused_in_the_same_form() {
    let (_up, gateway) = gateway().await;
    let many = "x-many: y\r\n".repeat(10_000);
    let long = format!("x-long: {}\r\n", "y".repeat(8_000_000));
    for headers in [many, long] {
        let bytes = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
        let reply = wire::send(gateway.address, bytes.as_bytes()).await;
        let told = told(&reply);
        assert_eq!(told, (431, "headers_too_large".to_owned(), json!(null)));
        gateway.assert_well().await;
    }
}

#[tokio::test]
async fn what_is_no_http_is_told_so() {
    let (_up, gateway) = gateway().await;
    for bytes in [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS to a plain port\r\n\r\n".as_slice(),
        b"POST /v1/chat/completions HTTP/1.1\r\nbad header\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: many\r\n\r\n",
    ] {
        let reply = wire::send(gateway.address, bytes).await;
        assert_eq!(told(&reply), (400, "invalid_http".to_owned(), json!(null)));
    }
    gateway.assert_well().await;
}

//! Streams whose headers go out before their answer has committed.

use crate::gateway::{Gateway, Setup, chat, question, upstream};
use evenkeel_chaos::{Behaviour, Fault, Latency};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The first sign of life is due after 50 ms.
fn early() -> Setup {
    Setup {
        role: "heartbeat_after_ms = 50",
        ..Setup::default()
    }
}

/// Nothing commits before 400 ms.
fn late() -> Behaviour {
    Behaviour::healthy(Latency::millis(400)).with_text("one two")
}

fn text(chunks: &[Value]) -> String {
    chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect()
}

#[tokio::test]
async fn an_answer_that_is_late_has_its_headers_and_signs_of_life_before() {
    let up = upstream("up", late()).await;
    let gateway = Gateway::with(&[&up], early());
    let reply = gateway.ask_stream().await;
    assert_eq!(reply.status, 200);
    let kind = reply.header("content-type").unwrap();
    assert!(kind.starts_with("text/event-stream"), "{kind}");
    assert_eq!(reply.header("x-evenkeel-role"), Some("planner"));
    assert!(reply.header("x-evenkeel-request-id").is_some());
    for unknown in ["model", "rung", "route", "attempts", "overhead-ms"] {
        assert_eq!(reply.header(&format!("x-evenkeel-{unknown}")), None);
    }
    let first = reply.body.find("data: ").unwrap();
    let signs = reply.body[..first].matches(": keep-alive\n\n").count();
    assert!(signs >= 2, "{}", reply.body);
    let chunks = reply.chunks();
    assert_eq!(text(&chunks), "one two");
    assert_eq!(chunks[0]["model"], "p0/m0");
    assert_eq!(chunks[0]["evenkeel"]["model_id"], "p0/m0");
    assert_eq!(reply.events().last().map(String::as_str), Some("[DONE]"));
}

#[tokio::test]
async fn an_answer_in_time_has_no_sign_of_life() {
    let up = upstream("up", Behaviour::default().with_text("one two")).await;
    let setup = Setup {
        role: "heartbeat_after_ms = 60000",
        ..Setup::default()
    };
    let gateway = Gateway::with(&[&up], setup);
    let reply = gateway.ask_stream().await;
    assert_eq!(reply.header("x-evenkeel-model"), Some("p0/m0"));
    assert!(!reply.body.contains("keep-alive"), "{}", reply.body);
}

/// After the headers an error is an event in OpenAI's form, and never a clean end.
#[tokio::test]
async fn an_error_that_is_late_is_an_event() {
    let mut fails = Behaviour::failing(Fault::status(503));
    fails.fault_delay = Duration::from_millis(300);
    let up = upstream("up", fails).await;
    let gateway = Gateway::with(&[&up], early());
    let reply = gateway.ask_stream().await;
    assert_eq!(reply.status, 200);
    assert!(reply.body.starts_with(": keep-alive\n\n"), "{}", reply.body);
    let events = reply.events();
    assert_eq!(events.len(), 1, "{events:?}");
    let error: Value = serde_json::from_str(&events[0]).unwrap();
    assert_eq!(error["error"]["code"], "overloaded");
    for field in ["message", "type", "param", "cause"] {
        assert!(error["error"].get(field).is_some(), "{field}");
    }
    let reply = Gateway::with(&[&up], Setup::default()).ask_stream().await;
    assert_eq!(reply.status, 503, "in time it is an answer of its own");
}

#[tokio::test]
async fn a_role_that_is_not_there_is_an_answer_of_its_own() {
    let up = upstream("up", late()).await;
    let gateway = Gateway::with(&[&up], early());
    let body = question(&json!({ "stream": true, "model": "nobody" }));
    assert_eq!(gateway.chat(&[], &body).await.status, 404);
}

/// A fallback that answers after the headers went out is named in the stream itself.
#[tokio::test]
async fn who_answers_late_is_named_in_the_stream() {
    let first = upstream("first", Behaviour::failing(Fault::Hang)).await;
    let second = upstream("second", Behaviour::default().with_text("one two")).await;
    let gateway = Gateway::with(&[&first, &second], early());
    let headers = [("x-evenkeel-first-token-ms", "300")];
    let body = question(&json!({ "stream": true }));
    let reply = gateway.chat(&headers, &body).await;
    let chunks = reply.chunks();
    assert_eq!(text(&chunks), "one two");
    assert_eq!(chunks[0]["evenkeel"]["model_id"], "p1/m1");
    assert_eq!(chunks[0]["evenkeel"]["fallback_reason"], "timeout");
}

/// Headers and the first sign of life reach the client while nothing else does.
#[tokio::test]
async fn the_headers_go_out_while_the_answer_is_still_to_come() {
    let up = upstream("up", Behaviour::failing(Fault::Hang)).await;
    let gateway = Gateway::with(&[&up], early());
    let mut connection = TcpStream::connect(gateway.address).await.unwrap();
    let request = chat(&[], &question(&json!({ "stream": true })));
    connection.write_all(&request).await.unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(": keep-alive") {
        assert!(connection.read_buf(&mut seen).await.unwrap() > 0);
    }
    assert!(seen.starts_with(b"HTTP/1.1 200"));
    assert_eq!(up.stats().in_flight, 1);
}

//! What a policy's validators make of answers, the service of one that is asked over HTTP too.

use crate::admin;
use crate::gateway::{Gateway, Setup, question, upstream};
use crate::tickets::hook::{Hook, Manner, Reaction};
use crate::wire::Reply;
use evenkeel::{RouterError, Settings, core::NoObserver};
use evenkeel_chaos::{Behaviour, Upstream};
use evenkeel_router::BuildError;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// A role `judged` with both rungs, and these lines.
fn judged(lines: &str) -> String {
    format!(
        r#"
        [agent_roles.judged]
        p95_threshold_ms = 5000
        p99_threshold_ms = 8000
        evaluation_window_seconds = 15
        allow_unqualified = true
        primary = "p0/m0"
        {lines}
        "#
    )
}

const BOTH: &str = r#"fallbacks = [{ model = "p1/m1", rank = 1 }]"#;
const ALONE: &str = "fallbacks = []";

/// A service as validator, which has so long for a verdict.
fn service(address: SocketAddr, timeout_ms: u32) -> String {
    format!(
        r#"validators = [{{ kind = "http", url = "http://{address}/judge?token=t", timeout_ms = {timeout_ms}, headers = {{ authorization = "Bearer CANARY" }} }}]
        validator_timeout_ms = 30000"#
    )
}

/// Longer than any verdict takes.
const LONG: u32 = 30_000;

fn answered(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

/// Finds `kind` valid and hints at it.
fn hints(asked: &Value) -> Vec<u8> {
    let said = match asked["text"].as_str() {
        Some("rude") => r#"{"valid":false,"message":"too rude","hint":"Be kind."}"#,
        _ => r#"{"valid":true}"#,
    };
    answered("200 OK", said)
}

/// Finds `kind` valid and says why nothing else is.
fn objects(asked: &Value) -> Vec<u8> {
    let valid = asked["text"] == "kind";
    answered(
        "200 OK",
        &json!({ "valid": valid, "message": "too rude" }).to_string(),
    )
}

async fn pair() -> [Upstream; 2] {
    let says = |text: &'static str| Behaviour::default().with_text(text);
    [
        upstream("rude", says("rude")).await,
        upstream("kind", says("kind")).await,
    ]
}

fn over(ups: &[Upstream; 2], lines: &str) -> Gateway {
    Gateway::with_more(&[&ups[0], &ups[1]], Setup::default(), &judged(lines))
}

async fn ask(gateway: &Gateway) -> Reply {
    let body = question(&json!({ "model": "judged" }));
    gateway.chat(&[("x-request-id", "req-7")], &body).await
}

fn text(reply: &Reply) -> String {
    let body = reply.json();
    let text = body["choices"][0]["message"]["content"].as_str();
    text.unwrap_or_else(|| panic!("no text: {body}")).to_owned()
}

fn last_message(up: &Upstream, nth: usize) -> String {
    let body = &up.requests()[nth].body;
    let last = body["messages"].as_array().unwrap().last().unwrap();
    last["content"].to_string()
}

fn asked(ups: &[Upstream; 2]) -> [usize; 2] {
    [ups[0].requests().len(), ups[1].requests().len()]
}

#[tokio::test]
async fn a_pattern_is_told_to_the_model_and_then_the_next_rung_is_asked() {
    let ups = pair().await;
    let rule = r#"validators = [{ kind = "regex", pattern = "^kind$" }]"#;
    let gateway = over(&ups, &format!("{BOTH}\n{rule}"));
    let reply = ask(&gateway).await;
    assert_eq!(
        (reply.status, text(&reply).as_str()),
        (200, "kind"),
        "{}",
        reply.body
    );
    assert_eq!(reply.header("x-evenkeel-rung"), Some("1"));
    assert_eq!(asked(&ups), [2, 1]);
    assert!(last_message(&ups[0], 1).contains("^kind$"));
}

#[tokio::test]
async fn a_service_is_sent_the_answer_and_no_question() {
    let hook = Hook::start(Manner::Says(hints)).await;
    let up = upstream("kind", Behaviour::default().with_text("kind")).await;
    let lines = format!("{ALONE}\n{}", service(hook.address, LONG));
    let gateway = Gateway::with_more(&[&up], Setup::default(), &judged(&lines));
    let reply = ask(&gateway).await;
    assert_eq!((reply.status, text(&reply).as_str()), (200, "kind"));
    let told = hook.posts();
    assert_eq!(
        told[0].body,
        json!({
            "role": "judged",
            "model": "p0/m0",
            "request_id": "req-7",
            "text": "kind",
            "tool_calls": [],
            "finish": "stop",
        })
    );
    assert_eq!(told[0].header("authorization"), "Bearer CANARY");
    assert_eq!(told[0].header("content-type"), "application/json");
    // A stream is held until it is valid, and tool calls are judged too.
    up.set(Behaviour::default().with_calls(1));
    let tool = json!({ "name": "weather", "parameters": { "type": "object" } });
    let body = question(&json!({
        "model": "judged",
        "stream": true,
        "tools": [{ "type": "function", "function": tool }],
    }));
    let reply = gateway.chat(&[], &body).await;
    assert_eq!(reply.events().last().map(String::as_str), Some("[DONE]"));
    let told = hook.posts();
    assert_eq!(told.len(), 2, "once for each answer");
    let call = &told[1].body["tool_calls"][0];
    assert_eq!(call["name"], "weather");
    let arguments = call["arguments"].as_str().unwrap();
    assert!(
        serde_json::from_str::<Value>(arguments)
            .unwrap()
            .is_object()
    );
    assert_eq!(told[1].body["finish"], "tool_use");
}

#[tokio::test]
async fn a_hint_is_one_more_try_and_then_the_next_rung() {
    let hook = Hook::start(Manner::Says(hints)).await;
    let ups = pair().await;
    let lines = format!("{BOTH}\n{}", service(hook.address, LONG));
    let gateway = over(&ups, &lines);
    let reply = ask(&gateway).await;
    assert_eq!((reply.status, text(&reply).as_str()), (200, "kind"));
    assert_eq!(reply.header("x-evenkeel-rung"), Some("1"));
    assert_eq!(asked(&ups), [2, 1]);
    assert!(last_message(&ups[0], 1).contains("Be kind."));
    assert!(!last_message(&ups[1], 0).contains("Be kind."));
    let texts: Vec<Value> = hook
        .posts()
        .iter()
        .map(|post| post.body["text"].clone())
        .collect();
    assert_eq!(texts, ["rude", "rude", "kind"]);
}

#[tokio::test]
async fn without_a_hint_the_next_rung_is_asked_at_once() {
    let hook = Hook::start(Manner::Says(objects)).await;
    let ups = pair().await;
    let lines = format!("{BOTH}\n{}", service(hook.address, LONG));
    let gateway = over(&ups, &lines);
    let reply = ask(&gateway).await;
    assert_eq!((reply.status, text(&reply).as_str()), (200, "kind"));
    assert_eq!(asked(&ups), [1, 1]);
}

/// What a caller gets of one model whose answer a service gave no verdict on.
async fn without_verdict(address: SocketAddr, timeout_ms: u32, on_error: &str) -> Reply {
    let up = upstream("rude", Behaviour::default().with_text("rude")).await;
    let lines = format!(
        "{ALONE}\n{}\non_validator_error = \"{on_error}\"",
        service(address, timeout_ms)
    );
    let gateway = Gateway::with_more(&[&up], Setup::default(), &judged(&lines));
    let reply = ask(&gateway).await;
    assert_eq!(up.requests().len(), 1, "the model is not to blame");
    for secret in ["token=t", "CANARY", &address.to_string()] {
        assert!(!reply.body.contains(secret), "{secret}: {}", reply.body);
    }
    reply
}

async fn assert_no_verdict(address: SocketAddr, timeout_ms: u32, why: &str) {
    let failed = without_verdict(address, timeout_ms, "fail").await;
    let error = failed.error();
    assert_eq!(error["code"], "upstream_invalid", "{error}");
    let message = error["message"].as_str().unwrap();
    let expected = format!("not validated: validator `http` {why}");
    assert!(message.contains(&expected), "{expected}: {message}");
    let passed = without_verdict(address, timeout_ms, "pass").await;
    assert_eq!((passed.status, text(&passed).as_str()), (200, "rude"));
}

#[tokio::test]
async fn a_service_that_says_nothing_of_use_gives_no_verdict() {
    fn garbage(_: &Value) -> Vec<u8> {
        answered("200 OK", "<html>")
    }
    fn undecided(_: &Value) -> Vec<u8> {
        answered("200 OK", r#"{"valid":"maybe"}"#)
    }
    fn endless(_: &Value) -> Vec<u8> {
        let valid = format!(r#"{{"valid":true,"message":"{}"}}"#, "a".repeat(10_000_000));
        answered("200 OK", &valid)
    }
    fn failing(_: &Value) -> Vec<u8> {
        answered("503 Busy", r#"{"valid":true}"#)
    }
    fn created(_: &Value) -> Vec<u8> {
        answered("201 Created", r#"{"valid":true}"#)
    }
    fn elsewhere(_: &Value) -> Vec<u8> {
        b"HTTP/1.1 307 Go\r\nlocation: /valid\r\ncontent-length: 0\r\n\r\n".to_vec()
    }
    fn no_http(_: &Value) -> Vec<u8> {
        b"valid\r\n\r\n".to_vec()
    }
    let manners: [(Reaction, &str); 7] = [
        (garbage, "answered with no JSON"),
        (undecided, "answered without `valid`"),
        (endless, "answered with more than 65536 bytes"),
        (failing, "answered with status 503"),
        (created, "answered with status 201"),
        (elsewhere, "answered with status 307"),
        (no_http, "broke off before its answer"),
    ];
    for (says, why) in manners {
        let hook = Hook::start(Manner::Says(says)).await;
        assert_no_verdict(hook.address, LONG, why).await;
        assert_eq!(
            hook.posts().len(),
            2,
            "{why}: asked once each, followed nowhere"
        );
    }
}

#[tokio::test]
async fn a_service_that_hangs_or_is_not_there_gives_no_verdict() {
    let hook = Hook::start(Manner::Hangs).await;
    assert_no_verdict(hook.address, 50, "gave no verdict within 50 ms").await;
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = gone.local_addr().unwrap();
    drop(gone);
    assert_no_verdict(address, LONG, "cannot be reached").await;
}

#[tokio::test]
async fn an_answer_nobody_judged_goes_to_the_next_rung() {
    let hook = Hook::start(Manner::Hangs).await;
    let ups = pair().await;
    let lines = format!("{BOTH}\n{}", service(hook.address, 50));
    let gateway = over(&ups, &lines);
    let reply = ask(&gateway).await;
    assert_eq!(reply.error()["code"], "roster_exhausted");
    assert_eq!(asked(&ups), [1, 1]);
}

#[tokio::test]
async fn a_reload_moves_a_role_to_another_service() {
    let first = Hook::start(Manner::Says(objects)).await;
    let second = Hook::start(Manner::Says(objects)).await;
    let up = upstream("kind", Behaviour::default().with_text("kind")).await;
    let lines = format!("{ALONE}\n{}", service(first.address, LONG));
    let gateway = Gateway::with_more(&[&up], admin::setup(), &judged(&lines));
    let ask = async || {
        let key = [("authorization", "Bearer evk-client")];
        let body = question(&json!({ "model": "judged" }));
        assert_eq!(gateway.chat(&key, &body).await.status, 200);
        [first.posts().len(), second.posts().len()]
    };
    assert_eq!(ask().await, [1, 0]);
    let (from, to) = (first.address.to_string(), second.address.to_string());
    gateway.rewrite(&gateway.file().replace(&from, &to));
    let reply = admin::operate(&gateway, "POST /admin/reload", "").await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert!(!reply.body.contains("CANARY"));
    assert_eq!(ask().await, [1, 1]);
}

#[tokio::test]
async fn a_process_without_the_gateway_refuses_what_it_cannot_ask() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evenkeel.toml");
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    let lines = format!("{ALONE}\n{}", service(address, LONG));
    let simulated = "[providers.p0]\ndialect = \"simulated\"\n";
    std::fs::write(&path, format!("{simulated}{}", judged(&lines))).unwrap();
    let settings = Settings::load(&path).unwrap();
    let refused = settings.router(Arc::new(NoObserver)).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("RouterBuilder::http_validators")
    );
    assert!(matches!(
        refused,
        RouterError::Router(BuildError::NoHttpValidators(role)) if role == "judged"
    ));
}

//! Whole answers, and what they carry.

use crate::gateway::{Gateway, Setup, question, upstream};
use crate::wire;
use evenkeel_chaos::{Behaviour, Fault};
use serde_json::{Value, json};

#[tokio::test]
async fn an_answer_names_who_gave_it() {
    let up = upstream("up", Behaviour::default().with_text("hello there")).await;
    let gateway = Gateway::start(&[&up]);
    let reply = gateway.ask().await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let body = reply.json();
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(body["model"], "p0/m0");
    assert_eq!(body["choices"][0]["message"]["content"], "hello there");
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    assert!(body["usage"]["total_tokens"].as_u64().unwrap() > 0);
    let meta = &body["evenkeel"];
    assert_eq!(meta["provider"], "p0");
    assert_eq!(meta["model_id"], "p0/m0");
    assert_eq!(meta["rung"], 0);
    assert_eq!(meta["route"], "primary");
    assert_eq!(meta["capability_score"], 1.0);
    assert_eq!(meta["degraded"], false);
    assert_eq!(meta["fallback_reason"], json!(null));
    assert_eq!(meta["attempts"], 1);
    assert!(meta["latency_added_ms"].is_number());
    assert_eq!(meta["adapted"], json!([]));
}

#[tokio::test]
async fn headers_say_the_same() {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = Gateway::start(&[&up]);
    let reply = gateway.ask().await;
    for (name, value) in [
        ("x-evenkeel-model", "p0/m0"),
        ("x-evenkeel-role", "planner"),
        ("x-evenkeel-rung", "0"),
        ("x-evenkeel-route", "primary"),
        ("x-evenkeel-degraded", "false"),
        ("x-evenkeel-attempts", "1"),
    ] {
        assert_eq!(reply.header(name), Some(value), "{name}");
    }
    assert_eq!(reply.header("x-evenkeel-reason"), None);
    for name in ["x-evenkeel-latency-added-ms", "x-evenkeel-overhead-ms"] {
        let value: f64 = reply.header(name).unwrap().parse().unwrap();
        assert!((0.0..5_000.0).contains(&value), "{name}: {value}");
    }
    assert!(
        reply
            .header("x-evenkeel-request-id")
            .unwrap()
            .starts_with("evk-")
    );
    assert_eq!(
        reply.header("x-request-id"),
        reply.header("x-evenkeel-request-id")
    );
}

#[tokio::test]
async fn a_fallback_answer_says_why() {
    let bad = upstream("bad", Behaviour::failing(Fault::status(500))).await;
    let good = upstream("good", Behaviour::default()).await;
    let gateway = Gateway::start(&[&bad, &good]);
    let reply = gateway.ask().await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json()["model"], "p1/m1");
    let meta = &reply.json()["evenkeel"];
    assert_eq!(meta["route"], "fallback");
    assert_eq!(meta["degraded"], true);
    assert_eq!(meta["fallback_reason"], "transient");
    assert_eq!(meta["attempts"], 2);
    assert_eq!(reply.header("x-evenkeel-reason"), Some("transient"));
    assert_eq!(reply.header("x-evenkeel-rung"), Some("1"));
    assert_eq!(reply.header("x-evenkeel-degraded"), Some("true"));
}

#[tokio::test]
async fn the_meta_object_can_be_renamed() {
    let up = upstream("up", Behaviour::default()).await;
    let setup = Setup {
        server: "meta_key = \"_meta\"",
        ..Setup::default()
    };
    let gateway = Gateway::with(&[&up], setup);
    let body = gateway.ask().await.json();
    assert_eq!(body["_meta"]["model_id"], "p0/m0");
    assert!(body.get("evenkeel").is_none());
    let chunks = gateway.ask_stream().await.chunks();
    assert_eq!(chunks[0]["_meta"]["model_id"], "p0/m0");
}

#[tokio::test]
async fn unknown_fields_reach_the_provider() {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = Gateway::start(&[&up]);
    let fields = json!({ "verbosity": "low", "x_vendor": { "deep": [1, 2.5, "é"] } });
    assert_eq!(gateway.chat(&[], &question(&fields)).await.status, 200);
    let seen = up.requests().pop().unwrap();
    assert_eq!(seen.body["verbosity"], "low");
    assert_eq!(seen.body["x_vendor"], fields["x_vendor"]);
    assert_eq!(seen.model, "m0");
}

#[tokio::test]
async fn a_request_id_of_the_caller_comes_back() {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = Gateway::start(&[&up]);
    let reply = gateway
        .chat(&[("x-request-id", "mine-7")], &question(&json!({})))
        .await;
    assert_eq!(reply.header("x-evenkeel-request-id"), Some("mine-7"));
    let refused = gateway.chat(&[("x-request-id", "mine-8")], b"{").await;
    assert_eq!(refused.header("x-evenkeel-request-id"), Some("mine-8"));
}

#[tokio::test]
async fn the_roles_are_the_models() {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = Gateway::start(&[&up]);
    let reply = wire::send(gateway.address, &wire::request("GET /v1/models", &[], b"")).await;
    let body = reply.json();
    assert_eq!(body["object"], "list");
    assert_eq!(body["data"][0]["id"], "planner");
    assert_eq!(body["data"][0]["object"], "model");
    assert_eq!(body["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn health_is_told_under_every_usual_name() {
    let up = upstream("up", Behaviour::failing(Fault::Refuse)).await;
    let gateway = Gateway::start(&[&up]);
    for path in [
        "/healthz",
        "/readyz",
        "/health",
        "/health/liveliness",
        "/health/readiness",
        "/ping",
    ] {
        let request = wire::request(&format!("GET {path}"), &[], b"");
        let reply = wire::send(gateway.address, &request).await;
        assert_eq!(
            (reply.status, reply.json()["status"].as_str()),
            (200, Some("ok")),
            "{path}"
        );
    }
}

/// C164: what the upstream's answer was framed with stays behind.
#[tokio::test]
async fn one_connection_serves_many_answers() {
    use tokio::io::AsyncWriteExt;
    let up = upstream("up", Behaviour::default()).await;
    let gateway = Gateway::start(&[&up]);
    let mut connection = tokio::net::TcpStream::connect(gateway.address)
        .await
        .unwrap();
    for stream in [false, true, false] {
        let body = question(&json!({ "stream": stream }));
        let request = crate::gateway::chat(&[], &body);
        connection.write_all(&request).await.unwrap();
        let reply = wire::receive(&mut connection).await;
        assert_eq!(reply.status, 200);
        assert!(reply.complete);
        assert_eq!(reply.header("content-encoding"), None);
        assert_eq!(reply.header("set-cookie"), None);
    }
}

/// A dollar a million input tokens, a hundred a million output tokens.
const PRICED: &str = r#"
[[models]]
id = "p0/m0"
input_usd_per_mtok = 1.0
output_usd_per_mtok = 100.0
"#;

fn priced() -> Setup {
    Setup {
        role: PRICED,
        ..Setup::default()
    }
}

fn assert_cost(cost: &Value, usage: &Value) {
    let of = |key: &str| usage[key].as_f64().unwrap();
    let expected = (of("prompt_tokens") + 100.0 * of("completion_tokens")) / 1e6;
    let cost = cost.as_f64().unwrap();
    assert!((cost - expected).abs() < 1e-9, "{cost}, not {expected}");
}

#[tokio::test]
async fn an_answer_says_what_it_cost() {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = Gateway::with(&[&up], priced());
    let reply = gateway.ask().await;
    let body = reply.json();
    assert_cost(&body["evenkeel"]["cost_usd"], &body["usage"]);
    assert_eq!(body["evenkeel"]["added_cost_usd"], 0.0);
    assert_eq!(body["evenkeel"]["cost_is_estimate"], false);
    let header = reply.header("x-evenkeel-cost-usd").unwrap();
    assert_eq!(body["evenkeel"]["cost_usd"].to_string(), header);
    assert!(!header.contains('e'), "no exponent: {header}");
}

#[tokio::test]
async fn a_stream_says_what_it_cost_in_its_last_chunk() {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = Gateway::with(&[&up], priced());
    let body = question(&json!({ "stream": true, "stream_options": { "include_usage": true } }));
    let reply = gateway.chat(&[], &body).await;
    assert_eq!(reply.header("x-evenkeel-cost-usd"), None);
    let chunks = reply.chunks();
    assert_eq!(chunks[0]["evenkeel"]["cost_usd"], json!(null));
    let last = chunks.last().unwrap();
    assert_cost(&last["evenkeel"]["cost_usd"], &last["usage"]);
    // Without a usage chunk the one with the finish reason is the last.
    let chunks = gateway.ask_stream().await.chunks();
    let ends = chunks.last().unwrap();
    assert_eq!(ends["choices"][0]["finish_reason"], "stop");
    assert_cost(&ends["evenkeel"]["cost_usd"], &last["usage"]);
}

#[tokio::test]
async fn without_prices_the_cost_is_null() {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = Gateway::start(&[&up]);
    let reply = gateway.ask().await;
    assert_eq!(reply.json()["evenkeel"]["cost_usd"], json!(null));
    assert_eq!(reply.header("x-evenkeel-cost-usd"), None);
}

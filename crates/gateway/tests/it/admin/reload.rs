//! The configuration read again: whole and at once, or not at all.

use super::{TOKEN, operate, operated, setup, state};
use crate::gateway::{Gateway, Setup, chat, question, upstream};
use crate::wire::{self, Reply};
use evenkeel_chaos::{Behaviour, Latency, Upstream};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const LONG: Duration = Duration::from_secs(30);

async fn reload(gateway: &Gateway) -> Reply {
    operate(gateway, "POST /admin/reload", "").await
}

async fn ask(gateway: &Gateway, role: &str) -> Reply {
    let key = [("authorization", "Bearer evk-client")];
    let body = question(&json!({ "model": role }));
    gateway.chat(&key, &body).await
}

/// A stream that has begun and goes on for some seconds.
async fn streaming(gateway: &Gateway) -> TcpStream {
    let mut connection = TcpStream::connect(gateway.address).await.unwrap();
    let key = [("authorization", "Bearer evk-client")];
    let request = chat(&key, &question(&json!({ "stream": true })));
    connection.write_all(&request).await.unwrap();
    connection
}

fn slow() -> Behaviour {
    Behaviour::healthy(Latency::millis(10))
        .with_tokens(30)
        .with_inter_token(Duration::from_millis(50))
}

async fn pair() -> [Upstream; 2] {
    [
        upstream("a", Behaviour::default()).await,
        upstream("b", Behaviour::default()).await,
    ]
}

/// C141, C142: bad files change nothing and say why; what is shown is what
/// runs, and the keys in it are not.
#[tokio::test]
async fn bad_files_are_refused_while_a_hundred_streams_go_on() {
    let ups = [upstream("a", slow()).await, upstream("b", slow()).await];
    let gateway = Arc::new(operated(&[&ups[0], &ups[1]]));
    let good = gateway.file();
    let before = state(&gateway).await["config"].clone();
    assert_eq!(before["last_refusal"], Value::Null);
    let mut streams = JoinSet::new();
    for _ in 0..100 {
        let mut stream = streaming(&gateway).await;
        streams.spawn(async move { timeout(LONG, wire::receive(&mut stream)).await.unwrap() });
    }
    let served = || ups[0].stats().in_flight + ups[1].stats().in_flight;
    while served() < 60 {
        sleep(Duration::from_millis(5)).await;
    }
    let half = &good[..good.len() / 2];
    let bad = [
        (good.replace("\"p0/m0\"", "\"nope/m0\""), "nope"),
        (half.to_owned(), "evenkeel.toml"),
        (
            good.replace("sk-upstream-0", "${EK_MISSING_HERE}"),
            "EK_MISSING_HERE",
        ),
        (
            good.replace("p95_threshold_ms", "p95_treshold_ms"),
            "p95_threshold_ms",
        ),
        (
            good.replace("p95_threshold_ms = 5000", "p95_threshold_ms = 9000"),
            "9000",
        ),
        (String::new(), "evenkeel.toml"),
    ];
    for (count, (text, named)) in bad.iter().enumerate() {
        gateway.rewrite(text);
        let reply = reload(&gateway).await;
        assert_eq!(reply.status, 422, "{}", reply.body);
        let error = reply.error();
        assert_eq!(error["code"], "config_refused");
        let problems = error["problems"].to_string();
        assert!(problems.contains(named), "{named}: {problems}");
        let config = state(&gateway).await["config"].clone();
        assert_eq!(
            (&config["hash"], &config["loaded"]),
            (&before["hash"], &before["loaded"])
        );
        assert_eq!(config["refused_reloads"], count + 1);
        assert_eq!(config["last_refusal"]["problems"], error["problems"]);
        assert!(config["last_refusal"]["at"].is_string());
        assert_eq!(ask(&gateway, "planner").await.status, 200);
    }
    for stream in streams.join_all().await {
        assert!(stream.complete);
        assert_eq!(stream.events().last().map(String::as_str), Some("[DONE]"));
    }
    gateway.rewrite(&good);
    let reply = reload(&gateway).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let shown = state(&gateway).await;
    assert_eq!(shown["config"]["hash"], before["hash"], "the same files");
    assert_eq!(shown["config"]["reloads"], 1);
    for secret in ["sk-upstream", "CANARY", "evk-client"] {
        assert!(!shown.to_string().contains(secret), "{secret} in {shown}");
    }
}

/// A role removed, another added: calls under way end well.
#[tokio::test]
async fn a_role_that_is_removed_finishes_its_calls() {
    let up = upstream("a", slow()).await;
    let gateway = operated(&[&up]);
    let mut stream = streaming(&gateway).await;
    up.wait_until(|stats| stats.in_flight == 1).await;
    gateway.rewrite(
        &gateway
            .file()
            .replace("agent_roles.planner", "agent_roles.pilot"),
    );
    let reply = reload(&gateway).await;
    let said = reply.json();
    assert_eq!(
        (&said["removed"], &said["added"]),
        (&json!(["planner"]), &json!(["pilot"]))
    );
    let gone = ask(&gateway, "planner").await;
    assert_eq!(
        (gone.status, &gone.error()["code"]),
        (404, &json!("role_not_found"))
    );
    assert_eq!(ask(&gateway, "pilot").await.status, 200);
    let stream = timeout(LONG, wire::receive(&mut stream)).await.unwrap();
    assert_eq!(stream.events().last().map(String::as_str), Some("[DONE]"));
    let models = wire::request("GET /v1/models", &[("x-api-key", "evk-client")], b"");
    let models = wire::send(gateway.address, &models).await.json();
    assert_eq!(models["data"][0]["id"], "pilot");
}

/// Connections of a provider whose settings did not change are used on; a
/// changed key goes out with the next call.
#[tokio::test]
async fn connections_are_kept_and_a_new_key_is_used() {
    let ups = pair().await;
    let gateway = operated(&[&ups[0], &ups[1]]);
    ask(&gateway, "planner").await;
    gateway.rewrite(&gateway.file().replace("sk-upstream-1", "sk-upstream-one"));
    assert_eq!(reload(&gateway).await.status, 200);
    ask(&gateway, "planner").await;
    let seen = ups[0].requests();
    assert_eq!(seen[0].connection, seen[1].connection);
    gateway.rewrite(&gateway.file().replace("sk-upstream-0", "sk-upstream-zero"));
    assert_eq!(reload(&gateway).await.status, 200);
    ask(&gateway, "planner").await;
    let seen = ups[0].requests();
    assert_eq!(seen[2].headers["authorization"], "Bearer sk-upstream-zero");
    assert_ne!(seen[2].connection, seen[1].connection);
}

#[tokio::test]
async fn keys_and_names_of_the_server_change_with_a_reload() {
    let up = upstream("a", Behaviour::default()).await;
    let gateway = operated(&[&up]);
    let changed = gateway.file().replace("evk-client", "evk-other").replace(
        "[server]",
        "[server]\nmeta_key = \"_meta\"\nmax_body_bytes = 2000",
    );
    gateway.rewrite(&changed);
    assert_eq!(reload(&gateway).await.status, 200);
    assert_eq!(ask(&gateway, "planner").await.status, 401);
    let key = [("authorization", "Bearer evk-other")];
    let reply = gateway.chat(&key, &question(&json!({}))).await;
    assert!(
        reply.json()["_meta"]["model_id"].is_string(),
        "{}",
        reply.body
    );
    let large = question(&json!({ "padding": "x".repeat(3_000) }));
    assert_eq!(gateway.chat(&key, &large).await.status, 413);
}

/// The address cannot change, and what is said beside it must not open it.
#[tokio::test]
async fn addresses_stay_and_a_reload_says_so() {
    let up = upstream("a", Behaviour::default()).await;
    let gateway = operated(&[&up]);
    let moved = gateway
        .file()
        .replacen("127.0.0.1:0", "127.0.0.1:4999", 1)
        .replace(
            "admin = { listen = \"127.0.0.1:0\"",
            "admin = { listen = \"127.0.0.1:4998\"",
        );
    gateway.rewrite(&moved);
    // Said again as long as it is so.
    for _ in 0..2 {
        let reply = reload(&gateway).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        let warnings = reply.json()["warnings"].to_string();
        assert!(
            warnings.contains("server.listen: stays 127.0.0.1:0")
                && warnings.contains("server.admin.listen: stays 127.0.0.1:0"),
            "{warnings}"
        );
    }
    assert_eq!(ask(&gateway, "planner").await.status, 200);
    // The operators' address cannot be closed either: its token stays good.
    let admin = format!("admin = {{ listen = \"127.0.0.1:4998\", token = \"{TOKEN}\" }}");
    assert!(moved.contains(&admin));
    gateway.rewrite(&moved.replace(&admin, ""));
    assert_eq!(reload(&gateway).await.status, 200);
    state(&gateway).await;
}

/// Whatever is made once, when the program starts, stays as it was made.
#[tokio::test]
async fn what_takes_effect_only_with_a_restart_is_told() {
    let up = upstream("a", Behaviour::default()).await;
    let gateway = operated(&[&up]);
    let good = gateway.file();
    for (old, new, told) in [
        (
            "[server]",
            "[server]\nstate_dir = \"kept\"",
            "server.state_dir: stays absent",
        ),
        (
            "[server]",
            "[tickets]\nkeep_ms = 60000\n[server]",
            "tickets: stay as they are",
        ),
        (
            "[server]",
            "[audit]\n[server]\nstate_dir = \"kept\"",
            "audit: stays as it is",
        ),
        (
            "[server]",
            "[alerts]\nwebhook_url = \"http://127.0.0.1:9/a\"\n\
             webhook_secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\n[server]",
            "alerts: go where they went",
        ),
        (
            "[server]",
            "[telemetry]\nendpoint = \"http://127.0.0.1:9\"\n[server]",
            "telemetry: stays as it is",
        ),
    ] {
        gateway.rewrite(&good.replacen(old, new, 1));
        let reply = reload(&gateway).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        let warnings = reply.json()["warnings"].to_string();
        assert!(warnings.contains(told), "{told}: {warnings}");
        gateway.rewrite(&good);
        let warnings = reload(&gateway).await.json()["warnings"].to_string();
        assert!(!warnings.contains(told), "{told}: {warnings}");
    }
}

#[tokio::test]
async fn a_server_in_reach_of_others_is_not_opened_by_a_reload() {
    let up = upstream("a", Behaviour::default()).await;
    let gateway = Gateway::with(
        &[&up],
        Setup {
            server: r#"client_keys = ["evk-client"]
            admin = { listen = "127.0.0.1:0", token = "evk-OPERATOR-CANARY" }"#,
            listen: "0.0.0.0:0",
            ..Setup::default()
        },
    );
    let open = gateway
        .file()
        .replace("0.0.0.0:0", "127.0.0.1:0")
        .replace("client_keys = [\"evk-client\"]", "client_keys = []");
    gateway.rewrite(&open);
    let reply = reload(&gateway).await;
    assert_eq!(reply.status, 422, "{}", reply.body);
    assert!(reply.body.contains("client_keys"), "{}", reply.body);
    assert_eq!(ask(&gateway, "planner").await.status, 200);
    assert_eq!(gateway.chat(&[], &question(&json!({}))).await.status, 401);
}

/// Twenty reloads under load, good ones and bad ones: no request fails.
#[tokio::test]
async fn a_storm_of_reloads_costs_no_request_its_answer() {
    let quick = || {
        Behaviour::healthy(Latency::millis(20))
            .with_tokens(5)
            .with_inter_token(Duration::from_millis(5))
    };
    let ups = [upstream("a", quick()).await, upstream("b", quick()).await];
    let gateway = Arc::new(Gateway::with(&[&ups[0], &ups[1]], setup()));
    let good = gateway.file();
    let over = Arc::new(tokio::sync::Notify::new());
    let mut callers = JoinSet::new();
    for caller in 0..16 {
        let (gateway, over) = (gateway.clone(), over.clone());
        callers.spawn(async move {
            let key = [("authorization", "Bearer evk-client")];
            let body = question(&json!({ "stream": caller % 2 == 0 }));
            let over = over.notified();
            let mut over = std::pin::pin!(over);
            over.as_mut().enable();
            let mut calls = 0;
            loop {
                let reply = tokio::select! {
                    biased;
                    reply = gateway.chat(&key, &body) => reply,
                };
                assert_eq!(reply.status, 200, "{}", reply.body);
                assert!(reply.complete && !reply.body.contains("\"error\""));
                calls += 1;
                if futures_util::FutureExt::now_or_never(over.as_mut()).is_some() {
                    return calls;
                }
            }
        });
    }
    for n in 0..20 {
        let text = match n % 4 {
            0 => good.replace("p95_threshold_ms = 5000", "p95_threshold_ms = 4000"),
            1 => good.replace("sk-upstream-0", "sk-upstream-new"),
            2 => good.replace("primary = \"p0/m0\"", "primary = \"nope/m0\""),
            _ => good.clone(),
        };
        gateway.rewrite(&text);
        let expected = if n % 4 == 2 { 422 } else { 200 };
        assert_eq!(reload(&gateway).await.status, expected, "reload {n}");
        sleep(Duration::from_millis(20)).await;
    }
    over.notify_waiters();
    let calls: usize = callers.join_all().await.into_iter().sum();
    assert!(calls >= 32, "{calls} calls");
    let shown = state(&gateway).await;
    assert_eq!(shown["config"]["reloads"], 15);
    assert_eq!(shown["config"]["refused_reloads"], 5);
    assert_eq!(shown["roles"][0]["in_flight"], 0);
}

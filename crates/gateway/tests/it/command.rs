//! The binary.

use crate::gateway::upstream;
use crate::wire;
use evenkeel_chaos::Behaviour;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(30);

const GOOD: &str = r#"
[server]
listen = "127.0.0.1:0"
[providers.sim]
dialect = "simulated"
[agent_roles.planner]
p95_threshold_ms = 1500
p99_threshold_ms = 2500
evaluation_window_seconds = 15
allow_same_provider = true
allow_unqualified = true
primary = "sim/big"
fallbacks = [{ model = "sim/small", rank = 1 }]
"#;

fn evenkeel(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(args).kill_on_drop(true).stdin(Stdio::null());
    command
}

async fn run(args: &[&str]) -> Output {
    timeout(LONG, evenkeel(args).output())
        .await
        .unwrap()
        .unwrap()
}

fn write(folder: &Path, text: &str) -> String {
    let path = folder.join("evenkeel.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Nobody is asked by either.
#[tokio::test]
async fn check_and_explain_take_a_service_that_judges_answers() {
    let folder = tempfile::tempdir().unwrap();
    let service = r#"validators = [{ kind = "http", url = "http://127.0.0.1:9/judge" }]"#;
    let path = write(folder.path(), &format!("{GOOD}{service}\n"));
    let output = run(&["check", &path]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = run(&["explain", "--config", &path]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("planner"));
}

#[tokio::test]
async fn check_names_file_line_and_a_suggestion() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(
        folder.path(),
        &GOOD.replace("p99_threshold_ms", "p99_treshold_ms"),
    );
    let output = run(&["check", folder.path().to_str().unwrap()]).await;
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains(&format!("{path}:8: agent_roles.planner.p99_treshold_ms: ")),
        "{said}"
    );
    assert!(said.contains("p99_threshold_ms"), "{said}");
}

#[tokio::test]
async fn check_is_content_with_warnings() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), GOOD);
    let output = run(&["check", folder.path().to_str().unwrap()]).await;
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("warning") && said.contains("0 errors"),
        "{said}"
    );
}

/// Whatever `serve` would not start for, `check` says.
#[tokio::test]
async fn check_names_what_cannot_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let more = r#"
[providers.a]
dialect = "openai"
base_url = "https://localhost:9/v1"
ca_file = "none.pem"
[telemetry]
endpoint = "https://localhost:9"
ca_file = "empty.pem"
"#;
    let path = write(folder.path(), &format!("{GOOD}{more}"));
    std::fs::write(folder.path().join("empty.pem"), "").unwrap();
    let output = run(&["check", &path]).await;
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("none.pem") && said.contains("2 errors"),
        "{said}"
    );
    assert!(said.contains("no certificate found"), "{said}");
    let output = run(&["serve", "--config", &path]).await;
    assert_eq!(output.status.code(), Some(1));
}

#[tokio::test]
async fn what_cannot_be_read_is_named() {
    let output = run(&["check", "/nowhere/at/all"]).await;
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("/nowhere/at/all"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let output = run(&["serve", "--config", folder.path().to_str().unwrap()]).await;
    assert_eq!(output.status.code(), Some(1));
}

#[tokio::test]
async fn usage_errors_end_with_two() {
    for args in [
        &["serve"][..],
        &["check"],
        &["sail"],
        &["explain", "--role", "x"],
    ] {
        assert_eq!(run(args).await.status.code(), Some(2), "{args:?}");
    }
}

#[tokio::test]
async fn explain_says_where_a_request_would_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), GOOD);
    let output = run(&["explain", "--config", &path, "--role", "planner"]).await;
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        said.contains("rung 0, sim/big") && said.contains("sim/small"),
        "{said}"
    );
    let asked = ["explain", "--config", &path, "--role", "planner"];
    let hard = ["--task", "review", "--complexity", "high"];
    let output = run(&[&asked[..], &hard[..]].concat()).await;
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("below_capability"), "{said}");
    assert!(said.contains("no task `review` (it has none)"), "{said}");
    let output = run(&[&asked[..], &["--complexity", "hard"]].concat()).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("low, medium, high")
    );
    let output = run(&["explain", "--config", &path, "--role", "pilot"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("planner")
    );
}

#[tokio::test]
async fn an_open_gateway_does_not_start_on_a_public_address() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &GOOD.replace("127.0.0.1:0", "0.0.0.0:0"));
    let output = run(&["serve", "--config", &path]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("client_keys")
    );
}

/// Serving, the log, SIGTERM: and no key or prompt in the log at any level.
#[cfg(unix)]
#[tokio::test]
async fn serve_answers_logs_and_ends_with_a_signal() {
    let up = upstream("up", Behaviour::default().with_text("ANSWER-CANARY")).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "sk-KEY-CANARY\n").unwrap();
    let config = format!(
        "{}\n[providers.acme]\ndialect = \"openai\"\nbase_url = \"{}\"\napi_key_file = \"key\"\n",
        GOOD.replace("sim/big", "acme/big")
            .replace("listen", "client_keys = [\"evk-CLIENT-CANARY\"]\nlisten"),
        up.base_url()
    );
    let path = write(folder.path(), &config);
    let mut process = evenkeel(&[
        "serve",
        "--config",
        &path,
        "--log",
        "trace",
        "--log-format",
        "json",
    ])
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let mut log = String::new();
    let address: SocketAddr = loop {
        let line = timeout(LONG, lines.next_line())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        log.push_str(&line);
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        if json["event"] == "listening" {
            break json["address"].as_str().unwrap().parse().unwrap();
        }
    };
    let body = br#"{"model":"planner","messages":[{"role":"user","content":"PROMPT-CANARY"}]}"#;
    let ask = |key: &'static str| {
        let headers = [("authorization", key)];
        wire::request("POST /v1/chat/completions", &headers, body)
    };
    let reply = wire::send(address, &ask("Bearer evk-CLIENT-CANARY")).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert!(reply.body.contains("ANSWER-CANARY"));
    assert_eq!(
        up.requests()[0].headers["authorization"],
        "Bearer sk-KEY-CANARY"
    );
    let refused = wire::send(address, &ask("Bearer evk-OTHER-CANARY")).await;
    assert_eq!(refused.status, 401);
    let pid = process.id().unwrap().to_string();
    let killed = Command::new("kill")
        .args(["-TERM", &pid])
        .status()
        .await
        .unwrap();
    assert!(killed.success());
    while let Some(line) = timeout(LONG, lines.next_line()).await.unwrap().unwrap() {
        log.push_str(&line);
        log.push('\n');
    }
    let status = timeout(LONG, process.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(
        log.contains("call_ended") && log.contains("invalid_client_key"),
        "{log}"
    );
    assert!(!log.contains("CANARY"), "{log}");
}

//! SIGHUP to the program itself, while streams are in flight.
#![cfg(unix)]

use super::TOKEN;
use crate::gateway::{chat, question, upstream};
use crate::wire;
use evenkeel_chaos::{Behaviour, Latency, Upstream};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(30);

struct Served {
    process: Child,
    log: Lines<BufReader<ChildStderr>>,
    address: SocketAddr,
    admin: SocketAddr,
}

impl Served {
    async fn start(path: &str, env: &[(&str, &str)]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
            .args(["serve", "--config", path, "--log-format", "json"])
            .envs(env.iter().copied())
            .kill_on_drop(true)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(process.stderr.take().unwrap()).lines();
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut served = Self {
            process,
            log,
            address: nowhere,
            admin: nowhere,
        };
        served.address = served.address_in("listening").await;
        served.admin = served.address_in("admin_listening").await;
        served
    }

    async fn address_in(&mut self, event: &str) -> SocketAddr {
        let line = self.logged(event).await;
        line["address"].as_str().unwrap().parse().unwrap()
    }

    /// The next log line of that event.
    async fn logged(&mut self, event: &str) -> Value {
        loop {
            let line = timeout(LONG, self.log.next_line()).await.unwrap().unwrap();
            let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if line["event"] == event {
                return line;
            }
        }
    }

    async fn signal(&self, name: &str) {
        let pid = self.process.id().unwrap().to_string();
        let sent = Command::new("kill").args([name, &pid]).status().await;
        assert!(sent.unwrap().success());
    }

    async fn ask(&self) -> wire::Reply {
        wire::send(self.address, &chat(&[], &question(&json!({})))).await
    }

    async fn state(&self) -> Value {
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("authorization", bearer.as_str())];
        let request = wire::request("GET /admin/state", &headers, b"");
        wire::send(self.admin, &request).await.json()
    }
}

fn config(up: &Upstream, p95: u32) -> String {
    let url = up.base_url();
    let (scheme, rest) = url.split_at(url.len() - 2);
    assert_eq!(rest, "v1");
    format!(
        r#"
        [server]
        listen = "127.0.0.1:0"
        admin = {{ listen = "127.0.0.1:0", token = "{TOKEN}" }}
        [providers.p0]
        dialect = "openai"
        base_url = "{scheme}${{EK_PATH}}"
        api_key = "${{EK_KEY}}"
        headers = {{ x-extra = "${{EK_EXTRA}}", x-price = "5$$" }}
        [agent_roles.planner]
        p95_threshold_ms = {p95}
        p99_threshold_ms = 8000
        evaluation_window_seconds = 15
        primary = "p0/m0"
        fallbacks = []
        "#
    )
}

/// C141, C144: what comes from the environment is filled in at load and at
/// reload alike, and nothing is cut.
#[tokio::test]
async fn sighup_reloads_while_streams_are_in_flight() {
    let behaviour = Behaviour::healthy(Latency::millis(10))
        .with_tokens(20)
        .with_inter_token(Duration::from_millis(50));
    let up = upstream("a", behaviour).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evenkeel.toml");
    std::fs::write(&path, config(&up, 5000)).unwrap();
    let env = [
        ("EK_KEY", "sk-KEY-CANARY"),
        ("EK_EXTRA", "v"),
        ("EK_PATH", "v1"),
    ];
    let mut served = Served::start(path.to_str().unwrap(), &env).await;
    let mut streams = Vec::new();
    for _ in 0..10 {
        let mut connection = TcpStream::connect(served.address).await.unwrap();
        let request = chat(&[], &question(&json!({ "stream": true })));
        connection.write_all(&request).await.unwrap();
        streams.push(connection);
    }
    up.wait_until(|stats| stats.in_flight == 10).await;

    std::fs::write(&path, config(&up, 9000)).unwrap();
    served.signal("-HUP").await;
    let refused = served.logged("config_refused").await;
    assert!(
        refused["message"].as_str().unwrap().contains("9000"),
        "{refused}"
    );
    let state = served.state().await;
    assert_eq!(
        state["roles"][0]["rungs"][0]["total"]["p95_limit_ms"],
        5000.0
    );
    assert!(state["config"]["last_refusal"]["at"].is_string());

    std::fs::write(&path, config(&up, 4000)).unwrap();
    served.signal("-HUP").await;
    let reloaded = served.logged("config_reloaded").await;
    let state = served.state().await;
    assert_eq!(
        state["roles"][0]["rungs"][0]["total"]["p95_limit_ms"],
        4000.0
    );
    assert_eq!(state["config"]["hash"], reloaded["hash"]);
    assert_eq!(served.ask().await.status, 200);
    for mut stream in streams {
        let stream = timeout(LONG, wire::receive(&mut stream)).await.unwrap();
        assert!(stream.complete);
        assert_eq!(stream.events().last().map(String::as_str), Some("[DONE]"));
    }
    let seen = up.requests();
    assert_eq!(seen.len(), 11);
    for request in seen {
        assert_eq!(request.headers["authorization"], "Bearer sk-KEY-CANARY");
        assert_eq!(request.headers["x-extra"], "v");
        assert_eq!(request.headers["x-price"], "5$");
        let sent = format!("{:?} {}", request.headers, request.body);
        assert!(!sent.contains("${"), "{sent}");
    }
    for (token, code, said) in [(TOKEN, 0, "*0"), ("wrong", 1, "no valid token")] {
        let status = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
            .args(["status", "--url", &format!("http://{}", served.admin)])
            .args(["--token-env", "EK_TOKEN"])
            .env("EK_TOKEN", token)
            .output();
        let status = timeout(LONG, status).await.unwrap().unwrap();
        let shown = String::from_utf8([status.stdout, status.stderr].concat()).unwrap();
        assert_eq!(status.status.code(), Some(code), "{shown}");
        assert!(shown.contains(said) && !shown.contains(TOKEN), "{shown}");
    }
    served.signal("-TERM").await;
    let ended = timeout(LONG, served.process.wait()).await.unwrap().unwrap();
    assert_eq!(ended.code(), Some(0));
}

//! `evenkeel serve` with a collector: what leaves the process, by every way out.
#![cfg(unix)]

use crate::gateway::{chat, question, upstream};
use crate::wire::{self, Reply};
use evenkeel_chaos::{Behaviour, Fault, Upstream};
use evenkeel_otel_emit::audit::audit_files;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// In prompt, system text, tools and their arguments, answer, keys and the provider's own
/// words of an error.
pub(crate) const CANARY: &str = "canary7f3a";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const LONG: Duration = Duration::from_secs(60);

/// A collector that takes everything, and all bytes that came.
pub(crate) async fn collector(tasks: &mut JoinSet<()>) -> (SocketAddr, UnboundedReceiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (bytes, received) = unbounded_channel();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let bytes = bytes.clone();
            connections.spawn(async move {
                let mut stream = stream;
                while let Some(request) = request(&mut stream).await {
                    let _ = bytes.send(request);
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                    if stream.write_all(answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, received)
}

/// The bytes of the next request on a connection.
async fn request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut read = Vec::new();
    loop {
        let head = read.windows(4).position(|w| w == b"\r\n\r\n");
        if let Some(head) = head {
            let text = String::from_utf8_lossy(&read[..head]).to_ascii_lowercase();
            let length = text.lines().find_map(|l| l.strip_prefix("content-length:"));
            let length: usize = length.unwrap().trim().parse().unwrap();
            if read.len() >= head + 4 + length {
                return Some(read);
            }
        }
        let mut piece = [0; 8_192];
        let n = stream.read(&mut piece).await.ok().filter(|n| *n > 0)?;
        read.extend_from_slice(&piece[..n]);
    }
}

/// A gateway in front of two upstreams.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    log: JoinSet<String>,
    folder: Arc<TempDir>,
    pub(crate) upstreams: [Upstream; 2],
}

impl Serving {
    /// Its primary is overloaded and says so in the caller's words.
    async fn start(collector: SocketAddr, environment: &[(&str, &str)]) -> Self {
        Self::with(collector, "", environment, Self::overloaded()).await
    }

    /// An overloaded primary, and a fallback that answers.
    pub(crate) fn overloaded() -> [Behaviour; 2] {
        let overloaded = Behaviour::failing(Fault::Status {
            status: 503,
            code: None,
            message: format!("no capacity for {CANARY}, whose key is sk-{CANARY}"),
            retry_after: None,
        });
        let answering = Behaviour::default()
            .with_text(format!("hello {CANARY}"))
            .with_calls(1);
        [overloaded, answering]
    }

    /// With more of `[telemetry]`.
    pub(crate) async fn with(
        collector: SocketAddr,
        telemetry: &str,
        environment: &[(&str, &str)],
        behaviours: [Behaviour; 2],
    ) -> Self {
        let [primary, fallback] = behaviours;
        let upstreams = [upstream("a", primary).await, upstream("b", fallback).await];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("evenkeel.toml");
        let [primary, fallback] = upstreams.each_ref().map(Upstream::base_url);
        let text = format!(
            r#"
            [server]
            listen = "127.0.0.1:0"
            client_keys = ["evk-{CANARY}"]
            state_dir = "state"
            [audit]
            content_hmac_key = "hmac-{CANARY}-0123456789abcdef0123"
            [telemetry]
            endpoint = "http://{collector}"
            headers = {{ authorization = "Bearer otlp-secret" }}
            {telemetry}
            [providers.p0]
            dialect = "openai"
            base_url = "{primary}"
            api_key = "sk-{CANARY}"
            [providers.p1]
            dialect = "openai"
            base_url = "{fallback}"
            api_key = "sk-{CANARY}"
            propagate = true
            [agent_roles.planner]
            p95_threshold_ms = 5000
            p99_threshold_ms = 8000
            evaluation_window_seconds = 15
            allow_unqualified = true
            retry = {{ overloaded = 0 }}
            primary = "p0/m0"
            fallbacks = [{{ model = "p1/m1", rank = 1 }}]
            "#
        );
        std::fs::write(&path, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command
            .args([
                "serve",
                "--log",
                "trace",
                "--log-format",
                "json",
                "--config",
            ])
            .arg(&path)
            .envs(environment.iter().copied())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        let address = loop {
            let line = timeout(LONG, lines.next_line())
                .await
                .unwrap()
                .unwrap()
                .unwrap();
            said.push_str(&line);
            said.push('\n');
            let told: Value = serde_json::from_str(&line).unwrap();
            if told["event"] == "listening" {
                break told["address"].as_str().unwrap().parse().unwrap();
            }
        };
        let mut log = JoinSet::new();
        log.spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                said.push_str(&line);
                said.push('\n');
            }
            said
        });
        Self {
            child,
            address,
            log,
            folder: Arc::new(folder),
            upstreams,
        }
    }

    pub(crate) async fn ask(&self, stream: bool) -> Reply {
        self.send(&json!({
            "stream": stream,
            "messages": [
                { "role": "system", "content": format!("obey {CANARY}") },
                { "role": "user", "content": format!("I am {CANARY}") },
            ],
        }))
        .await
    }

    /// Asks for a call of a tool, after one that was made before.
    async fn ask_tool(&self, stream: bool) -> Reply {
        let arguments = json!({ "who": format!("asked {CANARY}") }).to_string();
        let who = json!({ "type": "string", "const": format!("called {CANARY}") });
        let parameters =
            json!({ "type": "object", "properties": { "who": who }, "required": ["who"] });
        self.send(&json!({
            "stream": stream,
            "messages": [
                { "role": "user", "content": "find me" },
                { "role": "assistant", "tool_calls": [{
                    "id": "call_1", "type": "function",
                    "function": { "name": "find", "arguments": arguments },
                }] },
                { "role": "tool", "tool_call_id": "call_1", "content": format!("found {CANARY}") },
                { "role": "user", "content": "again" },
            ],
            "tools": [{ "type": "function", "function": {
                "name": "find",
                "description": format!("finds {CANARY}"),
                "parameters": parameters,
            } }],
        }))
        .await
    }

    async fn send(&self, fields: &Value) -> Reply {
        let body = question(fields);
        let key = format!("Bearer evk-{CANARY}");
        let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
        let headers = [("authorization", &*key), ("traceparent", &*parent)];
        wire::send(self.address, &chat(&headers, &body)).await
    }

    pub(crate) async fn metrics(&self) -> String {
        let key = format!("Bearer evk-{CANARY}");
        let request = wire::request("GET /metrics", &[("authorization", &key)], b"");
        wire::send(self.address, &request).await.body
    }

    /// Sends it a signal.
    pub(crate) async fn signal(&self, signal: &str) {
        let pid = self.child.id().unwrap().to_string();
        let sent = Command::new("kill")
            .args(["-s", signal, &pid])
            .status()
            .await;
        assert!(sent.unwrap().success());
    }

    /// Ends it in good order; everything it logged.
    pub(crate) async fn end(self) -> String {
        self.signal("TERM").await;
        let (code, log) = self.ended().await;
        assert_eq!(code, Some(0), "{log}");
        log
    }

    /// Its exit status when it has ended, and everything it logged.
    pub(crate) async fn ended(mut self) -> (Option<i32>, String) {
        let ended = timeout(LONG, self.child.wait()).await;
        let log = self.log.join_next().await.unwrap().unwrap();
        (ended.unwrap().unwrap().code(), log)
    }
}

/// The audit log of a gateway that has ended.
fn recorded(folder: &TempDir) -> String {
    let files = audit_files(&folder.path().join("state/audit")).unwrap();
    let texts = files.iter().map(std::fs::read_to_string);
    texts.map(Result::unwrap).collect()
}

/// Everything that came to a collector, as text.
pub(crate) fn all(received: &mut UnboundedReceiver<Vec<u8>>) -> String {
    let mut text = String::new();
    while let Ok(bytes) = received.try_recv() {
        text.push_str(&String::from_utf8_lossy(&bytes));
    }
    text
}

// Conformance 8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_what_was_said_leaves_by_any_way_and_every_line_names_its_trace() {
    let mut tasks = JoinSet::new();
    let (collector, mut received) = collector(&mut tasks).await;
    let serving = Serving::start(collector, &[]).await;
    for stream in [false, true] {
        let called = serving.ask_tool(stream).await;
        assert_eq!(called.status, 200, "{}", called.body);
        // A stream gives it in pieces.
        assert!(stream || called.body.contains(&format!("called {CANARY}")));
        let reply = serving.ask(stream).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        assert!(reply.body.contains(CANARY), "the caller gets it");
        let own = reply.header("traceparent").unwrap();
        assert!(
            own.starts_with(&format!("00-{TRACE}-")) && own.ends_with("-01"),
            "{own}"
        );
        assert!(
            !own.contains("b7ad6b7169203331"),
            "its own, not the caller's"
        );
    }
    let metrics = serving.metrics().await;
    let folder = serving.folder.clone();
    let log = serving.end().await;
    let audit = recorded(&folder);
    let sent = all(&mut received);
    let answers = audit.matches("\"content_hmac\":\"hmac-sha256:").count();
    assert_eq!(answers, 4, "{audit}");
    assert!(!audit.contains(CANARY), "{audit}");
    for told in [
        "POST /v1/chat/completions",
        "evenkeel.request",
        "chat m1",
        "model_fallback",
    ] {
        assert!(sent.contains(told), "{told} was not sent");
    }
    assert!(sent.contains("evenkeel_requests") || sent.contains("evenkeel.requests"));
    assert!(!sent.contains(CANARY));
    assert!(!metrics.contains(CANARY) && metrics.contains("evenkeel_fallbacks_total"));
    for line in log.lines() {
        assert!(
            !line.contains(CANARY) && !line.contains("otlp-secret"),
            "{line}"
        );
    }
    let fallback = log
        .lines()
        .find(|line| line.contains("model_fallback_activated"));
    let fallback: Value = serde_json::from_str(fallback.unwrap()).unwrap();
    assert_eq!(fallback["trace_id"], TRACE);
    assert_eq!(fallback["span_id"].as_str().unwrap().len(), 16);
    assert_eq!(fallback["error.type"], "overloaded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_opt_in_content_is_in_traces_and_still_no_key_nor_a_providers_words() {
    let mut tasks = JoinSet::new();
    let (collector, mut received) = collector(&mut tasks).await;
    let capture = [("EVENKEEL_CAPTURE_CONTENT", "span")];
    let serving = Serving::start(collector, &capture).await;
    assert_eq!(serving.ask(false).await.status, 200);
    assert_eq!(serving.ask_tool(true).await.status, 200);
    let metrics = serving.metrics().await;
    let folder = serving.folder.clone();
    let log = serving.end().await;
    let audit = recorded(&folder);
    let sent = all(&mut received);
    for kept in [
        "I am ", "obey ", "hello ", "asked ", "found ", "finds ", "called ",
    ] {
        assert!(
            sent.contains(&format!("{kept}{CANARY}")),
            "{kept} was not sent"
        );
    }
    for secret in ["sk-", "evk-", "hmac-", "no capacity for "] {
        assert!(!sent.contains(&format!("{secret}{CANARY}")), "{secret}");
    }
    assert!(!log.contains(CANARY) && !metrics.contains(CANARY) && !audit.contains(CANARY));
    assert!(log.contains("content_captured"), "it is told at the start");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_configuration_redacts_is_in_no_content_that_is_kept() {
    let mut tasks = JoinSet::new();
    let (collector, mut received) = collector(&mut tasks).await;
    let telemetry = "capture_content = \"span\"\nredact = [\"canary[0-9a-f]+\", \"hell.\"]";
    let serving = Serving::with(collector, telemetry, &[], Serving::overloaded()).await;
    let reply = serving.ask(false).await;
    assert!(reply.body.contains(CANARY), "the caller gets what there is");
    let log = serving.end().await;
    let sent = all(&mut received);
    for kept in [
        "I am [redacted]",
        "obey [redacted]",
        "[redacted] [redacted]",
    ] {
        assert!(sent.contains(kept), "{kept} was not sent");
    }
    assert!(!sent.contains(CANARY) && !sent.contains("hello"));
    assert!(log.contains(r#""redacts":true"#));
}

// Conformance 16, on the wire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_is_to_have_it_gets_the_trace_and_no_other() {
    let mut tasks = JoinSet::new();
    let (collector, mut received) = collector(&mut tasks).await;
    let serving = Serving::with(collector, "", &[], Serving::overloaded()).await;
    let reply = serving.ask(true).await;
    let [without, with] = serving.upstreams.each_ref().map(|upstream| {
        let seen = upstream.requests();
        format!("{:?}", seen.last().unwrap().headers)
    });
    assert!(!without.contains("traceparent"), "{without}");
    let begins = format!("00-{TRACE}-");
    let (_, own) = with.split_once(&begins).unwrap();
    let (own, _) = own.split_once("-01").unwrap();
    assert_eq!(own.len(), 16, "{with}");
    for other in ["b7ad6b7169203331", reply.header("traceparent").unwrap()] {
        assert!(!other.contains(own), "its attempt's, not {other}");
    }
    assert!(!with.contains("tracestate") && !with.contains("baggage"));
    serving.end().await;
    assert!(all(&mut received).contains("chat m1"));
}

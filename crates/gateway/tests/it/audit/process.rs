//! `evenkeel serve` as a process of its own, with an audit log.

use crate::gateway::{chat, question};
use crate::wire::{self, Reply};
use evenkeel_chaos::Upstream;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

pub(super) const LONG: Duration = Duration::from_secs(60);

/// A folder with a configuration and, in time, a log.
pub(super) struct Folder(TempDir);

impl Folder {
    /// With these lines of `[audit]`.
    pub(super) fn new(audit: &str) -> Self {
        let providers = r#"
            [providers.a]
            dialect = "simulated"
            [providers.a.models.big]
            latency = { median_ms = 1, p99_ms = 3 }
            [providers.b]
            dialect = "simulated"
            "#;
        let roster = r#"
            primary = "a/big"
            fallbacks = [{ model = "b/small", rank = 1 }]
            "#;
        Self::with(audit, providers, roster)
    }

    /// With these lines of `[audit]`, in front of `upstream` alone, whose role has these.
    pub(super) fn before(upstream: &Upstream, audit: &str, role: &str) -> Self {
        let url = upstream.base_url();
        let providers = format!(
            r#"
            [breaker]
            failure_threshold = 1000
            failure_rate = 1.0
            min_calls = 1000
            [providers.a]
            dialect = "openai"
            base_url = "{url}"
            "#
        );
        let roster = format!("primary = \"a/big\"\nfallbacks = []\n{role}");
        Self::with(audit, &providers, &roster)
    }

    fn with(audit: &str, providers: &str, roster: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            r#"
            version = "v7"
            [server]
            listen = "127.0.0.1:0"
            state_dir = "state"
            [audit]
            {audit}
            {providers}
            [agent_roles.planner]
            p95_threshold_ms = 5000
            p99_threshold_ms = 8000
            evaluation_window_seconds = 15
            allow_unqualified = true
            {roster}
            "#
        );
        std::fs::write(folder.path().join("evenkeel.toml"), text).unwrap();
        Self(folder)
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path().join("state/audit")
    }

    /// The lines of the log that are JSON, in order.
    pub(super) fn records(&self) -> Vec<Value> {
        let files = evenkeel_otel_emit::audit::audit_files(&self.log()).unwrap();
        let texts = files
            .iter()
            .map(|file| std::fs::read_to_string(file).unwrap());
        let all: Vec<String> = texts.collect();
        let lines = all.iter().flat_map(|text| text.lines());
        lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }
}

/// A gateway that runs.
pub(super) struct Process {
    child: Child,
    pub(super) address: SocketAddr,
    log: JoinSet<Vec<String>>,
}

impl Process {
    pub(super) async fn start(folder: &Folder) -> Self {
        let mut child = serve(folder);
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        let address = loop {
            let line = timeout(LONG, lines.next_line()).await.unwrap().unwrap();
            let line = line.unwrap_or_else(|| panic!("ended: {said:?}"));
            let json: Value = serde_json::from_str(&line).unwrap_or_default();
            if json["event"] == "listening" {
                break json["address"].as_str().unwrap().parse().unwrap();
            }
            said.push(line);
        };
        let mut log = JoinSet::new();
        log.spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                said.push(line);
            }
            said
        });
        Self {
            child,
            address,
            log,
        }
    }

    pub(super) async fn ask(&self, id: &str) -> Reply {
        let headers = [("x-request-id", id)];
        wire::send(self.address, &chat(&headers, &question(&json!({})))).await
    }

    pub(super) async fn ready(&self) -> (u16, Value) {
        let reply = wire::send(self.address, &wire::request("GET /readyz", &[], b"")).await;
        (reply.status, serde_json::from_str(&reply.body).unwrap())
    }

    /// SIGKILL: nothing of the process runs any more.
    pub(super) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// SIGTERM; what it logged.
    pub(super) async fn end(self) -> Vec<String> {
        self.terminate().await;
        let (status, said) = self.ended().await;
        assert_eq!(status, Some(0));
        said
    }

    /// SIGTERM, and no more.
    pub(super) async fn terminate(&self) {
        let pid = self.child.id().unwrap().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().await;
        assert!(sent.unwrap().success());
    }

    /// Waits for its end: its status, and what it logged.
    pub(super) async fn ended(mut self) -> (Option<i32>, Vec<String>) {
        let status = timeout(LONG, self.child.wait()).await.unwrap().unwrap();
        let said = self.log.join_next().await.unwrap().unwrap();
        (status.code(), said)
    }
}

/// How many lines tell of an event.
pub(super) fn told(said: &[String], event: &str) -> usize {
    let events = said.iter().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap_or_default();
        line["event"] == event
    });
    events.filter(|is| *is).count()
}

pub(super) fn serve(folder: &Folder) -> Child {
    Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(["serve", "--log-format", "json", "--config"])
        .arg(folder.path())
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

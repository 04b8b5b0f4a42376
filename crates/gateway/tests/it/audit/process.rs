//! `evenkeel serve` as a process of its own, with an audit log.

use crate::gateway::{chat, question};
use crate::wire::{self, Reply};
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
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            r#"
            version = "v7"
            [server]
            listen = "127.0.0.1:0"
            state_dir = "state"
            [audit]
            {audit}
            [providers.a]
            dialect = "simulated"
            [providers.a.models.big]
            latency = {{ median_ms = 1, p99_ms = 3 }}
            [providers.b]
            dialect = "simulated"
            [agent_roles.planner]
            p95_threshold_ms = 5000
            p99_threshold_ms = 8000
            evaluation_window_seconds = 15
            allow_unqualified = true
            primary = "a/big"
            fallbacks = [{{ model = "b/small", rank = 1 }}]
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
    pub(super) async fn end(mut self) -> Vec<String> {
        let pid = self.child.id().unwrap().to_string();
        let killed = Command::new("kill").args(["-TERM", &pid]).status().await;
        assert!(killed.unwrap().success());
        let status = timeout(LONG, self.child.wait()).await.unwrap().unwrap();
        assert_eq!(status.code(), Some(0));
        self.log.join_next().await.unwrap().unwrap()
    }
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

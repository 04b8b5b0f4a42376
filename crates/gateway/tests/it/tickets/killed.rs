//! The binary, killed at many points: no ticket is lost, none is answered twice.
#![cfg(unix)]

use super::down;
use super::hook::{Hook, Manner};
use crate::gateway::{question, upstream};
use crate::wire;
use evenkeel_chaos::{Behaviour, Upstream};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(60);
/// Calls made of each gateway that is then killed.
const CALLS: usize = 12;

fn config(folder: &Path, up: &Upstream, hook: &Hook) {
    let text = format!(
        r#"
        [server]
        listen = "127.0.0.1:0"
        state_dir = "state"
        [tickets]
        webhook_url = "http://{hook}/"
        webhook_secret = "whsec"
        [breaker]
        failure_threshold = 1000
        min_calls = 1000
        [providers.p0]
        dialect = "openai"
        base_url = "{up}"
        [agent_roles.planner]
        p95_threshold_ms = 5000
        p99_threshold_ms = 8000
        evaluation_window_seconds = 15
        retry = {{ transient = 0 }}
        primary = "p0/m0"
        fallbacks = []
        on_exhausted = "queue"
        queue = {{ base_ms = 5, cap_ms = 20 }}
        "#,
        hook = hook.address,
        up = up.base_url(),
    );
    std::fs::write(folder.join("evenkeel.toml"), text).unwrap();
}

struct Process {
    child: Child,
    address: SocketAddr,
    _log: JoinSet<()>,
}

impl Process {
    async fn start(folder: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
            .args(["serve", "--log-format", "json", "--config"])
            .arg(folder)
            .kill_on_drop(true)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        let address = loop {
            let line = timeout(LONG, lines.next_line()).await.unwrap().unwrap();
            let line = line.unwrap_or_else(|| panic!("ended: {said}"));
            let json: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            if json["event"] == "listening" {
                break json["address"].as_str().unwrap().parse().unwrap();
            }
            said.push_str(&line);
        };
        let mut log = JoinSet::new();
        log.spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self {
            child,
            address,
            _log: log,
        }
    }

    /// SIGKILL: nothing of the process runs any more.
    async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// Asks; the ticket, where the process lived long enough to tell of one.
async fn ask(address: SocketAddr, n: usize) -> Option<String> {
    let key = format!("call-{n}");
    let headers = [("prefer", "respond-async"), ("idempotency-key", &key)];
    let body = question(&json!({ "seed": n }));
    let request = wire::request("POST /v1/chat/completions", &headers, &body);
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(&request).await.ok()?;
    let mut bytes = Vec::new();
    // A whole answer has its length in its head; a cut one is none.
    while stream.read_buf(&mut bytes).await.ok()? > 0 {
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|l| l.strip_prefix("content-length: "))?;
        if body.len() == length.parse::<usize>().ok()? {
            if head.starts_with("HTTP/1.1 200") {
                return None; // answered on the spot
            }
            assert!(head.starts_with("HTTP/1.1 202"), "{head}");
            let body: serde_json::Value = serde_json::from_str(body).unwrap();
            return body["id"].as_str().map(str::to_owned);
        }
    }
    None
}

/// One life: calls are made, and when enough of something has been seen the
/// process is killed. Gives the tickets that callers were told of.
async fn live(folder: &Path, up: &Upstream, hook: &Hook, calls: usize, when: When) -> Vec<String> {
    let process = Process::start(folder).await;
    let mut asking = JoinSet::new();
    for n in calls..calls + CALLS {
        asking.spawn(ask(process.address, n));
    }
    let mut told = Vec::new();
    match when {
        When::Accepted(most) => {
            while told.len() < most {
                told.extend(asking.join_next().await.unwrap().unwrap());
            }
        }
        When::Asked(more) => {
            let before = up.stats().started;
            up.wait_until(|stats| stats.started >= before + more).await;
        }
        When::Posted(more) => {
            while let Some(ended) = asking.join_next().await {
                told.extend(ended.unwrap());
            }
            assert_eq!(told.len(), CALLS);
            up.set(Behaviour::default());
            let before = hook.posts().len();
            hook.until(|posts| posts.len() >= before + more).await;
        }
    }
    process.kill().await;
    while let Some(ended) = asking.join_next().await {
        told.extend(ended.unwrap());
    }
    told
}

/// What has to be seen before the kill.
#[derive(Debug, Clone, Copy)]
enum When {
    /// So many callers were told of their ticket.
    Accepted(usize),
    /// The upstream was asked so many times.
    Asked(u64),
    /// The webhook was told so many times.
    Posted(usize),
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_gateway_loses_no_ticket_and_answers_none_twice() {
    let points = [
        [When::Accepted(1), When::Posted(1)],
        [When::Asked(3), When::Posted(2)],
        [When::Accepted(CALLS), When::Asked(2)],
        [When::Asked(17), When::Posted(5)],
        [When::Accepted(5), When::Posted(9)],
    ];
    for lives in points {
        let hook = Hook::start(Manner::Takes).await;
        let up = upstream("up", down()).await;
        let folder = tempfile::tempdir().unwrap();
        config(folder.path(), &up, &hook);
        let mut told = BTreeSet::new();
        for (n, when) in lives.into_iter().enumerate() {
            up.set(down());
            told.extend(live(folder.path(), &up, &hook, n * CALLS, when).await);
        }
        up.set(Behaviour::default());
        let last = Process::start(folder.path()).await;
        let posts = hook
            .until(|posts| {
                let told_of: BTreeSet<_> = posts.iter().map(super::hook::Post::ticket).collect();
                told.iter().all(|ticket| told_of.contains(ticket.as_str()))
            })
            .await;
        let mut events: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut bodies: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for post in &posts {
            assert_eq!(post.kind(), "ticket.answered");
            events
                .entry(post.ticket())
                .or_default()
                .insert(post.event());
            let answer = post.body["ticket"]["answer"].to_string();
            bodies.entry(post.ticket()).or_default().insert(answer);
        }
        for (ticket, events) in events {
            assert_eq!(events.len(), 1, "{lives:?}: {ticket} has several ends");
            assert_eq!(
                bodies[ticket].len(),
                1,
                "{lives:?}: {ticket} has two answers"
            );
        }
        // The caller of a ticket finds the same by its key.
        let known = wire::request(
            "POST /v1/chat/completions",
            &[("idempotency-key", "call-0"), ("prefer", "respond-async")],
            &question(&json!({ "seed": 0 })),
        );
        let reply = wire::send(last.address, &known).await;
        assert!([200, 202].contains(&reply.status), "{}", reply.body);
        last.kill().await;
    }
}

#[tokio::test]
async fn a_second_gateway_and_a_damaged_file_end_with_one() {
    let hook = Hook::start(Manner::Takes).await;
    let up = upstream("up", down()).await;
    let folder = tempfile::tempdir().unwrap();
    config(folder.path(), &up, &hook);
    let first = Process::start(folder.path()).await;
    let serve = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.args(["serve", "--config"]).arg(folder.path());
        command
    };
    let second = timeout(LONG, serve().output()).await.unwrap().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("another gateway"), "{said}");
    first.kill().await;
    let file = folder.path().join("state/tickets.db");
    std::fs::write(&file, vec![b'x'; 8_192]).unwrap();
    // What the killed process had not yet moved over would mend the file.
    std::fs::remove_file(folder.path().join("state/tickets.db-wal")).unwrap();
    let damaged = timeout(LONG, serve().output()).await.unwrap().unwrap();
    assert_eq!(damaged.status.code(), Some(1));
    let said = String::from_utf8_lossy(&damaged.stderr).into_owned();
    assert!(
        said.contains("tickets.db") && said.contains("move it away"),
        "{said}"
    );
}

//! Minutes of a production request trace over loopback sockets: open-loop
//! clients, the gateway, two upstreams whose latency follows the token counts.
//! The primary is healthy throughout, so any substitution is a false one.
//!
//! `cargo run --release -p evenkeel-gateway --example trace -- [MINUTES]`
//! prints one JSON line and fails if the role's traffic was moved.

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use evenkeel::Settings;
use evenkeel_chaos::{Behaviour, Latency, TraceRow, Upstream, UpstreamConfig, read_trace};
use evenkeel_core::{Event, EventKind, Observer, estimated_tokens};
use evenkeel_gateway::{Limits, Server};
use http::{Method, Request, Uri, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

const TRACE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/traces/azure-llm-2023-conv.csv"
);
/// First token: this, and a quarter of a millisecond for each input token.
const BASE: Latency = Latency::lognormal_millis(150, 400);
const PER_INPUT_TOKEN: Duration = Duration::from_micros(250);
const INTER_TOKEN: Duration = Duration::from_millis(20);

/// Counts what matters here.
#[derive(Debug, Default)]
struct Counts {
    substitutions: AtomicU64,
    hedges: AtomicU64,
}

impl Observer for Counts {
    fn on(&self, event: &Event) {
        match event.kind {
            EventKind::ModelSubstitution { .. } => &self.substitutions,
            EventKind::HedgeStarted { .. } => &self.hedges,
            _ => return,
        }
        .fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let minutes: u64 = match std::env::args().nth(1) {
        Some(text) => text.parse().context("MINUTES must be a whole number")?,
        None => 3,
    };
    let rows = read_trace(&std::fs::read_to_string(TRACE)?)?;
    let p99 = first_token_p99(&rows);
    let limit = Duration::from_secs(minutes * 60);
    let rows: Vec<TraceRow> = rows.into_iter().filter(|r| r.at < limit).collect();
    ensure!(!rows.is_empty(), "the trace has no request in that time");

    let primary = Upstream::start(upstream("north")).await?;
    let fallback = Upstream::start(upstream("south")).await?;
    let counts = Arc::new(Counts::default());
    let (url, gateway, stop, router) = gateway(&primary, &fallback, p99, counts.clone()).await?;
    let failed = replay(&url, &rows).await;
    stop.send(()).ok();
    gateway.await?;
    router.shutdown().await;

    let calls = primary.stats().started + fallback.stats().started;
    let substitutions = counts.substitutions.load(Ordering::Relaxed);
    let line = json!({
        "requests": rows.len(), "failed": failed, "first_token_p99_ms": p99.as_millis(),
        "substitutions": substitutions, "hedges": counts.hedges.load(Ordering::Relaxed),
        "upstream_calls": calls,
    });
    write_line(&line.to_string())?;
    ensure!(failed == 0, "{failed} requests failed");
    if substitutions > 0 {
        bail!("the role was moved {substitutions} times off a healthy primary");
    }
    Ok(())
}

fn write_line(line: &str) -> std::io::Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout().lock(), "{line}")
}

fn upstream(name: &str) -> UpstreamConfig {
    let mut model = Behaviour::healthy(BASE)
        .with_tokens(100_000)
        .with_inter_token(INTER_TOKEN);
    model.per_input_token = PER_INPUT_TOKEN;
    UpstreamConfig::named(name)
        .with_seed(11)
        .with_behaviour(model)
}

/// The p99 of first-token latency over the whole trace.
fn first_token_p99(rows: &[TraceRow]) -> Duration {
    let mut rng = fastrand::Rng::with_seed(99);
    let mut all: Vec<Duration> = rows
        .iter()
        .map(|r| BASE.sample(&mut rng, Duration::ZERO) + PER_INPUT_TOKEN * r.input_tokens)
        .collect();
    all.sort_unstable();
    all[all.len() * 99 / 100]
}

type Running = (
    Uri,
    tokio::task::JoinHandle<()>,
    tokio::sync::oneshot::Sender<()>,
    evenkeel::Router,
);

async fn gateway(
    primary: &Upstream,
    fallback: &Upstream,
    p99: Duration,
    observer: Arc<dyn Observer>,
) -> anyhow::Result<Running> {
    let (p95_ms, p99_ms) = (p99.as_millis(), p99.as_millis() * 2);
    let (north, south) = (primary.base_url(), fallback.base_url());
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("evenkeel.toml");
    let text = format!(
        r#"
[server]
listen = "127.0.0.1:0"
[limits]
max_concurrency = 1000
[providers.north]
dialect = "openai"
base_url = "{north}"
[providers.south]
dialect = "openai"
base_url = "{south}"
[agent_roles.chat]
p95_threshold_ms = {p95_ms}
p99_threshold_ms = {p99_ms}
evaluation_window_seconds = 30
signal = "first_token"
allow_unqualified = true
primary = "north/chat"
[[agent_roles.chat.fallbacks]]
model = "south/chat"
rank = 1
"#
    );
    tokio::fs::write(&file, text).await?;
    let settings = Settings::load(&file)?;
    let router = settings.router(observer)?;
    let server = Server::bind(&settings.config().server, router.clone(), Limits::default())?;
    let url = format!("http://{}/v1/chat/completions", server.local_addr()).parse()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut tasks = JoinSet::new();
    tasks.spawn(server.run(async {
        stopped.await.ok();
    }));
    // The set is awaited by the task that owns it; main awaits that one.
    #[expect(clippy::disallowed_methods, reason = "main awaits it before it ends")]
    let running = tokio::spawn(async move { while tasks.join_next().await.is_some() {} });
    Ok((url, running, stop, router))
}

/// Sends each request when it was sent in the trace; how many failed.
async fn replay(url: &Uri, rows: &[TraceRow]) -> u64 {
    let client: Client<HttpConnector, Full<Bytes>> =
        Client::builder(TokioExecutor::new()).build_http();
    let began = Instant::now();
    let mut calls = JoinSet::new();
    let mut failed = 0;
    for (index, row) in rows.iter().enumerate() {
        tokio::time::sleep_until(began + row.at).await;
        while let Some(ended) = calls.try_join_next() {
            failed += u64::from(!matches!(ended, Ok(true)));
        }
        calls.spawn(ask(client.clone(), url.clone(), *row, index % 2 == 1));
    }
    while let Some(ended) = calls.join_next().await {
        failed += u64::from(!matches!(ended, Ok(true)));
    }
    failed
}

/// One request; true for a whole answer.
async fn ask(
    client: Client<HttpConnector, Full<Bytes>>,
    url: Uri,
    row: TraceRow,
    stream: bool,
) -> bool {
    // As many words as the upstream takes for that many tokens.
    let tokens = estimated_tokens(&"tide ".repeat(1_000));
    let words = usize::try_from(u64::from(row.input_tokens) * 1_000 / tokens).unwrap_or(usize::MAX);
    let body = json!({
        "model": "chat", "stream": stream, "max_tokens": row.output_tokens.max(1),
        "messages": [{"role": "user", "content": "tide ".repeat(words)}],
    });
    let request = Request::builder()
        .method(Method::POST)
        .uri(url)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::from(body.to_string()));
    let Ok(request) = request else { return false };
    let Ok(response) = client.request(request).await else {
        return false;
    };
    let ok = response.status().is_success();
    let Ok(body) = response.into_body().collect().await else {
        return false;
    };
    let body = body.to_bytes();
    ok && (!stream || body.ends_with(b"data: [DONE]\n\n"))
}

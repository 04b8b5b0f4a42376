//! What the gateway adds to a call: the same request, in turn, straight to an
//! upstream that answers at once, through a bare TCP relay, and through the
//! gateway. The relay is the floor: one more process on the way costs its
//! wake-ups whatever it does.
//!
//! One call at a time, at three paces: with a pause that lets the machine fall
//! asleep between two calls, with a short one, and with none.
//!
//! `cargo run --release -p evenkeel-gateway --example overhead -- [ROUNDS]`
//! prints one JSON line for each pace: medians in milliseconds.

use anyhow::Context;
use bytes::Bytes;
use evenkeel::Settings;
use evenkeel_chaos::{Behaviour, Latency, Upstream, UpstreamConfig};
use evenkeel_core::NoObserver;
use evenkeel_gateway::{Limits, Server, worker_threads};
use http::{Method, Request, Uri, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde_json::json;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Pauses between two calls. After the first every cache is cold and the cores
/// sleep; the second is some 180 calls a second; the last is one caller who
/// asks again as soon as it has its answer.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(5),
    Duration::ZERO,
];
/// Calls of each target that come before the measured ones.
const WARM_UP: usize = 20;

type Http = Client<HttpConnector, Full<Bytes>>;

fn main() -> anyhow::Result<()> {
    let rounds: usize = match std::env::args().nth(1) {
        Some(text) => text.parse().context("ROUNDS must be a whole number")?,
        None => 500,
    };
    // Each on threads of its own, as processes would be.
    let upstream = on_its_own(async {
        let behaviour = Behaviour::healthy(Latency::millis(0)).with_tokens(20);
        let config = UpstreamConfig::named("up").with_behaviour(behaviour);
        let upstream = Upstream::start(config).await?;
        let url = upstream.base_url();
        Ok((url, async move {
            let _running = upstream;
            std::future::pending::<()>().await;
        }))
    })?;
    let address: SocketAddr = upstream
        .trim_start_matches("http://")
        .trim_end_matches("/v1")
        .parse()?;
    let relay = on_its_own(async move {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        Ok((url, relay(listener, address)))
    })?;
    let base = upstream.clone();
    let gateway = on_its_own(async move { gateway(&base).await })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    for pause in PAUSES {
        let medians = runtime.block_on(measure(rounds, pause, [&upstream, &relay, &gateway]))?;
        let [direct, relayed, through] = medians;
        let line = json!({
            "pause_ms": pause.as_millis(), "rounds": rounds, "direct_ms": thousandths(direct),
            "relay_adds_ms": thousandths(relayed - direct),
            "gateway_adds_ms": thousandths(through - direct),
            "gateway_over_relay_ms": thousandths(through - relayed),
        });
        writeln!(std::io::stdout().lock(), "{line}")?;
    }
    Ok(())
}

/// Starts a server on a runtime of its own; gives its URL.
fn on_its_own<S, R>(start: S) -> anyhow::Result<String>
where
    S: Future<Output = anyhow::Result<(String, R)>> + Send + 'static,
    R: Future<Output = ()> + Send,
{
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(worker_threads())
            .enable_all()
            .build();
        let run = |runtime: tokio::runtime::Runtime| {
            runtime.block_on(async {
                match start.await {
                    Ok((url, running)) => {
                        tell.send(Ok(url)).ok();
                        running.await;
                    }
                    Err(error) => {
                        tell.send(Err(error)).ok();
                    }
                }
            });
        };
        if let Ok(runtime) = runtime {
            run(runtime);
        }
    });
    told.recv().context("a server's thread ended at once")?
}

async fn relay(listener: TcpListener, to: SocketAddr) {
    let mut connections = JoinSet::new();
    while let Ok((mut near, _)) = listener.accept().await {
        connections.spawn(async move {
            let mut far = TcpStream::connect(to).await?;
            near.set_nodelay(true)?;
            far.set_nodelay(true)?;
            tokio::io::copy_bidirectional(&mut near, &mut far).await
        });
    }
}

async fn gateway(
    upstream: &str,
) -> anyhow::Result<(String, impl Future<Output = ()> + Send + use<>)> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("evenkeel.toml");
    let text = format!(
        r#"
[server]
listen = "127.0.0.1:0"
[providers.up]
dialect = "openai"
base_url = "{upstream}"
[agent_roles.main]
p95_threshold_ms = 450
p99_threshold_ms = 800
evaluation_window_seconds = 15
primary = "up/main"
"#
    );
    tokio::fs::write(&file, text).await?;
    let settings = Settings::load(&file)?;
    let router = settings.router(Arc::new(NoObserver))?;
    let server = Server::bind(&settings.config().server, router, Limits::default())?;
    let url = format!("http://{}/v1", server.local_addr());
    Ok((url, server.run(std::future::pending())))
}

/// The median of each target, asked in turn.
async fn measure(rounds: usize, pause: Duration, bases: [&str; 3]) -> anyhow::Result<[f64; 3]> {
    let client: Http = Client::builder(TokioExecutor::new()).build_http();
    let mut uris = Vec::new();
    for base in bases {
        uris.push(format!("{base}/chat/completions").parse::<Uri>()?);
    }
    let mut times: [Vec<f64>; 3] = Default::default();
    for round in 0..rounds + WARM_UP {
        for (uri, times) in uris.iter().zip(&mut times) {
            if !pause.is_zero() {
                sleep(pause).await;
            }
            let took = ask(&client, uri).await?;
            if round >= WARM_UP {
                times.push(took.as_secs_f64() * 1e3);
            }
        }
    }
    Ok(times.map(|mut all| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    }))
}

fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

async fn ask(client: &Http, uri: &Uri) -> anyhow::Result<Duration> {
    let body = json!({"model": "main", "messages": [{"role": "user", "content": "hello"}]});
    let request = Request::builder()
        .method(Method::POST)
        .uri(uri.clone())
        .header(CONTENT_TYPE, "application/json")
        .body(Full::from(body.to_string()))?;
    let began = Instant::now();
    let response = client.request(request).await?;
    anyhow::ensure!(
        response.status().is_success(),
        "{uri}: {}",
        response.status()
    );
    response.into_body().collect().await?;
    Ok(began.elapsed())
}

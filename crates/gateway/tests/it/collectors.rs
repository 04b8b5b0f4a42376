//! `evenkeel serve` whose collector misbehaves, and telemetry at the end of the program.
#![cfg(unix)]

use crate::gateway::{chat, question};
use crate::traces::{CANARY, Serving, all, collector};
use evenkeel_chaos::{Behaviour, Fault};
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const LONG: Duration = Duration::from_secs(60);
const EVENTS: [&str; 2] = ["telemetry_lost", "telemetry_recovered"];

/// What `/metrics` says of a signal that was dropped.
async fn dropped(serving: &Serving, signal: &str) -> f64 {
    let series = format!("evenkeel_telemetry_dropped_total{{signal=\"{signal}\"}} ");
    let page = serving.metrics().await;
    let count = page.lines().find_map(|line| line.strip_prefix(&series));
    count.unwrap().parse().unwrap()
}

/// The lines of a log that tell of an event and a signal.
fn told(log: &str, event: &str, signal: &str) -> usize {
    let (event, signal) = (
        format!("\"event\":\"{event}\""),
        format!("\"signal\":\"{signal}\""),
    );
    log.lines()
        .filter(|line| line.contains(&event) && line.contains(&signal))
        .count()
}

async fn no_collector() -> SocketAddr {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    gone.local_addr().unwrap()
}

// Conformance 11, from outside.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_gone_or_hangs_holds_nobody_up_and_is_told_of_once() {
    // It takes connections, and says nothing ever.
    let hanging = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for collector in [no_collector().await, hanging.local_addr().unwrap()] {
        let quick = "timeout_ms = 200";
        let serving = Serving::with(collector, quick, &[], Serving::overloaded()).await;
        for _ in 0..20 {
            assert_eq!(serving.ask(false).await.status, 200);
        }
        // What was sent so far comes back as lost; then the same once more.
        for most in [0.0, 60.0] {
            let lost = async {
                while dropped(&serving, "span").await <= most {
                    assert_eq!(serving.ask(false).await.status, 200);
                    sleep(Duration::from_millis(100)).await;
                }
            };
            timeout(LONG, lost).await.unwrap();
        }
        assert!(
            dropped(&serving, "event").await > 0.0,
            "each call fell back"
        );
        let log = timeout(LONG, serving.end()).await.unwrap();
        for signal in ["span", "metric"] {
            let told = EVENTS.map(|event| told(&log, event, signal));
            assert_eq!(told, [1, 0], "{signal} at {collector}: {log}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gauges_are_pushed_as_they_are_though_nobody_reads_them() {
    let mut tasks = JoinSet::new();
    let (collector, mut received) = collector(&mut tasks).await;
    let serving = Serving::with(collector, "", &[], Serving::overloaded()).await;
    assert_eq!(serving.ask(false).await.status, 200);
    serving.end().await;
    let sent = all(&mut received);
    assert!(sent.contains("POST /v1/metrics"));
    // Only a gauge of a breaker that somebody has looked at has this state.
    assert!(sent.contains("evenkeel.breaker.state") && sent.contains("forced_open"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_metrics_are_not_pushed_traces_are_all_the_same() {
    for (telemetry, environment) in [
        ("metrics = false", None),
        ("", Some(("OTEL_METRICS_EXPORTER", "none"))),
    ] {
        let mut tasks = JoinSet::new();
        let (collector, mut received) = collector(&mut tasks).await;
        let environment: Vec<_> = environment.into_iter().collect();
        let serving =
            Serving::with(collector, telemetry, &environment, Serving::overloaded()).await;
        assert_eq!(serving.ask(false).await.status, 200);
        serving.end().await;
        let sent = all(&mut received);
        assert!(sent.contains("POST /v1/traces"), "{telemetry}");
        assert!(!sent.contains("POST /v1/metrics"), "{telemetry}");
    }
}

/// The call that is cut is told of too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_at_once_and_sends_what_there_is() {
    let mut tasks = JoinSet::new();
    let (collector, mut received) = collector(&mut tasks).await;
    let behaviours = [Behaviour::failing(Fault::Hang), Behaviour::default()];
    let serving = Serving::with(collector, "", &[], behaviours).await;
    let mut caller = TcpStream::connect(serving.address).await.unwrap();
    let key = format!("Bearer evk-{CANARY}");
    let request = chat(&[("authorization", &key)], &question(&json!({})));
    caller.write_all(&request).await.unwrap();
    while serving.upstreams[0].requests().is_empty() {
        sleep(Duration::from_millis(5)).await;
    }
    // Two of a kind could come as one.
    serving.signal("TERM").await;
    serving.signal("INT").await;
    let (code, log) = timeout(Duration::from_secs(10), serving.ended())
        .await
        .unwrap();
    assert_eq!(code, Some(1), "{log}");
    let sent = all(&mut received);
    assert!(
        sent.contains("evenkeel.request") && sent.contains("cancelled"),
        "{log}"
    );
    assert!(sent.contains("POST /v1/metrics"));
}

/// What the exporter finds in the environment may be another collector's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_gets_the_headers_of_its_configuration_alone() {
    let mut tasks = JoinSet::new();
    let (collector, mut received) = collector(&mut tasks).await;
    let others = (
        "OTEL_EXPORTER_OTLP_HEADERS",
        "authorization=others-key,x-other=others-secret",
    );
    let serving = Serving::with(collector, "", &[others], Serving::overloaded()).await;
    assert_eq!(serving.ask(false).await.status, 200);
    serving.end().await;
    let sent = all(&mut received);
    assert!(sent.contains("POST /v1/traces") && sent.contains("POST /v1/metrics"));
    assert!(sent.contains("authorization: Bearer otlp-secret"));
    assert!(!sent.contains("others-"), "{sent}");
}

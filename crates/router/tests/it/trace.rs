//! One hour of a production chat service (19,366 requests) through the router.

use crate::world::{Plan, ROLE, World, ms};
use evenkeel_chaos::{Behaviour, Latency};
use evenkeel_core::{CallContext, ChatRequest, EventKind, StreamEvent};
use evenkeel_roster::Signal;
use futures_util::StreamExt;
use std::time::Duration;
use tokio::task::JoinSet;

/// Requests of the trace: when, and how many tokens in and out.
struct Row {
    at: Duration,
    input: u64,
    output: u64,
}

fn rows() -> Vec<Row> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/traces/azure-llm-2023-conv.csv"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let seconds = |stamp: &str| -> f64 {
        let clock = stamp.split(' ').nth(1).unwrap();
        let parts: Vec<f64> = clock.split(':').map(|p| p.parse().unwrap()).collect();
        parts[0] * 3_600.0 + parts[1] * 60.0 + parts[2]
    };
    let mut rows = Vec::new();
    let mut start = None;
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.trim().split(',').collect();
        let at = seconds(fields[0]);
        let start = *start.get_or_insert(at);
        rows.push(Row {
            at: Duration::from_secs_f64((at - start).max(0.0)),
            input: fields[1].parse().unwrap(),
            output: fields[2].parse().unwrap(),
        });
    }
    rows
}

/// Generated tokens that come in one event, so that an hour stays quick to run.
const CHUNK: u32 = 10;
const PER_INPUT_TOKEN: Duration = Duration::from_micros(250);
const BASE: Latency = Latency::lognormal_millis(150, 400);

fn model() -> Behaviour {
    let mut model = Behaviour::healthy(BASE)
        .with_tokens(10_000)
        .with_inter_token(ms(20) * CHUNK);
    model.per_input_token = PER_INPUT_TOKEN;
    model
}

/// The p99 of first-token latency over the whole trace.
fn first_token_p99(rows: &[Row]) -> Duration {
    let mut rng = fastrand::Rng::with_seed(99);
    let mut all: Vec<Duration> = rows
        .iter()
        .map(|r| {
            let input = u32::try_from(r.input).unwrap();
            BASE.sample(&mut rng, Duration::ZERO) + PER_INPUT_TOKEN * input
        })
        .collect();
    all.sort_unstable();
    all[all.len() * 99 / 100]
}

fn request(row: &Row) -> ChatRequest {
    // Four characters a token, less what a turn costs beside its text.
    let text = "tide ".repeat(usize::try_from(row.input.saturating_sub(4) * 4 / 5).unwrap());
    ChatRequest {
        max_output_tokens: Some(row.output.div_ceil(u64::from(CHUNK)).max(1)),
        ..ChatRequest::user(text)
    }
}

async fn replay(world: &World, rows: Vec<Row>) {
    let mut calls = JoinSet::new();
    let began = tokio::time::Instant::now();
    for (i, row) in rows.into_iter().enumerate() {
        tokio::time::sleep_until(began + row.at).await;
        while calls.try_join_next().is_some() {}
        let router = world.router.clone();
        calls.spawn(async move {
            let context = CallContext::default();
            if i % 2 == 0 {
                router.complete(ROLE, request(&row), context).await.unwrap();
                return;
            }
            let mut stream = router.stream(ROLE, request(&row), context).await.unwrap();
            let mut last = None;
            while let Some(event) = stream.next().await {
                last = Some(event.unwrap());
            }
            assert_eq!(last, Some(StreamEvent::End));
        });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_production_traffic_raises_no_false_substitution() {
    let rows = rows();
    let total = rows.len();
    assert_eq!(total, 19_366);
    let p99 = first_token_p99(&rows);
    let world = Plan::new(vec![model(), model()])
        .policy(|p| {
            // One request in a hundred is over the p95 limit, by construction.
            p.p95 = p99;
            p.first_token_p95 = p99;
            p.p99 = p99 * 2;
            p.first_token_p99 = p99 * 2;
            p.signal = Signal::FirstToken;
            p.window = Duration::from_secs(30);
        })
        .model(|_, model| model.max_concurrency = 1_000)
        .build();
    replay(&world, rows).await;
    let hedges = world
        .memory
        .count(|k| matches!(k, EventKind::HedgeStarted { .. }));
    let won = world
        .memory
        .count(|k| matches!(k, EventKind::HedgeWon { .. }));
    let calls = world.stats(0).started + world.stats(1).started;
    println!("{total} requests, p99 {p99:?}: {hedges} hedges, {won} won, {calls} upstream calls");
    assert_eq!(world.memory.substitutions(), []);
    assert!((100..=400).contains(&hedges), "{hedges}");
    assert_eq!(calls, (total + hedges) as u64);
}

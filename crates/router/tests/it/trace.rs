//! One hour of a production chat service (19,366 requests) through the router.

use crate::world::{Plan, ROLE, World, ms};
use evenkeel_chaos::{Behaviour, Latency, TraceRow, read_trace};
use evenkeel_core::{CallContext, ChatRequest, EventKind, StreamEvent};
use evenkeel_roster::Signal;
use futures_util::StreamExt;
use std::time::Duration;
use tokio::task::JoinSet;

fn rows() -> Vec<TraceRow> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/traces/azure-llm-2023-conv.csv"
    );
    read_trace(&std::fs::read_to_string(path).unwrap()).unwrap()
}

const WORD: &str = "tide ";
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
fn first_token_p99(rows: &[TraceRow]) -> Duration {
    let mut rng = fastrand::Rng::with_seed(99);
    let mut all: Vec<Duration> = rows
        .iter()
        .map(|r| BASE.sample(&mut rng, Duration::ZERO) + PER_INPUT_TOKEN * r.input_tokens)
        .collect();
    all.sort_unstable();
    all[all.len() * 99 / 100]
}

fn request(row: &TraceRow) -> ChatRequest {
    // As many words as the router takes for that many tokens, less what a turn
    // costs beside its text.
    const WORDS: usize = 1_000;
    let turn = ChatRequest::user("").estimated_input_tokens();
    let tokens = evenkeel_core::estimated_tokens(&WORD.repeat(WORDS));
    let words = u64::from(row.input_tokens).saturating_sub(turn) * WORDS as u64 / tokens;
    let text = WORD.repeat(usize::try_from(words).unwrap());
    ChatRequest {
        max_output_tokens: Some(u64::from(row.output_tokens.div_ceil(CHUNK).max(1))),
        ..ChatRequest::user(text)
    }
}

async fn replay(world: &World, rows: Vec<TraceRow>) {
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
    let won = world.memory.count(|k| {
        matches!(
            k,
            EventKind::HedgeEnded {
                result: evenkeel_core::HedgeResult::Won,
                ..
            }
        )
    });
    let calls = world.stats(0).started + world.stats(1).started;
    println!("{total} requests, p99 {p99:?}: {hedges} hedges, {won} won, {calls} upstream calls");
    assert_eq!(world.memory.substitutions(), []);
    assert!((100..=400).contains(&hedges), "{hedges}");
    assert_eq!(calls, (total + hedges) as u64);
}

//! Many calls at once: none lost, nothing left behind.

use crate::world::{Plan, ROLE, steady};
use evenkeel_chaos::{Behaviour, Fault, Latency};
use evenkeel_core::{CallContext, ChatRequest, EventKind};
use std::time::Duration;
use tokio::task::JoinSet;

#[tokio::test(start_paused = true)]
async fn ten_thousand_calls_at_once_are_all_answered() {
    let flaky = Behaviour::healthy(Latency::lognormal_millis(200, 2_500))
        .with_tokens(5)
        .with_fault(Fault::status(500))
        .with_error_rate(0.1);
    let world = Plan::new(vec![
        flaky,
        Behaviour::healthy(Latency::lognormal_millis(250, 900)).with_tokens(5),
        steady(400),
    ])
    .model(|_, model| model.max_concurrency = 20_000)
    .build();
    let mut calls = JoinSet::new();
    for i in 0..10_000 {
        let router = world.router.clone();
        calls.spawn(async move {
            let request = ChatRequest::user(format!("hello n{i}"));
            let answer = router.complete(ROLE, request, CallContext::default()).await;
            let text = answer.unwrap().response.plain_text();
            evenkeel_chaos::check_answer(&text, i, 5).unwrap();
        });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    for rung in 0..3 {
        assert_eq!(world.stats(rung).in_flight, 0, "rung {rung}");
    }
    let ends = world.memory.all(|k| match k {
        EventKind::CallEnded { outcome, .. } => Some(*outcome),
        _ => None,
    });
    assert_eq!(ends.len(), 10_000);
    assert!(ends.iter().all(|e| *e == "ok"));
    let attempts = world
        .memory
        .count(|k| matches!(k, EventKind::AttemptStarted { .. }));
    let finished = world
        .memory
        .count(|k| matches!(k, EventKind::AttemptEnded { .. }));
    assert_eq!(attempts, finished);
}

#[tokio::test(start_paused = true)]
async fn an_outage_costs_few_calls_more_than_there_are_requests() {
    let down = Behaviour::failing(Fault::status(503)).with_fault_delay(Duration::from_millis(20));
    let world = Plan::new(vec![down, steady(100)])
        .policy(|p| p.retry.overloaded = 1)
        .model(|_, model| model.max_concurrency = 1_000)
        .build();
    let mut calls = JoinSet::new();
    for _ in 0..200 {
        let router = world.router.clone();
        calls.spawn(async move {
            for _ in 0..10 {
                let request = ChatRequest::user("hello");
                let asked = router.complete(ROLE, request, CallContext::default());
                assert_eq!(asked.await.unwrap().meta.rung, 1);
            }
        });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
    let all = world.stats(0).started + world.stats(1).started;
    // In flight at the trip, and a fifth of the failures until then as retries.
    assert!(all <= 2_000 + 200 + 40 + 10, "{all} upstream calls");
}

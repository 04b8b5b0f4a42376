//! Nothing is left of calls, however they end.

use crate::world::{Plan, ROLE, context, ms};
use evenkeel_chaos::{Behaviour, Fault, Latency};
use evenkeel_core::{ChatRequest, ChatResponse, EventStream, Failure, Provider, ProviderCall};
use futures_util::StreamExt;
use opentelemetry_sdk::trace::Sampler;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Slow, broken, overloaded and well by turns.
fn moody(seed: u64) -> Behaviour {
    let fault = match seed {
        1 => Fault::status(503),
        2 => Fault::CutAfter(5),
        _ => Fault::Hang,
    };
    Behaviour::healthy(Latency::lognormal_millis(600 + 100 * seed, 4_000))
        .with_tokens(20)
        .with_inter_token(ms(10))
        .with_fault(fault)
        .with_error_rate(0.15)
}

#[tokio::test(start_paused = true)]
async fn no_span_is_open_after_ten_thousand_calls_of_all_outcomes() {
    let world = Plan::new(vec![moody(1), moody(2), moody(3)])
        .sampler(Sampler::AlwaysOff)
        .policy(|p| {
            p.retry.overloaded = 1;
            p.hedge.keep_to_p99 = true;
        })
        .build();
    let mut calls = JoinSet::new();
    for n in 0..10_000_u64 {
        while calls.len() >= 64 {
            calls.join_next().await;
        }
        let router = world.router.clone();
        calls.spawn(async move {
            let patience = ms(200 + n % 7 * 900);
            let asked = async {
                let request = ChatRequest::user("hello");
                if n % 2 == 0 {
                    return router.complete(ROLE, request, context()).await.is_ok();
                }
                match router.stream(ROLE, request, context()).await {
                    // Some leave in the middle.
                    Ok(stream) => stream.take(if n % 3 == 0 { 2 } else { 99 }).count().await > 0,
                    Err(_) => false,
                }
            };
            tokio::time::timeout(patience, asked).await.is_ok()
        });
    }
    let mut ends = [0; 2];
    while let Some(ended) = calls.join_next().await {
        ends[usize::from(ended.unwrap())] += 1;
    }
    world.router.shutdown().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.spans.open(), 0);
}

/// A client with a fault of its own.
#[derive(Debug)]
struct Panicking;

#[async_trait::async_trait]
impl Provider for Panicking {
    async fn complete(&self, _: ProviderCall) -> Result<ChatResponse, Failure> {
        panic!("as a test asks")
    }

    async fn stream(&self, _: ProviderCall) -> Result<EventStream, Failure> {
        panic!("as a test asks")
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_panics_leaves_nothing_open() {
    let world = Plan::of(vec![Arc::new(Panicking) as _]).build();
    let router = world.router.clone();
    let mut calls = JoinSet::new();
    calls.spawn(async move {
        let request = ChatRequest::user("hello");
        router.complete(ROLE, request, context()).await.is_ok()
    });
    let ended = calls.join_next().await.unwrap();
    // Whether the router took the panic for a failure or let it through.
    assert!(ended.is_err() || ended.is_ok_and(|answered| !answered));
    assert_eq!(world.spans.open(), 0);
    assert_eq!(world.named("evenkeel.request").len(), 1);
}

//! What a crowd leaves behind: the memory of round after round of ten thousand concurrent calls.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use evenkeel_chaos::{Behaviour, Fault, Latency, Simulated};
use evenkeel_core::{CallContext, ChatRequest, ModelId};
use evenkeel_roster::{Config, ModelConfig, RoleConfig, RolePolicy, RungConfig};
use evenkeel_router::Router;
use futures_util::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

const ROLE: &str = "agent";
const CALLS: usize = 10_000;
const ROUNDS: usize = 5;

/// Resident memory may end so much above that of the second round, bytes: an eighth of the 120 MiB that a
/// crowd takes while it is there, for what the allocator keeps in pieces.
const SLACK: u64 = 16 << 20;

/// Heap that a round may leave allocated, bytes: what grows once is grown in the first two rounds. A
/// byte a call would be more.
const LEFT: i64 = 8 << 10;

/// Bytes resident, of /proc/self/statm (second field, in pages of 4 KiB).
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4_096
}

/// A flaky primary with a long tail, a slow fallback, a steady one: calls are retried, hedged, failed over.
fn providers() -> [Simulated; 3] {
    let flaky = Behaviour::healthy(Latency::lognormal_millis(200, 2_500))
        .with_tokens(5)
        .with_fault(Fault::status(500))
        .with_error_rate(0.1);
    let slow = Behaviour::healthy(Latency::lognormal_millis(250, 900)).with_tokens(5);
    let steady = Behaviour::healthy(Latency::millis(400)).with_tokens(5);
    let mut nth = 0;
    [flaky, slow, steady].map(|behaviour| {
        nth += 1;
        Simulated::new(&format!("p{nth}"), nth).model("m", behaviour)
    })
}

fn router(providers: &[Simulated]) -> Router {
    let mut config = Config::default();
    let mut rungs = Vec::new();
    for nth in 1..=providers.len() {
        let id = ModelId::new(&format!("p{nth}/m")).unwrap();
        rungs.push(match nth {
            1 => RungConfig::primary(id.clone()),
            _ => RungConfig::fallback(id.clone(), 0.9),
        });
        let mut model = ModelConfig::new(id.clone());
        model.max_concurrency = 2 * CALLS;
        config.models.insert(id, model);
    }
    let s = Duration::from_secs;
    let role = RoleConfig {
        name: ROLE.to_owned(),
        policy: RolePolicy::new(s(1), s(2), s(20)),
        rungs,
    };
    config.roles.insert(ROLE.to_owned(), role);
    let mut builder = Router::builder(&config).seed(42);
    for (nth, provider) in (1..).zip(providers) {
        builder = builder.provider(&format!("p{nth}"), Arc::new(provider.clone()));
    }
    builder.build().unwrap()
}

/// Ten thousand at once, half of them streams, each a session of its own; then quiet for two windows.
async fn crowd(router: &Router) {
    let mut calls = JoinSet::new();
    for nth in 0..CALLS {
        let router = router.clone();
        calls.spawn(async move {
            let request = ChatRequest::user(format!("hello n{nth}"));
            let context = CallContext::default();
            if nth % 2 == 0 {
                router.complete(ROLE, request, context).await.unwrap();
            } else {
                let mut stream = router.stream(ROLE, request, context).await.unwrap();
                while stream.next().await.is_some() {}
            }
        });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
    drop(calls);
    tokio::time::sleep(Duration::from_secs(40)).await;
}

#[test]
fn after_ten_thousand_concurrent_calls_memory_is_flat() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let providers = providers();
    let router = runtime.block_on(async { router(&providers) });
    let mut after = Vec::new();
    let mut left = Vec::new();
    for _ in 0..ROUNDS {
        let heap = allocation_counter::measure(|| runtime.block_on(crowd(&router)));
        left.push(heap.bytes_current);
        after.push(resident());
        for provider in &providers {
            assert_eq!(provider.stats("m").in_flight, 0);
        }
        let explained = runtime.block_on(async { router.explain(ROLE).unwrap() });
        for rung in explained.rungs {
            assert_eq!(
                (rung.total.samples, rung.first_token.samples),
                (0, 0),
                "{}: the window has let go",
                rung.model
            );
        }
    }
    let total: u64 = providers.iter().map(|p| p.stats("m").started).sum();
    assert!(total >= (ROUNDS * CALLS) as u64, "{total} upstream calls");
    assert!(
        left[2..].iter().all(|bytes| *bytes <= LEFT),
        "heap left by each round, bytes: {left:?}"
    );
    let (second, last) = (after[1], after[ROUNDS - 1]);
    assert!(
        last <= second + SLACK,
        "resident after each round, bytes: {after:?}"
    );
}

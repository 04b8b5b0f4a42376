//! Closed sets: the words of a contract that somebody else reads.

use crate::world::{Plan, ROLE, context, ms, steady};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{ChatRequest, Class};
use std::collections::BTreeSet;
use std::time::Duration;

/// Words of `reason`, and of `error.type`, beside the classes of failures.
const REASONS: [&str; 19] = [
    "breaker_open",
    "cooldown",
    "hold",
    "at_capacity",
    "below_capability",
    "quality_gate",
    "eol",
    "drill",
    "manual",
    "latency_p95_breach",
    "latency_p99_breach",
    "latency_spike",
    "patience_exceeded",
    "projected_deadline_miss",
    "recovered",
    "roster_exhausted",
    "degraded",
    "won",
    "lost",
];

fn is_known(word: &str) -> bool {
    REASONS.contains(&word) || Class::ALL.iter().any(|class| class.as_str() == word)
}

// Conformance 15: failures of every kind at the primary, and what keeps calls off it.
#[tokio::test(start_paused = true)]
async fn every_reason_and_type_of_error_is_a_word_of_the_contract() {
    let mut words = BTreeSet::new();
    let faults = [
        Behaviour::failing(Fault::status(400)),
        Behaviour::failing(Fault::status(401)),
        Behaviour::failing(Fault::status(404)),
        Behaviour::failing(Fault::status(429)),
        Behaviour::failing(Fault::status(500)),
        Behaviour::failing(Fault::status(503)),
        Behaviour::failing(Fault::Close),
        Behaviour::failing(Fault::CutAfter(2)),
        steady(5_000),
        steady(60_000),
    ];
    for (case, fault) in faults.into_iter().enumerate() {
        let single = case % 2 == 1;
        let mut rungs = vec![fault];
        if !single {
            rungs.push(steady(200));
        }
        let world = Plan::new(rungs)
            .model(|rung, model| {
                model.breaker.failure_threshold = 2;
                // More than the requests of this test would need.
                model.requests_per_minute = (rung == 0).then(|| 6.try_into().unwrap());
            })
            .build();
        for _ in 0..8 {
            let call = world
                .router
                .complete(ROLE, ChatRequest::user("hello"), context());
            let _ = tokio::time::timeout(Duration::from_secs(30), call).await;
            tokio::time::sleep(ms(200)).await;
        }
        for span in world.ended() {
            let events = span.events.iter().flat_map(|event| &event.attributes);
            for kv in span.attributes.iter().chain(events) {
                let is_reason =
                    kv.key.as_str().ends_with("reason") || kv.key.as_str() == "error.type";
                if is_reason {
                    words.insert(kv.value.to_string());
                }
            }
        }
    }
    let unknown: Vec<_> = words.iter().filter(|word| !is_known(word)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    for met in [
        "overloaded",
        "rate_limited",
        "auth",
        "cooldown",
        "breaker_open",
    ] {
        assert!(words.contains(met), "{met} was not caused: {words:?}");
    }
}

//! What answers have lost travels from call to call.

use crate::world::{Plan, ROLE, ms, router, steady};
use evenkeel_chaos::{Behaviour, Fault, Simulated};
use evenkeel_core::{Baggage, CallContext, ChatRequest, DegradationContext, Provider};
use evenkeel_roster::RolePolicy;
use evenkeel_router::Router;
use std::sync::Arc;
use std::time::Duration;

fn down() -> Behaviour {
    Behaviour::failing(Fault::status(503))
}

/// What a caller writes who has the answers that `degradation` tells of.
fn after(degradation: DegradationContext) -> CallContext {
    CallContext {
        degradation,
        ..CallContext::default()
    }
}

fn told(header: &str) -> CallContext {
    after(Baggage::read([header]).degradation())
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_primary_passes_the_context_on() {
    let world = Plan::new(vec![steady(100), steady(100)]).build();
    let before = told("evenkeel.depth=2,evenkeel.min_capability=0.83,evenkeel.agents=a|b");
    let answer = world.ask_with(before.clone()).await.unwrap();
    assert_eq!(answer.degradation, before.degradation);
    let healthy = world.ask().await.unwrap();
    assert_eq!(healthy.degradation, DegradationContext::default());
}

#[tokio::test(start_paused = true)]
async fn a_degraded_answer_adds_a_step_whole_and_streamed() {
    let world = Plan::new(vec![down(), steady(100)])
        .rung(|rung, config| {
            if rung == 1 {
                config.capability_score = 0.7;
                config.quality_score = Some(0.9);
            }
        })
        .build();
    let before = told(
        "evenkeel.depth=2,evenkeel.min_capability=0.83,evenkeel.quality=0.80,evenkeel.agents=a",
    );
    let answer = world.ask_with(before.clone()).await.unwrap();
    let request = ChatRequest::user("hello");
    let stream = world.router.stream(ROLE, request, before).await.unwrap();
    for got in [answer.degradation, stream.degradation()] {
        assert_eq!(got.depth(), 3);
        assert_eq!(got.degraded_agents().collect::<Vec<_>>(), ["a", ROLE]);
        assert!((got.min_capability_score() - 0.7).abs() < 1e-9);
        assert!((got.quality() - 0.72).abs() < 1e-9);
        assert_eq!(got.role(), Some(ROLE));
        assert_eq!(got.primary().unwrap().as_str(), "p0/m");
        assert_eq!(got.active().unwrap().as_str(), "p1/m");
        assert_eq!(got.fallback_reason(), Some("overloaded"));
        assert!(got.since().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn the_workflow_is_what_the_caller_says_else_what_came_with_the_context() {
    let world = Plan::new(vec![steady(100)]).build();
    let came = told("evenkeel.workflow=run-1");
    let answer = world.ask_with(came.clone()).await.unwrap();
    assert_eq!(&**answer.degradation.workflow().unwrap(), "run-1");
    let said = CallContext {
        workflow: Some("run-2".into()),
        ..came
    };
    let answer = world.ask_with(said).await.unwrap();
    assert_eq!(&**answer.degradation.workflow().unwrap(), "run-2");
}

async fn step(router: &Router, role: &str, before: &DegradationContext) -> DegradationContext {
    let request = ChatRequest::user("go on");
    let answer = router.complete(role, request, after(before.clone())).await;
    answer.unwrap().degradation
}

/// A reader whose primary is down, three searchers side by side of which two
/// answer degraded, one of them twice in a row, and a healthy writer over all.
#[tokio::test(start_paused = true)]
async fn branches_side_by_side_come_together_as_one_path() {
    let policy = || RolePolicy::new(ms(1_000), ms(2_000), Duration::from_secs(20));
    let well = Simulated::new("p0", 1).model("m", steady(50));
    let sick = Simulated::new("p1", 2).model("m", down());
    let providers: Vec<Arc<dyn Provider>> = vec![Arc::new(well), Arc::new(sick)];
    let healthy = vec!["p0/m"];
    let degraded = vec!["p1/m", "p0/m"];
    let roles = vec![
        ("reader", policy(), degraded.clone()),
        ("searcher-a", policy(), degraded.clone()),
        ("searcher-b", policy(), degraded),
        ("searcher-c", policy(), healthy.clone()),
        ("writer", policy(), healthy),
    ];
    let (router, _) = router(roles, providers);
    let read = step(&router, "reader", &DegradationContext::default()).await;
    assert_eq!(read.depth(), 1);
    let (a, b, c) = tokio::join!(
        async {
            let once = step(&router, "searcher-a", &read).await;
            step(&router, "searcher-a", &once).await
        },
        step(&router, "searcher-b", &read),
        step(&router, "searcher-c", &read),
    );
    assert_eq!((a.depth(), b.depth(), c.depth()), (3, 2, 1));
    let joined = DegradationContext::merged([&a, &b, &c]);
    let written = step(&router, "writer", &joined).await;
    // Side by side is no longer way: three, not one and two and one.
    assert_eq!(written.depth(), 3);
    let agents: Vec<_> = written.degraded_agents().collect();
    assert_eq!(agents, ["reader", "searcher-b", "searcher-a"]);
    assert_eq!(written.role(), Some("searcher-a"));
    assert!((written.quality() - 0.9_f64.powi(3)).abs() < 1e-9);
    assert_eq!(written.since(), read.since());
}

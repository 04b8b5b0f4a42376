//! A role's cost ceiling: dear rungs come after the others, and are still there.

use crate::world::{Plan, ROLE, World, ms, steady, told};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{CallContext, ChatRequest, Refusal, Trail, TrailStep};
use evenkeel_roster::ModelConfig;
use evenkeel_router::Answer;

/// Rung 0 is ten times dearer than the others: 100 dollars a million output tokens.
fn dear_primary(rung: usize, model: &mut ModelConfig) {
    let factor = if rung == 0 { 10.0 } else { 1.0 };
    model.input_usd_per_mtok = Some(factor);
    model.output_usd_per_mtok = Some(10.0 * factor);
}

/// A request for up to so many tokens.
fn up_to(tokens: u64) -> ChatRequest {
    ChatRequest {
        max_output_tokens: Some(tokens),
        ..ChatRequest::user("hello")
    }
}

async fn ask(world: &World, request: ChatRequest) -> Answer {
    let context = CallContext::default();
    world.router.complete(ROLE, request, context).await.unwrap()
}

fn world(rungs: Vec<Behaviour>, ceiling: f64) -> World {
    Plan::new(rungs)
        .model(dear_primary)
        .policy(|p| p.cost_ceiling_usd = Some(ceiling))
        .build()
}

fn over_cost(trail: &Trail) -> Vec<(u64, u64)> {
    let of = |step: &TrailStep| match step {
        TrailStep::Skipped {
            refusal:
                Refusal::OverCost {
                    expected_micros,
                    ceiling_micros,
                },
            ..
        } => Some((*expected_micros, *ceiling_micros)),
        _ => None,
    };
    trail.steps.iter().filter_map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn a_dear_call_goes_to_a_cheaper_rung_and_the_trail_says_why() {
    let world = world(vec![steady(100), steady(100)], 0.05);
    // A thousand tokens at the primary: ten cents and the input.
    let answer = ask(&world, up_to(1_000)).await;
    assert_eq!(told(&answer.trail), ["skip 0 over_cost", "1 failover won"]);
    assert_eq!(answer.meta.fallback_reason, Some("manual"));
    let [(expected, ceiling)] = over_cost(&answer.trail)[..] else {
        panic!("{:?}", answer.trail)
    };
    assert_eq!(ceiling, 50_000);
    assert!((100_000..100_200).contains(&expected), "{expected}");
    assert_eq!(world.stats(0).started, 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_within_the_ceiling_goes_to_the_primary() {
    let world = world(vec![steady(100), steady(100)], 0.05);
    let answer = ask(&world, up_to(100)).await;
    assert_eq!(told(&answer.trail), ["0 first won"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_expected_is_learnt_from_the_rungs_answers() {
    let world = world(vec![steady(100), steady(100)], 0.05);
    // Without a cap, and before any answer, the input alone is known.
    assert_eq!(ask(&world, ChatRequest::user("hello")).await.meta.rung, 0);
    // Its answers have five tokens, far below what is allowed for.
    assert_eq!(ask(&world, up_to(1_000)).await.meta.rung, 0);
}

#[tokio::test(start_paused = true)]
async fn a_dear_rung_is_asked_where_the_cheaper_ones_fail() {
    let down = Behaviour::failing(Fault::status(503));
    let world = world(vec![steady(100), down.clone(), down], 0.05);
    let answer = ask(&world, up_to(1_000)).await;
    assert_eq!(
        told(&answer.trail),
        [
            "skip 0 over_cost",
            "1 failover overloaded",
            "2 failover overloaded",
            "0 failover won"
        ]
    );
    // The primary answered, only later.
    assert!(!answer.meta.degraded);
}

#[tokio::test(start_paused = true)]
async fn a_lone_or_unpriced_rung_is_never_too_dear() {
    let lone = world(vec![steady(100)], 0.000_001);
    assert_eq!(told(&ask(&lone, up_to(1_000)).await.trail), ["0 first won"]);
    let unpriced = Plan::new(vec![steady(100), steady(100)])
        .policy(|p| p.cost_ceiling_usd = Some(0.000_001))
        .build();
    let answer = ask(&unpriced, up_to(1_000)).await;
    assert_eq!(told(&answer.trail), ["0 first won"]);
}

#[tokio::test(start_paused = true)]
async fn hedges_too_prefer_what_is_within_the_ceiling() {
    let middle_is_dear = |rung: usize, model: &mut ModelConfig| {
        let factor = if rung == 1 { 10.0 } else { 1.0 };
        model.input_usd_per_mtok = Some(factor);
        model.output_usd_per_mtok = Some(10.0 * factor);
    };
    let world = Plan::new(vec![steady(10_000), steady(100), steady(200)])
        .model(middle_is_dear)
        .policy(|p| p.cost_ceiling_usd = Some(0.05))
        .build();
    let answer = ask(&world, up_to(1_000)).await;
    assert_eq!(
        told(&answer.trail),
        ["0 first lost", "skip 1 over_cost", "2 hedge won"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_rung_left_for_slowness_comes_after_a_dear_one() {
    let world = Plan::new(vec![steady(10_000), steady(100)])
        .model(|rung, model| {
            let factor = if rung == 1 { 10.0 } else { 1.0 };
            model.input_usd_per_mtok = Some(factor);
            model.output_usd_per_mtok = Some(10.0 * factor);
        })
        .policy(|p| p.cost_ceiling_usd = Some(0.05))
        .build();
    for _ in 0..10 {
        ask(&world, up_to(10)).await;
    }
    assert_eq!(world.memory.substitutions(), [(0, 1)]);
    let begun = tokio::time::Instant::now();
    let answer = ask(&world, up_to(100_000)).await;
    assert_eq!(answer.meta.rung, 1);
    assert!(begun.elapsed() < ms(1_000));
}

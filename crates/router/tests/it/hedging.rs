//! Patience, the race, and the hedge budget.

use crate::world::{Plan, deadline, ms, steady, told};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{ChatRequest, Class, EventKind, Route};
use evenkeel_roster::HedgeMode;
use evenkeel_router::CallErrorKind;
use tokio::time::Instant;

// C167
#[tokio::test(start_paused = true)]
async fn a_slow_primary_is_hedged_when_patience_runs_out_and_the_first_answer_wins() {
    let world = Plan::new(vec![steady(10_000), steady(300)]).build();
    let began = Instant::now();
    let answer = world.ask().await.unwrap();
    assert_eq!(began.elapsed(), ms(1_300));
    assert_eq!(answer.meta.route, Route::Hedge);
    assert_eq!(answer.meta.fallback_reason, Some("patience_exceeded"));
    assert_eq!(answer.meta.latency_added, ms(1_000));
    assert_eq!(told(&answer.trail), ["0 first lost", "1 hedge won"]);
    // The loser's connection is closed.
    assert_eq!(world.stats(0).in_flight, 0);
    assert_eq!(world.stats(0).cancelled, 1);
}

#[tokio::test(start_paused = true)]
async fn the_first_attempt_still_wins_if_it_is_faster_after_all() {
    let world = Plan::new(vec![steady(1_200), steady(800)]).build();
    let answer = world.ask().await.unwrap();
    assert_eq!(told(&answer.trail), ["0 first won", "1 hedge lost"]);
    assert_eq!(answer.meta.rung, 0);
    assert!(!answer.meta.degraded);
    assert_eq!(world.stats(1).cancelled, 1);
}

#[tokio::test(start_paused = true)]
async fn switch_mode_cancels_the_first_before_the_next_starts() {
    let world = Plan::new(vec![steady(1_200), steady(800)])
        .policy(|p| p.hedge.mode = HedgeMode::Switch)
        .build();
    let answer = world.ask().await.unwrap();
    assert_eq!(told(&answer.trail), ["0 first lost", "1 hedge won"]);
}

#[tokio::test(start_paused = true)]
async fn hedging_off_waits_for_the_primary() {
    let world = Plan::new(vec![steady(1_500), steady(100)])
        .policy(|p| p.hedge.mode = HedgeMode::Off)
        .build();
    let answer = world.ask().await.unwrap();
    assert_eq!(told(&answer.trail), ["0 first won", "no hedge 0 off"]);
}

#[tokio::test(start_paused = true)]
async fn outside_breach_hedges_are_bounded_by_the_budget() {
    // The detector is switched off by a huge floor: the rung never counts as in breach.
    let world = Plan::new(vec![steady(1_400), steady(1_300)])
        .policy(|p| {
            p.min_samples = 1_000_000;
            p.spike_detector = false;
            p.hedge.burst = 3;
            p.hedge.budget = 0.05;
        })
        .build();
    for _ in 0..60 {
        world.ask().await.unwrap();
    }
    let hedges = world
        .memory
        .count(|k| matches!(k, EventKind::HedgeStarted { .. }));
    // A burst of 3, then one for each 20 calls: the 21st and the 41st.
    assert_eq!(hedges, 5);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_cuts_patience_starts_the_hedge_earlier() {
    let world = Plan::new(vec![steady(10_000), steady(300)])
        .rung(|i, rung| {
            if i == 1 {
                rung.median_latency = Some(ms(300));
            }
        })
        .build();
    let began = Instant::now();
    let answer = world.ask_with(deadline(ms(1_200))).await.unwrap();
    // need = 2 x 300 ms: patience ends at 600 ms.
    assert_eq!(began.elapsed(), ms(900));
    assert_eq!(answer.meta.fallback_reason, Some("projected_deadline_miss"));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_too_short_for_two_gives_it_all_to_the_first_rung() {
    let world = Plan::new(vec![steady(700), steady(300)])
        .rung(|i, rung| {
            if i == 1 {
                rung.median_latency = Some(ms(300));
            }
        })
        .build();
    let answer = world.ask_with(deadline(ms(800))).await.unwrap();
    assert_eq!(told(&answer.trail), ["0 first won"]);
}

#[tokio::test(start_paused = true)]
async fn the_call_returns_by_its_deadline_whatever_its_attempts_do() {
    let world = Plan::new(vec![steady(60_000), steady(60_000)]).build();
    let began = Instant::now();
    let error = world.ask_with(deadline(ms(3_000))).await.unwrap_err();
    assert_eq!(began.elapsed(), ms(3_000));
    assert!(matches!(&error.kind, CallErrorKind::Failed(f) if f.class == Class::Timeout));
    for rung in 0..2 {
        assert_eq!(world.stats(rung).in_flight, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_hedge_is_replaced_and_a_failed_first_attempt_is_not() {
    let overloaded = || Behaviour::failing(Fault::status(503));
    let world = Plan::new(vec![steady(5_000), overloaded(), steady(200)]).build();
    let answer = world.ask().await.unwrap();
    assert_eq!(
        told(&answer.trail),
        ["0 first lost", "1 hedge overloaded", "2 failover won"]
    );

    let dies = Behaviour::failing(Fault::status(500)).with_fault_delay(ms(1_100));
    let world = Plan::new(vec![dies, steady(500), steady(1)]).build();
    let answer = world.ask().await.unwrap();
    assert_eq!(told(&answer.trail), ["0 first transient", "1 hedge won"]);
}

#[tokio::test(start_paused = true)]
async fn when_every_fallback_fails_the_slow_primary_answers() {
    let down = || Behaviour::failing(Fault::status(503));
    let world = Plan::new(vec![steady(4_000), down(), down()]).build();
    let began = Instant::now();
    let answer = world.ask().await.unwrap();
    assert_eq!(answer.meta.rung, 0);
    assert_eq!(began.elapsed(), ms(4_000));
}

#[tokio::test(start_paused = true)]
async fn a_benched_primary_is_the_last_resort_and_the_word_does_not_move() {
    let world = Plan::new(vec![steady(3_000), steady(100)]).build();
    for _ in 0..8 {
        world.ask().await.unwrap();
    }
    assert_eq!(world.memory.substitutions(), [(0, 1)]);
    world.set(1, Behaviour::failing(Fault::status(503)));
    let answer = world.ask().await.unwrap();
    assert_eq!(
        told(&answer.trail),
        [
            "1 first overloaded",
            "skip 0 benched",
            "0 last_resort won",
            "no hedge 0 no_rung"
        ]
    );
    assert_eq!(world.memory.substitutions(), [(0, 1)]);
}

// C168
#[tokio::test(start_paused = true)]
async fn requests_with_state_at_the_provider_are_never_asked_twice() {
    let world = Plan::new(vec![steady(1_500), steady(100)]).build();
    let mut request = ChatRequest::user("hello");
    request.extra.dialect = "openai";
    request.extra.fields.insert("store".to_owned(), true.into());
    let context = evenkeel_core::CallContext::default();
    let answer = world
        .router
        .complete(crate::world::ROLE, request, context)
        .await
        .unwrap();
    assert_eq!(
        told(&answer.trail),
        ["0 first won", "no hedge 0 not_hedgeable"]
    );
}

// C167
#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_takes_every_attempt_with_it() {
    let world = Plan::new(vec![steady(30_000), steady(30_000)]).build();
    let left = tokio::time::timeout(ms(2_000), world.ask()).await;
    assert!(left.is_err());
    for rung in 0..2 {
        let stats = world.stats(rung);
        assert_eq!((stats.in_flight, stats.cancelled), (0, 1), "rung {rung}");
    }
    let ends = world.memory.all(|k| match k {
        EventKind::CallEnded { outcome, .. } => Some(*outcome),
        _ => None,
    });
    assert_eq!(ends, ["cancelled"]);
}

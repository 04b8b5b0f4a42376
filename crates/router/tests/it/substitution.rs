//! The word: one activation event however many calls see the breach.

use crate::world::{Plan, deadline, ms, steady};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{EventKind, Route};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_sudden_spike_moves_the_calls_in_flight_and_then_the_role() {
    let world = Plan::new(vec![steady(200), steady(300)]).build();
    assert!(world.ask_every(50, ms(50)).await.iter().all(|r| *r == 0));
    world.set(0, steady(10_000));
    let mut worst = Duration::ZERO;
    for _ in 0..20 {
        let began = Instant::now();
        let answer = world.ask().await.unwrap();
        worst = worst.max(began.elapsed());
        assert_eq!(answer.meta.rung, 1);
    }
    assert_eq!(worst, ms(1_300), "patience and the fallback's latency");
    assert_eq!(world.memory.substitutions(), [(0, 1)]);
    // Five exceedances in a row raise the spike detector: the rest went straight there.
    assert_eq!(world.stats(0).started, 55);
    let answer = world.ask().await.unwrap();
    assert_eq!(answer.meta.route, Route::Substitute);
    assert_eq!(answer.meta.fallback_reason, Some("latency_spike"));
    // The primary is as slow as before: nothing says that its breach ended.
    let over = |k: &EventKind| matches!(k, EventKind::LatencyBreachEnded { .. });
    assert_eq!(world.memory.count(over), 0);
    // Slow is not failing: the breaker knows nothing of it.
    assert_eq!(
        world
            .memory
            .count(|k| matches!(k, EventKind::BreakerTransition { .. })),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn sixty_four_callers_that_see_the_breach_at_once_move_it_once() {
    let world = Arc::new(Plan::new(vec![steady(10_000), steady(300)]).build());
    let mut callers = JoinSet::new();
    for _ in 0..64 {
        let world = world.clone();
        callers.spawn(async move { world.ask().await.unwrap().meta.rung });
    }
    let began = Instant::now();
    let rungs = callers.join_all().await;
    assert!(rungs.iter().all(|r| *r == 1));
    assert_eq!(
        began.elapsed(),
        ms(1_300),
        "none waits for a budget in breach"
    );
    assert_eq!(world.memory.substitutions(), [(0, 1)]);
    let breaches = world
        .memory
        .count(|k| matches!(k, EventKind::LatencyBreach { rung: 0, .. }));
    assert_eq!(breaches, 1);
}

#[tokio::test(start_paused = true)]
async fn a_fallback_that_is_worse_is_not_taken() {
    let world = Plan::new(vec![steady(3_000), steady(100)])
        .rung(|i, rung| {
            if i == 1 {
                rung.median_latency = Some(ms(1_000));
            }
        })
        .build();
    for _ in 0..10 {
        world.ask().await.unwrap();
    }
    assert_eq!(world.memory.substitutions(), []);
}

/// The few answers of a quiet hour are all that is reported when every call stalls at once.
#[tokio::test(start_paused = true)]
async fn a_known_fallback_is_not_worse_than_a_primary_of_which_only_old_answers_are_reported() {
    let limited = Behaviour::failing(Fault::rate_limited(ms(5_000)));
    let world = Arc::new(Plan::new(vec![limited, steady(300)]).build());
    assert!(world.ask_every(25, ms(50)).await.iter().all(|r| *r == 1));
    world.set(0, steady(100));
    tokio::time::sleep(ms(5_000)).await;
    assert_eq!(world.ask_every(3, ms(50)).await, [0; 3]);

    world.set(0, steady(10_000));
    let mut callers = JoinSet::new();
    for _ in 0..8 {
        let world = world.clone();
        callers.spawn(async move { world.ask().await.unwrap().meta.rung });
    }
    tokio::time::sleep(ms(1_050)).await;
    assert_eq!(
        world.memory.substitutions(),
        [(0, 1)],
        "before any has ended"
    );
    assert_eq!(callers.join_all().await, [1; 8]);
}

/// Every call stalls at once after a calm hour: that is seen before any of them has ended, and
/// what is told of it says so.
#[tokio::test(start_paused = true)]
async fn what_is_told_of_a_breach_does_not_contradict_it() {
    for (calm, detector) in [(3, "p95"), (200, "spike")] {
        let world = Arc::new(Plan::new(vec![steady(100), steady(300)]).build());
        assert!(world.ask_every(calm, ms(50)).await.iter().all(|r| *r == 0));
        world.set(0, steady(10_000));
        let mut callers = JoinSet::new();
        for _ in 0..8 {
            let world = world.clone();
            callers.spawn(async move { world.ask().await.unwrap().meta.rung });
        }
        assert_eq!(callers.join_all().await, [1; 8]);
        let breaches = world.memory.all(|kind| match kind {
            EventKind::LatencyBreach {
                detector,
                p95,
                p99,
                slo,
                samples,
                ..
            } => Some((*detector, *slo, *p95, *p99, *samples)),
            _ => None,
        });
        let [(found, slo, p95, p99, samples)] = breaches[..] else {
            panic!("{breaches:?}");
        };
        assert_eq!(found, detector);
        assert!(p95 >= Some(slo) && p99 >= p95, "{p95:?} of {slo:?}");
        let moves = world.memory.all(|kind| match kind {
            EventKind::ModelSubstitution { latency, .. } => Some(*latency),
            _ => None,
        });
        assert_eq!(
            (moves[0].p95, moves[0].p99, moves[0].samples),
            (p95, p99, samples)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_fallback_that_breaches_in_turn_moves_the_role_on() {
    let world = Plan::new(vec![steady(5_000), steady(100), steady(200)]).build();
    for _ in 0..8 {
        world.ask().await.unwrap();
    }
    world.set(1, steady(5_000));
    for _ in 0..8 {
        world.ask().await.unwrap();
    }
    assert_eq!(world.memory.substitutions(), [(0, 1), (1, 2)]);
    assert_eq!(world.ask().await.unwrap().meta.rung, 2);
}

#[tokio::test(start_paused = true)]
async fn failures_open_the_breaker_and_never_move_the_word() {
    let world = Plan::new(vec![Behaviour::failing(Fault::status(503)), steady(100)]).build();
    for _ in 0..12 {
        let answer = world.ask().await.unwrap();
        assert_eq!(answer.meta.route, Route::Fallback);
    }
    assert_eq!(world.memory.substitutions(), []);
    assert_eq!(world.stats(0).started, 5, "then the breaker is open");
    let answer = world.ask().await.unwrap();
    assert_eq!(answer.meta.fallback_reason, Some("breaker_open"));
}

#[tokio::test(start_paused = true)]
async fn short_deadlines_do_not_hide_a_stalled_primary() {
    // Every call's patience is below T95, and the primary never answers.
    let world = Plan::new(vec![Behaviour::failing(Fault::Hang), steady(100)])
        .rung(|i, rung| {
            if i == 1 {
                rung.median_latency = Some(ms(100));
            }
        })
        .build();
    for _ in 0..8 {
        world.ask_with(deadline(ms(700))).await.unwrap();
        tokio::time::sleep(ms(1_000)).await;
    }
    assert_eq!(world.memory.substitutions(), [(0, 1)]);
}

#[tokio::test(start_paused = true)]
async fn one_slow_call_of_five_moves_nothing() {
    let world = Plan::new(vec![steady(100), steady(100)]).build();
    for round in 0..4 {
        world.set(0, steady(1_500));
        world.ask().await.unwrap();
        world.set(0, steady(100));
        world.ask_every(9, ms(10)).await;
        assert_eq!(world.memory.substitutions(), [], "round {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_primary_past_its_end_of_life_is_left() {
    let world = Plan::new(vec![steady(100), steady(100)])
        .model(|i, model| {
            if i == 0 {
                model.eol_date = Some("2020-01-01".parse().unwrap());
            }
        })
        .build();
    let answer = world.ask().await.unwrap();
    assert_eq!(answer.meta.rung, 1);
    assert_eq!(answer.meta.fallback_reason, Some("eol"));
    assert_eq!(world.memory.substitutions(), [(0, 1)]);
    assert_eq!(world.stats(0).started, 0);
}

//! What a role does when it builds on degraded answers.

use crate::world::{Plan, World, ms, steady, told};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{Baggage, CallContext, ClockOverrides, EventKind, Route, TrailStep};
use evenkeel_roster::OnDegradedInput;
use evenkeel_router::CallErrorKind;
use std::time::Duration;
use tokio::time::Instant;

const DEGRADED: &str =
    "evenkeel.depth=2,evenkeel.min_capability=0.70,evenkeel.agents=reader|searcher";

fn on(header: &str) -> CallContext {
    CallContext {
        degradation: Baggage::read([header]).degradation(),
        ..CallContext::default()
    }
}

fn plan(rungs: Vec<Behaviour>, on_input: OnDegradedInput) -> Plan {
    Plan::new(rungs).policy(|p| {
        p.degraded.on_input = on_input;
        p.restore.probe_interval = Duration::from_secs(5);
        p.restore.canary = Vec::new();
    })
}

/// The role's word on rung 1, and the primary well again.
async fn substituted(world: &World) {
    world.set(0, steady(10_000));
    for _ in 0..10 {
        world.ask().await.unwrap();
    }
    assert_eq!(world.memory.substitutions(), [(0, 1)]);
    world.set(0, steady(100));
}

fn waited(step: &TrailStep) -> Option<Duration> {
    match step {
        TrailStep::Waited { wait, reason, .. } if *reason == "degraded_input" => Some(*wait),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_role_that_refuses_asks_nobody_and_says_who_answered_degraded() {
    let world = plan(vec![steady(100)], OnDegradedInput::Refuse).build();
    let error = world.ask_with(on(DEGRADED)).await.unwrap_err();
    let CallErrorKind::DegradedInput {
        agents,
        min_capability_score,
        below,
    } = &error.kind
    else {
        panic!("{error}");
    };
    assert_eq!(agents, &["reader", "searcher"]);
    assert!((min_capability_score - 0.7).abs() < 1e-9 && (below - 1.0).abs() < 1e-9);
    assert_eq!(
        error.to_string(),
        "the role takes no input of capability below 1.00, and this rests on degraded answers of \
         capability 0.70 by `reader`, `searcher`"
    );
    assert_eq!((error.retry_after, error.kind.class()), (None, None));
    assert_eq!(world.stats(0).started, 0);
    let ends = world.memory.all(|k| match k {
        EventKind::CallEnded {
            outcome,
            route,
            error,
            ..
        } => Some((*outcome, *route, *error)),
        _ => None,
    });
    // Nobody was asked, and nobody had failed.
    assert_eq!(ends, [("error", Route::Primary, Some("bad_request"))]);
}

#[tokio::test(start_paused = true)]
async fn input_is_degraded_below_the_roles_own_measure_only() {
    let refusing = |below: f64| {
        plan(vec![steady(100)], OnDegradedInput::Refuse)
            .policy(|p| p.degraded.below = below)
            .build()
    };
    for (below, header, taken) in [
        (1.0, "", true),
        (
            1.0,
            "evenkeel.degraded=0,evenkeel.min_capability=0.10",
            true,
        ),
        (
            1.0,
            "evenkeel.degraded=1,evenkeel.min_capability=1.00",
            true,
        ),
        (
            1.0,
            "evenkeel.degraded=1,evenkeel.min_capability=0.99",
            false,
        ),
        // Nothing is known of what is left.
        (1.0, "evenkeel.degraded=1", false),
        (0.7, DEGRADED, true),
        (0.71, DEGRADED, false),
        (0.0, "evenkeel.degraded=1", true),
    ] {
        let answer = refusing(below).ask_with(on(header)).await;
        assert_eq!(answer.is_ok(), taken, "{below} {header}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_role_that_waits_answers_with_its_primary_as_soon_as_that_is_back() {
    let world = plan(vec![steady(100), steady(200)], OnDegradedInput::Wait).build();
    substituted(&world).await;
    let begun = Instant::now();
    let waiting = (0..50).map(|_| world.ask_with(on(DEGRADED)));
    let (answers, healthy) = tokio::join!(futures_util::future::join_all(waiting), world.ask());
    // Who builds on nothing degraded waits for nothing.
    assert_eq!(healthy.unwrap().meta.rung, 1);
    assert_eq!(world.memory.restorations(), [(1, 0)]);
    let restored = world.memory.events();
    let restored = restored.iter().find_map(|e| match e.kind {
        EventKind::ModelRestoration { .. } => Some(e.at - begun.into_std()),
        _ => None,
    });
    for answer in answers {
        let answer = answer.unwrap();
        assert_eq!(answer.meta.rung, 0);
        assert_eq!(answer.trail.steps.first().and_then(waited), restored);
        assert_eq!(
            told(&answer.trail),
            ["wait 0 degraded_input", "0 first won"]
        );
    }
    assert_eq!(begun.elapsed(), restored.unwrap() + ms(100));
}

#[tokio::test(start_paused = true)]
async fn a_cooldown_of_the_primary_is_waited_for_to_the_millisecond() {
    let limited = Behaviour::failing(Fault::rate_limited(Duration::from_secs(7)));
    let world = plan(vec![limited, steady(200)], OnDegradedInput::Wait).build();
    assert_eq!(world.ask().await.unwrap().meta.rung, 1);
    world.set(0, steady(100));
    let begun = Instant::now();
    let answer = world.ask_with(on(DEGRADED)).await.unwrap();
    assert_eq!(answer.meta.rung, 0);
    assert_eq!(
        told(&answer.trail),
        ["wait 0 degraded_input", "0 first won"]
    );
    // The answer by the fallback took 200 of the 7,000 ms.
    assert_eq!(begun.elapsed(), ms(6_900));
}

#[tokio::test(start_paused = true)]
async fn the_wait_ends_and_leaves_time_for_an_answer() {
    let world = plan(vec![steady(100), steady(200)], OnDegradedInput::Wait)
        .policy(|p| {
            p.restore.probe_interval = Duration::from_secs(3_600);
            p.restore.probe_interval_cap = Duration::from_secs(3_600);
            p.degraded.wait = ms(4_000);
        })
        .build();
    substituted(&world).await;
    // A deadline of 3 s leaves 2 s to wait beside a T95 of one.
    for (deadline, wait) in [(None, 4_000), (Some(3_000), 2_000), (Some(900), 0)] {
        let context = CallContext {
            clocks: ClockOverrides {
                deadline: deadline.map(ms),
                ..ClockOverrides::default()
            },
            ..on(DEGRADED)
        };
        let begun = Instant::now();
        let answer = world.ask_with(context).await.unwrap();
        assert_eq!(answer.meta.rung, 1);
        assert_eq!(begun.elapsed(), ms(wait + 200));
        let step = answer.trail.steps.first().and_then(waited);
        assert_eq!(step, (wait > 0).then(|| ms(wait)));
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_primary_that_cannot_be_back_in_time() {
    for fault in [
        // Holds of minutes, and a cooldown longer than the wait.
        Fault::status(404),
        Fault::status(401),
        Fault::rate_limited(Duration::from_secs(31)),
    ] {
        let failing = Behaviour::failing(fault.clone());
        let world = plan(vec![failing, steady(200)], OnDegradedInput::Wait).build();
        assert_eq!(world.ask().await.unwrap().meta.rung, 1, "{fault:?}");
        let begun = Instant::now();
        let answer = world.ask_with(on(DEGRADED)).await.unwrap();
        assert_eq!(answer.meta.rung, 1, "{fault:?}");
        assert_eq!(begun.elapsed(), ms(200), "{fault:?}");
        assert!(answer.trail.steps.iter().all(|s| waited(s).is_none()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_primary_that_serves_is_not_waited_for_and_a_caller_may_leave() {
    let world = plan(vec![steady(100), steady(200)], OnDegradedInput::Wait).build();
    let begun = Instant::now();
    let answer = world.ask_with(on(DEGRADED)).await.unwrap();
    assert_eq!((answer.meta.rung, begun.elapsed()), (0, ms(100)));
    substituted(&world).await;
    let asked = world.stats(0).started + world.stats(1).started;
    let left = tokio::time::timeout(ms(500), world.ask_with(on(DEGRADED))).await;
    assert!(left.is_err());
    assert_eq!(world.stats(0).started + world.stats(1).started, asked);
    let last = world.memory.all(|k| match k {
        EventKind::CallEnded { outcome, .. } => Some(*outcome),
        _ => None,
    });
    assert_eq!(last.last(), Some(&"cancelled"));
}

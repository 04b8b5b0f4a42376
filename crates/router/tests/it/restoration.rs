//! The way back: probes, canary, hysteresis.

use crate::world::{Plan, World, ms, steady};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{EventKind, Route};
use std::time::Duration;

fn plan() -> Plan {
    Plan::new(vec![steady(200), steady(300)]).policy(|p| {
        p.restore.probe_interval = Duration::from_secs(5);
        p.restore.canary = vec![0.5];
        p.restore.hold = Duration::from_secs(60);
    })
}

async fn spike(world: &World) {
    world.set(0, steady(10_000));
    for i in 0..10 {
        world.ask_as(&format!("spike {i}")).await;
    }
    assert_eq!(world.memory.substitutions().last(), Some(&(0, 1)));
}

/// Calls as many sessions, 100 ms apart; who answered each.
async fn crowd(world: &World, n: usize) -> Vec<usize> {
    let mut rungs = Vec::new();
    for i in 0..n {
        rungs.push(world.ask_as(&format!("session {i}")).await);
        tokio::time::sleep(ms(100)).await;
    }
    rungs
}

#[tokio::test(start_paused = true)]
async fn probes_then_a_canary_then_the_primary_again() {
    let world = plan().build();
    spike(&world).await;
    world.set(0, steady(200));
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(crowd(&world, 1).await.iter().all(|r| *r == 1));
    tokio::time::sleep(Duration::from_secs(8)).await;
    let shares = world.memory.all(|k| match k {
        EventKind::CanaryStarted { share, .. } => Some(*share),
        _ => None,
    });
    assert_eq!(shares, [0.5]);
    let rungs = crowd(&world, 60).await;
    let on_primary = rungs.iter().filter(|r| **r == 0).count();
    assert!(on_primary > 30, "{on_primary} of 60");
    assert_eq!(world.memory.restorations(), [(1, 0)]);
    assert_eq!(rungs.last(), Some(&0));
}

/// A provider that says when it wants to be asked again is not probed before.
#[tokio::test(start_paused = true)]
async fn a_probe_heeds_the_wait_that_a_provider_asks_for() {
    let world = plan().build();
    spike(&world).await;
    world.set(
        0,
        Behaviour::failing(Fault::rate_limited(Duration::from_secs(60))),
    );
    let probes = || {
        world
            .memory
            .count(|k| matches!(k, EventKind::Probed { .. }))
    };
    while probes() == 0 {
        tokio::time::sleep(ms(100)).await;
    }
    let before = probes();
    tokio::time::sleep(Duration::from_secs(58)).await;
    assert_eq!(probes(), before);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(probes() > before);
}

#[tokio::test(start_paused = true)]
async fn a_primary_that_stays_slow_is_not_restored() {
    let world = plan().build();
    spike(&world).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(world.memory.restorations(), []);
    assert!(crowd(&world, 5).await.iter().all(|r| *r == 1));
    let probes = world
        .memory
        .count(|k| matches!(k, EventKind::Probed { .. }));
    assert!(
        (15..=24).contains(&probes),
        "{probes} probes in two minutes"
    );
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_breaches_goes_back_at_once() {
    let world = plan().build();
    spike(&world).await;
    // Probes are short and quick, live requests are not.
    world.set(0, steady(200));
    tokio::time::sleep(Duration::from_secs(12)).await;
    world.set(0, steady(10_000));
    let rungs = crowd(&world, 60).await;
    assert!(rungs.iter().all(|r| *r == 1));
    assert_eq!(
        world
            .memory
            .count(|k| matches!(k, EventKind::CanaryFailed { .. })),
        1
    );
    assert_eq!(world.memory.restorations(), []);
    let asked = world.stats(0).started;
    assert!(asked < 30, "{asked} calls to a primary that is slow again");
}

/// It is not on the primary because the role was moved, and says so.
#[tokio::test(start_paused = true)]
async fn a_canary_on_a_middle_rung_is_a_substitute_and_no_fallback() {
    let world = Plan::new(vec![steady(5_000), steady(100), steady(200)])
        .policy(|p| {
            p.restore.probe_interval = Duration::from_secs(5);
            p.restore.canary = vec![0.9];
        })
        .build();
    for rung in [0, 1] {
        world.set(rung, steady(5_000));
        for _ in 0..8 {
            world.ask().await.unwrap();
        }
    }
    assert_eq!(world.memory.substitutions(), [(0, 1), (1, 2)]);
    world.set(1, steady(100));
    tokio::time::sleep(Duration::from_secs(12)).await;
    let answer = world.ask().await.unwrap();
    assert_eq!(
        (answer.meta.rung, answer.meta.route),
        (1, Route::Substitute)
    );
    assert_eq!(answer.meta.fallback_reason, Some("latency_p95_breach"));
    assert_eq!(world.memory.restorations(), []);
}

#[tokio::test(start_paused = true)]
async fn a_session_moves_at_most_once_while_the_shares_rise() {
    let world = plan()
        .policy(|p| {
            p.restore.canary = vec![0.2, 0.6];
            p.restore.canary_samples = 1_000;
            p.restore.canary_max = Duration::from_secs(30);
        })
        .build();
    spike(&world).await;
    world.set(0, steady(200));
    let mut seen: Vec<Vec<usize>> = vec![Vec::new(); 20];
    for _ in 0..40 {
        for (i, moves) in seen.iter_mut().enumerate() {
            moves.push(world.ask_as(&format!("s{i}")).await);
        }
        tokio::time::sleep(ms(500)).await;
    }
    assert_eq!(world.memory.restorations(), [(1, 0)]);
    for moves in seen {
        let changes = moves.windows(2).filter(|w| w[0] != w[1]).count();
        assert!(changes <= 1, "{moves:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_breach_soon_after_a_restoration_doubles_the_probe_interval() {
    let world = plan()
        .policy(|p| {
            p.restore.canary = vec![];
            p.restore.restore_after = 1;
        })
        .build();
    spike(&world).await;
    world.set(0, steady(200));
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(world.memory.restorations(), [(1, 0)]);
    spike(&world).await;
    world.set(0, steady(200));
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(world.memory.restorations().len(), 1, "not before 10 s");
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(world.memory.restorations().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn without_traffic_the_canary_passes_on_probes_alone() {
    let world = plan()
        .policy(|p| p.restore.canary_max = Duration::from_secs(20))
        .build();
    spike(&world).await;
    world.set(0, steady(200));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.memory.restorations(), [(1, 0)]);
}

/// A provider that does not heed the probe's token cap.
#[tokio::test(start_paused = true)]
async fn a_role_that_watches_first_tokens_needs_no_more_of_a_probe() {
    let long = |first| steady(first).with_tokens(4).with_inter_token(ms(500));
    let world = Plan::new(vec![long(200), steady(300)])
        .policy(|p| {
            p.signal = evenkeel_roster::Signal::FirstToken;
            p.restore.probe_interval = Duration::from_secs(5);
            p.restore.restore_after = 1;
            p.restore.canary = vec![];
        })
        .build();
    spike(&world).await;
    world.set(0, long(200));
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(world.memory.restorations(), [(1, 0)]);
}

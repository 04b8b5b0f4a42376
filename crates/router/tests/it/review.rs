//! Restorations that are refused: they come again.

use crate::world::{Plan, ROLE, World, ms, steady};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::CallContext;
use std::time::Duration;
use tokio::time::sleep;

async fn ask_as(world: &World, session: &str) -> usize {
    let context = CallContext {
        session: Some(session.into()),
        ..CallContext::default()
    };
    world.ask_with(context).await.unwrap().meta.rung
}

/// A canary whose fourteenth good observation comes while the model cools
/// down for `cooldown`: the restoration that it gives is refused.
async fn refused_restoration(cooldown: Duration) -> World {
    let world = Plan::new(vec![steady(10_000), steady(300)])
        .policy(|p| {
            p.restore.probe_interval = Duration::from_secs(5);
            p.restore.restore_after = 1;
            p.restore.canary = vec![0.5];
            p.restore.canary_max = Duration::from_secs(60);
        })
        .build();
    for i in 0..10 {
        ask_as(&world, &format!("spike {i}")).await;
    }
    assert_eq!(world.memory.substitutions(), [(0, 1)]);
    world.set(0, steady(200));
    let share = || world.router.explain(ROLE).unwrap().rungs[0].canary_share;
    while share() == 0.0 {
        sleep(Duration::from_secs(1)).await;
    }
    let mut sessions = Vec::new();
    for i in 0..100 {
        let name = format!("session {i}");
        if sessions.len() < 13 && ask_as(&world, &name).await == 0 {
            sessions.push(name);
        }
    }
    let limits = async {
        sleep(ms(100)).await;
        world.set(0, Behaviour::failing(Fault::rate_limited(cooldown)));
        assert_eq!(ask_as(&world, &sessions[1]).await, 1);
        world.set(0, steady(200));
    };
    let (last, ()) = tokio::join!(ask_as(&world, &sessions[0]), limits);
    assert_eq!(last, 0, "the fourteenth");
    assert_eq!(world.memory.restorations(), []);
    world
}

#[tokio::test(start_paused = true)]
async fn a_refused_restoration_whose_evidence_is_gone_comes_again_without_traffic() {
    let world = refused_restoration(Duration::from_secs(40)).await;
    sleep(Duration::from_secs(600)).await;
    assert_eq!(world.memory.restorations(), [(1, 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_restoration_whose_evidence_is_gone_comes_again_with_traffic() {
    let world = refused_restoration(Duration::from_secs(40)).await;
    sleep(Duration::from_secs(45)).await;
    for i in 0..80 {
        ask_as(&world, &format!("later {i}")).await;
    }
    assert_eq!(world.memory.restorations(), [(1, 0)]);
}

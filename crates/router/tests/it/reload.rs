//! A new configuration in the place of the running one.

use crate::world::{Plan, ROLE, World, model_id, ms, steady};
use evenkeel_chaos::{Behaviour, Fault, Simulated};
use evenkeel_core::{
    CallContext, ChatRequest, DrillKind, EventKind, ModelId, RestorationReason, StreamEvent,
};
use evenkeel_roster::{Config, RolePolicy, RungConfig, TaskPolicy, Thresholds};
use evenkeel_router::{BuildError, CallErrorKind, Router};
use futures_util::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn two() -> Plan {
    Plan::new(vec![steady(100), steady(200)]).policy(|p| {
        p.restore.probe_interval = secs(5);
        p.restore.canary = vec![];
    })
}

fn policy(config: &mut Config) -> &mut RolePolicy {
    &mut config.roles.get_mut(ROLE).unwrap().policy
}

fn word(world: &World) -> (usize, u64) {
    let state = world.router.explain(ROLE).unwrap();
    (state.active, state.epoch)
}

/// Traffic leaves the primary, which is slow from then on.
async fn moved() -> World {
    let world = two().build();
    world.set(0, steady(10_000));
    world.ask_every(10, ms(10)).await;
    assert_eq!(word(&world), (1, 1));
    world
}

/// (reason, from, to, epoch) of each restoration.
fn restored(world: &World) -> Vec<(RestorationReason, usize, usize, u64)> {
    world.memory.all(|k| match k {
        EventKind::ModelRestoration {
            reason,
            from,
            to,
            epoch,
            ..
        } => Some((*reason, *from, *to, *epoch)),
        _ => None,
    })
}

// ---- what goes on

#[tokio::test(start_paused = true)]
async fn the_same_configuration_changes_nothing_that_is_known() {
    let world = moved().await;
    world.set(1, Behaviour::failing(Fault::status(500)));
    for _ in 0..5 {
        let _ = world.ask().await;
    }
    let before = world.router.explain(ROLE).unwrap();
    let replaced = world.reload(|_| {}).unwrap();
    assert_eq!(replaced, evenkeel_router::Replaced::default());
    let after = world.router.explain(ROLE).unwrap();
    assert_eq!((after.active, after.epoch), (1, 1));
    assert_eq!(after.standing, before.standing);
    for (old, new) in before.rungs.iter().zip(&after.rungs) {
        assert_eq!(old.total.samples, new.total.samples);
        assert_eq!(old.recovery.stage, new.recovery.stage);
        assert_eq!(old.health.breaker.state, new.health.breaker.state);
        assert_eq!(old.health.breaker.age, new.health.breaker.age);
    }
    assert_eq!(after.rungs[1].health.breaker.state, "open");
    assert_eq!(restored(&world), []);
}

/// A rest after a rate limit goes on; a hold is for the operator to look at,
/// and a reload is the sign that it was.
#[tokio::test(start_paused = true)]
async fn a_cooldown_goes_on_and_holds_end() {
    let world = two().build();
    world.set(0, Behaviour::failing(Fault::rate_limited(secs(30))));
    world.ask().await.unwrap();
    world.set(1, Behaviour::failing(Fault::status(401)));
    world.ask().await.unwrap_err();
    let refused = |world: &World| {
        let rungs = world.router.explain(ROLE).unwrap().rungs;
        [0, 1].map(|i| rungs[i].refusal.map(evenkeel_core::Refusal::as_str))
    };
    assert_eq!(refused(&world), [Some("cooldown"), Some("hold")]);
    world.reload(|_| {}).unwrap();
    assert_eq!(refused(&world), [Some("cooldown"), None]);
}

/// The prober follows, and reloads that come more often than probes do not
/// hold them off.
#[tokio::test(start_paused = true)]
async fn the_way_back_goes_on_through_a_storm_of_reloads() {
    let world = moved().await;
    world.set(0, steady(100));
    for _ in 0..20 {
        sleep(secs(1)).await;
        world.reload(|_| {}).unwrap();
    }
    assert_eq!(word(&world), (0, 2));
    assert_eq!(restored(&world), [(RestorationReason::Recovered, 1, 0, 2)]);
    let probes = world
        .memory
        .count(|k| matches!(k, EventKind::Probed { .. }));
    assert!((2..=4).contains(&probes), "{probes} probes");
}

/// What probes may cost in a day is spent once, however often files change.
#[tokio::test(start_paused = true)]
async fn what_was_spent_on_probes_stays_spent() {
    let world = two()
        .model(|_, model| {
            model.input_usd_per_mtok = Some(0.0);
            model.output_usd_per_mtok = Some(1_000_000.0);
            // Five tokens a probe: two are allowed.
            model.probe_usd_per_day = 11.0;
        })
        .build();
    world.set(0, steady(10_000));
    world.ask_every(10, ms(10)).await;
    let probes = || {
        world
            .memory
            .count(|k| matches!(k, EventKind::Probed { .. }))
    };
    sleep(secs(60)).await;
    assert_eq!(probes(), 2);
    world
        .reload(|config| policy(config).retry.transient = 1)
        .unwrap();
    sleep(secs(60)).await;
    assert_eq!(probes(), 2);
}

#[tokio::test(start_paused = true)]
async fn drills_and_forced_rungs_go_on_while_role_and_model_are_there() {
    let world = Plan::new(vec![steady(100), steady(200), steady(300)]).build();
    let eve = world.router.operator("eve");
    eve.force(ROLE, Some(2)).unwrap();
    let drill = eve
        .start_drill(DrillKind::KillSwitch, &model_id(1), secs(60))
        .unwrap();
    // Other thresholds, another order: the operator's word holds all the same.
    let replaced = world
        .reload(|config| {
            policy(config).p95 = ms(900);
            let rungs = &mut config.roles.get_mut(ROLE).unwrap().rungs;
            rungs.swap(1, 2);
        })
        .unwrap();
    assert_eq!(
        (replaced.changed, replaced.let_go),
        (vec![ROLE.to_owned()], vec![])
    );
    let state = world.router.explain(ROLE).unwrap();
    assert_eq!((state.forced, state.active), (Some(1), 1));
    assert_eq!(state.rungs[1].model, model_id(2));
    assert_eq!(world.ask().await.unwrap().meta.model_id, model_id(2));
    assert_eq!(
        state.rungs[2].refusal.map(evenkeel_core::Refusal::as_str),
        Some("drill")
    );
    // The models of both are gone: so are the hold and the drill.
    let replaced = world
        .reload(|config| config.roles.get_mut(ROLE).unwrap().rungs.truncate(1))
        .unwrap();
    assert_eq!(replaced.let_go, [ROLE]);
    let state = world.router.state();
    assert_eq!((state.roles[0].forced, state.roles[0].active), (None, 0));
    assert!(state.drills.is_empty());
    let ended = world
        .memory
        .count(|k| matches!(k, EventKind::DrillEnded { drill: over, .. } if *over == drill));
    assert_eq!(ended, 1);
    sleep(secs(120)).await;
    assert_eq!(world.ask().await.unwrap().meta.rung, 0);
}

/// A task that is judged apart keeps its own place, and loses it alone.
#[tokio::test(start_paused = true)]
async fn a_task_apart_keeps_its_place() {
    let limits = |p95| TaskPolicy {
        thresholds: Some(Thresholds {
            p95: ms(p95),
            p99: ms(2_000),
            first_token_p95: ms(p95),
            first_token_p99: ms(2_000),
        }),
        ..TaskPolicy::default()
    };
    let world = Plan::new(vec![steady(600), steady(200)])
        .policy(|p| p.tasks = [("quick".to_owned(), limits(300))].into())
        .build();
    let quick = || CallContext {
        task: Some("quick".into()),
        ..CallContext::default()
    };
    for _ in 0..10 {
        world.ask_with(quick()).await.unwrap();
    }
    let rungs = |world: &World| -> Vec<usize> {
        world
            .router
            .state()
            .roles
            .iter()
            .map(|r| r.active)
            .collect()
    };
    assert_eq!(rungs(&world), [0, 1], "the role, and the task");
    world.reload(|_| {}).unwrap();
    assert_eq!(rungs(&world), [0, 1]);
    world
        .reload(|config| {
            policy(config).tasks = [("quick".to_owned(), limits(900))].into();
        })
        .unwrap();
    assert_eq!(rungs(&world), [0, 0]);
    assert_eq!(restored(&world), [(RestorationReason::Manual, 1, 0, 2)]);
    assert_eq!(world.ask_with(quick()).await.unwrap().meta.rung, 0);
}

// ---- what begins anew

/// Other limits: nothing that was seen says how the role stands by them.
#[tokio::test(start_paused = true)]
async fn a_role_with_other_limits_begins_on_its_primary() {
    let world = moved().await;
    world.set(0, steady(1_500));
    let replaced = world
        .reload(|config| {
            policy(config).p95 = ms(3_000);
            policy(config).p99 = ms(4_000);
        })
        .unwrap();
    assert_eq!(replaced.changed, [ROLE]);
    assert_eq!(word(&world), (0, 2));
    assert_eq!(restored(&world), [(RestorationReason::Manual, 1, 0, 2)]);
    let state = world.router.explain(ROLE).unwrap();
    assert_eq!(
        (state.rungs[0].total.samples, state.rungs[0].is_benched()),
        (0, false)
    );
    assert_eq!(world.ask_every(10, ms(10)).await, [0; 10]);
}

/// A new client of the same endpoint keeps what is known, another endpoint does not.
#[tokio::test(start_paused = true)]
async fn health_goes_with_the_endpoint() {
    for (same, state) in [(true, "open"), (false, "closed")] {
        let world = two().build();
        world.set(0, Behaviour::failing(Fault::status(500)));
        for _ in 0..5 {
            world.ask().await.unwrap();
        }
        let other = Simulated::new("p0", 1).model("m", steady(100));
        let mut builder = Router::builder(&world.config)
            .provider("p0", Arc::new(other))
            .provider("p1", world.router.provider("p1").unwrap());
        if same {
            builder = builder.same_endpoint("p0");
        }
        builder.replace(&world.router).unwrap();
        let rungs = world.router.explain(ROLE).unwrap().rungs;
        assert_eq!(rungs[0].health.breaker.state, state);
        assert_eq!(world.ask().await.unwrap().meta.rung, usize::from(same));
    }
}

/// Only what has other settings begins anew.
#[tokio::test(start_paused = true)]
async fn a_breaker_with_other_settings_begins_anew_and_the_rest_goes_on() {
    let world = moved().await;
    world.set(1, Behaviour::failing(Fault::status(500)));
    for _ in 0..5 {
        let _ = world.ask().await;
    }
    let before = world.router.explain(ROLE).unwrap();
    assert_eq!(before.rungs[1].health.breaker.state, "open");
    world
        .reload(|config| {
            let model = config.models.get_mut(&model_id(1)).unwrap();
            model.breaker.failure_threshold = 7;
            model.input_usd_per_mtok = Some(1.0);
        })
        .unwrap();
    let state = world.router.explain(ROLE).unwrap();
    assert_eq!(state.rungs[1].health.breaker.state, "closed");
    assert_eq!(state.active, 1);
    let samples = |state: &evenkeel_router::RoleState| state.rungs[0].total.samples;
    assert!(samples(&state) > 0 && samples(&state) == samples(&before));
}

#[tokio::test(start_paused = true)]
async fn a_model_whose_end_of_life_is_put_off_gets_its_role_back() {
    let gone = |config: &mut Config, date: &str| {
        config.models.get_mut(&model_id(0)).unwrap().eol_date = Some(date.parse().unwrap());
    };
    let world = two().build();
    world.reload(|config| gone(config, "2020-01-01")).unwrap();
    assert_eq!(world.ask().await.unwrap().meta.fallback_reason, Some("eol"));
    world.reload(|config| gone(config, "2999-01-01")).unwrap();
    assert_eq!(restored(&world), [(RestorationReason::Eol, 1, 0, 2)]);
    assert_eq!(world.ask().await.unwrap().meta.rung, 0);
}

// ---- calls under way

#[tokio::test(start_paused = true)]
async fn calls_under_way_end_well_when_their_role_is_removed() {
    let slow = steady(500).with_tokens(20).with_inter_token(ms(100));
    let world = Arc::new(Plan::new(vec![slow, steady(200)]).build());
    let mut whole = JoinSet::new();
    whole.spawn({
        let world = world.clone();
        async move { world.ask().await.unwrap().meta.model_id }
    });
    let mut stream = world.stream().await.unwrap();
    let replaced = world
        .reload(|config| {
            let role = config.roles.remove(ROLE).unwrap();
            config.roles.insert(
                "other".to_owned(),
                evenkeel_roster::RoleConfig {
                    name: "other".to_owned(),
                    ..role
                },
            );
        })
        .unwrap();
    assert_eq!(
        (replaced.removed, replaced.added),
        (vec![ROLE.to_owned()], vec!["other".to_owned()])
    );
    let error = world.ask().await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::UnknownRole(role) if role == ROLE));
    assert_eq!(world.router.roles(), ["other"]);
    let mut last = None;
    while let Some(event) = stream.next().await {
        last = Some(event.unwrap());
    }
    assert_eq!(last, Some(StreamEvent::End));
    // It was late, and its hedge won, by the roster it began with.
    assert_eq!(whole.join_all().await, [model_id(1)]);
    let request = ChatRequest::user("hello");
    let other = world
        .router
        .complete("other", request, CallContext::default());
    assert_eq!(other.await.unwrap().meta.role, "other");
}

/// What calls of the old configuration see moves nobody under the new one.
#[tokio::test(start_paused = true)]
async fn a_breach_that_old_calls_see_moves_nothing() {
    let world = Arc::new(two().build());
    world.set(0, steady(10_000));
    let mut old = JoinSet::new();
    for _ in 0..64 {
        let world = world.clone();
        old.spawn(async move { world.ask().await.unwrap().meta.rung });
    }
    sleep(ms(500)).await;
    world
        .reload(|config| policy(config).p95 = ms(1_500))
        .unwrap();
    assert!(old.join_all().await.iter().all(|rung| *rung == 1), "hedged");
    assert_eq!(world.memory.substitutions(), []);
    assert_eq!(word(&world), (0, 0));
}

/// Calls of both configurations count as one role's.
#[tokio::test(start_paused = true)]
async fn limits_hold_across_a_reload() {
    let world = Plan::new(vec![steady(5_000)])
        .policy(|p| p.p99 = secs(20))
        .policy(|p| p.p95 = secs(10))
        .model(|_, model| model.max_concurrency = 1)
        .build();
    let world = Arc::new(world);
    let mut first = JoinSet::new();
    first.spawn({
        let world = world.clone();
        async move { world.ask().await.unwrap().meta.rung }
    });
    sleep(ms(10)).await;
    world
        .reload(|config| policy(config).retry.transient = 1)
        .unwrap();
    let state = world.router.explain(ROLE).unwrap();
    assert_eq!((state.in_flight, state.rungs[0].health.in_use), (1, 1));
    let began = tokio::time::Instant::now();
    world.ask().await.unwrap();
    assert!(began.elapsed() >= ms(9_900), "it waited for its place");
    assert_eq!(first.join_all().await, [0]);
}

// ---- what is refused

#[tokio::test(start_paused = true)]
async fn what_cannot_be_built_changes_nothing() {
    let world = moved().await;
    let bad = world.reload(|config| policy(config).p95 = Duration::ZERO);
    assert!(matches!(bad, Err(BuildError::Policy { .. })));
    let bad = world.reload(|config| config.roles.get_mut(ROLE).unwrap().rungs.clear());
    assert!(matches!(bad, Err(BuildError::EmptyRoster(_))));
    let nowhere = ModelId::new("nope/m").unwrap();
    let bad = world.reload(|config| {
        let rungs = &mut config.roles.get_mut(ROLE).unwrap().rungs;
        rungs.push(RungConfig::fallback(nowhere, 0.9));
    });
    assert!(matches!(bad, Err(BuildError::MissingProvider { .. })));
    assert_eq!(word(&world), (1, 1));
    assert_eq!(world.ask().await.unwrap().meta.rung, 1);
    world.set(0, steady(100));
    sleep(secs(30)).await;
    assert_eq!(word(&world), (0, 2), "the prober runs on");
    let told = world
        .memory
        .count(|k| matches!(k, EventKind::PolicyChanged { .. }));
    assert_eq!(told, 0);
}

/// Twenty reloads, each another configuration, under load: no call fails.
#[tokio::test(start_paused = true)]
async fn a_storm_of_reloads_costs_no_call_its_answer() {
    let world = Arc::new(two().build());
    let mut calls = JoinSet::new();
    for n in 0..400_u64 {
        let world = world.clone();
        calls.spawn(async move {
            sleep(ms(n * 10)).await;
            world.ask().await.map(|answer| answer.meta.rung)
        });
    }
    for n in 0..20_u64 {
        sleep(ms(200)).await;
        world
            .reload(|config| {
                policy(config).p95 = ms(1_000 + n % 3);
                if n % 2 == 0 {
                    config.roles.get_mut(ROLE).unwrap().rungs.swap(0, 1);
                }
            })
            .unwrap();
    }
    for answer in calls.join_all().await {
        answer.unwrap();
    }
    assert_eq!(world.router.explain(ROLE).unwrap().in_flight, 0);
    tokio::time::timeout(secs(5), world.router.shutdown())
        .await
        .unwrap();
}

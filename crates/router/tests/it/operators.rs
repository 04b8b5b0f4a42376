//! What operators do to a running router: forced rungs, breakers, releases, drills.

use crate::world::{Plan, ROLE, World, model_id, ms, steady, told};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{
    CallContext, Class, DrillKind, EventKind, ModelId, Refusal, RestorationReason, Route,
    SubstitutionReason,
};
use evenkeel_roster::TaskPolicy;
use evenkeel_router::{BreakerAction, BreakerTarget, CallErrorKind, OperatorError};
use proptest::prelude::*;
use std::time::Duration;
use tokio::time::sleep;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn three() -> Plan {
    Plan::new(vec![steady(100), steady(200), steady(300)])
}

fn force(world: &World, rung: Option<usize>) -> bool {
    world.router.operator("eve").force(ROLE, rung).unwrap()
}

fn word(world: &World) -> (usize, u64) {
    let state = world.router.explain(ROLE).unwrap();
    (state.active, state.epoch)
}

/// (reason, from, to) of each move, in order.
fn moves(world: &World) -> Vec<(&'static str, usize, usize)> {
    world.memory.all(|k| match k {
        EventKind::ModelSubstitution {
            reason, from, to, ..
        } => Some((reason.as_str(), *from, *to)),
        EventKind::ModelRestoration {
            reason, from, to, ..
        } => Some((reason.as_str(), *from, *to)),
        _ => None,
    })
}

fn acts(world: &World) -> Vec<(String, &'static str, String)> {
    world.memory.all(|k| match k {
        EventKind::OperatorActed {
            operator,
            action,
            target,
        } => Some((operator.to_string(), *action, target.clone())),
        _ => None,
    })
}

// ---- forced rungs

#[tokio::test(start_paused = true)]
async fn a_forced_rung_has_the_traffic_until_it_is_let_go() {
    let world = three().build();
    assert!(force(&world, Some(1)));
    let answer = world.ask().await.unwrap();
    assert_eq!(answer.meta.rung, 1);
    assert_eq!(answer.meta.route, Route::Substitute);
    assert_eq!(answer.meta.fallback_reason, Some("manual"));
    sleep(secs(3600)).await;
    assert_eq!(world.ask().await.unwrap().meta.rung, 1);
    assert_eq!(world.router.explain(ROLE).unwrap().forced, Some(1));
    assert!(!force(&world, Some(1)), "it is there already");
    assert!(force(&world, None));
    assert_eq!(world.ask().await.unwrap().meta.route, Route::Primary);
    assert!(!force(&world, None), "nobody held it");
    assert_eq!(moves(&world), [("manual", 0, 1), ("manual", 1, 0)]);
    let gone = world.memory.all(|k| match k {
        EventKind::ModelRestoration { duration, .. } => Some(*duration),
        _ => None,
    });
    assert_eq!(gone.len(), 1);
    assert!(gone[0] >= secs(3600), "since the operator's move: {gone:?}");
    let told = acts(&world);
    assert_eq!(
        told[0],
        ("eve".to_owned(), "force", "agent to rung 1".to_owned())
    );
    assert_eq!(told.last().unwrap().1, "let_go");
}

/// Calls are helped one by one, as ever.
#[tokio::test(start_paused = true)]
async fn calls_of_a_forced_role_fail_over_and_hedge() {
    let world = three().build();
    force(&world, Some(2));
    world.set(2, Behaviour::failing(Fault::status(500)));
    let answer = world.ask().await.unwrap();
    assert_eq!((answer.meta.rung, answer.meta.route), (0, Route::Primary));
    assert_eq!(told(&answer.trail), ["2 first transient", "0 failover won"]);
    world.set(2, steady(10_000));
    let answer = world.ask().await.unwrap();
    assert_eq!(answer.meta.rung, 0);
    assert_eq!(told(&answer.trail), ["2 first lost", "0 hedge won"]);
    assert_eq!(word(&world), (2, 1));
}

/// A rung that was left for slowness goes on recovering where it had stood,
/// once the role is let go; until then it is not even asked.
#[tokio::test(start_paused = true)]
async fn a_way_back_stands_still_while_the_role_is_forced() {
    let world = three()
        .policy(|p| {
            p.restore.probe_interval = secs(5);
            p.restore.canary = vec![];
        })
        .build();
    world.set(0, steady(10_000));
    world.ask_every(10, ms(10)).await;
    assert_eq!(word(&world), (1, 1));
    force(&world, Some(2));
    world.set(0, steady(100));
    let before = world.stats(0).started;
    sleep(secs(600)).await;
    assert_eq!(world.stats(0).started, before, "no probe");
    assert_eq!(word(&world), (2, 2));
    let hedged = world.router.explain(ROLE).unwrap();
    assert!(
        hedged.rungs[0].is_benched(),
        "calls that fail over pass it by"
    );
    force(&world, None);
    // Rung 1 was left by order alone: nothing has to be proved of it.
    assert_eq!(word(&world), (1, 3));
    sleep(secs(30)).await;
    assert_eq!(word(&world), (0, 4));
    assert_eq!(
        moves(&world),
        [
            ("latency_p95_breach", 0, 1),
            ("manual", 1, 2),
            ("manual", 2, 1),
            ("recovered", 1, 0)
        ]
    );
}

/// A canary of the rung above takes no session of a forced role.
#[tokio::test(start_paused = true)]
async fn a_canary_takes_no_session_of_a_forced_role() {
    let world = three()
        .policy(|p| {
            p.restore.probe_interval = secs(5);
            p.restore.canary = vec![0.9];
        })
        .build();
    world.set(0, steady(10_000));
    world.ask_every(10, ms(10)).await;
    world.set(0, steady(100));
    while world.router.explain(ROLE).unwrap().rungs[0].recovery.share == 0.0 {
        sleep(secs(1)).await;
    }
    let mut sessions = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        if world.ask_as(name).await == 0 {
            sessions.push(name);
        }
    }
    assert!(!sessions.is_empty());
    force(&world, Some(1));
    for name in sessions {
        assert_eq!(world.ask_as(name).await, 1);
    }
    assert_eq!(word(&world), (1, 1));
}

/// A forced primary that is slow stays; let go, it is left on its evidence.
#[tokio::test(start_paused = true)]
async fn evidence_goes_on_and_decides_once_the_role_is_let_go() {
    let world = three().build();
    force(&world, Some(0));
    world.set(0, steady(10_000));
    assert_eq!(world.ask_every(20, ms(10)).await, [1; 20], "by hedges");
    assert_eq!(word(&world), (0, 0));
    let state = world.router.explain(ROLE).unwrap();
    assert_eq!(state.rungs[0].total.verdict, "breached");
    force(&world, None);
    world.ask().await.unwrap();
    assert_eq!(moves(&world), [("latency_p95_breach", 0, 1)]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_forced_is_refused_and_changes_nothing() {
    let world = three()
        .model(|i, model| {
            if i == 2 {
                model.eol_date = Some("2020-01-01".parse().unwrap());
            }
        })
        .build();
    let eve = world.router.operator("eve");
    let rung = OperatorError::NoSuchRung {
        role: ROLE.to_owned(),
        rung: 3,
        rungs: 3,
    };
    assert_eq!(eve.force(ROLE, Some(3)), Err(rung));
    assert_eq!(
        eve.force("nobody", None),
        Err(OperatorError::UnknownRole("nobody".to_owned()))
    );
    assert_eq!(
        eve.force(ROLE, Some(2)),
        Err(OperatorError::PastEndOfLife(model_id(2)))
    );
    assert_eq!(acts(&world), []);
    assert_eq!(world.router.explain(ROLE).unwrap().forced, None);
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Ask(u8),
    Turns(usize, u64),
    Force(usize),
    LetGo,
    Drill(usize),
    Sleep(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1..12_u8).prop_map(Op::Ask),
        2 => (0..3_usize, prop::sample::select(vec![100_u64, 300, 10_000])).prop_map(|(r, l)| Op::Turns(r, l)),
        2 => (0..3_usize).prop_map(Op::Force),
        1 => Just(Op::LetGo),
        1 => (0..3_usize).prop_map(Op::Drill),
        1 => (1..90_u64).prop_map(Op::Sleep),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever happens, between an operator's hold and its end every move is
    /// the operator's, and the windows go on counting.
    #[test]
    fn inv47_nothing_but_the_operator_moves_a_forced_role(ops in prop::collection::vec(op(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let told = runtime.block_on(async {
            let world = three()
                .policy(|p| {
                    p.restore.probe_interval = secs(5);
                    p.restore.canary = vec![0.5];
                    p.restore.canary_max = secs(20);
                })
                .build();
            for op in ops {
                match op {
                    Op::Ask(n) => for _ in 0..n {
                        let _ = world.ask().await;
                    },
                    Op::Turns(rung, latency) => world.set(rung, steady(latency)),
                    Op::Force(rung) => { force(&world, Some(rung)); }
                    Op::LetGo => { force(&world, None); }
                    Op::Drill(rung) => {
                        let _ = world.router.operator("eve").start_drill(
                            DrillKind::Eol, &model_id(rung), secs(30));
                    }
                    Op::Sleep(s) => sleep(secs(s)).await,
                }
            }
            world.memory.events()
        });
        let mut held = false;
        let (mut at, mut epoch) = (0, 0);
        for event in told {
            let (from, to, new, by_hand) = match event.kind {
                EventKind::OperatorActed { action, .. } => {
                    held = match action {
                        "force" => true,
                        "let_go" => false,
                        _ => held,
                    };
                    continue;
                }
                EventKind::ModelSubstitution { from, to, epoch, reason, .. } => {
                    prop_assert!(from < to || reason != SubstitutionReason::Manual);
                    (from, to, epoch, reason == SubstitutionReason::Manual)
                }
                EventKind::ModelRestoration { from, to, epoch, reason, .. } => {
                    prop_assert!(to < from);
                    (from, to, epoch, reason == RestorationReason::Manual)
                }
                _ => continue,
            };
            prop_assert!(!held || by_hand, "moved from {from} to {to} while it was forced");
            prop_assert_eq!((from, new), (at, epoch + 1), "inv37");
            (at, epoch) = (to, new);
        }
    }
}

// ---- breakers and releases

#[tokio::test(start_paused = true)]
async fn a_breaker_stays_as_an_operator_says() {
    let world = three().build();
    let eve = world.router.operator("eve");
    let model = BreakerTarget::Model(model_id(0));
    assert_eq!(eve.breaker(&model, BreakerAction::ForceOpen), Ok(true));
    assert_eq!(eve.breaker(&model, BreakerAction::ForceOpen), Ok(false));
    sleep(secs(3600)).await;
    let answer = world.ask().await.unwrap();
    assert_eq!(answer.meta.rung, 1);
    assert_eq!(answer.meta.fallback_reason, Some("breaker_open"));
    let state = world.router.explain(ROLE).unwrap();
    assert_eq!(state.active, 0, "a breaker moves no word");
    let breaker = state.rungs[0].health.breaker;
    assert_eq!((breaker.state, breaker.retry_in), ("forced_open", None));
    assert!(breaker.age >= secs(3600));
    eve.breaker(&model, BreakerAction::Reset).unwrap();
    assert_eq!(world.ask().await.unwrap().meta.rung, 0);

    world.set(0, Behaviour::failing(Fault::status(500)));
    eve.breaker(&model, BreakerAction::Disable).unwrap();
    for _ in 0..20 {
        world.ask().await.unwrap();
    }
    assert_eq!(world.stats(0).started, 21, "it never opens");

    let provider = BreakerTarget::Provider("p1".to_owned());
    eve.breaker(&provider, BreakerAction::ForceOpen).unwrap();
    assert_eq!(world.ask().await.unwrap().meta.rung, 2);
    eve.breaker(&provider, BreakerAction::Reset).unwrap();
    assert_eq!(world.ask().await.unwrap().meta.rung, 1);
}

#[tokio::test(start_paused = true)]
async fn the_count_of_useless_answers_is_operated_by_role_and_model() {
    let world = three().build();
    let eve = world.router.operator("eve");
    let target = |role: &str, rung| BreakerTarget::Semantic {
        role: role.to_owned(),
        model: model_id(rung),
    };
    eve.breaker(&target(ROLE, 0), BreakerAction::ForceOpen)
        .unwrap();
    let answer = world.ask().await.unwrap();
    assert_eq!(answer.meta.fallback_reason, Some("quality_gate"));
    eve.breaker(&target(ROLE, 0), BreakerAction::Reset).unwrap();
    assert_eq!(world.ask().await.unwrap().meta.rung, 0);
    let refused = eve.breaker(&target(ROLE, 7), BreakerAction::Reset);
    assert!(matches!(refused, Err(OperatorError::NotInRoster { .. })));
}

#[tokio::test(start_paused = true)]
async fn what_sets_a_model_aside_is_lifted() {
    let world = three().build();
    let eve = world.router.operator("eve");
    for (fault, refusal) in [
        (Fault::rate_limited(secs(30)), "cooldown"),
        (Fault::status(401), "hold"),
        (Fault::status(402), "hold"),
        (Fault::status(410), "hold"),
    ] {
        world.set(0, Behaviour::failing(fault));
        world.ask().await.unwrap();
        world.set(0, steady(100));
        let answer = world.ask().await.unwrap();
        assert_eq!(answer.meta.fallback_reason, Some(refusal));
        let released = eve.release(&model_id(0)).unwrap();
        let held = released.hold.or(released.provider_hold);
        assert_eq!(released.cooldown, refusal == "cooldown");
        assert_eq!(held.is_some(), refusal == "hold");
        assert_eq!(world.ask().await.unwrap().meta.rung, 0, "{refusal}");
        let again = eve.release(&model_id(0)).unwrap();
        assert!(!again.cooldown && again.hold.is_none() && again.provider_hold.is_none());
    }
    let unknown = ModelId::new("p9/m").unwrap();
    assert_eq!(
        eve.release(&unknown),
        Err(OperatorError::UnknownModel(unknown.clone()))
    );
}

// ---- drills

/// Kind, first fallback, answered and failed calls of each drill that ended.
fn ended(world: &World) -> Vec<(DrillKind, Option<Duration>, u64, u64)> {
    world.memory.all(|k| match k {
        EventKind::DrillEnded {
            kind,
            first_fallback,
            answered,
            failed,
            ..
        } => Some((*kind, *first_fallback, *answered, *failed)),
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn a_kill_switch_refuses_calls_and_ends_by_itself() {
    let world = three().build();
    let eve = world.router.operator("eve");
    let id = eve
        .start_drill(DrillKind::KillSwitch, &model_id(0), secs(60))
        .unwrap();
    sleep(secs(2)).await;
    let answer = world.ask().await.unwrap();
    assert_eq!(answer.meta.rung, 1);
    assert_eq!(answer.meta.route, Route::Fallback);
    assert_eq!(answer.meta.fallback_reason, Some("drill"));
    assert_eq!(told(&answer.trail), ["skip 0 drill", "1 failover won"]);
    assert_eq!(word(&world), (0, 0), "as with a dead model");
    let state = world.router.state();
    assert_eq!(state.drills.len(), 1);
    assert_eq!((state.drills[0].id, state.drills[0].answered), (id, 1));
    assert!(matches!(
        state.roles[0].rungs[0].refusal,
        Some(Refusal::Drill(left)) if left < secs(58)
    ));
    sleep(secs(58)).await;
    assert_eq!(world.ask().await.unwrap().meta.rung, 0);
    assert_eq!(
        ended(&world),
        [(DrillKind::KillSwitch, Some(ms(2_200)), 1, 0)]
    );
    assert!(world.router.state().drills.is_empty());
    let over = eve.end_drill(id).unwrap_err();
    assert_eq!(over, OperatorError::NoSuchDrill(id));
}

#[tokio::test(start_paused = true)]
async fn a_drill_of_the_end_of_life_moves_the_role_and_brings_it_back() {
    let world = three().build();
    let eve = world.router.operator("eve");
    eve.start_drill(DrillKind::Eol, &model_id(0), secs(60))
        .unwrap();
    assert_eq!(word(&world), (1, 1), "at once");
    let answer = world.ask().await.unwrap();
    assert_eq!(answer.meta.route, Route::Substitute);
    assert_eq!(answer.meta.fallback_reason, Some("drill"));
    sleep(secs(61)).await;
    assert_eq!(moves(&world), [("drill", 0, 1), ("drill", 1, 0)]);
    assert_eq!(ended(&world), [(DrillKind::Eol, Some(ms(200)), 1, 0)]);
    assert_eq!(world.ask().await.unwrap().meta.rung, 0);
}

/// What a drill finds out: that nobody would answer.
#[tokio::test(start_paused = true)]
async fn a_drill_tells_of_calls_that_nobody_answered() {
    let world = Plan::new(vec![steady(100)]).build();
    let eve = world.router.operator("eve");
    let id = eve
        .start_drill(DrillKind::KillSwitch, &model_id(0), secs(60))
        .unwrap();
    let error = world.ask().await.unwrap_err();
    let CallErrorKind::Failed(failure) = &error.kind else {
        panic!("{error}")
    };
    assert_eq!(failure.class, Class::Overloaded);
    assert!(error.retry_after.is_some_and(|wait| wait <= secs(60)));
    let drill = eve.end_drill(id).unwrap();
    assert_eq!((drill.answered, drill.failed), (0, 1));
    assert_eq!(drill.first_fallback, None);
    assert_eq!(world.ask().await.unwrap().meta.rung, 0);
    sleep(secs(120)).await;
    assert_eq!(ended(&world).len(), 1, "its end is told once");
}

/// A forced role stays on a rung that a drill retires; its calls skip it.
#[tokio::test(start_paused = true)]
async fn a_drill_does_not_move_a_forced_role() {
    let world = three().build();
    force(&world, Some(1));
    let eve = world.router.operator("eve");
    eve.start_drill(DrillKind::Eol, &model_id(1), secs(60))
        .unwrap();
    let answer = world.ask().await.unwrap();
    assert_eq!(told(&answer.trail), ["skip 1 drill", "0 failover won"]);
    assert_eq!(word(&world), (1, 1));
    sleep(secs(61)).await;
    assert_eq!(word(&world), (1, 1));
    assert_eq!(world.ask().await.unwrap().meta.rung, 1);
}

/// A drill's end brings no role back to a rung that was left for slowness.
#[tokio::test(start_paused = true)]
async fn a_drill_that_ends_restores_nothing_that_is_slow() {
    let world = three().build();
    world.set(0, steady(10_000));
    world.ask_every(10, ms(10)).await;
    let eve = world.router.operator("eve");
    eve.start_drill(DrillKind::Eol, &model_id(1), secs(10))
        .unwrap();
    assert_eq!(word(&world), (2, 2));
    sleep(secs(11)).await;
    assert_eq!(
        moves(&world),
        [
            ("latency_p95_breach", 0, 1),
            ("drill", 1, 2),
            ("drill", 2, 1)
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_model_has_one_drill_at_a_time_and_none_for_ever() {
    let world = three().build();
    let eve = world.router.operator("eve");
    let start = |rung, lasting| eve.start_drill(DrillKind::KillSwitch, &model_id(rung), lasting);
    for lasting in [Duration::ZERO, secs(86_401), Duration::MAX] {
        assert_eq!(start(0, lasting), Err(OperatorError::DrillLength(lasting)));
    }
    let id = start(0, secs(60)).unwrap();
    let model = model_id(0);
    assert_eq!(
        start(0, secs(60)),
        Err(OperatorError::DrillRunning { model, id })
    );
    assert!(start(1, secs(60)).is_ok());
    assert!(matches!(
        start(5, secs(60)),
        Err(OperatorError::UnknownModel(_))
    ));
    // A drill that runs holds no shutdown up, and ends with it.
    tokio::time::timeout(secs(1), world.router.shutdown())
        .await
        .unwrap();
    assert_eq!(ended(&world).len(), 2);
}

// ---- tasks on rungs of their own

/// Held by model, whatever the rung it is on; let go, each goes by itself again.
#[tokio::test(start_paused = true)]
async fn tasks_apart_are_forced_with_their_role() {
    let order = |rungs: &[usize]| TaskPolicy {
        order: Some(rungs.iter().map(|rung| model_id(*rung)).collect()),
        ..TaskPolicy::default()
    };
    let tasks = [
        ("near".to_owned(), order(&[1, 0])),
        ("far".to_owned(), order(&[2])),
    ];
    let world = three().policy(|p| p.tasks = tasks.into()).build();
    let asked = async |task: &str| {
        let context = CallContext {
            task: Some(task.into()),
            ..CallContext::default()
        };
        world.ask_with(context).await.unwrap().meta.model_id
    };
    assert_eq!(
        (asked("near").await, asked("far").await),
        (model_id(1), model_id(2))
    );
    force(&world, Some(0));
    assert_eq!(asked("near").await, model_id(0));
    assert_eq!(asked("far").await, model_id(2), "it has no other");
    assert_eq!(world.ask().await.unwrap().meta.model_id, model_id(0));
    // A reload keeps the holds of all of them.
    world.reload(|_| {}).unwrap();
    assert_eq!(asked("near").await, model_id(0));
    force(&world, None);
    assert_eq!(asked("near").await, model_id(1));
}

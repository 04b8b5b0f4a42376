//! What a call asks of the model that answers it: capability, task, pinned roster.

use crate::world::{Plan, ROLE, World, model_id, ms, steady, told};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{
    CallContext, ChatRequest, Class, Complexity, EventKind, Failure, ModelId, Route, Trail,
};
use evenkeel_roster::{TaskPolicy, Thresholds};
use evenkeel_router::{BuildError, CallError, CallErrorKind};
use std::time::Duration;

fn failing(status: u16) -> Behaviour {
    Behaviour::failing(Fault::status(status))
}

fn least(capability: f64) -> CallContext {
    CallContext {
        min_capability: Some(capability),
        ..CallContext::default()
    }
}

fn declared(complexity: Complexity) -> CallContext {
    CallContext {
        complexity: Some(complexity),
        ..CallContext::default()
    }
}

fn task(name: &str) -> CallContext {
    CallContext {
        task: Some(name.into()),
        ..CallContext::default()
    }
}

fn pinned(rungs: &[usize]) -> CallContext {
    CallContext {
        pinned_roster: Some(rungs.iter().map(|r| model_id(*r)).collect()),
        ..CallContext::default()
    }
}

/// A primary and fallbacks of these capabilities.
fn plan(rungs: Vec<Behaviour>, capabilities: &'static [f64]) -> Plan {
    Plan::new(rungs).rung(|rung, config| config.capability_score = capabilities[rung])
}

fn failure(error: &CallError) -> &Failure {
    match &error.kind {
        CallErrorKind::Failed(failure) => failure,
        other => panic!("{other}"),
    }
}

fn code(error: &CallError) -> &str {
    let failure = failure(error);
    assert_eq!(failure.class, Class::BadRequest);
    failure.code.as_deref().unwrap()
}

/// Calls until the role has left its primary.
async fn moved(world: &World, context: &CallContext) {
    for _ in 0..20 {
        let _ = world.ask_with(context.clone()).await;
    }
}

// ---- capability

#[tokio::test(start_paused = true)]
async fn a_rung_below_what_the_call_asks_is_passed_over() {
    for context in [least(0.9), declared(Complexity::High)] {
        let rungs = vec![failing(500), steady(100), steady(100)];
        let world = plan(rungs, &[1.0, 0.85, 0.95]).build();
        let answer = world.ask_with(context).await.unwrap();
        assert_eq!(
            told(&answer.trail),
            [
                "0 first transient",
                "skip 1 below_capability",
                "2 failover won"
            ]
        );
        assert_eq!(world.stats(1).started, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_with_an_error_rather_than_below_its_capability() {
    let world = plan(vec![failing(500), steady(100)], &[1.0, 0.9]).build();
    let error = world.ask_with(least(0.95)).await.unwrap_err();
    assert_eq!(
        told(&error.trail),
        ["0 first transient", "skip 1 below_capability"]
    );
    assert_eq!(
        error.to_string(),
        "no model of the roster could answer: p0/m (transient), p1/m (below_capability)"
    );
    assert_eq!(world.stats(1).started, 0);
    // The same fault, and less asked: the fallback answers.
    let answer = world.ask_with(least(0.9)).await.unwrap();
    assert_eq!(answer.meta.rung, 1);
}

#[tokio::test(start_paused = true)]
async fn a_rung_below_is_no_hedge_either() {
    let world = plan(vec![steady(10_000), steady(100)], &[1.0, 0.9]).build();
    let answer = world.ask_with(least(0.95)).await.unwrap();
    assert_eq!(told(&answer.trail), ["0 first won", "no hedge 0 no_rung"]);
    assert_eq!(world.stats(1).started, 0);
}

#[tokio::test(start_paused = true)]
async fn a_role_that_has_moved_below_serves_such_a_call_from_its_slow_primary() {
    let world = plan(vec![steady(3_000), steady(100)], &[1.0, 0.9]).build();
    moved(&world, &CallContext::default()).await;
    assert_eq!(world.memory.substitutions(), [(0, 1)]);
    let answer = world.ask_with(least(0.95)).await.unwrap();
    assert_eq!(
        told(&answer.trail)[..3],
        [
            "skip 1 below_capability",
            "skip 0 benched",
            "0 last_resort won"
        ]
    );
    let other = world.ask().await.unwrap();
    assert_eq!(
        told(&other.trail),
        ["1 first won"],
        "the word has not moved"
    );
}

#[tokio::test(start_paused = true)]
async fn the_greatest_of_what_role_task_and_request_ask_counts() {
    let asked = |complexity, min_capability, task: Option<&str>| CallContext {
        complexity,
        min_capability,
        task: task.map(Into::into),
        ..CallContext::default()
    };
    let hard = TaskPolicy {
        complexity: Some(Complexity::High),
        ..TaskPolicy::default()
    };
    let picky = TaskPolicy {
        min_capability_score: 0.8,
        ..TaskPolicy::default()
    };
    let world = Plan::new(vec![steady(100)])
        .policy(|p| {
            p.min_capability_score = 0.3;
            p.complexity.medium = 0.6;
            p.tasks = [("hard".into(), hard), ("picky".into(), picky)].into();
        })
        .build();
    for (context, expected) in [
        (asked(None, None, None), 0.3),
        (asked(Some(Complexity::Low), None, None), 0.3),
        (asked(Some(Complexity::Medium), Some(0.2), None), 0.6),
        (asked(Some(Complexity::Medium), Some(0.7), None), 0.7),
        (asked(Some(Complexity::Medium), None, Some("hard")), 0.95),
        (asked(None, Some(0.1), Some("picky")), 0.8),
        (asked(None, None, Some("nobody knows it")), 0.3),
    ] {
        let explained = world.router.explain_call(ROLE, &context).unwrap();
        assert!(
            (explained.least_capability - expected).abs() < f64::EPSILON,
            "{context:?}: {}",
            explained.least_capability
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_least_capability_that_is_no_share_is_the_callers_mistake() {
    let world = Plan::new(vec![steady(100)]).build();
    for junk in [f64::NAN, f64::INFINITY, -0.1, 1.1] {
        let error = world.ask_with(least(junk)).await.unwrap_err();
        assert_eq!(code(&error), "invalid_min_capability", "{junk}");
    }
    assert_eq!(world.stats(0).started, 0);
}

#[tokio::test(start_paused = true)]
async fn more_than_any_model_can_do_is_the_callers_to_know() {
    let rungs = vec![steady(100), steady(100), steady(100)];
    let world = plan(rungs, &[1.0, 0.9, 0.8])
        .policy(|p| p.allow_pinned_roster = true)
        .build();
    let context = CallContext {
        min_capability: Some(0.95),
        ..pinned(&[2, 1])
    };
    let error = world.ask_with(context).await.unwrap_err();
    assert_eq!(code(&error), "below_capability");
    assert_eq!(
        failure(&error).message,
        "the call asks for a capability of 0.95, and the best model it may use has 0.9"
    );
}

// ---- tasks

/// A task with limits of its own.
fn limits(p95: u64, p99: u64) -> TaskPolicy {
    TaskPolicy {
        thresholds: Some(Thresholds {
            p95: ms(p95),
            p99: ms(p99),
            first_token_p95: ms(p95),
            first_token_p99: ms(p99),
        }),
        ..TaskPolicy::default()
    }
}

fn order(rungs: &[usize]) -> TaskPolicy {
    TaskPolicy {
        order: Some(rungs.iter().map(|r| model_id(*r)).collect()),
        ..TaskPolicy::default()
    }
}

/// Each activation: the task it is of, from and to which model.
fn activations(world: &World) -> Vec<(Option<String>, String, String)> {
    world.memory.all(|k| match k {
        EventKind::ModelSubstitution {
            task,
            from_model,
            to_model,
            ..
        } => Some((
            task.as_deref().map(str::to_owned),
            from_model.to_string(),
            to_model.to_string(),
        )),
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn a_task_has_an_order_of_its_own_and_uses_no_other_model() {
    let rungs = vec![steady(100), failing(500), failing(500)];
    let world = plan(rungs, &[1.0, 0.95, 0.9])
        .policy(|p| p.tasks = [("review".to_owned(), order(&[2, 1]))].into())
        .build();
    let error = world.ask_with(task("review")).await.unwrap_err();
    assert_eq!(
        told(&error.trail),
        ["0 first transient", "1 failover transient"]
    );
    let asked: Vec<&str> = error.trail.attempts().map(|a| a.model.as_str()).collect();
    assert_eq!(asked, ["p2/m", "p1/m"]);
    world.set(2, steady(100));
    let meta = world.ask_with(task("review")).await.unwrap().meta;
    assert_eq!((meta.model_id, meta.role.as_str()), (model_id(2), ROLE));
    assert_eq!((meta.rung, meta.degraded), (0, false), "first of its order");
    assert!((meta.capability_score - 0.9).abs() < f64::EPSILON);
    assert_eq!(world.ask().await.unwrap().meta.model_id, model_id(0));
}

#[tokio::test(start_paused = true)]
async fn a_task_with_a_longer_limit_stays_where_its_role_moves() {
    let world = Plan::new(vec![steady(3_000), steady(100)])
        .policy(|p| p.tasks = [("long".to_owned(), limits(10_000, 20_000))].into())
        .build();
    moved(&world, &task("long")).await;
    assert_eq!(activations(&world), [], "3 s are well within 10 s");
    moved(&world, &CallContext::default()).await;
    let activation = (None, "p0/m".to_owned(), "p1/m".to_owned());
    assert_eq!(activations(&world), [activation]);
    let answer = world.ask_with(task("long")).await.unwrap();
    assert_eq!(told(&answer.trail), ["0 first won"]);
    assert_eq!(told(&world.ask().await.unwrap().trail), ["1 first won"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_with_a_shorter_limit_moves_alone_and_comes_back_alone() {
    let world = Plan::new(vec![steady(600), steady(100)])
        .policy(|p| {
            p.tasks = [("quick".to_owned(), limits(300, 500))].into();
            p.restore.canary = Vec::new();
            p.restore.restore_after = 1;
        })
        .build();
    moved(&world, &task("quick")).await;
    let activation = (
        Some("quick".to_owned()),
        "p0/m".to_owned(),
        "p1/m".to_owned(),
    );
    assert_eq!(activations(&world), [activation]);
    assert_eq!(told(&world.ask().await.unwrap().trail), ["0 first won"]);
    let answer = world.ask_with(task("quick")).await.unwrap();
    assert_eq!(told(&answer.trail), ["1 first won"]);
    assert_eq!(answer.meta.route, Route::Substitute);
    world.set(0, steady(100));
    tokio::time::sleep(Duration::from_secs(40)).await;
    let restored = world.memory.all(|k| match k {
        EventKind::ModelRestoration { task, .. } => Some(task.as_deref().map(str::to_owned)),
        _ => None,
    });
    assert_eq!(restored, [Some("quick".to_owned())]);
    let answer = world.ask_with(task("quick")).await.unwrap();
    assert_eq!(told(&answer.trail), ["0 first won"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_knows_what_its_role_knows_of_the_models() {
    let world = Plan::new(vec![failing(500), steady(100)])
        .policy(|p| p.tasks = [("long".to_owned(), limits(10_000, 20_000))].into())
        .build();
    moved(&world, &CallContext::default()).await;
    let answer = world.ask_with(task("long")).await.unwrap();
    assert_eq!(
        told(&answer.trail),
        ["skip 0 breaker_open", "1 failover won"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_nobody_knows_changes_nothing_and_is_told_by_its_event() {
    let world = Plan::new(vec![steady(100)])
        .policy(|p| p.tasks = [("review".to_owned(), order(&[0]))].into())
        .build();
    world.ask_with(task("rewiew")).await.unwrap();
    world.ask().await.unwrap();
    let told = world.memory.all(|k| match k {
        EventKind::CallStarted { task, .. } => Some(task.as_deref().map(str::to_owned)),
        _ => None,
    });
    assert_eq!(told, [Some("rewiew".to_owned()), None]);
    assert_eq!(world.router.tasks(ROLE), ["review"]);
}

#[tokio::test(start_paused = true)]
async fn explain_speaks_of_the_task_and_of_what_is_too_little() {
    let hard = TaskPolicy {
        min_capability_score: 0.95,
        ..order(&[0, 1])
    };
    let world = plan(vec![steady(100), steady(100)], &[1.0, 0.9])
        .policy(|p| p.tasks = [("hard".to_owned(), hard)].into())
        .build();
    let explained = world.router.explain_call(ROLE, &task("hard")).unwrap();
    assert_eq!(
        explained.to_string(),
        "agent, task hard: a request goes to rung 0, p0/m\n  \
         0 p0/m: takes the request; breaker closed\n  \
         1 p1/m: refused, below_capability (0.9 of 0.95); breaker closed\n"
    );
}

#[test]
fn a_task_cannot_order_a_model_that_its_role_does_not_have() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let error = Plan::new(vec![steady(100)])
        .policy(|p| p.tasks = [("review".to_owned(), order(&[0, 7]))].into())
        .try_build()
        .err()
        .unwrap();
    assert!(
        matches!(&error, BuildError::UnknownTaskModel { model, .. } if *model == model_id(7)),
        "{error}"
    );
}

// ---- pinned rosters

fn pinning(rungs: Vec<Behaviour>) -> World {
    Plan::new(rungs)
        .policy(|p| p.allow_pinned_roster = true)
        .build()
}

async fn trail(world: &World, context: CallContext) -> Vec<String> {
    let trail = |trail: &Trail| told(trail);
    match world.ask_with(context).await {
        Ok(answer) => trail(&answer.trail),
        Err(error) => trail(&error.trail),
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_pinned_models_are_asked_in_their_order() {
    let world = pinning(vec![steady(100), steady(100), failing(500)]);
    let answer = world.ask_with(pinned(&[2, 1])).await.unwrap();
    assert_eq!(told(&answer.trail), ["2 first transient", "1 failover won"]);
    let answer = world.ask_with(pinned(&[1])).await.unwrap();
    assert_eq!(told(&answer.trail), ["1 first won"]);
    let reason = (answer.meta.route, answer.meta.fallback_reason);
    assert_eq!(reason, (Route::Fallback, Some("manual")));
    assert_eq!(told(&world.ask().await.unwrap().trail), ["0 first won"]);
}

#[tokio::test(start_paused = true)]
async fn a_pinned_model_that_fails_takes_no_other_with_it() {
    let world = pinning(vec![steady(100), failing(503), steady(100)]);
    let error = world.ask_with(pinned(&[1])).await.unwrap_err();
    assert_eq!(
        told(&error.trail),
        [
            "1 first overloaded",
            "skip 0 not_pinned",
            "skip 2 not_pinned"
        ]
    );
    assert_eq!(failure(&error).class, Class::Overloaded);
    assert_eq!(world.stats(0).started + world.stats(2).started, 0);
}

#[tokio::test(start_paused = true)]
async fn a_pinned_model_is_hedged_only_by_another_pinned_one() {
    let rungs = || vec![steady(5_000), steady(100), steady(100)];
    let alone = trail(&pinning(rungs()), pinned(&[0])).await;
    assert_eq!(alone, ["0 first won", "no hedge 0 no_rung"]);
    let beside = trail(&pinning(rungs()), pinned(&[0, 2])).await;
    assert_eq!(beside, ["0 first lost", "2 hedge won"]);
}

#[tokio::test(start_paused = true)]
async fn end_of_life_and_breakers_hold_for_pinned_models_too() {
    let world = Plan::new(vec![steady(100), steady(100), failing(500)])
        .policy(|p| p.allow_pinned_roster = true)
        .model(|rung, model| {
            if rung == 1 {
                model.eol_date = Some(jiff::civil::date(2020, 1, 1));
            }
        })
        .build();
    assert_eq!(
        trail(&world, pinned(&[1, 0])).await,
        ["skip 1 eol", "0 failover won"]
    );
    moved(&world, &pinned(&[2])).await;
    assert_eq!(
        trail(&world, pinned(&[2, 0])).await,
        ["skip 2 breaker_open", "0 failover won"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_roster_that_cannot_be_pinned_is_the_callers_mistake() {
    let closed = Plan::new(vec![steady(100)]).build();
    let error = closed.ask_with(pinned(&[0])).await.unwrap_err();
    assert_eq!(code(&error), "pinned_roster_not_allowed");
    let world = pinning(vec![steady(100), steady(100)]);
    for (rungs, expected) in [
        (&[][..], "invalid_pinned_roster"),
        (&[1, 1], "invalid_pinned_roster"),
        (&[0, 9], "unknown_pinned_model"),
    ] {
        let error = world.ask_with(pinned(rungs)).await.unwrap_err();
        assert_eq!(code(&error), expected, "{rungs:?}");
    }
    let known = ModelId::new("p9/m").unwrap();
    let error = world.ask_with(pinned(&[9])).await.unwrap_err();
    assert_eq!(
        failure(&error).message,
        format!("`{known}` is not in the roster of `agent`, which has p0/m, p1/m")
    );
    assert_eq!(world.stats(0).started + world.stats(1).started, 0);
    // A stream is refused in the same way.
    let request = ChatRequest::user("hello");
    let refused = world.router.stream(ROLE, request, pinned(&[9])).await;
    assert_eq!(code(&refused.unwrap_err()), "unknown_pinned_model");
}

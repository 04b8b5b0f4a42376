//! One model asked, once, with no routing.

use crate::world::{Plan, ROLE, World, model_id, ms, steady, told};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{
    CallContext, ChatRequest, Class, DrillKind, EventKind, ModelId, Route, StreamEvent,
};
use evenkeel_roster::TaskPolicy;
use evenkeel_router::{BreakerAction, BreakerTarget, CallErrorKind, PassTo};
use futures_util::StreamExt;
use std::time::Duration;

fn two() -> World {
    // A task that names the other model is none of the primary's business.
    let task = TaskPolicy {
        order: Some(vec![model_id(1)]),
        ..TaskPolicy::default()
    };
    Plan::new(vec![steady(100), steady(200)])
        .policy(|p| p.tasks = [("other".to_owned(), task)].into())
        .build()
}

fn hello() -> (ChatRequest, CallContext) {
    (ChatRequest::user("hello"), CallContext::default())
}

fn primary() -> PassTo {
    PassTo::PrimaryOf(ROLE.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_pass_asks_the_model_it_names_and_no_other() {
    let world = two();
    let (request, context) = hello();
    let to = PassTo::Model(model_id(1));
    let answer = world.router.pass(&to, request, context).await.unwrap();
    assert_eq!(answer.meta.model_id, model_id(1));
    assert_eq!((answer.meta.rung, answer.meta.route), (0, Route::Primary));
    assert_eq!(answer.meta.role, "p1/m");
    let (request, context) = hello();
    let mut stream = world
        .router
        .pass_stream(&primary(), request, context)
        .await
        .unwrap();
    assert_eq!(stream.meta().model_id, model_id(0));
    let mut last = None;
    while let Some(event) = stream.next().await {
        last = Some(event.unwrap());
    }
    assert_eq!(last, Some(StreamEvent::End));
    assert_eq!((world.stats(0).started, world.stats(1).started), (1, 1));
}

/// Slow or failing: what the model gives is what the caller gets.
#[tokio::test(start_paused = true)]
async fn a_pass_is_neither_hedged_nor_failed_over_nor_repeated() {
    let world = two();
    world.set(0, steady(30_000));
    let (request, context) = hello();
    let answer = world
        .router
        .pass(&primary(), request, context)
        .await
        .unwrap();
    assert_eq!(answer.meta.model_id, model_id(0));
    assert_eq!(told(&answer.trail), ["0 first won", "no hedge 0 off"]);
    world.set(0, Behaviour::failing(Fault::status(500)));
    let (request, context) = hello();
    let error = world
        .router
        .pass(&primary(), request, context)
        .await
        .unwrap_err();
    let CallErrorKind::Failed(failure) = error.kind else {
        panic!("{error}")
    };
    assert_eq!(failure.class, Class::Transient);
    assert_eq!((world.stats(0).started, world.stats(1).started), (2, 0));
    let exhausted = |k: &EventKind| matches!(k, EventKind::RosterExhausted { .. });
    assert_eq!(world.memory.count(exhausted), 0, "no roster was asked");
    // Nor is it counted with the calls that no model of a roster could answer.
    let by_its_way = |kind: &EventKind| match kind {
        EventKind::CallEnded {
            outcome: "error",
            route: Route::Primary,
            reason: None,
            class,
            ..
        } => *class == Some(Class::Transient),
        _ => false,
    };
    assert_eq!(world.memory.count(by_its_way), 1);
}

/// Nothing that keeps calls off a model keeps a pass off it, and nothing that
/// a pass meets is held against it.
#[tokio::test(start_paused = true)]
async fn a_pass_goes_by_no_breaker_and_feeds_none() {
    let world = two();
    let eve = world.router.operator("eve");
    let breaker = BreakerTarget::Model(model_id(0));
    eve.breaker(&breaker, BreakerAction::ForceOpen).unwrap();
    eve.start_drill(DrillKind::KillSwitch, &model_id(0), Duration::from_secs(60))
        .unwrap();
    let (request, context) = hello();
    let answer = world
        .router
        .pass(&primary(), request, context)
        .await
        .unwrap();
    assert_eq!(answer.meta.model_id, model_id(0));

    let to = PassTo::Model(model_id(1));
    for fault in [
        Fault::status(500),
        Fault::status(401),
        Fault::rate_limited(ms(9_000)),
    ] {
        world.set(1, Behaviour::failing(fault));
        for _ in 0..8 {
            let (request, context) = hello();
            world.router.pass(&to, request, context).await.unwrap_err();
        }
    }
    world.set(1, steady(200));
    let state = world.router.explain(ROLE).unwrap();
    assert_eq!(state.rungs[1].refusal, None);
    assert_eq!((state.rungs[1].total.samples, state.in_flight), (0, 0));
    let opened = world
        .memory
        .count(|k| matches!(k, EventKind::BreakerTransition { to: "open", .. }));
    assert_eq!(opened, 0);
    assert_eq!(world.ask().await.unwrap().meta.rung, 1);
}

#[tokio::test(start_paused = true)]
async fn a_pass_to_nowhere_names_it() {
    let world = two();
    for (to, name) in [
        (PassTo::PrimaryOf("pilot".to_owned()), "pilot"),
        (PassTo::Model(ModelId::new("nope/m").unwrap()), "nope/m"),
    ] {
        let (request, context) = hello();
        let error = world.router.pass(&to, request, context).await.unwrap_err();
        assert!(matches!(&error.kind, CallErrorKind::UnknownRole(told) if told == name));
    }
    // One of a known provider that is in no roster: the provider has the word.
    let (request, context) = hello();
    let to = PassTo::Model(ModelId::new("p0/other").unwrap());
    let error = world.router.pass(&to, request, context).await.unwrap_err();
    assert_eq!(error.kind.class(), Some(Class::ModelGone), "{error}");
}

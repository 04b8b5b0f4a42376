//! Workflow runs, and what callers say of the answers they got.

use crate::world::{Memory, Plan, ROLE, World, model_id, ms, router, steady};
use evenkeel_chaos::{Behaviour, Fault, Simulated};
use evenkeel_core::{
    CallContext, ChatRequest, DegradationLevel, EventKind, Provider, WorkflowOutcome,
};
use evenkeel_roster::RolePolicy;
use evenkeel_router::{Feedback, FeedbackError, Workflow, WorkflowError};
use futures_util::StreamExt;
use std::sync::Arc;
use std::time::Duration;

fn down() -> Behaviour {
    Behaviour::failing(Fault::status(503))
}

fn step(workflow: &str, request: &str, caller: Option<&str>) -> CallContext {
    CallContext {
        request_id: Some(request.into()),
        workflow: Some(workflow.into()),
        caller: caller.map(Into::into),
        ..CallContext::default()
    }
}

type Told = (String, Option<&'static str>, Option<&'static str>);

/// The events of runs: id, level, outcome.
fn told(memory: &Memory) -> Vec<Told> {
    memory.all(|k| match k {
        EventKind::WorkflowDegraded {
            workflow, level, ..
        } => Some((workflow.to_string(), Some(level.as_str()), None)),
        EventKind::WorkflowEnded {
            workflow,
            outcome,
            level,
        } => {
            let level = level.map(DegradationLevel::as_str);
            let outcome = outcome.map_or("forgotten", WorkflowOutcome::as_str);
            Some((workflow.to_string(), level, Some(outcome)))
        }
        _ => None,
    })
}

fn degraded_world(capability: f64) -> World {
    Plan::new(vec![down(), steady(100)])
        .rung(move |rung, config| {
            if rung == 1 {
                config.capability_score = capability;
            }
        })
        .build()
}

/// A run of many steps over four roles whose levels rise one after the other,
/// each told once.
#[tokio::test(start_paused = true)]
async fn a_run_of_many_steps_says_each_level_once_and_who_answered() {
    let policy = || RolePolicy::new(ms(1_000), ms(2_000), Duration::from_secs(20));
    let well = Simulated::new("p0", 1).model("m", steady(50));
    let sick = Simulated::new("p1", 2).model("m", down());
    let providers: Vec<Arc<dyn Provider>> = vec![Arc::new(well), Arc::new(sick)];
    let roles = vec![
        ("healthy", policy(), vec!["p0/m"]),
        ("degraded", policy(), vec!["p1/m", "p0/m"]),
        ("dead", policy(), vec!["p1/m"]),
    ];
    let (router, memory) = router(roles, providers);
    let mut carried = step("run", "r", None);
    let mut levels = Vec::new();
    // Capability stays at 0.9 and quality falls with each step.
    for role in [
        "healthy", "degraded", "healthy", "degraded", "dead", "degraded",
    ] {
        let request = ChatRequest::user("go on");
        let answer = router.complete(role, request, carried.clone()).await;
        if let Ok(answer) = answer {
            carried.degradation = answer.degradation;
        }
        levels.push(router.workflow("run", None).unwrap().level());
    }
    let (minor, failed) = (
        Some(DegradationLevel::Minor),
        Some(DegradationLevel::Failed),
    );
    assert_eq!(levels, [None, minor, minor, minor, failed, failed]);
    let run = router.workflow("run", None).unwrap();
    assert_eq!(
        (run.calls, run.degraded_calls, run.unanswered_calls),
        (6, 3, 1)
    );
    assert_eq!(run.depth, 3);
    assert!((run.min_capability_score - 0.9).abs() < 1e-9);
    assert!((run.expected_quality - 0.9_f64.powi(3)).abs() < 1e-9);
    let [who] = run.degraded_roles.as_slice() else {
        panic!("{run:?}");
    };
    assert_eq!(
        (&*who.role, who.model.as_str(), who.calls),
        ("degraded", "p0/m", 3)
    );
    assert!(who.reason.is_some());
    router
        .end_workflow("run", None, WorkflowOutcome::Partial)
        .unwrap();
    let run = |level, outcome| ("run".to_owned(), level, outcome);
    assert_eq!(
        told(&memory),
        [
            run(Some("minor"), None),
            run(Some("failed"), None),
            run(Some("failed"), Some("partial"))
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_level_goes_by_the_least_capability() {
    for (capability, level) in [
        (1.0, DegradationLevel::Minor),
        (0.85, DegradationLevel::Minor),
        (0.84, DegradationLevel::Major),
        (0.0, DegradationLevel::Major),
    ] {
        let world = degraded_world(capability);
        world.ask_with(step("w", "r", None)).await.unwrap();
        let run = world.router.workflow("w", None).unwrap();
        assert_eq!(run.level(), Some(level), "{capability}");
        let events = world.memory.all(|k| match k {
            EventKind::WorkflowDegraded { roles, depth, .. } => Some((roles.clone(), *depth)),
            _ => None,
        });
        assert_eq!(events, [(vec![Arc::from(ROLE)], 1)]);
    }
}

/// A request's own fault is no failed step; a stream that breaks is one.
#[tokio::test(start_paused = true)]
async fn a_step_fails_where_models_do_and_not_where_the_request_does() {
    let bad = Plan::new(vec![Behaviour::failing(Fault::status(400))]).build();
    bad.ask_with(step("w", "r", None)).await.unwrap_err();
    let run = bad.router.workflow("w", None).unwrap();
    assert_eq!((run.calls, run.level()), (1, None));

    let cut = Behaviour::failing(Fault::CutAfter(3)).with_tokens(10);
    let broken = Plan::new(vec![cut]).build();
    let request = ChatRequest::user("hello");
    let stream = broken
        .router
        .stream(ROLE, request, step("w", "r", None))
        .await;
    let last = stream.unwrap().collect::<Vec<_>>().await;
    assert!(last.last().unwrap().is_err());
    let run = broken.router.workflow("w", None).unwrap();
    assert_eq!(run.level(), Some(DegradationLevel::Failed));
}

#[tokio::test(start_paused = true)]
async fn a_run_is_its_callers_alone_and_ends_once() {
    let world = degraded_world(0.9);
    let router = &world.router;
    world.ask_with(step("w", "r", Some("k1"))).await.unwrap();
    assert!(router.workflow("w", None).is_none());
    assert!(router.workflow("w", Some("k2")).is_none());
    let end = |outcome| router.end_workflow("w", Some("k1"), outcome);
    assert_eq!(
        router.end_workflow("w", Some("k2"), WorkflowOutcome::Failed),
        Err(WorkflowError::Unknown)
    );
    let ended: Workflow = end(WorkflowOutcome::Success).unwrap();
    assert_eq!(ended.outcome, Some(WorkflowOutcome::Success));
    assert_eq!(end(WorkflowOutcome::Success), Ok(ended));
    assert_eq!(
        end(WorkflowOutcome::Failed),
        Err(WorkflowError::Ended(WorkflowOutcome::Success))
    );
    // A step after the end begins anew.
    world.ask_with(step("w", "r", Some("k1"))).await.unwrap();
    let again = router.workflow("w", Some("k1")).unwrap();
    assert_eq!((again.calls, again.outcome), (1, None));
    let w = |level, outcome| ("w".to_owned(), Some(level), outcome);
    let minor = w("minor", None);
    assert_eq!(
        told(&world.memory),
        [minor.clone(), w("minor", Some("success")), minor]
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_is_forgotten_after_a_day_and_that_is_told() {
    let world = degraded_world(0.9);
    world.ask_with(step("old", "r", None)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(24 * 3_600 + 1)).await;
    assert!(world.router.workflow("old", None).is_none());
    assert_eq!(
        world.router.feedback("r", None, Feedback::Success(true)),
        Err(FeedbackError::UnknownRequest)
    );
    world.ask_with(step("new", "r", None)).await.unwrap();
    let events = told(&world.memory);
    let forgotten = ("old".to_owned(), Some("minor"), Some("forgotten"));
    assert!(events.contains(&forgotten), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn feedback_tells_quality_of_primary_and_fallback_apart() {
    let world = degraded_world(0.9);
    world.ask_with(step("w", "r1", None)).await.unwrap();
    world.ask_with(step("w", "r2", None)).await.unwrap();
    world.set(0, steady(100));
    tokio::time::sleep(Duration::from_secs(600)).await;
    let request = ChatRequest::user("hello");
    let stream = world
        .router
        .stream(ROLE, request, step("w", "r3", None))
        .await;
    assert!(
        stream
            .unwrap()
            .all(|event| async move { event.is_ok() })
            .await
    );

    let say = |id, feedback| world.router.feedback(id, None, feedback);
    assert_eq!(say("r1", Feedback::Score(0.4)).unwrap().model, model_id(1));
    assert!(say("r2", Feedback::Success(true)).unwrap().degraded);
    let primary = say("r3", Feedback::Score(0.9)).unwrap();
    assert_eq!((primary.rung, primary.degraded), (0, false));
    // Said again it replaces.
    say("r1", Feedback::Success(false)).unwrap();
    assert_eq!(
        say("r9", Feedback::Success(true)),
        Err(FeedbackError::UnknownRequest)
    );
    for junk in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert!(matches!(
            say("r1", Feedback::Score(junk)),
            Err(FeedbackError::Score(_))
        ));
    }
    let quality = world.router.quality(ROLE).unwrap();
    let means: Vec<_> = quality.iter().map(|q| (q.judged, q.mean_score)).collect();
    assert_eq!(means, [(1, Some(0.9)), (2, Some(0.5))]);
    assert!(world.router.quality("nobody").is_none());
    let scores = world.memory.all(|k| match k {
        EventKind::Feedback {
            score, degraded, ..
        } => Some((*score, *degraded)),
        _ => None,
    });
    assert_eq!(
        scores,
        [(0.4, true), (1.0, true), (0.9, false), (0.0, true)]
    );
}

#[tokio::test(start_paused = true)]
async fn feedback_is_taken_from_who_asked_and_nobody_else() {
    let world = degraded_world(0.9);
    world.ask_with(step("w", "r", Some("k1"))).await.unwrap();
    let say = |caller| world.router.feedback("r", caller, Feedback::Success(true));
    assert_eq!(say(None), Err(FeedbackError::UnknownRequest));
    assert_eq!(say(Some("k2")), Err(FeedbackError::UnknownRequest));
    assert!(say(Some("k1")).is_ok());
    let untouched = world.router.quality(ROLE).unwrap();
    assert_eq!((untouched[0].judged, untouched[0].mean_score), (0, None));
}

//! What observers are told of calls and attempts beside what happens to them.

use crate::world::{Memory, Plan, ROLE, World, model_id, ms, steady};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{
    CallContext, CallId, ChatRequest, Class, Event, EventKind, HedgeResult, Observer, Route,
    StreamEvent, TraceContext,
};
use evenkeel_router::Router;
use futures_util::StreamExt;
use std::sync::Arc;
use std::time::Duration;

/// How each hedge ended, and where it went.
fn hedges(memory: &Memory) -> Vec<(HedgeResult, usize, usize)> {
    memory.all(|kind| match kind {
        EventKind::HedgeEnded {
            result, from, to, ..
        } => Some((*result, *from, *to)),
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn every_hedge_that_starts_is_told_to_end_once() {
    let won = Plan::new(vec![steady(10_000), steady(300)]).build();
    won.ask().await.unwrap();
    assert_eq!(hedges(&won.memory), [(HedgeResult::Won, 0, 1)]);

    let lost = Plan::new(vec![steady(1_200), steady(800)]).build();
    lost.ask().await.unwrap();
    assert_eq!(hedges(&lost.memory), [(HedgeResult::Lost, 0, 1)]);

    // Who takes the place of a hedge that failed wins for it.
    let failing = Behaviour::failing(Fault::status(503));
    let replaced = Plan::new(vec![steady(5_000), failing, steady(200)]).build();
    replaced.ask().await.unwrap();
    assert_eq!(hedges(&replaced.memory), [(HedgeResult::Won, 0, 2)]);

    let cancelled = Plan::new(vec![steady(10_000), steady(10_000)]).build();
    let asked = tokio::time::timeout(ms(1_500), cancelled.ask()).await;
    assert!(asked.is_err());
    assert_eq!(hedges(&cancelled.memory), [(HedgeResult::Lost, 0, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_hedge_that_the_budget_forbids_is_told_as_refused_once() {
    let world = Plan::new(vec![steady(1_400), steady(1_300)])
        .policy(|p| {
            p.min_samples = 1_000_000;
            p.spike_detector = false;
            p.hedge.burst = 0;
            p.hedge.budget = 0.0;
        })
        .build();
    world.ask().await.unwrap();
    assert_eq!(hedges(&world.memory), [(HedgeResult::Refused, 0, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_hedge_that_finds_no_free_place_is_told_as_refused() {
    let world = Plan::new(vec![steady(1_500), steady(5_000)])
        .model(|rung, model| {
            if rung == 1 {
                model.max_concurrency = 1;
            }
        })
        .build();
    let both = tokio::join!(world.ask(), world.ask());
    both.0.unwrap();
    both.1.unwrap();
    let results: Vec<_> = hedges(&world.memory).iter().map(|h| h.0).collect();
    assert_eq!(results, [HedgeResult::Refused, HedgeResult::Lost]);
}

#[tokio::test(start_paused = true)]
async fn a_loser_that_is_kept_is_told_to_close_after_its_call() {
    let world = Plan::new(vec![steady(1_100), steady(200)])
        .policy(|p| {
            p.clocks.deadline = ms(1_000);
            p.hedge.keep_to_p99 = true;
        })
        .rung(|rung, config| {
            if rung == 1 {
                config.median_latency = Some(ms(200));
            }
        })
        .build();
    world.ask().await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let told = world.memory.all(|kind| match kind {
        EventKind::AttemptEnded { attempt, kept, .. } => Some((format!("ended {attempt}"), *kept)),
        EventKind::CallEnded { .. } => Some(("call ended".to_owned(), false)),
        EventKind::LoserClosed {
            attempt, measured, ..
        } => Some((format!("closed {attempt}"), *measured)),
        _ => None,
    });
    let lines: Vec<_> = told
        .iter()
        .map(|(what, flag)| (what.as_str(), *flag))
        .collect();
    assert_eq!(
        lines,
        [
            ("ended 0", true),
            ("ended 1", false),
            ("call ended", false),
            ("closed 0", false),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_opens_tells_for_which_call_and_on_what() {
    let failing = Behaviour::failing(Fault::status(503));
    let world = Plan::new(vec![failing, steady(100)])
        .model(|_, model| model.breaker.failure_threshold = 2)
        .build();
    world.ask().await.unwrap();
    world.ask().await.unwrap();
    let events = world.memory.events();
    let of = |is: fn(&EventKind) -> bool| events.iter().filter(move |e| is(&e.kind));
    let second = of(|k| matches!(k, EventKind::CallStarted { .. }))
        .nth(1)
        .unwrap();
    let opened = of(|k| matches!(k, EventKind::BreakerTransition { .. }))
        .next()
        .unwrap();
    assert_eq!(opened.call, second.call);
    let EventKind::BreakerTransition {
        cause,
        failures,
        class,
        ..
    } = &opened.kind
    else {
        unreachable!("it was looked for");
    };
    assert_eq!((*cause, *failures), ("consecutive_failures", Some(2)));
    assert_eq!(*class, Some(Class::Overloaded));
}

/// What the end of a call says of it.
fn ends(
    world: &World,
) -> Vec<(
    &'static str,
    Route,
    Option<&'static str>,
    Option<&'static str>,
)> {
    world.memory.all(|kind| match kind {
        EventKind::CallEnded {
            outcome,
            route,
            reason,
            error,
            ..
        } => Some((*outcome, *route, *reason, *error)),
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_call_says_how_it_came_about() {
    let failing = || Behaviour::failing(Fault::status(503));
    let world = Plan::new(vec![failing(), steady(100)]).build();
    world.ask().await.unwrap();
    let overloaded = Some("overloaded");
    assert_eq!(ends(&world), [("ok", Route::Fallback, overloaded, None)]);

    let world = Plan::new(vec![failing(), failing()]).build();
    world.ask().await.unwrap_err();
    let exhausted = Some("roster_exhausted");
    assert_eq!(ends(&world), [("error", Route::None, exhausted, exhausted)]);

    // No model can take it: that is the caller's to know, and the last one's word.
    let full = || Behaviour::failing(Fault::context_window());
    let world = Plan::new(vec![full(), full()]).build();
    world.ask().await.unwrap_err();
    let window = Some("context_window");
    assert_eq!(ends(&world), [("error", Route::Fallback, window, window)]);

    // One that it fits and that fails could have answered.
    let world = Plan::new(vec![full(), failing()]).build();
    world.ask().await.unwrap_err();
    assert_eq!(ends(&world), [("error", Route::None, exhausted, exhausted)]);

    // A committed stream that its caller leaves had an answer.
    let slow = steady(100).with_inter_token(ms(100));
    let world = Plan::new(vec![slow]).build();
    let mut stream = world.stream().await.unwrap();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    assert_eq!(ends(&world), [("cancelled", Route::Primary, None, None)]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_refused_for_its_own_sake_keeps_the_way_it_took() {
    let bad = || Behaviour::failing(Fault::status(400));
    let refused = |route, reason| ("error", route, reason, Some("bad_request"));
    let world = Plan::new(vec![bad(), steady(100)]).build();
    world.ask().await.unwrap_err();
    assert_eq!(ends(&world), [refused(Route::Primary, None)]);

    // The role has moved to the model that refuses it.
    let world = Plan::new(vec![steady(10_000), steady(100)]).build();
    for _ in 0..10 {
        world.ask().await.unwrap();
    }
    world.set(1, bad());
    world.ask().await.unwrap_err();
    let (outcome, route, reason, error) = ends(&world).pop().unwrap();
    assert!(reason.unwrap().starts_with("latency_"), "{reason:?}");
    assert_eq!(
        (outcome, route, reason, error),
        refused(Route::Substitute, reason)
    );

    // The caller named that model.
    let world = Plan::new(vec![steady(100), bad()])
        .policy(|p| p.allow_pinned_roster = true)
        .build();
    let pinned = CallContext {
        pinned_roster: Some(vec![model_id(1)]),
        ..CallContext::default()
    };
    world.ask_with(pinned).await.unwrap_err();
    let (outcome, route, reason, error) = ends(&world).pop().unwrap();
    assert!(reason.is_some());
    assert_eq!(
        (outcome, route, reason, error),
        refused(Route::Fallback, reason)
    );
}

#[tokio::test(start_paused = true)]
async fn a_fallback_says_what_the_first_rung_failed_with() {
    let world = Plan::new(vec![Behaviour::failing(Fault::status(503)), steady(100)]).build();
    let context = CallContext {
        task: Some("plan".into()),
        request_id: Some("r-1".into()),
        ..CallContext::default()
    };
    world.ask_with(context).await.unwrap();
    let told = world.memory.all(|kind| match kind {
        EventKind::ModelFallback {
            task,
            request_id,
            class,
            status,
            rung,
            ..
        } => Some((task.clone(), request_id.clone(), *class, *status, *rung)),
        _ => None,
    });
    let expected = (
        Some("plan".into()),
        Some("r-1".into()),
        Some(Class::Overloaded),
        Some(503),
        1,
    );
    assert_eq!(told, [expected]);
}

#[tokio::test(start_paused = true)]
async fn a_probe_says_what_each_role_makes_of_it() {
    let world = Plan::new(vec![steady(5_000), steady(100)]).build();
    for _ in 0..5 {
        world.ask().await.unwrap();
    }
    assert_eq!(world.memory.substitutions(), [(0, 1)]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.set(0, steady(50));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let results = world.memory.all(|kind| match kind {
        EventKind::Probed {
            verdicts,
            booked_on,
            ..
        } => Some((booked_on.to_string(), verdicts.clone())),
        _ => None,
    });
    let (first, last) = (results.first().unwrap(), results.last().unwrap());
    for (at, result) in [(first, "slow"), (last, "ok")] {
        assert_eq!(at.0, ROLE);
        let own: Vec<_> = at.1.iter().map(|v| (&*v.role, v.result)).collect();
        assert_eq!(own, [(ROLE, result)]);
    }
}

/// Remembers every event, with what was said, and traces calls.
#[derive(Debug, Default)]
struct Reads(Memory);

impl Observer for Reads {
    fn on(&self, event: &Event) {
        self.0.on(event);
    }

    fn call_context(&self, call: CallId) -> Option<TraceContext> {
        Some(TraceContext {
            traceparent: format!("call {call}").into(),
            tracestate: "".into(),
        })
    }

    fn wants_content(&self) -> bool {
        true
    }
}

/// Texts of the requests and the answers that were told.
fn content(memory: &Memory) -> Vec<String> {
    memory.all(|kind| match kind {
        EventKind::AttemptStarted { content, .. } => {
            Some(content.as_ref()?.messages[0].plain_text())
        }
        EventKind::AttemptEnded { content, .. } => Some(content.as_ref()?.plain_text()),
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn what_was_said_is_told_only_to_those_who_ask_for_it() {
    let plan = || Plan::new(vec![steady(100)]);
    let unread = plan().build();
    let answer = unread.ask().await.unwrap();
    assert_eq!(content(&unread.memory), Vec::<String>::new());
    assert_eq!(answer.trace, None);

    let reads = Arc::new(Reads::default());
    let config = unread.config.clone();
    let router = Router::builder(&config)
        .observer(reads.clone())
        .provider("p0", unread.router.provider("p0").unwrap())
        .build()
        .unwrap();
    let context = CallContext::default;
    let whole = router
        .complete(ROLE, ChatRequest::user("hello"), context())
        .await
        .unwrap();
    let said = whole.response.plain_text();
    assert!(whole.trace.is_some());
    let stream = router
        .stream(ROLE, ChatRequest::user("hello"), context())
        .await
        .unwrap();
    assert!(stream.trace().is_some());
    let events: Vec<_> = stream.collect().await;
    assert_eq!(events.last().unwrap().as_ref().unwrap(), &StreamEvent::End);
    assert_eq!(content(&reads.0), ["hello", &said, "hello", &said]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_told_as_it_names_itself() {
    let world = Plan::new(vec![steady(100)]).build();
    let answer = world.ask().await.unwrap();
    world.stream().await.unwrap().count().await;
    let told = world.memory.all(|kind| match kind {
        EventKind::AttemptEnded { reported, .. } => Some(reported.clone()),
        _ => None,
    });
    assert_eq!(told[0].id.as_deref(), Some(answer.response.id.as_str()));
    for reported in &told {
        assert_eq!(
            reported.model.as_deref(),
            Some(answer.response.model.as_str())
        );
        assert_eq!(reported.finish, Some(answer.response.finish));
    }
    assert_eq!((told[0].chunks, told[1].chunks), (0, 5));
}

//! Rate limits, configured and reported: who is asked, who waits, for how long.

use crate::world::{Plan, ROLE, World, deadline, ms, steady, told};
use evenkeel_chaos::{Behaviour, Fault, Simulated};
use evenkeel_core::{
    Allowance, CallContext, ChatRequest, ChatResponse, Class, EventStream, Failure, Provider,
    ProviderCall, RateLimits, Refusal, StreamEvent, Trail, TrailStep,
};
use evenkeel_roster::{HedgeMode, ModelConfig};
use evenkeel_router::{Answer, CallError, CallErrorKind, RungEndKind};
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};

fn per_minute(requests: u32) -> impl Fn(usize, &mut ModelConfig) {
    move |rung, model| {
        if rung == 0 {
            model.requests_per_minute = NonZeroU32::new(requests);
        }
    }
}

fn waits(trail: &Trail) -> Vec<(&'static str, Duration)> {
    let of = |step: &TrailStep| match step {
        TrailStep::Waited { reason, wait, .. } => Some((*reason, *wait)),
        _ => None,
    };
    trail.steps.iter().filter_map(of).collect()
}

/// C008: the one rung's limit is used up, and no wait fits.
#[tokio::test(start_paused = true)]
async fn a_lone_rung_at_its_limit_fails_typed_and_counts_on_nothing() {
    let world = Plan::new(vec![steady(100)])
        .model(|_, model| {
            model.requests_per_minute = NonZeroU32::new(1);
            model.breaker.failure_threshold = 1;
        })
        .policy(|p| p.clocks.deadline = Duration::from_secs(30))
        .build();
    world.ask().await.unwrap();
    sleep(ms(400)).await;
    let error = world.ask().await.unwrap_err();
    let CallErrorKind::Failed(failure) = &error.kind else {
        panic!("{error}")
    };
    assert_eq!(failure.class, Class::RateLimited);
    assert_eq!(error.retry_after, Some(ms(59_500)));
    assert_eq!(told(&error.trail), ["skip 0 rate_limit_near"]);
    assert_eq!(world.stats(0).started, 1);
    let rung = &world.router.explain(ROLE).unwrap().rungs[0];
    assert_eq!(
        (rung.health.breaker.state, rung.total.samples),
        ("closed", 1)
    );
    assert!(matches!(rung.refusal, Some(Refusal::RateLimitNear(_))));
}

#[tokio::test(start_paused = true)]
async fn another_rung_is_asked_before_anybody_waits() {
    let world = Plan::new(vec![steady(100), steady(100)])
        .model(per_minute(1))
        .build();
    assert_eq!(world.ask().await.unwrap().meta.rung, 0);
    let answer = world.ask().await.unwrap();
    assert_eq!(
        told(&answer.trail),
        ["skip 0 rate_limit_near", "1 failover won"]
    );
    assert_eq!(answer.meta.fallback_reason, Some("cooldown"));
}

#[tokio::test(start_paused = true)]
async fn a_lone_rung_is_waited_for_where_that_fits() {
    let world = Plan::new(vec![steady(100)]).model(per_minute(60)).build();
    let asked = (0..62).map(|_| world.ask());
    let begun = Instant::now();
    let answers = join_all(asked).await;
    assert_eq!(world.stats(0).started, 62);
    let waited: Vec<_> = answers
        .iter()
        .map(|answer| waits(&answer.as_ref().unwrap().trail))
        .filter(|waits| !waits.is_empty())
        .collect();
    assert_eq!(waited.len(), 2);
    for waits in waited {
        // However often it asked again, it is one wait.
        assert_eq!(waits.len(), 1);
        assert_eq!(waits[0].0, "rate_limit_near");
    }
    assert!(begun.elapsed() >= ms(2_000) && begun.elapsed() < ms(3_000));
}

#[tokio::test(start_paused = true)]
async fn when_every_rung_is_at_its_limit_the_earliest_is_waited_for() {
    let world = Plan::new(vec![steady(100), steady(100)])
        .model(|rung, model| {
            let limit = if rung == 0 { 6 } else { 12 };
            model.requests_per_minute = NonZeroU32::new(limit);
        })
        .build();
    for _ in 0..18 {
        world.ask().await.unwrap();
    }
    let error = world
        .router
        .complete(ROLE, ChatRequest::user("hello"), deadline(ms(1_000)));
    let error = error.await.unwrap_err();
    let CallErrorKind::Exhausted(ends) = &error.kind else {
        panic!("{error}")
    };
    let near = |end: &RungEndKind| matches!(end, RungEndKind::Refused(Refusal::RateLimitNear(_)));
    assert!(ends.iter().all(|e| near(&e.end)), "{ends:?}");
    assert!(error.retry_after.unwrap() < ms(5_000));
    let answer = world.ask().await.unwrap();
    assert_eq!(answer.meta.rung, 1);
    assert_eq!(waits(&answer.trail)[0].0, "rate_limit_near");
}

/// Two rungs, the first of which takes a thousand tokens a minute.
fn limited() -> World {
    Plan::new(vec![steady(100), steady(100)])
        .model(|rung, model| {
            if rung == 0 {
                model.tokens_per_minute = NonZeroU32::new(1_000);
            }
        })
        .build()
}

/// Asks for an answer of at most so many tokens.
async fn up_to(world: &World, most: u64) -> Result<Answer, CallError> {
    let request = ChatRequest {
        max_output_tokens: Some(most),
        ..ChatRequest::user("hello")
    };
    let context = CallContext::default();
    world.router.complete(ROLE, request, context).await
}

#[tokio::test(start_paused = true)]
async fn tokens_count_as_expected_and_are_corrected_by_what_is_reported() {
    let world = limited();
    let ask = |most| up_to(&world, most);
    // Each might take nearly all of the minute, and takes some ten tokens.
    for _ in 0..10 {
        assert_eq!(ask(900).await.unwrap().meta.rung, 0);
    }
    // At the same moment the second does not know what the first will take.
    let world = limited();
    let ask = |most| up_to(&world, most);
    let (first, second) = tokio::join!(ask(900), ask(900));
    assert_eq!(first.unwrap().meta.rung, 0);
    assert_eq!(second.unwrap().meta.rung, 1);
}

/// C029: retries beyond the local limit wait for it instead of being used up at once.
#[tokio::test(start_paused = true)]
async fn a_retry_waits_for_the_limit_and_is_not_used_up() {
    let world = Plan::new(vec![Behaviour::failing(Fault::status(503))])
        .model(per_minute(30))
        .policy(|p| {
            p.retry.overloaded = 3;
            p.hedge.mode = HedgeMode::Off;
        })
        .build();
    // Twenty-eight of thirty are gone.
    world.set(0, steady(1));
    for _ in 0..28 {
        world.ask().await.unwrap();
    }
    world.set(0, Behaviour::failing(Fault::status(503)));
    let error = world.ask().await.unwrap_err();
    assert_eq!(error.trail.attempts().count(), 4);
    let starts: Vec<_> = error.trail.attempts().map(|a| a.started).collect();
    // Two at once but for the backoff, the others two seconds apart.
    assert!(starts[1].saturating_sub(starts[0]) <= ms(200), "{starts:?}");
    assert!(
        starts[2].saturating_sub(starts[1]) >= ms(1_500),
        "{starts:?}"
    );
    assert!(
        starts[3].saturating_sub(starts[2]) >= ms(1_900),
        "{starts:?}"
    );
}

/// A provider that reports its limits with everything it sends.
#[derive(Debug)]
struct Reporting {
    inner: Simulated,
    limits: Arc<Mutex<Option<RateLimits>>>,
}

impl Reporting {
    fn limits(&self) -> Option<Box<RateLimits>> {
        self.limits.lock().unwrap().map(Box::new)
    }
}

#[async_trait::async_trait]
impl Provider for Reporting {
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure> {
        let answer = self.inner.complete(call).await;
        let limits = self.limits();
        answer
            .map(|mut response| {
                response.rate_limits.clone_from(&limits);
                response
            })
            .map_err(|mut failure| {
                failure.rate_limits = limits;
                failure
            })
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        let events = self.inner.stream(call).await?;
        let limits = self.limits().map(|l| Ok(StreamEvent::RateLimits(l)));
        Ok(stream::iter(limits).chain(events).boxed())
    }
}

fn requests(limit: u64, remaining: u64, reset: Duration) -> RateLimits {
    RateLimits {
        requests: Allowance {
            limit: Some(limit),
            remaining: Some(remaining),
            reset: Some(reset),
        },
        ..RateLimits::default()
    }
}

/// Rung 0 reports its limits, rung 1 has none.
fn reporting(first: Behaviour) -> (World, Arc<Mutex<Option<RateLimits>>>) {
    let limits = Arc::new(Mutex::new(None));
    let shared = limits.clone();
    let world = Plan::new(vec![first, steady(100)])
        .provider(move |rung, inner| {
            if rung > 0 {
                return Arc::new(inner);
            }
            let limits = shared.clone();
            Arc::new(Reporting { inner, limits })
        })
        .build();
    (world, limits)
}

#[tokio::test(start_paused = true)]
async fn what_an_answer_reports_keeps_the_next_call_away() {
    let (world, limits) = reporting(steady(100));
    *limits.lock().unwrap() = Some(requests(100, 0, Duration::from_secs(60)));
    assert_eq!(world.ask().await.unwrap().meta.rung, 0);
    let answer = world.ask().await.unwrap();
    assert_eq!(
        told(&answer.trail),
        ["skip 0 rate_limit_near", "1 failover won"]
    );
    // A hundred a minute: one more in 600 ms.
    sleep(ms(600)).await;
    assert_eq!(world.ask().await.unwrap().meta.rung, 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_reports_at_its_start_and_keeps_that_from_its_caller() {
    let (world, limits) = reporting(steady(100).with_tokens(50).with_inter_token(ms(50)));
    *limits.lock().unwrap() = Some(requests(100, 0, Duration::from_secs(60)));
    let mut stream = world.stream().await.unwrap();
    // Before it has ended.
    assert_eq!(world.ask().await.unwrap().meta.rung, 1);
    while let Some(event) = stream.next().await {
        assert!(!matches!(event.unwrap(), StreamEvent::RateLimits(_)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_reports_too_and_limits_grow_again() {
    let (world, limits) = reporting(Behaviour::failing(Fault::status(500)));
    *limits.lock().unwrap() = Some(requests(10, 0, Duration::from_secs(600)));
    assert_eq!(world.ask().await.unwrap().meta.rung, 1);
    world.set(0, steady(100));
    assert_eq!(
        told(&world.ask().await.unwrap().trail)[0],
        "skip 0 rate_limit_near"
    );
    // A minute later one is there again, and its answer says that there are many.
    sleep(Duration::from_secs(60)).await;
    *limits.lock().unwrap() = Some(requests(1_000, 900, Duration::from_secs(6)));
    for _ in 0..20 {
        assert_eq!(world.ask().await.unwrap().meta.rung, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_crowd_does_not_take_a_stale_report_for_room() {
    let (world, limits) = reporting(steady(900));
    *limits.lock().unwrap() = Some(requests(100, 5, Duration::from_secs(600)));
    world.ask().await.unwrap();
    let answers = join_all((0..20).map(|_| world.ask())).await;
    let first = answers
        .iter()
        .filter(|answer| answer.as_ref().unwrap().meta.rung == 0)
        .count();
    assert_eq!(first, 5);
}

//! A share of a role's calls, sent to a candidate after the answer went out.

use crate::world::{Plan, ROLE, World, model_id, ms, steady};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{
    CallContext, ChatRequest, ChatResponse, Class, EventKind, EventStream, Failure, Finish, Output,
    Part, Provider, ProviderCall, Refusal, ShadowPair, SpentOn, Value,
};
use evenkeel_roster::ModelConfig;
use futures_util::StreamExt;
use futures_util::future::join_all;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Rung 1 is the candidate of this share of the calls; every call goes to rung 0.
fn shadowing(candidate: Behaviour, share: f64) -> Plan {
    Plan::new(vec![steady(100), candidate])
        .policy(|p| {
            p.shadow.model = Some(model_id(1));
            p.shadow.share = share;
            p.shadow.max_concurrency = 1_000;
        })
        .model(|_, model| model.max_concurrency = 1_000)
}

fn pairs(world: &World) -> Vec<Arc<ShadowPair>> {
    world.memory.all(|kind| match kind {
        EventKind::Shadowed(pair) => Some(pair.clone()),
        _ => None,
    })
}

/// Asks, and waits long enough for a shadow to end.
async fn ask_and_wait(world: &World) {
    world.ask().await.unwrap();
    sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_shadow_is_sent_after_the_answer_and_delays_nothing() {
    let world = shadowing(steady(5_000), 1.0).build();
    let begun = Instant::now();
    let answer = world.ask().await.unwrap();
    assert_eq!(begun.elapsed(), ms(100));
    assert!(pairs(&world).is_empty());
    sleep(Duration::from_secs(6)).await;
    let pairs = pairs(&world);
    assert_eq!(pairs.len(), 1);
    let ShadowPair { live, shadow, .. } = &*pairs[0];
    assert_eq!((&live.model, &shadow.model), (&model_id(0), &model_id(1)));
    assert_eq!((live.latency, shadow.latency), (ms(100), ms(5_000)));
    assert_eq!(live.text_bytes, answer.response.plain_text().len());
    assert_eq!(shadow.finish, Some(Finish::Stop));
    assert!(shadow.text_bytes > 0 && shadow.usage.is_some());
    assert_eq!((live.is_valid, shadow.is_valid), (None, None), "plain text");
    // Nothing of what was said.
    assert!(pairs[0].request.is_none() && live.content.is_none() && shadow.content.is_none());
}

#[tokio::test(start_paused = true)]
async fn about_the_share_of_calls_is_shadowed_and_a_seed_repeats_which() {
    let mut counts = Vec::new();
    for seed in [1, 1, 2] {
        let world = shadowing(steady(10), 0.05).seed(seed).build();
        join_all((0..400).map(|_| world.ask())).await;
        sleep(Duration::from_secs(1)).await;
        counts.push(pairs(&world).len());
    }
    // Twenty, give or take three standard deviations of 4.4.
    assert!(counts.iter().all(|n| (7..=33).contains(n)), "{counts:?}");
    assert_eq!(counts[0], counts[1]);
    let world = shadowing(steady(10), 0.0).build();
    join_all((0..100).map(|_| world.ask())).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(world.stats(1).started, 0);
}

#[tokio::test(start_paused = true)]
async fn content_is_kept_only_where_that_is_allowed() {
    let world = shadowing(steady(10), 1.0)
        .policy(|p| p.shadow.capture = true)
        .build();
    let answer = world.ask().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let pair = pairs(&world).remove(0);
    let text = |content: &Option<ChatResponse>| content.as_ref().unwrap().plain_text();
    assert_eq!(text(&pair.live.content), answer.response.plain_text());
    assert!(text(&pair.shadow.content).contains("[[p1/m]]"));
    let request = pair.request.as_ref().unwrap();
    assert_eq!(request.messages[0].plain_text(), "hello");
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_shadowed_as_a_stream_when_it_has_ended() {
    let slow = steady(300).with_tokens(10).with_inter_token(ms(20));
    let world = shadowing(slow, 1.0)
        .policy(|p| p.shadow.capture = true)
        .build();
    let mut stream = world.stream().await.unwrap();
    assert_eq!(world.stats(1).started, 0, "not before its end");
    let mut text = String::new();
    while let Some(event) = stream.next().await {
        if let evenkeel_core::StreamEvent::Delta(evenkeel_core::Delta::Text(piece)) = event.unwrap()
        {
            text.push_str(&piece);
        }
    }
    sleep(Duration::from_secs(1)).await;
    let pair = pairs(&world).remove(0);
    assert_eq!(pair.live.content.as_ref().unwrap().plain_text(), text);
    assert_eq!(pair.live.first_token, Some(ms(100)));
    assert_eq!(pair.shadow.first_token, Some(ms(300)));
    assert_eq!(pair.shadow.latency, ms(480));
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_fails_is_told_and_counts_on_nothing() {
    let world = shadowing(Behaviour::failing(Fault::status(500)), 1.0)
        .model(|_, model| model.breaker.failure_threshold = 2)
        .build();
    for _ in 0..10 {
        ask_and_wait(&world).await;
    }
    let pairs = pairs(&world);
    assert_eq!(pairs.len(), 10);
    for pair in pairs {
        assert_eq!(pair.shadow.failure, Some(Class::Transient));
        assert_eq!((pair.shadow.finish, pair.shadow.text_bytes), (None, 0));
    }
    let candidate = &world.router.explain(ROLE).unwrap().rungs[1];
    let breaker = candidate.health.breaker.state;
    assert_eq!((breaker, candidate.refusal), ("closed", None));
    assert_eq!(
        (candidate.total.samples, candidate.first_token.samples),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_is_throttled_is_left_alone_for_a_while() {
    let limited = Behaviour::failing(Fault::rate_limited(Duration::from_secs(30)));
    let world = shadowing(limited, 1.0).build();
    for _ in 0..10 {
        ask_and_wait(&world).await;
    }
    assert_eq!(world.stats(1).started, 1);
    let candidate = &world.router.explain(ROLE).unwrap().rungs[1];
    assert_eq!(candidate.refusal, None, "live calls may ask it");
    sleep(Duration::from_secs(30)).await;
    ask_and_wait(&world).await;
    assert_eq!(world.stats(1).started, 2);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_is_set_aside_broken_or_near_its_limit_is_not_asked() {
    // On hold: live calls found its key refused.
    let world = shadowing(Behaviour::failing(Fault::status(401)), 1.0).build();
    world.set(0, Behaviour::failing(Fault::status(503)));
    world.ask().await.unwrap_err();
    assert_eq!(world.stats(1).started, 1);
    world.set(0, steady(100));
    ask_and_wait(&world).await;
    assert_eq!(world.stats(1).started, 1);

    // Broken.
    let world = shadowing(Behaviour::failing(Fault::status(500)), 1.0)
        .model(|rung, model| {
            if rung == 1 {
                model.breaker.failure_threshold = 1;
            }
        })
        .build();
    world.set(0, Behaviour::failing(Fault::status(503)));
    world.ask().await.unwrap_err();
    world.set(0, steady(100));
    ask_and_wait(&world).await;
    assert_eq!(world.stats(1).started, 1);

    // Near its rate limit.
    let world = shadowing(steady(10), 1.0)
        .model(|rung, model| {
            if rung == 1 {
                model.requests_per_minute = NonZeroU32::new(2);
            }
        })
        .build();
    for _ in 0..5 {
        ask_and_wait(&world).await;
    }
    assert_eq!(world.stats(1).started, 2);
    let refusal = world.router.explain(ROLE).unwrap().rungs[1].refusal;
    assert!(matches!(refusal, Some(Refusal::RateLimitNear(_))));
}

#[tokio::test(start_paused = true)]
async fn half_of_the_places_are_left_to_live_calls_and_shadows_are_bounded() {
    let places =
        |most: usize| move |_: usize, model: &mut ModelConfig| model.max_concurrency = most;
    for (most, shadows, expected) in [(8, 1_000, 4), (1_000, 3, 3)] {
        let world = shadowing(steady(60_000), 1.0)
            .model(places(most))
            .policy(|p| p.shadow.max_concurrency = shadows)
            .build();
        for _ in 0..20 {
            world.ask().await.unwrap();
        }
        sleep(ms(1)).await;
        assert_eq!(world.stats(1).started, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn what_keeps_state_or_was_answered_by_the_candidate_is_not_shadowed() {
    let world = shadowing(steady(10), 1.0).build();
    let mut request = ChatRequest::user("hello");
    let store = ("store".to_owned(), Value::Bool(true));
    request.extra.fields.extend([store]);
    let context = CallContext::default;
    world
        .router
        .complete(ROLE, request, context())
        .await
        .unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(world.stats(1).started, 0);
    // The candidate answers: there is nothing to compare.
    world.set(0, Behaviour::failing(Fault::status(503)));
    ask_and_wait(&world).await;
    assert_eq!(world.stats(1).started, 1);
    assert!(pairs(&world).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_shadow_ends_with_the_roles_deadline_and_with_the_router() {
    let world = shadowing(Behaviour::failing(Fault::Hang), 1.0)
        .policy(|p| p.clocks.deadline = Duration::from_secs(20))
        .build();
    world.ask().await.unwrap();
    sleep(Duration::from_secs(21)).await;
    let pair = pairs(&world).remove(0);
    assert_eq!(pair.shadow.failure, Some(Class::Timeout));
    world.ask().await.unwrap();
    sleep(ms(1)).await;
    assert_eq!(world.stats(1).in_flight, 1);
    let begun = Instant::now();
    world.router.shutdown().await;
    assert!(begun.elapsed() < ms(10));
    assert_eq!(world.stats(1).in_flight, 0);
    assert_eq!(pairs(&world).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_shadow_says_what_it_cost() {
    let world = shadowing(steady(10), 1.0)
        .model(|_, model| {
            model.max_concurrency = 100;
            model.input_usd_per_mtok = Some(1.0);
            model.output_usd_per_mtok = Some(1.0);
        })
        .build();
    ask_and_wait(&world).await;
    let pair = pairs(&world).remove(0);
    let cost = pair.shadow.cost.unwrap();
    assert_eq!((cost.spent_on, cost.is_estimate), (SpentOn::Shadow, false));
    assert_eq!(pair.live.cost.unwrap().spent_on, SpentOn::Answer);
}

/// A model that talks where JSON is asked for.
#[derive(Debug)]
struct Talker(Arc<dyn Provider>);

#[async_trait::async_trait]
impl Provider for Talker {
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure> {
        let mut answer = self.0.complete(call).await?;
        answer.parts = vec![Part::Text("Well, let me see.".to_owned())];
        Ok(answer)
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        self.0.stream(call).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_shadow_that_is_not_what_was_asked_for_is_told_as_such() {
    for (talks, valid) in [(false, true), (true, false)] {
        let world = shadowing(steady(10), 1.0)
            .provider(move |rung, inner| match rung {
                1 if talks => Arc::new(Talker(Arc::new(inner))),
                _ => Arc::new(inner),
            })
            .build();
        let request = ChatRequest {
            output: Output::JsonObject,
            ..ChatRequest::user("hello")
        };
        let context = CallContext::default();
        world.router.complete(ROLE, request, context).await.unwrap();
        sleep(Duration::from_secs(1)).await;
        let pair = pairs(&world).remove(0);
        assert_eq!(pair.live.is_valid, Some(true));
        assert_eq!(pair.shadow.is_valid, Some(valid));
    }
}

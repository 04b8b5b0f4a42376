//! What people met in products like this one.

use crate::world::{Plan, ROLE, World, context, ms, steady, text, typed, value};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{ChatRequest, Output};
use futures_util::StreamExt;
use opentelemetry::trace::Status;
use opentelemetry_sdk::trace::SpanData;

async fn streamed(world: &World, events: usize) {
    let request = ChatRequest::user("Say hi");
    let stream = world.router.stream(ROLE, request, context()).await;
    stream.unwrap().take(events).count().await;
}

fn number(span: &SpanData, key: &str) -> f64 {
    typed(&value(span, key).unwrap()).parse().unwrap()
}

/// C127: the first token of the answer as its model took it, and as its caller waited for it.
#[tokio::test(start_paused = true)]
async fn the_first_token_is_told_as_the_model_took_it_and_as_the_caller_waited() {
    let late = Behaviour::failing(Fault::status(503)).with_fault_delay(ms(1_000));
    let world = Plan::new(vec![late, steady(300)])
        .policy(|p| p.hedge.mode = evenkeel_roster::HedgeMode::Off)
        .build();
    streamed(&world, 99).await;
    let answered = &world.named("chat m")[1];
    let own = number(answered, "gen_ai.response.time_to_first_chunk");
    assert!((own - 0.3).abs() < 0.001, "{own} s");
    let request = &world.named("evenkeel.request")[0];
    let waited = number(request, "evenkeel.first_token_ms");
    assert!((waited - 1_300.0).abs() < 1.0, "{waited} ms");
    // A whole answer comes at once.
    world.ask().await.unwrap();
    let whole = &world.named("evenkeel.request")[1];
    assert_eq!(value(whole, "evenkeel.first_token_ms"), None);
}

/// C181: whoever leaves, and whatever else ends a stream, its spans end with it.
#[tokio::test(start_paused = true)]
async fn a_stream_that_its_caller_leaves_ends_its_spans_with_what_it_took_so_far() {
    let slow = steady(100).with_tokens(10).with_inter_token(ms(50));
    let world = Plan::new(vec![slow]).build();
    streamed(&world, 4).await;
    let [request] = &world.named("evenkeel.request")[..] else {
        panic!("one call");
    };
    let [attempt] = &world.named("chat m")[..] else {
        panic!("one attempt");
    };
    assert_eq!(
        text(request, "evenkeel.outcome").as_deref(),
        Some("cancelled")
    );
    assert_eq!(
        text(attempt, "evenkeel.attempt.outcome").as_deref(),
        Some("cancelled")
    );
    // Nothing failed.
    assert_eq!(
        (&request.status, &attempt.status),
        (&Status::Unset, &Status::Unset)
    );
    let so_far = number(attempt, "evenkeel.usage.estimated_output_tokens");
    assert!((1.0..10.0).contains(&so_far), "{so_far}");
    // Nobody adds an estimate up with what providers have counted.
    assert_eq!(value(attempt, "gen_ai.usage.output_tokens"), None);
    assert_eq!(world.spans.open(), 0);

    let ways = [
        steady(100).with_tokens(10),
        steady(100).with_tokens(10).with_fault(Fault::CutAfter(2)),
        steady(100).with_tokens(10).with_fault(Fault::StallAfter(2)),
    ];
    for (way, behaviour) in ways.into_iter().enumerate() {
        let world = Plan::new(vec![behaviour]).build();
        streamed(&world, 99).await;
        let (calls, attempts) = (world.named("evenkeel.request"), world.named("chat m"));
        // After a stall the same model is asked to go on once.
        let asked = if way == 2 { 2 } else { 1 };
        assert_eq!((calls.len(), attempts.len()), (1, asked), "{way}");
        assert_eq!(world.spans.open(), 0, "{way}");
        let outcome = text(&calls[0], "evenkeel.outcome");
        let expected = if way == 0 { "ok" } else { "error" };
        assert_eq!(outcome.as_deref(), Some(expected), "{way}");
    }
}

/// C182: a retry's span begins when the one before has ended, and all are exported.
#[tokio::test(start_paused = true)]
async fn every_attempt_of_a_call_has_a_span_that_has_ended() {
    let failing = Behaviour::failing(Fault::status(500));
    let world = Plan::new(vec![failing, steady(300)])
        .policy(|p| p.retry.transient = 1)
        .build();
    streamed(&world, 99).await;
    let request = &world.named("evenkeel.request")[0];
    let attempts = world.named("chat m");
    let told: Vec<_> = attempts
        .iter()
        .map(|attempt| {
            assert_eq!(attempt.parent_span_id, request.span_context.span_id());
            (
                text(attempt, "evenkeel.attempt.index").unwrap(),
                text(attempt, "server.address").unwrap(),
                text(attempt, "error.type").unwrap_or_default(),
            )
        })
        .collect();
    let of = |index: &str, server: &str, class: &str| {
        (index.to_owned(), server.to_owned(), class.to_owned())
    };
    let expected = [
        of("0", "p0.test", "transient"),
        of("1", "p0.test", "transient"),
        of("2", "p1.test", ""),
    ];
    assert_eq!(told, expected);
    for pair in attempts.windows(2) {
        assert!(pair[0].end_time <= pair[1].start_time);
    }
    assert_eq!(world.events("model_fallback").len(), 1);
    assert_eq!(world.events("model_substitution").len(), 0);
}

/// The refused answer of a fallback is an event; of the primary's, its own span tells.
#[tokio::test(start_paused = true)]
async fn only_a_fallbacks_refused_answer_is_an_event() {
    let prose = || steady(100).with_text("no JSON at all");
    let world = Plan::new(vec![prose(), prose(), steady(100).with_text("{}")]).build();
    let request = ChatRequest {
        output: Output::JsonObject,
        ..ChatRequest::user("hello")
    };
    world
        .router
        .complete(ROLE, request, context())
        .await
        .unwrap();
    let refused = world.events("quality_rejected");
    let [(span, event)] = refused.as_slice() else {
        panic!("one fallback was refused: {refused:?}");
    };
    assert_eq!(span, "evenkeel.request");
    assert_eq!(event["model.fallback"].as_str(), "p1/m");
    let outcomes: Vec<_> = world
        .named("chat m")
        .iter()
        .map(|attempt| text(attempt, "evenkeel.attempt.outcome").unwrap())
        .collect();
    assert_eq!(outcomes, ["rejected_quality", "rejected_quality", "ok"]);
}

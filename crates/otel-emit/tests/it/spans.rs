//! Spans of calls and attempts: their places, names, times, attributes and statuses.

use crate::world::{PARENT, Plan, ROLE, TRACE, World, context, ms, steady, text, typed, value};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::ChatRequest;
use futures_util::StreamExt;
use opentelemetry::trace::{SpanKind, Status};
use opentelemetry_sdk::trace::{Sampler, SpanData};
use std::collections::BTreeMap;
use std::time::Duration;

fn failing() -> Behaviour {
    Behaviour::failing(Fault::status(503))
}

/// Every attribute, typed, in the order of names.
fn attributes(span: &SpanData) -> Vec<String> {
    let all: BTreeMap<_, _> = span
        .attributes
        .iter()
        .map(|kv| (kv.key.to_string(), typed(&kv.value)))
        .collect();
    assert_eq!(all.len(), span.attributes.len(), "none is there twice");
    all.iter().map(|(k, v)| format!("{k} = {v}")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_call_is_a_span_in_the_callers_trace_and_its_attempts_are_below_it() {
    let world = Plan::new(vec![failing(), steady(300)]).build();
    let answer = world.ask().await.unwrap();
    let requests = world.named("evenkeel.request");
    let [request] = requests.as_slice() else {
        panic!("one call, one span: {requests:?}");
    };
    assert_eq!(request.span_context.trace_id().to_string(), TRACE);
    assert_eq!(request.parent_span_id.to_string(), PARENT);
    assert_eq!(request.span_kind, SpanKind::Internal);
    let own = answer.trace.unwrap();
    let expected = format!("00-{TRACE}-{}-01", request.span_context.span_id());
    assert_eq!(*own.traceparent, *expected);
    assert_eq!(&*own.tracestate, "vendor=x");

    let attempts = world.named("chat m");
    assert_eq!(attempts.len(), 2);
    for attempt in &attempts {
        assert_eq!(attempt.parent_span_id, request.span_context.span_id());
        assert_eq!(attempt.span_context.trace_id().to_string(), TRACE);
        assert_eq!(attempt.span_kind, SpanKind::Client);
        assert!(attempt.start_time >= request.start_time);
        assert!(attempt.end_time <= request.end_time);
    }
    let took = |span: &SpanData| span.end_time.duration_since(span.start_time).unwrap();
    assert_eq!(took(&attempts[1]), ms(300));
    assert_eq!(world.spans.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_has_what_the_conventions_name() {
    let world = Plan::new(vec![steady(300)]).build();
    let request = ChatRequest {
        max_output_tokens: Some(99),
        stop: vec!["END".to_owned()],
        sampling: evenkeel_core::Sampling {
            temperature: Some(0.5),
            top_k: Some(40),
            seed: Some(-7),
            ..evenkeel_core::Sampling::default()
        },
        ..ChatRequest::user("hello")
    };
    let mut called = context();
    called.session = Some("conversation-9".into());
    let mut stream = world.router.stream(ROLE, request, called).await.unwrap();
    while stream.next().await.is_some() {}
    let attempt = world.named("chat m").remove(0);
    insta::assert_snapshot!(attributes(&attempt).join("\n"));
    insta::assert_snapshot!(
        "request",
        attributes(&world.named("evenkeel.request")[0]).join("\n")
    );
    // What samplers go by is there from the beginning, as v1.41.1 asks.
    for key in [
        "gen_ai.operation.name",
        "gen_ai.provider.name",
        "gen_ai.request.model",
        "server.address",
        "server.port",
        "agent.role",
    ] {
        let seen = &world.sampled_by("chat m")[0];
        assert!(seen.iter().any(|known| known == key), "{key}: {seen:?}");
    }
    let seen = &world.sampled_by("evenkeel.request")[0];
    assert!(seen.iter().any(|known| known == "agent.role"), "{seen:?}");
}

/// A caller chooses how long its texts are, and a provider its.
#[tokio::test(start_paused = true)]
async fn no_attribute_is_as_long_as_a_caller_likes() {
    let world = Plan::new(vec![steady(100)]).build();
    let long = "x".repeat(100_000);
    let request = ChatRequest {
        stop: vec![long.clone(); 1_000],
        ..ChatRequest::user("hello")
    };
    let mut called = context();
    let text = || Some(long.as_str().into());
    (called.session, called.task, called.workflow) = (text(), text(), text());
    called.request_id = text();
    world.router.complete(ROLE, request, called).await.unwrap();
    for span in world.ended() {
        let events = span.events.iter().flat_map(|event| &event.attributes);
        for kv in span.attributes.iter().chain(events) {
            let length = typed(&kv.value).len();
            assert!(length < 6_000, "{}: {length} bytes", kv.key);
        }
    }
}

// Conformance 2: a failure that another model made good is no failure of the whole.
#[tokio::test(start_paused = true)]
async fn a_503_is_an_error_of_the_attempt_and_not_of_the_call() {
    let world = Plan::new(vec![failing(), steady(300)]).build();
    world.ask().await.unwrap();
    let [failed, answered] = &world.named("chat m")[..] else {
        panic!("two attempts");
    };
    assert_eq!(failed.status, Status::error("overloaded"));
    assert_eq!(text(failed, "error.type").as_deref(), Some("overloaded"));
    assert_eq!(
        text(failed, "evenkeel.attempt.outcome").as_deref(),
        Some("error")
    );
    let code = value(failed, "http.response.status_code");
    assert_eq!(code, Some(opentelemetry::Value::I64(503)));
    assert_eq!(answered.status, Status::Unset);
    let request = &world.named("evenkeel.request")[0];
    assert_eq!(request.status, Status::Unset);
    assert_eq!(text(request, "evenkeel.route").as_deref(), Some("fallback"));
    assert_eq!(
        text(request, "evenkeel.reason").as_deref(),
        Some("overloaded")
    );
    assert_eq!(text(request, "error.type"), None);
    let events = world.events("model_fallback");
    let [(span, event)] = events.as_slice() else {
        panic!("one fallback: {events:?}");
    };
    assert_eq!(span, "evenkeel.request");
    let lines: Vec<_> = event
        .iter()
        .map(|(k, v)| format!("{k} = {}", typed(v)))
        .collect();
    assert_eq!(
        lines,
        [
            "agent.role = \"planner\"",
            "error.type = \"overloaded\"",
            "evenkeel.fallback_depth = 1",
            "fallback_model = \"p1/m\"",
            "http.response.status_code = 503",
            "latency_added_ms = 0.0",
            "primary_model = \"p0/m\"",
            "reason = \"overloaded\"",
            "task_type = \"plan\"",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_is_an_error_and_exhaustion_an_event_of_its_first() {
    let world = Plan::new(vec![failing(), failing()]).build();
    for _ in 0..3 {
        world.ask().await.unwrap_err();
    }
    let requests = world.named("evenkeel.request");
    for request in &requests {
        assert_eq!(request.status, Status::error("roster_exhausted"));
        assert_eq!(text(request, "evenkeel.route").as_deref(), Some("none"));
        assert_eq!(text(request, "evenkeel.outcome").as_deref(), Some("error"));
        assert_eq!(value(request, "model.answered"), None);
    }
    let events = world.events("roster_exhausted");
    assert_eq!(events.len(), 1, "once per episode");
    assert_eq!(
        typed(&events[0].1["exhausted.tried"]),
        r#"["p0/m", "p1/m"]"#
    );
    assert_eq!(typed(&events[0].1["exhausted.refused"]), "[]");
    assert_eq!(typed(&events[0].1["error.type"]), "\"overloaded\"");
}

async fn hedged(primary: u64, fallback: u64) -> World {
    let world = Plan::new(vec![steady(primary), steady(fallback)]).build();
    world.ask().await.unwrap();
    // Losers that are kept open to be measured have closed by then.
    tokio::time::sleep(Duration::from_secs(10)).await;
    world
}

// Conformance 14.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_was_left_for_another_did_not_fail() {
    let world = hedged(1_200, 800).await;
    let request = &world.named("evenkeel.request")[0];
    assert_eq!(text(request, "evenkeel.route").as_deref(), Some("primary"));
    assert_eq!(world.events("model_substitution").len(), 0);
    let attempts = world.named("chat m");
    let lost = attempts
        .iter()
        .find(|a| text(a, "evenkeel.attempt.index").unwrap() == "1");
    let lost = lost.unwrap();
    assert_eq!(lost.status, Status::Unset);
    assert_eq!(
        text(lost, "evenkeel.attempt.outcome").as_deref(),
        Some("abandoned")
    );

    let world = hedged(10_000, 300).await;
    let request = &world.named("evenkeel.request")[0];
    assert_eq!(text(request, "evenkeel.route").as_deref(), Some("hedge"));
    let events = world.events("model_substitution");
    let [(span, event)] = events.as_slice() else {
        panic!("one hedge won: {events:?}");
    };
    assert_eq!(span, "evenkeel.request");
    assert_eq!(event["substitution.scope"].as_str(), "request");
    assert_eq!(event["substitution.reason"].as_str(), "patience_exceeded");
    // The window of the first call of all has nothing to tell.
    assert_eq!(typed(&event["latency.p95_ms"]), "0.0");
    assert_eq!(typed(&event["latency.samples"]), "0");
}

#[tokio::test(start_paused = true)]
async fn a_loser_that_is_kept_has_its_span_until_it_closes() {
    let world = Plan::new(vec![steady(1_900), steady(200)])
        .policy(|p| {
            p.hedge.keep_to_p99 = true;
        })
        .build();
    world.ask().await.unwrap();
    assert_eq!(world.spans.open(), 1, "the loser's");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (request, attempts) = (&world.named("evenkeel.request")[0], world.named("chat m"));
    let loser = attempts
        .iter()
        .find(|a| text(a, "evenkeel.attempt.index").unwrap() == "0");
    let loser = loser.unwrap();
    assert_eq!(
        text(loser, "evenkeel.attempt.outcome").as_deref(),
        Some("abandoned")
    );
    assert!(loser.end_time > request.end_time);
    assert_eq!(
        loser.end_time.duration_since(loser.start_time).unwrap(),
        ms(1_900)
    );
    assert_eq!(world.spans.open(), 0);
}

// Conformance 12, the traces' half.
#[tokio::test(start_paused = true)]
async fn what_is_not_sampled_is_not_sent_and_has_a_context_all_the_same() {
    let world = Plan::new(vec![failing(), steady(300)])
        .sampler(Sampler::AlwaysOff)
        .build();
    let answer = world.ask().await.unwrap();
    assert_eq!(world.ended().len(), 0);
    let own = answer.trace.unwrap().traceparent;
    assert!(
        own.starts_with(&format!("00-{TRACE}-")) && own.ends_with("-00"),
        "{own}"
    );
    assert_eq!(world.spans.open(), 0);
}

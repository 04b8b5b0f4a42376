//! Moves of a role: breaches, substitutions, probes, restorations, breakers.

use crate::world::{Plan, ROLE, World, context, ms, simulated, steady, text, typed};
use evenkeel_chaos::{Behaviour, Fault, Simulated};
use evenkeel_core::{ChatRequest, ModelId, Provider};
use evenkeel_router::{BreakerAction, BreakerTarget};
use opentelemetry::Value;
use opentelemetry::trace::Status;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

type Attributes = BTreeMap<String, Value>;

/// `required` are there, and nothing that is neither required nor `optional`; no number
/// is a text.
fn obeys(event: &Attributes, required: &[&str], optional: &[&str]) {
    for key in required {
        assert!(event.contains_key(*key), "{key} is missing in {event:?}");
    }
    for (key, value) in event {
        let known = required.contains(&key.as_str()) || optional.contains(&key.as_str());
        assert!(known, "{key} is not of the contract");
        if let Value::String(text) = value {
            assert!(text.as_str().parse::<f64>().is_err(), "{key} = {text:?}");
        }
        if key.ends_with("_ms") {
            assert!(matches!(value, Value::F64(_)), "{key} is a double");
        }
    }
}

const SUBSTITUTION: [&str; 6] = [
    "agent.role",
    "model.primary",
    "model.fallback",
    "substitution.reason",
    "latency.p95_ms",
    "latency.p99_ms",
];
const SUBSTITUTION_MORE: [&str; 7] = [
    "latency.slo_p95_ms",
    "latency.slo_p99_ms",
    "latency.samples",
    "substitution.scope",
    "substitution.mid_flight",
    "evenkeel.fallback_depth",
    "evenkeel.degradation_depth",
];

/// Two rungs whose first can be set.
fn two(primary: Behaviour) -> (World, Simulated) {
    two_judged_over(primary, 20)
}

/// Two rungs whose first can be set, and judged by so many seconds.
fn two_judged_over(primary: Behaviour, seconds: u64) -> (World, Simulated) {
    let (first, second) = (simulated(0, primary), simulated(1, steady(300)));
    let rungs: Vec<Arc<dyn Provider>> = vec![Arc::new(first.clone()), Arc::new(second)];
    let world = Plan::of(rungs).policy(|p| {
        p.hedge.mode = evenkeel_roster::HedgeMode::Off;
        p.window = Duration::from_secs(seconds);
    });
    (world.build(), first)
}

async fn ask(world: &World, calls: usize, every: u64) {
    for _ in 0..calls {
        world
            .router
            .complete(ROLE, ChatRequest::user("hello"), context())
            .await
            .unwrap();
        tokio::time::sleep(ms(every)).await;
    }
}

// Conformance 1 and 4: by the percentile, with the spike detector off.
#[tokio::test(start_paused = true)]
async fn a_p95_breach_is_told_once_however_many_calls_see_it() {
    let rungs = vec![steady(1_500), steady(300)];
    let world = Plan::new(rungs)
        .policy(|p| {
            p.hedge.mode = evenkeel_roster::HedgeMode::Off;
            p.spike_detector = false;
        })
        .build();
    let calls = (0..100).map(|_| world.ask());
    let answers = futures_util::future::join_all(calls).await;
    assert!(answers.iter().all(Result::is_ok));
    let events = world.events("model_substitution");
    let [(span, event)] = events.as_slice() else {
        panic!("one move: {events:?}");
    };
    assert_eq!(span, "evenkeel.request");
    obeys(event, &SUBSTITUTION, &SUBSTITUTION_MORE);
    assert_eq!(event["substitution.reason"].as_str(), "latency_p95_breach");
    assert_eq!(event["substitution.scope"].as_str(), "role");
    assert_eq!(typed(&event["latency.slo_p95_ms"]), "1000.0");
    let breaches = world.events("latency_breach");
    let [(span, breach)] = breaches.as_slice() else {
        panic!("a breach is an edge: {breaches:?}");
    };
    assert_eq!(span, "evenkeel.request");
    let required = [
        "agent.role",
        "model.primary",
        "breach.detector",
        "breach.percentile",
        "latency.p95_ms",
        "latency.p99_ms",
        "latency.slo_ms",
    ];
    obeys(
        breach,
        &required,
        &["breach.measure", "latency.samples", "breach.window_s"],
    );
    assert_eq!(breach["breach.detector"].as_str(), "p95");
    assert_eq!(typed(&breach["breach.window_s"]), "20.0");
}

// Conformance 4: five stalled calls after hours of calm.
#[tokio::test(start_paused = true)]
async fn a_spike_is_a_breach_of_p95_found_by_the_spike_detector() {
    // A window full of calm, in which five slow ones are nothing to a percentile.
    let (world, primary) = two_judged_over(steady(200), 600);
    ask(&world, 2_000, 100).await;
    primary.set("m", steady(1_500));
    ask(&world, 6, 100).await;
    let breach = &world.events("latency_breach")[0].1;
    assert_eq!(breach["breach.detector"].as_str(), "spike");
    assert_eq!(breach["breach.percentile"].as_str(), "p95");
    let moved = &world.events("model_substitution")[0].1;
    assert_eq!(moved["substitution.reason"].as_str(), "latency_spike");
}

// Conformance 3, the traces' half.
#[tokio::test(start_paused = true)]
async fn a_recovery_is_told_in_a_span_of_its_own_that_is_linked_to_why() {
    let (world, primary) = two(steady(3_000));
    ask(&world, 6, 100).await;
    assert_eq!(world.events("model_substitution").len(), 1);
    primary.set("m", steady(200));
    // Callers go on: canaries are sessions of theirs.
    for n in 0..2_000 {
        let mut called = context();
        called.session = Some(format!("s{n}").into());
        world
            .router
            .complete(ROLE, ChatRequest::user("hello"), called)
            .await
            .unwrap();
        tokio::time::sleep(ms(500)).await;
        if !world.named("evenkeel.restore").is_empty() {
            break;
        }
    }
    let restores = world.named("evenkeel.restore");
    let [restore] = restores.as_slice() else {
        panic!("one restoration: {restores:?}");
    };
    let affected = restore.links.iter().next().unwrap();
    assert!(affected.span_context.is_valid());
    let calls = world.named("evenkeel.request");
    let linked = calls
        .iter()
        .find(|c| c.span_context.span_id() == affected.span_context.span_id());
    assert_ne!(
        text(linked.unwrap(), "evenkeel.route").as_deref(),
        Some("primary")
    );
    let (_, event) = &world.events("model_restoration")[0];
    obeys(
        event,
        &[
            "agent.role",
            "model.primary",
            "model.fallback",
            "restoration.reason",
            "restoration.duration_ms",
            "latency.p95_ms",
            "latency.p99_ms",
        ],
        &[
            "restoration.probes_ok",
            "restoration.share",
            "latency.samples",
        ],
    );
    assert_eq!(event["restoration.reason"].as_str(), "recovered");
    let mut moved = calls.iter().flat_map(|c| c.events.iter());
    let moved = moved.rfind(|e| e.name == "model_substitution").unwrap();
    let back = restore.events.iter().next().unwrap();
    let lasted = back.timestamp.duration_since(moved.timestamp).unwrap();
    let Value::F64(told) = event["restoration.duration_ms"] else {
        panic!("a double");
    };
    assert!(
        (told - lasted.as_secs_f64() * 1e3).abs() < 0.001,
        "{told} {lasted:?}"
    );
    let probes = world.named("evenkeel.probe");
    assert!(!probes.is_empty());
    for probe in &probes {
        assert_eq!(text(probe, "agent.role").as_deref(), Some(ROLE));
        assert_eq!(text(probe, "model.primary").as_deref(), Some("p0/m"));
        assert_eq!(probe.status, Status::Unset);
        assert_eq!(probe.links.iter().count(), 1);
    }
    let last = text(probes.last().unwrap(), "evenkeel.probe.result");
    assert_eq!(last.as_deref(), Some("ok"));
    assert_eq!(world.spans.open(), 0);
}

// Conformance 5, the traces' half.
#[tokio::test(start_paused = true)]
async fn a_breaker_tells_each_state_on_the_call_that_led_to_it() {
    let (world, primary) = two(Behaviour::failing(Fault::status(503)));
    ask(&world, 6, 100).await;
    primary.set("m", steady(200));
    tokio::time::sleep(Duration::from_secs(120)).await;
    ask(&world, 6, 100).await;
    let transitions: Vec<_> = world
        .events("breaker_transition")
        .into_iter()
        .map(|(span, event)| {
            obeys(
                &event,
                &[
                    "gen_ai.provider.name",
                    "model.primary",
                    "breaker.from",
                    "breaker.to",
                ],
                &["breaker.failures", "breaker.retry_after_ms", "error.type"],
            );
            let of = |key: &str| event[key].as_str().into_owned();
            (span, of("breaker.from"), of("breaker.to"))
        })
        .collect();
    let expected = [
        ("closed", "open"),
        ("open", "half_open"),
        ("half_open", "closed"),
    ];
    let expected = expected.map(|(from, to)| {
        let request = "evenkeel.request".to_owned();
        (request, from.to_owned(), to.to_owned())
    });
    assert_eq!(transitions, expected);
    // By hand it is forced open, and fresh after.
    let model = || BreakerTarget::Model(ModelId::new("p0/m").unwrap());
    let operator = world.router.operator("oncall");
    operator
        .breaker(&model(), BreakerAction::ForceOpen)
        .unwrap();
    operator.breaker(&model(), BreakerAction::Reset).unwrap();
    let forced: Vec<_> = world.events("breaker_transition").split_off(3);
    let forced: Vec<_> = forced
        .iter()
        .map(|(span, event)| {
            let of = |key: &str| event[key].as_str().into_owned();
            (span.as_str(), of("breaker.from"), of("breaker.to"))
        })
        .collect();
    let step = |from: &str, to: &str| ("evenkeel.probe", from.to_owned(), to.to_owned());
    let course = [step("closed", "forced_open"), step("forced_open", "closed")];
    assert_eq!(forced, course);
}

#[tokio::test(start_paused = true)]
async fn what_an_operator_does_has_a_span_of_its_own() {
    let (world, _) = two(steady(200));
    world
        .router
        .operator("oncall")
        .force(ROLE, Some(1))
        .unwrap();
    let (span, event) = &world.events("model_substitution")[0];
    assert_eq!(span, "evenkeel.substitute");
    assert_eq!(event["substitution.reason"].as_str(), "manual");
    assert_eq!(typed(&event["latency.samples"]), "0");
    world.router.operator("oncall").force(ROLE, None).unwrap();
    let (span, event) = &world.events("model_restoration")[0];
    assert_eq!(span, "evenkeel.restore");
    assert_eq!(event["restoration.reason"].as_str(), "manual");
}

//! Two attempts of one call: one answer, one bill each.

use super::{failing, text};
use crate::world::{Plan, ROLE, World, ms, steady, told};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{
    AttemptOutcome, CallContext, ChatRequest, ChatResponse, Class, Delta, EventKind, EventStream,
    Failure, Finish, Provider, ProviderCall, StreamEvent, Usage, Value,
};
use evenkeel_roster::Signal;
use evenkeel_router::CallErrorKind;
use futures_util::StreamExt;
use futures_util::stream::{iter, once, pending};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

// ---- both fail: the primary's error with the other as detail (C167)

#[tokio::test(start_paused = true)]
async fn a_race_that_both_lose_ends_in_the_primarys_error_with_the_other_as_detail() {
    let dies = |status, after| failing(status).with_fault_delay(ms(after));
    for (primary, hedge, first) in [
        (dies(500, 1_500), dies(503, 300), "the hedge"),
        (dies(500, 1_200), dies(503, 400), "the primary"),
        (dies(500, 1_400), dies(503, 400), "both at once"),
    ] {
        for streamed in [false, true] {
            let world = Plan::new(vec![primary.clone(), hedge.clone()]).build();
            let error = text(&world, streamed).await.unwrap_err();
            let CallErrorKind::Exhausted(ends) = &error.kind else {
                panic!("{error}")
            };
            let named: Vec<_> = ends
                .iter()
                .map(|e| (e.model.to_string(), e.end.as_str()))
                .collect();
            let expected = [
                ("p0/m".to_owned(), "transient"),
                ("p1/m".to_owned(), "overloaded"),
            ];
            assert_eq!(named, expected, "{first} first, streamed: {streamed}");
            assert_eq!(error.kind.class(), Some(Class::Transient));
            assert_eq!(world.stats(0).in_flight + world.stats(1).in_flight, 0);
        }
    }
}

// ---- nothing that must not run twice runs twice (C168)

async fn ask_with_field(
    world: &World,
    key: &str,
    value: &Value,
) -> Result<Vec<String>, Vec<String>> {
    let mut request = ChatRequest::user("hello");
    request.extra.dialect = "openai";
    request.extra.fields.insert(key.to_owned(), value.clone());
    let context = CallContext::default();
    match world.router.complete(ROLE, request, context).await {
        Ok(answer) => Ok(told(&answer.trail)),
        Err(error) => Err(told(&error.trail)),
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_with_state_at_the_provider_runs_once_or_not_at_all() {
    for (key, value) in [
        ("store", Value::from(true)),
        ("previous_response_id", "resp_1".into()),
        ("container", "c_1".into()),
        ("background", true.into()),
    ] {
        // Accepted, or perhaps accepted: no other model is asked.
        for fault in [
            Fault::status(500),
            Fault::status(504),
            Fault::Reset,
            Fault::Empty,
        ] {
            let world = Plan::new(vec![Behaviour::failing(fault.clone()), steady(100)])
                .policy(|p| p.retry.transient = 3)
                .build();
            let trail = ask_with_field(&world, key, &value).await.unwrap_err();
            assert_eq!(trail.len(), 1, "{key}, {fault:?}: {trail:?}");
            assert_eq!(world.stats(1).started, 0, "{key}, {fault:?}");
        }
        // Refused before it was accepted: another may take it.
        for fault in [Fault::status(429), Fault::status(503), Fault::Refuse] {
            let world = Plan::new(vec![Behaviour::failing(fault.clone()), steady(100)]).build();
            let trail = ask_with_field(&world, key, &value).await.unwrap();
            assert_eq!(trail.last().unwrap(), "1 failover won", "{key}, {fault:?}");
        }
        // Absent or switched off is no state.
        let world = Plan::new(vec![steady(1_500), steady(100)]).build();
        let off = ask_with_field(&world, key, &Value::Null).await;
        assert_eq!(off.unwrap(), ["0 first lost", "1 hedge won"], "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_answers_at_the_same_instant_are_one_answer() {
    for streamed in [false, true] {
        let world = Plan::new(vec![steady(1_300), steady(300)]).build();
        let (text, _) = text(&world, streamed).await.unwrap();
        let from = [text.contains("[[p0/m]]"), text.contains("[[p1/m]]")];
        assert_eq!(from.iter().filter(|f| **f).count(), 1, "{text}");
        let won = world
            .memory
            .count(|k| matches!(k, EventKind::AttemptEnded { outcome, .. } if *outcome == "ok"));
        assert_eq!(won, 1);
    }
}

// ---- quick is not good (C174)

#[tokio::test(start_paused = true)]
async fn a_quick_useless_answer_does_not_win_the_race() {
    for fault in [
        Fault::Empty,
        Fault::NoChoices,
        Fault::TruncatedJson,
        Fault::Html { status: 200 },
    ] {
        let useless = Behaviour::failing(fault.clone());
        let world = Plan::new(vec![steady(1_600), useless]).build();
        let answer = world.ask().await.unwrap();
        assert_eq!(answer.meta.rung, 0, "{fault:?}");
        assert!(answer.response.plain_text().contains("[[p0/m]]"));
    }
}

// ---- every attempt has its own bill (C166)

/// Reports tokens at once, then goes on as told.
#[derive(Debug, Clone)]
struct Billed {
    usage: Usage,
    then: Then,
}

#[derive(Debug, Clone)]
enum Then {
    Silence,
    Answer,
    Break,
}

fn tokens(input: u64, output: u64) -> Usage {
    Usage {
        input,
        output,
        ..Usage::default()
    }
}

#[async_trait::async_trait]
impl Provider for Billed {
    async fn complete(&self, _: ProviderCall) -> Result<ChatResponse, Failure> {
        unreachable!("the role watches first tokens")
    }

    async fn stream(&self, _: ProviderCall) -> Result<EventStream, Failure> {
        let bill = once(std::future::ready(Ok(StreamEvent::Usage(self.usage))));
        let text = Ok(StreamEvent::Delta(Delta::Text("fine".to_owned())));
        Ok(match self.then {
            Then::Silence => bill.chain(pending()).boxed(),
            Then::Answer => {
                let end = [StreamEvent::Finish(Finish::Stop), StreamEvent::End].map(Ok);
                bill.chain(iter([text].into_iter().chain(end))).boxed()
            }
            Then::Break => {
                let broken = Err(Failure::new(Class::Transient, "lost"));
                bill.chain(iter([text, broken])).boxed()
            }
        })
    }
}

fn billed(first: Then) -> World {
    let bills = [
        Billed {
            usage: tokens(100, 1),
            then: first,
        },
        Billed {
            usage: tokens(10, 5),
            then: Then::Answer,
        },
    ];
    Plan::new(vec![steady(1), steady(1)])
        .policy(|p| p.signal = Signal::FirstToken)
        .provider(move |i, _| Arc::new(bills[i].clone()))
        .build()
}

fn bills(world: &World) -> Vec<(usize, &'static str, Option<Usage>)> {
    world.memory.all(|k| match k {
        EventKind::AttemptEnded {
            attempt,
            outcome,
            usage,
            ..
        } => Some((*attempt, *outcome, *usage)),
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn what_a_lost_or_failed_attempt_used_is_its_own() {
    for (first, outcome) in [(Then::Silence, "abandoned"), (Then::Break, "error")] {
        let world = billed(first);
        let answer = world.ask().await.unwrap();
        assert_eq!(answer.response.usage, Some(tokens(10, 5)));
        assert_eq!(
            bills(&world),
            [
                (0, outcome, Some(tokens(100, 1))),
                (1, "ok", Some(tokens(10, 5)))
            ]
        );
        assert_eq!(answer.trail.attempts().count(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_cancelled_attempt_used_is_told_and_nobodys_answer() {
    let world = billed(Then::Silence);
    assert!(timeout(ms(500), world.ask()).await.is_err());
    assert_eq!(bills(&world), [(0, "cancelled", Some(tokens(100, 1)))]);
}

#[tokio::test(start_paused = true)]
async fn what_an_attempt_has_not_reported_is_at_least_its_input_and_not_nothing() {
    let world = Plan::new(vec![steady(10_000), steady(300)]).build();
    let answer = world.ask().await.unwrap();
    let bills = bills(&world);
    let [lost, won] = &*answer.trail.attempts().collect::<Vec<_>>() else {
        panic!("two attempts");
    };
    assert_eq!(bills[0], (0, "abandoned", lost.usage));
    assert!(
        lost.usage
            .is_some_and(|usage| usage.input > 0 && usage.output == 0)
    );
    assert!(lost.usage_estimated && !won.usage_estimated);
    assert!(answer.trail.spent().at_least);
    assert_eq!(bills[1], (1, "ok", answer.response.usage));
    assert!(answer.response.usage.is_some());
}

// ---- the caller leaves

// C181
#[tokio::test(start_paused = true)]
async fn an_abandoned_stream_is_told_to_its_end_once() {
    let long = steady(100).with_tokens(10).with_inter_token(ms(50));
    let world = Plan::new(vec![long, steady(100)]).build();
    let mut stream = world.stream().await.unwrap();
    let mut pieces = 0;
    while pieces < 2 {
        let event = stream.next().await.unwrap().unwrap();
        pieces += usize::from(event.is_content());
    }
    drop(stream);
    sleep(Duration::from_secs(10)).await;
    let ends = world.memory.all(|k| match k {
        EventKind::AttemptEnded {
            outcome,
            first_token,
            ..
        } => Some((*outcome, *first_token)),
        EventKind::CallEnded { outcome, trail, .. } => {
            let attempt = trail.attempts().next().unwrap();
            assert!(matches!(attempt.outcome, AttemptOutcome::Cancelled));
            Some((*outcome, None))
        }
        _ => None,
    });
    assert_eq!(ends, [("cancelled", Some(ms(100))), ("cancelled", None)]);
    assert_eq!(world.stats(1).started, 0);
}

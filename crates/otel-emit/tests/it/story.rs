//! A trace that reads as a story.

use crate::world::{Plan, ROLE, context, ms, steady, typed};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::ChatRequest;
use futures_util::StreamExt;
use opentelemetry_sdk::trace::SpanData;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

/// Attributes that tell the story; the others are tested elsewhere.
const TOLD: [&str; 12] = [
    "evenkeel.attempt.outcome",
    "evenkeel.reason",
    "evenkeel.route",
    "error.type",
    "model.answered",
    "model.primary",
    "model.fallback",
    "primary_model",
    "fallback_model",
    "reason",
    "substitution.reason",
    "substitution.scope",
];

/// One line for each beginning, end and event, in the order of time.
fn story(spans: &[SpanData]) -> String {
    let began = spans.iter().map(|span| span.start_time).min().unwrap();
    let mut lines: Vec<(SystemTime, usize, String)> = Vec::new();
    let mut by_start: Vec<&SpanData> = spans.iter().collect();
    by_start.sort_by_key(|span| (span.start_time, span.name == "chat m"));
    let told = |attributes: &[opentelemetry::KeyValue]| {
        let mut line = String::new();
        for kv in attributes
            .iter()
            .filter(|kv| TOLD.contains(&kv.key.as_str()))
        {
            write!(line, " {}={}", kv.key, typed(&kv.value)).unwrap();
        }
        line
    };
    for span in by_start {
        let index = span
            .attributes
            .iter()
            .find(|kv| kv.key.as_str() == "evenkeel.attempt.index");
        let name = match index {
            Some(index) => format!("  {} #{}", span.name, index.value),
            None => span.name.to_string(),
        };
        lines.push((span.start_time, 0, format!("{name} begins")));
        for event in &span.events.events {
            let line = format!("  * {}{}", event.name, told(&event.attributes));
            lines.push((event.timestamp, 1, line));
        }
        let end = format!("{name} ends{} {:?}", told(&span.attributes), span.status);
        lines.push((span.end_time, 2, end));
    }
    lines.sort_by_key(|(at, order, _)| (*at, *order));
    let mut story = String::new();
    for (at, _, line) in lines {
        let at = at.duration_since(began).unwrap();
        writeln!(story, "{:>6} ms {line}", at.as_millis()).unwrap();
    }
    story
}

/// The primary is slow, the hedge beside it is refused for want of capacity, the next
/// one's stream breaks in the middle, and the last goes on with it.
#[tokio::test(start_paused = true)]
async fn a_hedged_failed_over_resumed_stream_reads_as_a_story() {
    let breaking = steady(400)
        .with_tokens(40)
        .with_inter_token(ms(20))
        .with_fault(Fault::CutAfter(10));
    let rungs = vec![
        steady(30_000),
        Behaviour::failing(Fault::status(503)),
        breaking,
        steady(300).with_tokens(40),
    ];
    let world = Plan::new(rungs)
        .model(|rung, model| {
            if rung == 3 {
                model.prefill = Some(true);
            }
        })
        .build();
    let mut stream = world
        .router
        .stream(ROLE, ChatRequest::user("hello"), context())
        .await
        .unwrap();
    while let Some(event) = stream.next().await {
        event.unwrap();
    }
    drop(stream);
    tokio::time::sleep(Duration::from_secs(5)).await;
    insta::assert_snapshot!(story(&world.ended()));
}

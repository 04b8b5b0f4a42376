//! Events as log records, in the context of their span.

use crate::world::{Plan, TRACE, steady};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_otel_emit::spans::{EventLog, EventsAs, Records};
use evenkeel_otel_emit::{Capture, CaptureContent};
use opentelemetry::logs::LoggerProvider as _;
use opentelemetry_sdk::logs::{InMemoryLogExporter, SdkLoggerProvider};
use opentelemetry_sdk::trace::Sampler;
use std::sync::Arc;

fn log() -> (Arc<dyn EventLog>, InMemoryLogExporter, SdkLoggerProvider) {
    let exporter = InMemoryLogExporter::default();
    let provider = SdkLoggerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    (Arc::new(provider.logger("evenkeel")), exporter, provider)
}

/// Events on spans, and records, of one call that fell back.
async fn told(events_as: EventsAs) -> (usize, Vec<String>) {
    let (log, records, _provider) = log();
    let world = Plan::new(vec![Behaviour::failing(Fault::status(503)), steady(100)])
        .records(Records::new(events_as, log))
        .build();
    world.ask().await.unwrap();
    let names = records.get_emitted_logs().unwrap().into_iter().map(|log| {
        let context = log.record.trace_context().unwrap();
        assert_eq!(context.trace_id.to_string(), TRACE);
        let request = &world.named("evenkeel.request")[0].span_context;
        assert_eq!(context.span_id, request.span_id());
        assert!(log.record.attributes_iter().count() >= 6);
        log.record.event_name().unwrap().to_owned()
    });
    (world.events("model_fallback").len(), names.collect())
}

#[tokio::test(start_paused = true)]
async fn events_go_where_they_are_asked_for() {
    let record = || vec!["evenkeel.model_fallback_activated".to_owned()];
    assert_eq!(told(EventsAs::Span).await, (1, vec![]));
    assert_eq!(told(EventsAs::Log).await, (0, record()));
    assert_eq!(told(EventsAs::Both).await, (1, record()));
}

/// What was said, as events of their own: each one's name, and whether it is on the span of
/// an attempt.
async fn said(sampler: Sampler) -> Vec<(String, bool)> {
    let (log, records, _provider) = log();
    let capture = Capture {
        content: CaptureContent::Event,
        redaction: None,
    };
    let world = Plan::new(vec![steady(100)])
        .records(Records::new(EventsAs::Span, log))
        .capture(capture)
        .sampler(sampler)
        .build();
    world.ask().await.unwrap();
    let attempts = world.named("chat m");
    let said = records.get_emitted_logs().unwrap().into_iter().map(|log| {
        let span = log.record.trace_context().unwrap().span_id;
        let is_of =
            |attempt: &opentelemetry_sdk::trace::SpanData| attempt.span_context.span_id() == span;
        let name = log.record.event_name().unwrap().to_owned();
        (name, attempts.iter().any(is_of))
    });
    said.collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_said_in_a_call_that_is_not_sampled_is_kept_nowhere() {
    let asked_and_answered = ("gen_ai.client.inference.operation.details".to_owned(), true);
    let kept = said(Sampler::AlwaysOn).await;
    assert_eq!(kept, [asked_and_answered.clone(), asked_and_answered]);
    assert_eq!(said(Sampler::AlwaysOff).await, []);
}

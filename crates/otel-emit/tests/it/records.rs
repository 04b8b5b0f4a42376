//! Events as log records, in the context of their span.

use crate::world::{Plan, TRACE, steady};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_otel_emit::spans::{EventLog, EventsAs, Records};
use opentelemetry::logs::LoggerProvider as _;
use opentelemetry_sdk::logs::{InMemoryLogExporter, SdkLoggerProvider};
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

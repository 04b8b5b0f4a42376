//! A Rust application that traces itself.

use crate::world::{Plan, ROLE, steady};
use evenkeel_core::{CallContext, ChatRequest};
use evenkeel_otel_emit::TracingContext as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use tracing_subscriber::layer::SubscriberExt as _;

#[tokio::test(start_paused = true)]
async fn a_call_stands_in_the_span_that_the_application_is_in() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("agent"));
    let subscriber = tracing_subscriber::registry().with(layer);
    // With a single dispatcher whichever thread first comes by a span decides for all whether
    // anybody sees it.
    let _another = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let called = tracing::subscriber::with_default(subscriber, || {
        let outside = CallContext::default().in_current_span();
        assert_eq!(outside.trace, None);
        tracing::info_span!("agent.step").in_scope(|| CallContext::default().in_current_span())
    });
    let world = Plan::new(vec![steady(100)]).build();
    let request = ChatRequest::user("hello");
    world.router.complete(ROLE, request, called).await.unwrap();
    let step = &exporter.get_finished_spans().unwrap()[0];
    let own = &world.named("evenkeel.request")[0];
    assert_eq!(own.span_context.trace_id(), step.span_context.trace_id());
    assert_eq!(own.parent_span_id, step.span_context.span_id());
}

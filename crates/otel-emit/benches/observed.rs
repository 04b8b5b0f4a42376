//! What it costs to observe one call that failed over: three spans, an event, its numbers.

use criterion::{Criterion, criterion_group, criterion_main};
use evenkeel_chaos::{Behaviour, Fault, Latency, Simulated};
use evenkeel_core::{
    CallContext, ChatRequest, Event, ModelId, Observer, SystemClock, TraceContext,
};
use evenkeel_otel_emit::spans::Spans;
use evenkeel_roster::{Config, RoleConfig, RolePolicy, RungConfig};
use evenkeel_router::Router;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchSpanProcessor, Sampler, SdkTracerProvider, SpanData, SpanExporter,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Takes spans and forgets them.
#[derive(Debug)]
struct Nowhere;

impl SpanExporter for Nowhere {
    async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Memory(Mutex<Vec<Event>>);

impl Observer for Memory {
    fn on(&self, event: &Event) {
        self.0
            .lock()
            .expect("nobody panics here")
            .push(event.clone());
    }
}

/// What the router tells of one call whose primary is overloaded.
fn events() -> Vec<Event> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let memory = Arc::new(Memory::default());
    runtime.block_on(async {
        let ids = ["p0/m", "p1/m"].map(|id| ModelId::new(id).expect("a model"));
        let second = Duration::from_secs(1);
        let role = RoleConfig {
            name: "planner".to_owned(),
            policy: RolePolicy::new(second, 2 * second, 20 * second),
            rungs: vec![
                RungConfig::primary(ids[0].clone()),
                RungConfig::fallback(ids[1].clone(), 0.9),
            ],
        };
        let config = Config {
            roles: BTreeMap::from([("planner".to_owned(), role)]),
            ..Config::default()
        };
        let models = [
            Behaviour::failing(Fault::status(503)),
            Behaviour::healthy(Latency::millis(300)).with_tokens(5),
        ];
        let mut builder = Router::builder(&config).observer(memory.clone());
        for (rung, behaviour) in models.into_iter().enumerate() {
            let name = format!("p{rung}");
            let model = Simulated::new(&name, 1).model("m", behaviour);
            builder = builder.provider(&name, Arc::new(model));
        }
        let router = builder.build().expect("a router");
        let context = CallContext {
            request_id: Some("req-1".into()),
            trace: Some(TraceContext {
                traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
                tracestate: "".into(),
            }),
            ..CallContext::default()
        };
        router
            .complete("planner", ChatRequest::user("hello"), context)
            .await
            .expect("the fallback answers");
    });
    let events = memory.0.lock().expect("nobody panics here");
    events.clone()
}

fn observed(c: &mut Criterion) {
    let events = events();
    let mut group = c.benchmark_group("call_that_failed_over");
    for (name, sampler) in [
        ("sampled", Sampler::AlwaysOn),
        ("unsampled", Sampler::AlwaysOff),
    ] {
        let provider = SdkTracerProvider::builder()
            .with_sampler(sampler)
            .with_span_processor(BatchSpanProcessor::builder(Nowhere).build())
            .build();
        let spans = Spans::new(provider.tracer("evenkeel"), Arc::new(SystemClock));
        group.bench_function(name, |b| {
            b.iter(|| {
                for event in &events {
                    spans.on(event);
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, observed);
criterion_main!(benches);

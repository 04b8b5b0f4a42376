//! What a call costs the one who makes it for being recorded, and what its record costs the
//! writer. `cargo bench -p evenkeel-otel-emit --bench audit`.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use evenkeel_core::{
    AttemptKind, AttemptOutcome, AttemptRecord, CallId, Class, Event, EventKind, Failure, Meta,
    ModelId, Observer as _, PolicyStamp, Reported, Route, TraceContext, Trail, TrailStep, Usage,
};
use evenkeel_otel_emit::audit::{
    AuditLog, AuditSink, AuditStatus, Chain, FileSink, FileSinkConfig, Record, SyncPolicy,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const CANNOT: &str = "a name of its own makes no fault";

fn attempt(index: usize, model: &ModelId, outcome: AttemptOutcome) -> TrailStep {
    TrailStep::Attempt(AttemptRecord {
        index,
        rung: index,
        model: model.clone(),
        kind: AttemptKind::First,
        started: Duration::from_millis(400),
        first_token: Some(Duration::from_millis(700)),
        ended: Some(Duration::from_millis(1_900)),
        outcome,
        usage: Some(Usage {
            input: 812,
            output: 144,
            ..Usage::default()
        }),
        usage_estimated: false,
        cost: None,
    })
}

/// The events of a call that failed at its primary and was answered by a fallback.
fn call() -> [Event; 3] {
    let primary = ModelId::new("openai/gpt-4o").expect(CANNOT);
    let fallback = ModelId::new("anthropic/claude-haiku-4-5").expect(CANNOT);
    let failed = AttemptOutcome::Failed(Failure::new(Class::Overloaded, "busy"));
    let trail = Trail {
        steps: vec![
            attempt(0, &primary, failed),
            attempt(1, &fallback, AttemptOutcome::Won),
        ],
    };
    let role: Arc<str> = Arc::from("planner");
    let id: Option<Arc<str>> = Some(Arc::from("evk-0123456789abcdef-2a"));
    let policy = Some(Arc::new(PolicyStamp {
        version: Some(Arc::from("2026-11-29.1")),
        sha256: Arc::from("c851b0030165d7609f7921cedc50e45f3c277a46266c1bc05418910be16d2777"),
    }));
    let trace = Some(TraceContext {
        traceparent: Arc::from("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        tracestate: Arc::from(""),
    });
    let added = Duration::from_millis(412);
    let meta = Meta {
        role: role.to_string(),
        model_id: fallback.clone(),
        rung: 1,
        route: Route::Fallback,
        primary: primary.clone(),
        capability_score: 0.9,
        quality_ratio: 0.9,
        degraded: true,
        fallback_reason: Some("overloaded"),
        notice: None,
        attempts: 2,
        latency_added: added,
        adapted: Vec::new(),
        cost_usd: None,
        added_cost_usd: None,
        cost_is_estimate: false,
    };
    let kinds = [
        EventKind::CallStarted {
            role: role.clone(),
            task: None,
            request_id: id.clone(),
            workflow: None,
            session: None,
            caller: None,
            primary: primary.clone(),
            deadline: Duration::from_secs(120),
            streams: false,
            policy: policy.clone(),
            trace: trace.clone(),
        },
        EventKind::ModelFallback {
            role: role.clone(),
            task: None,
            request_id: id.clone(),
            primary: primary.clone(),
            fallback,
            rung: 1,
            reason: "overloaded",
            class: Some(Class::Overloaded),
            status: Some(503),
            latency_added: added,
        },
        EventKind::CallEnded {
            role,
            task: None,
            request_id: id,
            workflow: None,
            caller: None,
            primary,
            policy,
            outcome: "ok",
            meta: Some(meta),
            route: Route::Fallback,
            reason: Some("overloaded"),
            class: None,
            error: None,
            prompt_variant: None,
            reported: Reported::default(),
            depth: 1,
            duration: Duration::from_millis(1_900),
            trail: Arc::new(trail),
            trace,
        },
    ];
    let call = Some(CallId::next());
    kinds.map(|kind| Event {
        at: tokio::time::Instant::now().into_std(),
        call,
        kind,
    })
}

/// Keeps the last record.
#[derive(Debug, Default)]
struct Last(Mutex<Option<Record>>);

impl AuditSink for Last {
    fn append(&self, record: Box<Record>) {
        if let Ok(mut last) = self.0.lock() {
            *last = Some(*record);
        }
    }

    fn status(&self) -> AuditStatus {
        AuditStatus::default()
    }
}

fn recorded(criterion: &mut Criterion) {
    let events = call();
    let folder = tempfile::tempdir().expect("a folder for the log");
    let mut config = FileSinkConfig::new(folder.path().to_owned(), "gw-1");
    config.sync = SyncPolicy::Never;
    let sink = Arc::new(FileSink::open(&config).expect("the log opens"));
    let log = AuditLog::new(sink.clone(), None);
    criterion.bench_function("audit/on, a call with a fallback", |bench| {
        bench.iter_batched(
            // The queue is not to be full: what is lost costs nothing.
            || sink.status().waiting > 2_000 && sink.flush(Duration::from_secs(60)),
            |_| {
                for event in &events {
                    log.on(event);
                }
            },
            BatchSize::PerIteration,
        );
    });
    assert_eq!(sink.status().lost, 0);
    sink.close(Duration::from_secs(60));
    let last = Arc::new(Last::default());
    AuditLog::new(last.clone(), None).on(&events[2]);
    let record = last.0.lock().ok().and_then(|mut last| last.take());
    let record = record.expect("a call's end is recorded");
    let mut chain = Chain::new("gw-1", true);
    criterion.bench_function("audit/seal, an answer", |bench| {
        bench.iter(|| chain.seal(record.clone()));
    });
}

criterion_group!(benches, recorded);
criterion_main!(benches);

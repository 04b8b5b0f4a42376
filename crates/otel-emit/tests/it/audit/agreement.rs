//! Records and metrics of one process agree exactly.

use super::world::{World, ms, steady};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{DrillKind, ModelId, SystemClock};
use evenkeel_otel_emit::audit::{AuditSink as _, RecordKind};
use evenkeel_otel_emit::metrics::{Build, Catalogue, Exposition, Metrics, Snapshot};
use evenkeel_otel_emit::spans::Spans;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{InMemorySpanExporter, Sampler, SdkTracerProvider};
use serde_json::Value;
use std::sync::Arc;
use tokio::time::{sleep, timeout};

/// The sum of a family's samples, those with `but` left out.
fn sum(text: &str, family: &str, but: &str) -> u64 {
    let samples = text.lines().filter(|line| {
        let name = line.split(['{', ' ']).next();
        name == Some(family) && (but.is_empty() || !line.contains(but))
    });
    let values = samples.map(|line| line.rsplit(' ').next().unwrap());
    values.map(|value| value.parse::<u64>().unwrap()).sum()
}

/// A course in which everything happens, some of it side by side.
async fn everything(world: &World) {
    let at_once = |name: &'static str, count: usize| async move {
        let calls = (0..count).map(|n| async move { world.ask(&format!("{name}-{n}")).await });
        futures_util::future::join_all(calls).await
    };
    at_once("calm", 8).await;
    // Hedges, breach, substitution, restoration.
    world.set(0, steady(5_000));
    at_once("slow", 12).await;
    world.set(1, steady(6_000));
    at_once("slower", 8).await;
    world.set(0, steady(100));
    world.set(1, steady(100));
    sleep(ms(20_000)).await;
    at_once("back", 4).await;
    // A hedge that loses.
    world.set(0, steady(1_200));
    world.set(1, steady(5_000));
    at_once("lost", 2).await;
    world.set(1, steady(100));
    // Failures, fallbacks, breakers, and nothing left.
    let failing = |status| Behaviour::failing(Fault::status(status));
    world.set(0, failing(503));
    at_once("fallback", 9).await;
    world.set(1, failing(500));
    world.set(2, failing(401));
    at_once("nothing", 9).await;
    for rung in 0..3 {
        world.set(rung, steady(100));
    }
    sleep(ms(400_000)).await;
    for _ in 0..4 {
        at_once("well", 2).await;
    }
    // Callers who leave.
    world.set(0, steady(900));
    let left = (0..3).map(|n| timeout(ms(50 * n), world.ask("left")));
    futures_util::future::join_all(left).await;
    let model = ModelId::new("p0/m").unwrap();
    let operator = world.router.operator("oncall");
    let drill = operator
        .start_drill(DrillKind::Eol, &model, ms(60_000))
        .unwrap();
    at_once("drill", 3).await;
    operator.end_drill(drill).unwrap();
    sleep(ms(10_000)).await;
}

/// What was told of such a course.
struct Told {
    records: Vec<Value>,
    metrics: String,
    spans: usize,
}

/// The course with everything that observes, of whose traces `sampler` keeps some.
async fn observed(sampler: Sampler) -> Told {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_sampler(sampler)
        .with_simple_exporter(exporter.clone())
        .build();
    let spans = Arc::new(Spans::new(
        provider.tracer("evenkeel"),
        Arc::new(SystemClock),
    ));
    let exposition = Exposition::new().unwrap();
    let build = Build {
        version: "1",
        revision: "r",
    };
    let metrics = Metrics::new(&exposition.meter(), Catalogue::default(), build);
    let metrics = Arc::new(metrics);
    let calm = [steady(100), steady(100), steady(100)];
    let world = World::logged(calm, "", vec![spans.clone(), metrics.clone()], |log| {
        log.with_traces(spans.clone())
    });
    everything(&world).await;
    world.router.shutdown().await;
    metrics.show(Snapshot {
        audit: Some(world.memory.status()),
        ..Snapshot::default()
    });
    assert_eq!((world.log.open_calls(), spans.open()), (0, 0));
    Told {
        records: world.memory.records(),
        metrics: exposition.text().unwrap(),
        spans: exporter.get_finished_spans().unwrap().len(),
    }
}

/// Every count of records that the contract says to be one of metrics, and both to be there.
fn agree(told: &Told) {
    let of = |kind: RecordKind| {
        let records = told.records.iter();
        records.filter(|r| r["kind"] == kind.as_str()).count() as u64
    };
    for (kind, family, but) in [
        (RecordKind::Answer, "evenkeel_requests_total", ""),
        (RecordKind::Substitution, "evenkeel_substitutions_total", ""),
        (RecordKind::Restoration, "evenkeel_restorations_total", ""),
        (
            RecordKind::LatencyBreach,
            "evenkeel_latency_breaches_total",
            "",
        ),
        (
            RecordKind::Hedge,
            "evenkeel_hedges_total",
            "result=\"refused\"",
        ),
        (RecordKind::Fallback, "evenkeel_fallbacks_total", ""),
        (
            RecordKind::Breaker,
            "evenkeel_breaker_transitions_total",
            "",
        ),
    ] {
        assert!(of(kind) > 0, "no {kind} came about");
        assert_eq!(
            of(kind),
            sum(&told.metrics, family, but),
            "{kind}, {family}"
        );
    }
    for kind in RecordKind::ALL {
        let own = format!("evenkeel_audit_records_total{{kind=\"{kind}\"}} ");
        let count = told.metrics.lines().find_map(|l| l.strip_prefix(&own));
        let count = count.map_or(0, |count| count.parse().unwrap());
        assert_eq!(of(kind), count, "{kind}");
    }
    let all = sum(&told.metrics, "evenkeel_audit_records_total", "");
    assert_eq!(told.records.len() as u64, all);
}

#[tokio::test(start_paused = true)]
async fn records_and_metrics_count_the_same() {
    let told = observed(Sampler::AlwaysOn).await;
    agree(&told);
    assert!(told.spans > 100);
}

/// A record but for what no two runs have in common.
fn essence(record: &Value) -> Value {
    let mut record = record.clone();
    let members = record.as_object_mut().unwrap();
    for own in ["time", "span_id", "prev", "hash"] {
        members.remove(own);
    }
    record
}

/// Metrics but for what no two runs have in common: how long things took in earnest.
fn counts(told: &Told) -> Vec<&str> {
    let lines = told.metrics.lines();
    lines.filter(|line| !line.contains("_sum")).collect()
}

// Conformance 12.
#[tokio::test(start_paused = true)]
async fn with_no_trace_sampled_metrics_and_records_are_whole() {
    let all = observed(Sampler::AlwaysOn).await;
    let none = observed(Sampler::AlwaysOff).await;
    assert_eq!(none.spans, 0);
    agree(&none);
    let essences = |told: &Told| told.records.iter().map(essence).collect::<Vec<_>>();
    assert_eq!(essences(&all), essences(&none));
    assert_eq!(counts(&all), counts(&none));
    assert!(
        none.records
            .iter()
            .all(|record| { record["kind"] != "answer" || record["trace_id"].as_str().is_some() })
    );
}

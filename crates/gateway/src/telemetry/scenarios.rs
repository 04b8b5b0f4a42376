//! Every scenario there is, as traces.

use evenkeel_core::{Event, EventKind, Observer as _, SystemClock};
use evenkeel_document::SourceFile;
use evenkeel_otel_emit::spans::Spans;
use evenkeel_replay::{Scenario, replay};
use opentelemetry::Value;
use opentelemetry::trace::{Status, TracerProvider as _};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// Spans beside those of attempts.
const NAMES: [&str; 5] = [
    "evenkeel.request",
    "evenkeel.quality_gate",
    "evenkeel.probe",
    "evenkeel.restore",
    "evenkeel.substitute",
];

fn text(span: &SpanData, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|kv| kv.key.as_str() == key);
    found.map(|kv| kv.value.to_string())
}

/// The spans of a scenario, and how many attempts it began.
fn traced(scenario: &Scenario) -> (Vec<SpanData>, usize) {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let spans = Spans::new(provider.tracer("evenkeel"), Arc::new(SystemClock));
    let began = tokio::time::Instant::now().into_std();
    let mut attempts = 0;
    for told in replay(scenario).unwrap().events {
        attempts += usize::from(matches!(told.kind, EventKind::AttemptStarted { .. }));
        spans.on(&Event {
            at: began + told.at,
            call: told.call,
            kind: told.kind,
        });
    }
    assert_eq!(spans.open(), 0, "nothing stays open");
    (exporter.get_finished_spans().unwrap(), attempts)
}

fn check_request(span: &SpanData) {
    let failed = text(span, "evenkeel.outcome").as_deref() == Some("error");
    assert_eq!(
        matches!(span.status, Status::Error { .. }),
        failed,
        "{span:?}"
    );
    assert_eq!(text(span, "error.type").is_some(), failed, "{span:?}");
    let is_primary = text(span, "evenkeel.route").as_deref() == Some("primary");
    assert_eq!(
        text(span, "evenkeel.reason").is_none(),
        is_primary,
        "{span:?}"
    );
    // Whoever adds usage up counts attempts alone.
    let conventions = span.attributes.iter().map(|kv| kv.key.as_str());
    assert_eq!(
        conventions.filter(|key| key.starts_with("gen_ai.")).count(),
        0
    );
}

fn check_attempt(span: &SpanData) {
    let failed = text(span, "error.type").is_some();
    assert_eq!(
        matches!(span.status, Status::Error { .. }),
        failed,
        "{span:?}"
    );
    let outcome = text(span, "evenkeel.attempt.outcome").unwrap();
    assert_eq!(
        ["error", "rejected_quality"].contains(&&*outcome),
        failed,
        "{span:?}"
    );
}

/// C214: as many spans as upstream calls; and the rules that hold for each of them.
#[test]
fn every_attempt_of_every_scenario_has_a_span_by_the_rules() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/scenarios");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let source = std::fs::read_to_string(&path).unwrap();
        let scenario =
            Scenario::parse(&SourceFile::new(path.display().to_string(), source)).unwrap();
        let models: BTreeSet<String> = scenario
            .config
            .roles
            .values()
            .flat_map(|role| &role.rungs)
            .map(|rung| format!("chat {}", rung.model.model()))
            .collect();
        let (spans, attempts) = traced(&scenario);
        let mut counted = 0;
        for span in &spans {
            match &*span.name {
                "evenkeel.request" => check_request(span),
                name if models.contains(name) => {
                    counted += 1;
                    check_attempt(span);
                }
                name => assert!(NAMES.contains(&name), "{name}"),
            }
            let events = span.events.iter().flat_map(|event| &event.attributes);
            for kv in span.attributes.iter().chain(events) {
                let number = matches!(kv.value, Value::F64(_) | Value::I64(_));
                assert!(!kv.key.as_str().ends_with("_ms") || number, "{}", kv.key);
            }
        }
        assert_eq!(counted, attempts, "{}", path.display());
    }
}

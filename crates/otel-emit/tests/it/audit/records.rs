//! Records of every shape, and whatever texts come from outside.

use super::{at, schema};
use evenkeel_otel_emit::audit::{
    AuditAttempt, AuditId, AuditLatency, AuditModel, AuditPolicy, Chain, ExactMs, Hash, Record,
    RecordKind, Text64, Text128, WholeMs,
};
use proptest::prelude::*;
use serde_json::Value;
use std::time::Duration;

fn sealed(record: Record) -> Value {
    let line = Chain::new("gw-1", true).seal(record).unwrap().line;
    assert_eq!(line.last(), Some(&b'\n'));
    serde_json::from_slice(&line).unwrap()
}

fn answer(text: &str, attempts: usize, time: Duration) -> Record {
    let policy = AuditPolicy::new(Some(text), Hash::of(text.as_bytes()));
    let mut record = Record::new(RecordKind::Answer, at(0), policy);
    let id = AuditId::new(text);
    record.request_id = Some(Text64::new(text));
    record.role = id.clone().or(AuditId::new("planner"));
    record.route = Some("primary");
    record.outcome = Some("ok");
    record.model = Some(AuditModel {
        requested: Text128::new(text),
        response_model: Text128::new(text),
        answered: id.clone(),
        ..AuditModel::default()
    });
    record.latency = Some(AuditLatency {
        p95_ms: Some(ExactMs(time)),
        total_ms: Some(WholeMs(time)),
        ..AuditLatency::default()
    });
    let attempt = AuditAttempt {
        provider: id.clone().unwrap_or(AuditId::new("p").unwrap()),
        model: id.unwrap_or(AuditId::new("m").unwrap()),
        start_ms: WholeMs(time),
        duration_ms: WholeMs(time),
        ttft_ms: None,
        outcome: "ok",
        error_type: None,
        http_status: None,
    };
    record.set_attempts(vec![attempt; attempts]);
    record
}

proptest! {
    #[test]
    fn any_text_makes_a_record_that_validates(
        text in ".{0,200}",
        attempts in 0_usize..40,
        nanos in any::<u64>(),
    ) {
        let line = sealed(answer(&text, attempts, Duration::from_nanos(nanos)));
        let schema = schema();
        let faults: Vec<_> = schema.iter_errors(&line).map(|e| e.to_string()).collect();
        prop_assert!(faults.is_empty(), "{faults:?} in {line}");
        let named = line["attempts"].as_array().unwrap().len();
        prop_assert_eq!(named, attempts.min(16));
    }

    #[test]
    fn what_is_sealed_verifies(texts in proptest::collection::vec(".{0,80}", 1..12)) {
        let mut chain = Chain::new("gw-1", true);
        let mut log = Vec::new();
        for text in &texts {
            let record = answer(text, 2, Duration::from_micros(text.len() as u64 * 1_237));
            log.extend(chain.seal(record).unwrap().line);
        }
        let verdict = super::verify(&[log]);
        prop_assert!(verdict.is_sound(), "{:?}", verdict.faults);
        prop_assert_eq!(verdict.records, texts.len() as u64);
        prop_assert_eq!(verdict.last.unwrap().hash, chain.last_hash());
    }
}

#[test]
fn a_record_stands_as_the_example_s_do() {
    let line = sealed(answer("gpt-4o", 1, Duration::from_micros(6_200_500)));
    let keys: Vec<&str> = line
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = [
        "v",
        "kind",
        "seq",
        "time",
        "instance",
        "policy",
        "request_id",
        "role",
        "model",
        "route",
        "outcome",
        "attempts",
        "latency",
        "prev",
        "hash",
    ];
    assert_eq!(keys, expected);
    assert_eq!(line["time"], "2026-11-29T12:00:00.000Z");
    assert_eq!(line["latency"]["p95_ms"], 6200.5);
    assert_eq!(line["latency"]["total_ms"], 6200);
    assert_eq!(line["prev"], "0".repeat(64));
}

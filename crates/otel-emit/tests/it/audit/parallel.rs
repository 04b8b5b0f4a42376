//! Many requests at a time, into files.

use super::world::{config, context, routing, steady};
use super::{LONG, lines, schema, texts, verify};
use evenkeel_chaos::Fault;
use evenkeel_core::ChatRequest;
use evenkeel_otel_emit::audit::{AuditLog, FileSink};
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::Arc;
use tokio::task::JoinSet;

const CALLERS: usize = 32;
const EACH: usize = 4;

// Conformance 9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_side_by_side_leave_one_chain_over_rotations_and_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = super::config(folder.path());
    files.rotate_bytes = NonZeroU64::new(16_384).unwrap();
    for life in 0..2 {
        let sink = Arc::new(FileSink::open(&files).unwrap());
        let log = AuditLog::new(sink.clone(), None);
        let shaky = steady(2)
            .with_fault(Fault::status(503))
            .with_error_rate(0.3);
        let rungs = [shaky, steady(1), steady(1)];
        let (router, _) = routing(&config(""), rungs, Arc::new(log));
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let router = router.clone();
            callers.spawn(async move {
                for n in 0..EACH {
                    let id = context(&format!("{life}-{caller}-{n}"));
                    let asked = ChatRequest::user("say something, n42");
                    router.complete("planner", asked, id).await.unwrap();
                }
            });
        }
        callers.join_all().await;
        router.shutdown().await;
        assert!(sink.close(LONG));
    }
    let records = lines(folder.path());
    let numbers = records.iter().map(|r| r["seq"].as_u64().unwrap());
    assert!(numbers.eq(0..records.len() as u64), "no number is left out");
    let schema = schema();
    assert!(records.iter().all(|record| schema.is_valid(record)));
    let answers = records.iter().filter(|r| r["kind"] == "answer");
    let ids: Vec<_> = answers.map(|r| r["request_id"].as_str().unwrap()).collect();
    let told: BTreeSet<_> = ids.iter().collect();
    assert_eq!((ids.len(), told.len()), (2 * CALLERS * EACH, ids.len()));
    assert!(records.iter().any(|r| r["kind"] == "fallback"));
    let texts = texts(folder.path());
    assert!(texts.len() > 4, "{} files", texts.len());
    let verdict = verify(&texts);
    assert!(verdict.is_sound(), "{:?}", verdict.faults);
}

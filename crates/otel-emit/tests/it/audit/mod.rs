//! The audit log.

mod agreement;
mod causes;
mod content;
mod damage;
mod ends;
mod example;
mod failing;
mod files;
mod observed;
mod parallel;
mod queries;
mod records;
pub(crate) mod world;

use evenkeel_otel_emit::audit::{
    AuditPolicy, AuditSink as _, FileSink, FileSinkConfig, Hash, Record, RecordKind, Text64,
    Verdict, Verifier, WallTime, audit_files,
};
use jsonschema::Validator;
use serde_json::Value;
use std::io::BufReader;
use std::path::Path;
use std::time::{Duration, SystemTime};

pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) fn fixture(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/telemetry");
    std::fs::read_to_string(Path::new(folder).join(name)).unwrap()
}

/// What every line of a log must be.
pub(crate) fn schema() -> Validator {
    let schema: Value = serde_json::from_str(&fixture("audit-record.schema.json")).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

/// A time that is easy to read: so many seconds after 2026-11-29T12:00:00Z.
pub(crate) fn at(seconds: u64) -> WallTime {
    WallTime(SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_953_600 + seconds))
}

/// A record that an operator's reload would leave, told apart by its number.
pub(crate) fn record(n: u64) -> Record {
    let policy = AuditPolicy::new(Some("v1"), Hash::of(b"policy"));
    let mut record = Record::new(RecordKind::PolicyChange, at(n), policy);
    record.request_id = Some(Text64::new(&format!("r{n}")));
    record
}

/// As the defaults are, but for the disk: a test need not wait for it.
pub(crate) fn config(folder: &Path) -> FileSinkConfig {
    FileSinkConfig {
        sync: evenkeel_otel_emit::audit::SyncPolicy::Never,
        // The records are of a day that may be long over.
        rotate_after: Duration::from_secs(100 * 365 * 86_400),
        ..FileSinkConfig::new(folder.to_owned(), "gw-1")
    }
}

/// Writes the records of these numbers.
pub(crate) fn write(config: &FileSinkConfig, numbers: impl IntoIterator<Item = u64>) {
    let sink = FileSink::open(config).unwrap();
    for n in numbers {
        sink.append(Box::new(record(n)));
        // As calls that come one after the other.
        assert!(sink.flush(LONG));
    }
    assert!(sink.close(LONG));
}

/// The files of a log, as texts.
pub(crate) fn texts(folder: &Path) -> Vec<String> {
    let files = audit_files(folder).unwrap();
    let texts = files.iter().map(std::fs::read_to_string);
    texts.map(Result::unwrap).collect()
}

/// The lines of a log that are JSON.
pub(crate) fn lines(folder: &Path) -> Vec<Value> {
    let all = texts(folder).concat();
    let lines = all
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    lines.collect()
}

pub(crate) fn verify<T: AsRef<[u8]>>(files: &[T]) -> Verdict {
    verify_by(Verifier::new(), files)
}

pub(crate) fn verify_by<T: AsRef<[u8]>>(mut verifier: Verifier, files: &[T]) -> Verdict {
    for (n, file) in files.iter().enumerate() {
        let from = BufReader::with_capacity(64, file.as_ref());
        verifier.read(&format!("file{n}"), from).unwrap();
    }
    verifier.finish()
}

/// What is wrong, in words.
pub(crate) fn faults<T: AsRef<[u8]>>(files: &[T]) -> Vec<String> {
    let verdict = verify(files);
    let faults = verdict.faults.iter();
    faults
        .map(|fault| format!("{}: {}", fault.place, fault.kind.as_str()))
        .collect()
}

//! Logs that do not end as they were written, and what a start makes of them.

use super::{LONG, config, lines, record, texts, verify, write};
use evenkeel_core::SystemClock;
use evenkeel_otel_emit::audit::{
    AuditError, AuditSink as _, FailureKind, FileSink, OnFailure, audit_files,
};
use std::fmt;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, SubscriberExt as _};

const LATER: &str = "{\"v\":2,\"seq\":2,\"new\":true}\n";

/// A log of two records with more behind them.
fn ending_with(left: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    write(&config(folder.path()), 0..2);
    let path = audit_files(folder.path()).unwrap().remove(0);
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(left.as_bytes()).unwrap();
    (folder, path)
}

/// The fields of each log line, as `name=value`.
#[derive(Debug, Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Told {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        event.record(&mut self.clone());
    }
}

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.lock().unwrap().push(format!("{field}={value:?}"));
    }
}

/// What opening the log of `folder` tells.
fn told_at_start(folder: &Path) -> Vec<String> {
    let told = Told::default();
    let subscriber = tracing_subscriber::registry().with(told.clone());
    // With a single dispatcher whichever thread first comes by a line decides for all
    // whether anybody hears it.
    let _another = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let sink =
        tracing::subscriber::with_default(subscriber, || FileSink::open(&config(folder)).unwrap());
    assert!(sink.close(LONG));
    let told = told.0.lock().unwrap();
    told.clone()
}

#[test]
fn a_damaged_end_is_told_of_with_its_place_and_gone_on_behind() {
    let (_kept, sound) = ending_with("");
    let text = std::fs::read_to_string(sound).unwrap();
    let last = text.lines().last().unwrap();
    let forged = format!(
        "{}\n",
        last.replace("\"r1\"", "\"r7\"")
            .replace("\"seq\":1", "\"seq\":2")
    );
    for (left, what) in [
        ("what?\n", "is no record"),
        ("what?", "is no record"),
        (&*forged, "its hash"),
    ] {
        let (folder, path) = ending_with(left);
        let told = told_at_start(folder.path()).join(" ");
        let place = format!("file={} line=3", path.display());
        assert!(told.contains("audit_end_damaged"), "{left}: {told}");
        assert!(
            told.contains(&place) && told.contains(what),
            "{left}: {told}"
        );
        write(&config(folder.path()), 2..3);
        assert!(!verify(&texts(folder.path())).is_sound());
    }
}

/// What is far from the end of a long file has its place in the whole of it.
#[test]
fn a_place_is_counted_from_the_beginning_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    write(&config(folder.path()), 0..300);
    let path = audit_files(folder.path()).unwrap().remove(0);
    assert!(std::fs::metadata(&path).unwrap().len() > 80_000);
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"what?\n").unwrap();
    let told = told_at_start(folder.path()).join(" ");
    assert!(told.contains("line=301"), "{told}");
}

#[test]
fn an_end_that_is_sound_or_torn_is_not_told_of() {
    for left in ["", "{\"v\":1,\"seq\"", "{\"v\":1,\"seq\"\n"] {
        let (folder, _) = ending_with(left);
        let told = told_at_start(folder.path());
        assert!(!told.join(" ").contains("audit_end_damaged"), "{told:?}");
    }
}

#[test]
fn a_log_of_a_later_version_is_left_as_it_is() {
    let (folder, path) = ending_with(LATER);
    let before = std::fs::read(&path).unwrap();
    let mut config = config(folder.path());
    config.on_failure = OnFailure::Closed;
    let refused = FileSink::open(&config).unwrap_err();
    assert!(
        matches!(&refused, AuditError::LaterVersion { line: 3, .. }),
        "{refused}"
    );
    config.on_failure = OnFailure::Open;
    let sink = FileSink::with(&config, 16, Arc::new(SystemClock)).unwrap();
    sink.append(Box::new(record(2)));
    assert!(!sink.flush(Duration::from_millis(200)));
    let status = sink.status();
    assert_eq!(
        status.failing.map(|(_, kind)| kind),
        Some(FailureKind::LaterVersion)
    );
    assert!(status.write_failures > 0 && sink.admits_calls());
    assert_eq!(std::fs::read(&path).unwrap(), before, "no byte was added");
    // Moved away, it makes room for another log.
    std::fs::remove_file(&path).unwrap();
    assert!(sink.close(LONG));
    let seqs: Vec<_> = lines(folder.path())
        .iter()
        .map(|l| l["seq"].as_u64())
        .collect();
    assert_eq!(seqs, [Some(0)]);
}

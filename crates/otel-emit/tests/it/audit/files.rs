//! A log in files: rotation, restarts, locks.

use super::{LONG, at, config, faults, lines, record, schema, texts, verify, write};
use evenkeel_core::Clock;
use evenkeel_otel_emit::audit::{
    AuditError, AuditSink as _, FileSink, RecordKind, SyncPolicy, audit_files,
};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

#[test]
fn records_are_written_in_order_and_the_next_process_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("deep/audit");
    let config = config(&folder);
    write(&config, 0..3);
    write(&config, 3..5);
    write(&config, []);
    write(&config, 5..6);
    let lines = lines(&folder);
    let ids: Vec<_> = lines
        .iter()
        .map(|l| l["request_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["r0", "r1", "r2", "r3", "r4", "r5"]);
    let seqs: Vec<_> = lines.iter().map(|l| l["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, [0, 1, 2, 3, 4, 5]);
    assert!(lines.iter().all(|line| schema().is_valid(line)));
    assert_eq!(faults(&texts(&folder)), [""; 0]);
    assert_eq!(
        audit_files(&folder).unwrap().len(),
        1,
        "a restart begins no file"
    );
}

#[test]
fn thirty_two_threads_leave_no_gap() {
    for sync in [
        SyncPolicy::Always,
        SyncPolicy::Interval(Duration::ZERO),
        SyncPolicy::Never,
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path());
        config.sync = sync;
        config.rotate_bytes = NonZeroU64::new(20_000).unwrap();
        let sink = FileSink::open(&config).unwrap();
        thread::scope(|scope| {
            for writer in 0..32 {
                let sink = &sink;
                scope.spawn(move || {
                    for n in 0..20 {
                        sink.append(Box::new(record(writer * 100 + n)));
                    }
                });
            }
        });
        assert!(sink.close(LONG));
        let files = texts(folder.path());
        let verdict = verify(&files);
        assert!(verdict.is_sound(), "{:?}", verdict.faults);
        assert_eq!(verdict.records, 32 * 20);
        assert!(files.len() > 5);
        assert_eq!(sink.written(RecordKind::PolicyChange), 32 * 20);
    }
}

#[test]
fn a_torn_line_is_closed_and_the_chain_goes_on() {
    // What a process that was killed may have left of its last write.
    for left in ["{", "{\"v\":1,\"kind\":\"answer\"", "\u{fffd}"] {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        write(&config, 0..2);
        let file = audit_files(folder.path()).unwrap().remove(0);
        let mut file = OpenOptions::new().append(true).open(file).unwrap();
        file.write_all(left.as_bytes()).unwrap();
        write(&config, 2..4);
        let verdict = verify(&texts(folder.path()));
        assert_eq!(verdict.records, 4, "{left}");
        if left.starts_with('{') {
            assert!(verdict.is_sound(), "{:?}", verdict.faults);
            assert_eq!(verdict.torn.len(), 1);
        } else {
            assert_eq!(verdict.fault_count, 1, "that was no record");
        }
    }
}

/// The newline alone may be what is missing.
#[test]
fn a_last_record_without_its_newline_counts() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    write(&config, 0..2);
    let path = audit_files(folder.path()).unwrap().remove(0);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.trim_end()).unwrap();
    write(&config, 2..3);
    let verdict = verify(&texts(folder.path()));
    assert!(verdict.is_sound() && verdict.torn.is_empty());
    assert_eq!(verdict.records, 3);
}

#[test]
fn a_new_file_that_was_only_begun_is_gone_on_with() {
    for left in ["", "{\"v\":1"] {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path());
        // Every record has a file of its own.
        config.rotate_bytes = NonZeroU64::new(1).unwrap();
        write(&config, 0..3);
        std::fs::write(folder.path().join("audit-000000000003.jsonl"), left).unwrap();
        write(&config, 3..5);
        let verdict = verify(&texts(folder.path()));
        assert!(verdict.is_sound(), "{:?}", verdict.faults);
        assert_eq!((verdict.records, verdict.files), (5, 5));
    }
}

/// A log whose last record stands far before the end, as nobody writes it.
#[test]
fn junk_at_the_end_hides_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    write(&config, 0..2);
    let path = audit_files(folder.path()).unwrap().remove(0);
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all("junk\n".repeat(100_000).as_bytes()).unwrap();
    write(&config, 2..3);
    let last = lines(folder.path()).pop().unwrap();
    assert_eq!(last["seq"], 2);
}

#[test]
fn old_files_go_only_where_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.rotate_bytes = NonZeroU64::new(1).unwrap();
    write(&config, 0..6);
    assert_eq!(audit_files(folder.path()).unwrap().len(), 6);
    config.keep_files = NonZeroU32::new(2);
    write(&config, 6..8);
    let verdict = verify(&texts(folder.path()));
    assert!(verdict.is_sound());
    assert_eq!((verdict.files, verdict.records), (2, 2));
    assert_eq!(verdict.last.unwrap().seq, 7);
}

/// A clock that is set by hand.
#[derive(Debug, Default)]
struct Hands(AtomicU64);

impl Clock for Hands {
    fn now(&self) -> SystemTime {
        at(self.0.load(Ordering::Relaxed)).0
    }
}

#[test]
fn a_file_is_left_when_its_first_record_is_old() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.rotate_after = Duration::from_secs(3_600);
    let clock = Arc::new(Hands::default());
    // Each half an hour a record, and a restart.
    for n in 0..6 {
        clock.0.store(n * 1_800, Ordering::Relaxed);
        let sink = FileSink::with(&config, 8, clock.clone()).unwrap();
        sink.append(Box::new(record(n * 1_800)));
        assert!(sink.close(LONG));
    }
    let files = texts(folder.path());
    let lengths: Vec<_> = files.iter().map(|f| f.lines().count()).collect();
    assert_eq!(lengths, [2, 2, 2]);
    assert_eq!(faults(&files), [""; 0]);
}

#[test]
fn two_processes_do_not_share_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let sink = FileSink::open(&config).unwrap();
    let second = FileSink::open(&config).unwrap_err();
    assert!(matches!(second, AuditError::InUse { .. }));
    let said = second.to_string();
    assert!(said.contains("another process"), "{said}");
    assert!(sink.close(LONG));
    write(&config, 0..1);
}

#[cfg(unix)]
#[test]
fn files_are_their_owner_s_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("audit");
    write(&config(&folder), 0..1);
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&audit_files(&folder).unwrap()[0]), 0o600);
    assert_eq!(mode(&folder.join("audit.lock")), 0o600);
    assert_eq!(mode(&folder), 0o700);
}

#[test]
fn what_comes_after_the_end_is_counted_as_lost() {
    let folder = tempfile::tempdir().unwrap();
    let sink = FileSink::open(&config(folder.path())).unwrap();
    assert!(sink.close(LONG));
    sink.append(Box::new(record(1)));
    assert_eq!(sink.status().lost, 1);
    assert!(sink.flush(LONG), "nothing waits");
}

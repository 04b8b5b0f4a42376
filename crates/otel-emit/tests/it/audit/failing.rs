//! Disks that are full, folders that are gone: nothing is lost in silence, and it ends.
#![cfg(target_os = "linux")]

use super::{LONG, config, lines, record, schema, texts, verify};
use evenkeel_core::SystemClock;
use evenkeel_otel_emit::audit::{
    AuditError, AuditSink as _, FailureKind, FileSink, FileSinkConfig, OnFailure,
};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Room for waiting records.
const ROOM: usize = 16;

/// A log whose disk is full: everything that is written to its file fails with that.
fn on_full_disk(folder: &Path, on_failure: OnFailure) -> FileSink {
    symlink("/dev/full", full(folder)).unwrap();
    let config = FileSinkConfig {
        on_failure,
        ..config(folder)
    };
    FileSink::with(&config, ROOM, Arc::new(SystemClock)).unwrap()
}

fn full(folder: &Path) -> std::path::PathBuf {
    folder.join("audit-000000000000.jsonl")
}

/// Waits until it is noticed that nothing can be written.
fn until_failing(sink: &FileSink) -> FailureKind {
    for _ in 0..1_000 {
        if let Some((_, kind)) = sink.status().failing {
            return kind;
        }
        // Nothing will be written: this waits for its limit.
        sink.flush(Duration::from_millis(10));
    }
    panic!("{:?}", sink.status());
}

#[test]
fn what_a_full_disk_costs_is_told_when_there_is_room_again() {
    let folder = tempfile::tempdir().unwrap();
    let sink = on_full_disk(folder.path(), OnFailure::Open);
    for n in 0..50 {
        sink.append(Box::new(record(n)));
        assert!(sink.admits_calls(), "open: calls go on");
    }
    assert_eq!(until_failing(&sink), FailureKind::DiskFull);
    let status = sink.status();
    assert_eq!(status.waiting, ROOM);
    assert_eq!(status.lost, 50 - ROOM as u64);
    assert!(status.write_failures > status.lost);
    std::fs::remove_file(full(folder.path())).unwrap();
    assert!(sink.flush(LONG));
    let status = sink.status();
    assert_eq!((status.failing, status.waiting), (None, 0));
    sink.append(Box::new(record(50)));
    assert!(sink.close(LONG));
    let lines = lines(folder.path());
    assert!(lines.iter().all(|line| schema().is_valid(line)));
    let verdict = verify(&texts(folder.path()));
    assert!(verdict.is_sound(), "{:?}", verdict.faults);
    assert_eq!(verdict.lost, 50 - ROOM as u64);
    // Their numbers follow like any others, and they say when the first was lost.
    let (gaps, others): (Vec<_>, Vec<_>) = lines.iter().partition(|l| l["kind"] == "gap");
    assert_eq!(others.len(), ROOM + 1);
    let told = gaps
        .iter()
        .filter_map(|l| l["gap"]["kinds"]["policy_change"].as_u64());
    assert_eq!(told.sum::<u64>(), 50 - ROOM as u64);
    let last_kept = others[ROOM - 1]["time"].as_str();
    assert!(gaps[0]["gap"]["since"].as_str() > last_kept);
}

#[test]
fn closed_takes_no_calls_while_nothing_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let sink = on_full_disk(folder.path(), OnFailure::Closed);
    assert!(sink.admits_calls(), "nothing has failed yet");
    sink.append(Box::new(record(0)));
    until_failing(&sink);
    assert!(!sink.admits_calls());
    assert!(sink.status().is_closed_on_failure);
    // What calls under way still have to tell finds room.
    for n in 1..ROOM as u64 {
        sink.append(Box::new(record(n)));
    }
    assert_eq!(sink.status().lost, 0);
    std::fs::remove_file(full(folder.path())).unwrap();
    assert!(sink.flush(LONG));
    assert!(sink.admits_calls());
    assert_eq!(verify(&texts(folder.path())).records, ROOM as u64);
}

#[test]
fn at_the_end_a_full_disk_is_waited_for_no_longer_than_said() {
    let folder = tempfile::tempdir().unwrap();
    let sink = on_full_disk(folder.path(), OnFailure::Open);
    sink.append(Box::new(record(0)));
    until_failing(&sink);
    assert!(!sink.close(LONG), "it was not written");
    assert_eq!(sink.status().lost, 1);
}

#[test]
fn a_folder_that_is_gone_is_made_anew_and_the_numbers_go_on() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("audit");
    let sink = FileSink::open(&config(&folder)).unwrap();
    sink.append(Box::new(record(0)));
    assert!(sink.flush(LONG));
    std::fs::remove_dir_all(&folder).unwrap();
    sink.append(Box::new(record(1)));
    assert!(sink.close(LONG));
    assert_eq!(lines(&folder)[0]["seq"], 1);
    assert!(sink.status().write_failures >= 1, "it was noticed");
    assert_eq!(sink.status().lost, 0);
    assert!(verify(&texts(&folder)).is_sound());
}

#[test]
fn a_file_that_was_moved_away_is_written_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let sink = FileSink::open(&config(folder.path())).unwrap();
    sink.append(Box::new(record(0)));
    assert!(sink.flush(LONG));
    let away = folder.path().join("taken-away");
    std::fs::rename(full(folder.path()), &away).unwrap();
    sink.append(Box::new(record(1)));
    assert!(sink.close(LONG));
    let texts = [
        std::fs::read_to_string(away).unwrap(),
        texts(folder.path()).concat(),
    ];
    let verdict = verify(&texts);
    assert!(verdict.is_sound(), "{:?}", verdict.faults);
    assert_eq!(verdict.records, 2);
}

#[test]
fn a_log_that_cannot_be_opened_stops_a_closed_start_only() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("audit");
    super::write(&config(&folder), 0..2);
    let aside = outer.path().join("aside");
    std::fs::rename(&folder, &aside).unwrap();
    std::fs::write(&folder, "in the way").unwrap();
    let mut config = config(&folder);
    config.on_failure = OnFailure::Closed;
    let refused = FileSink::open(&config).unwrap_err();
    assert!(matches!(refused, AuditError::Io { .. }), "{refused}");
    config.on_failure = OnFailure::Open;
    let sink = FileSink::open(&config).unwrap();
    assert!(sink.status().failing.is_some());
    sink.append(Box::new(record(2)));
    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    assert!(sink.close(LONG));
    let verdict = verify(&texts(&folder));
    assert!(verdict.is_sound(), "{:?}", verdict.faults);
    assert_eq!(verdict.records, 3, "it went on where the log stood");
}

/// Waits for the writer, who tries again by himself.
fn until_well(sink: &FileSink) {
    for _ in 0..1_000 {
        if sink.status().failing.is_none() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{:?}", sink.status());
}

#[test]
fn a_log_that_could_not_be_opened_is_tried_again_though_nothing_comes() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("audit");
    std::fs::write(&folder, "in the way").unwrap();
    let sink = FileSink::open(&config(&folder)).unwrap();
    assert!(sink.status().failing.is_some());
    std::fs::remove_file(&folder).unwrap();
    until_well(&sink);
    assert!(folder.is_dir());
    assert!(sink.close(LONG));
}

/// A place where nobody may make a file, root included.
const READ_ONLY: &str = "/sys/evenkeel-audit";

#[test]
fn a_place_that_takes_no_files_is_told_as_such() {
    let mut config = config(Path::new(READ_ONLY));
    let sink = FileSink::open(&config).unwrap();
    let (_, kind) = sink.status().failing.unwrap();
    assert_eq!(kind, FailureKind::ReadOnly);
    sink.append(Box::new(record(0)));
    assert!(!sink.close(LONG));
    assert_eq!(sink.status().lost, 1, "and that is counted");
    config.on_failure = OnFailure::Closed;
    let refused = FileSink::open(&config).unwrap_err();
    assert!(refused.to_string().contains(READ_ONLY), "{refused}");
}

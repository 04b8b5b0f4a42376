//! A log that cannot be written: calls go on, or do not, as the configuration says.
#![cfg(target_os = "linux")]

use super::command::audit;
use super::process::{Folder, Process};
use serde_json::Value;
use std::os::unix::fs::symlink;
use std::time::Duration;
use tokio::time::sleep;

/// A log whose disk is full.
fn on_full_disk(on_failure: &str) -> Folder {
    let folder = Folder::new(&format!("on_failure = \"{on_failure}\""));
    std::fs::create_dir_all(folder.log()).unwrap();
    symlink("/dev/full", folder.log().join("audit-000000000000.jsonl")).unwrap();
    folder
}

/// What `/readyz` says when it says so; the writer tries again by itself.
async fn until(process: &Process, is: impl Fn(u16, &Value) -> bool) -> (u16, Value) {
    for _ in 0..600 {
        let (status, ready) = process.ready().await;
        if is(status, &ready) {
            return (status, ready);
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("{:?}", process.ready().await);
}

#[tokio::test]
async fn closed_refuses_calls_until_the_log_can_be_written_again() {
    let folder = on_full_disk("closed");
    let process = Process::start(&folder).await;
    assert_eq!(process.ask("first").await.status, 200, "not known yet");
    let (_, ready) = until(&process, |status, _| status == 503).await;
    assert_eq!(ready["error"]["code"], "audit_unavailable");
    assert_eq!(ready["audit"]["failing"], "disk_full");
    assert_eq!(ready["audit"]["on_failure"], "closed");
    assert!(!ready.to_string().contains("state"), "no path: {ready}");
    let refused = process.ask("refused").await;
    assert_eq!(refused.status, 503);
    assert!(
        refused.body.contains("audit_unavailable"),
        "{}",
        refused.body
    );
    std::fs::remove_file(folder.log().join("audit-000000000000.jsonl")).unwrap();
    until(&process, |status, _| status == 200).await;
    assert_eq!(process.ask("last").await.status, 200);
    process.end().await;
    let records = folder.records();
    let ids: Vec<_> = records
        .iter()
        .filter_map(|r| r["request_id"].as_str())
        .collect();
    assert_eq!(
        ids,
        ["first", "last"],
        "nothing is lost, and nothing else was done"
    );
    let (code, said, _) = audit(&["verify", folder.log().to_str().unwrap()]).await;
    assert_eq!(code, Some(0), "{said}");
}

#[tokio::test]
async fn open_takes_calls_and_tells_of_it() {
    let folder = on_full_disk("open");
    let process = Process::start(&folder).await;
    assert_eq!(process.ask("first").await.status, 200);
    let failing = |_, ready: &Value| ready["audit"]["failing"] == "disk_full";
    let (status, _) = until(&process, failing).await;
    assert_eq!(status, 200);
    assert_eq!(process.ask("second").await.status, 200);
    std::fs::remove_file(folder.log().join("audit-000000000000.jsonl")).unwrap();
    until(&process, |_, ready| ready["audit"]["failing"].is_null()).await;
    let said = process.end().await;
    assert!(said.iter().any(|line| line.contains("audit_write_failed")));
    let records = folder.records();
    assert_eq!(records.iter().filter(|r| r["kind"] == "answer").count(), 2);
}

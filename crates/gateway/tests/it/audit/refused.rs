//! A log that cannot be written: calls go on, or do not, as the configuration says.
#![cfg(target_os = "linux")]

use super::command::audit;
use super::process::{Folder, LONG, Process, serve, told};
use crate::gateway::upstream;
use evenkeel_chaos::{Behaviour, Fault};
use serde_json::Value;
use std::os::unix::fs::symlink;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::{sleep, timeout};

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
    // However often it was tried.
    assert_eq!(told(&said, "audit_write_failed"), 1, "{said:?}");
    assert_eq!(told(&said, "audit_write_recovered"), 1, "{said:?}");
    let records = folder.records();
    assert_eq!(records.iter().filter(|r| r["kind"] == "answer").count(), 2);
}

/// A place where nobody may make a file, root included.
const READ_ONLY: &str = "path = \"/sys/evenkeel-audit\"";

#[tokio::test]
async fn a_place_that_takes_no_files_stops_a_closed_gateway_and_no_open_one() {
    let folder = Folder::new(READ_ONLY);
    let process = Process::start(&folder).await;
    let (status, ready) = process.ready().await;
    assert_eq!(status, 200);
    assert_eq!(ready["audit"]["failing"], "read_only", "{ready}");
    assert_eq!(process.ask("unrecorded").await.status, 200);
    let said = process.end().await;
    assert_eq!(told(&said, "audit_write_failed"), 1, "{said:?}");
    assert_eq!(told(&said, "audit_records_lost"), 1, "{said:?}");
    let folder = Folder::new(&format!("{READ_ONLY}\non_failure = \"closed\""));
    let mut child = serve(&folder);
    let status = timeout(LONG, child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(1));
    let mut said = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut said).await.unwrap();
    assert!(said.contains("/sys/evenkeel-audit"), "{said}");
}

#[tokio::test]
async fn a_log_that_could_not_be_opened_is_opened_when_it_can_be_without_a_call() {
    let folder = Folder::new("");
    std::fs::create_dir_all(folder.log().parent().unwrap()).unwrap();
    std::fs::write(folder.log(), "in the way").unwrap();
    let process = Process::start(&folder).await;
    let (_, ready) = process.ready().await;
    assert!(ready["audit"]["failing"].is_string(), "{ready}");
    std::fs::remove_file(folder.log()).unwrap();
    until(&process, |_, ready| ready["audit"]["failing"].is_null()).await;
    assert_eq!(process.ask("first").await.status, 200);
    process.end().await;
    assert_eq!(folder.records().len(), 1);
}

/// Closed means that tickets are not asked for either, nor answered by hand.
#[tokio::test]
async fn closed_asks_for_no_ticket_until_the_log_can_be_written_again() {
    let up = upstream("up", Behaviour::failing(Fault::status(500))).await;
    let role = "on_exhausted = \"queue\"\nqueue = { base_ms = 20, cap_ms = 20 }";
    let folder = Folder::before(&up, "on_failure = \"closed\"", role);
    let process = Process::start(&folder).await;
    let kept = process.ask("kept").await;
    assert_eq!(kept.status, 503, "{}", kept.body);
    // From here on nothing can be written: in place of the folder there is a file.
    let aside = folder.log().with_extension("aside");
    std::fs::rename(folder.log(), &aside).unwrap();
    std::fs::write(folder.log(), "in the way").unwrap();
    process.ask("noticed").await;
    until(&process, |status, _| status == 503).await;
    // What was under way when it was noticed may end.
    sleep(Duration::from_millis(200)).await;
    up.set(Behaviour::default());
    let asked = up.requests().len();
    for _ in 0..10 {
        assert_eq!(process.ask("refused").await.status, 503);
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(up.requests().len(), asked, "tries were due all the time");
    std::fs::remove_file(folder.log()).unwrap();
    std::fs::rename(&aside, folder.log()).unwrap();
    until(&process, |status, _| status == 200).await;
    // The provider has answered before the call has ended and the ticket is told of.
    let is_answered = |r: &Value| r["kind"] == "ticket" && r["ticket"]["state"] == "answered";
    let told = async {
        while !folder.records().iter().any(is_answered) {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(LONG, told).await.unwrap();
    process.end().await;
    let (code, said, _) = audit(&["verify", folder.log().to_str().unwrap()]).await;
    assert_eq!(code, Some(0), "{said}");
}

/// A store of tickets that no process can open: the disk is full or may not be written, or,
/// as here, something else stands in its place.
fn without_store(folder: &Folder) {
    std::fs::create_dir_all(folder.path().join("state/tickets.db")).unwrap();
}

#[tokio::test]
async fn where_no_role_keeps_calls_a_store_that_cannot_be_opened_stops_nobody() {
    let folder = on_full_disk("open");
    without_store(&folder);
    let process = Process::start(&folder).await;
    assert_eq!(process.ask("first").await.status, 200);
    // The log has a disk again, so that the end has nothing to wait for.
    std::fs::remove_file(folder.log().join("audit-000000000000.jsonl")).unwrap();
    let said = process.end().await;
    assert_eq!(told(&said, "ticket_store_failed"), 1, "{said:?}");
}

#[tokio::test]
async fn where_a_role_keeps_calls_a_store_that_cannot_be_opened_is_an_error() {
    let upstream = upstream("up", Behaviour::default()).await;
    let folder = Folder::before(&upstream, "", "on_exhausted = \"queue\"");
    without_store(&folder);
    let mut child = serve(&folder);
    let mut said = String::new();
    let mut stderr = child.stderr.take().unwrap();
    timeout(LONG, stderr.read_to_string(&mut said))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(1));
    assert!(said.contains("tickets.db"), "{said}");
}

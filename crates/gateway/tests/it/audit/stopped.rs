//! A gateway that is told to end twice.
#![cfg(unix)]

use super::command::audit;
use super::process::{Folder, LONG, Process, told};
use crate::gateway::{chat, question, upstream};
use evenkeel_chaos::{Behaviour, Fault};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Its calls in flight are cut, and that is recorded like any other end.
#[tokio::test]
async fn calls_that_a_second_signal_cuts_leave_their_records() {
    let up = upstream("up", Behaviour::failing(Fault::Hang)).await;
    let folder = Folder::before(&up, "fsync = \"never\"", "");
    let process = Process::start(&folder).await;
    let mut callers = Vec::new();
    for n in 0..20 {
        let mut caller = TcpStream::connect(process.address).await.unwrap();
        let id = format!("cut-{n}");
        let fields = json!({ "stream": n % 2 == 0 });
        let request = chat(&[("x-request-id", &id)], &question(&fields));
        caller.write_all(&request).await.unwrap();
        callers.push(caller);
    }
    up.wait_until(|stats| stats.in_flight == 20).await;
    process.terminate().await;
    // The port is closed when the first signal has been heard.
    let closed = async { while TcpStream::connect(process.address).await.is_ok() {} };
    timeout(LONG, closed).await.unwrap();
    process.terminate().await;
    let (status, said) = process.ended().await;
    assert_eq!(status, Some(1));
    assert_eq!(told(&said, "audit_checkpoint"), 1, "{said:?}");
    assert_eq!(told(&said, "audit_records_lost"), 0, "{said:?}");
    let mut cut: Vec<_> = folder
        .records()
        .iter()
        .filter(|r| r["kind"] == "answer" && r["outcome"] == "cancelled")
        .map(|r| r["request_id"].as_str().unwrap().to_owned())
        .collect();
    cut.sort();
    let mut all: Vec<_> = (0..20).map(|n| format!("cut-{n}")).collect();
    all.sort();
    assert_eq!(cut, all);
    let (code, said, _) = audit(&["verify", folder.log().to_str().unwrap()]).await;
    assert_eq!(code, Some(0), "{said}");
}

//! The binary, killed in the middle of its work.
#![cfg(unix)]

use super::command::audit;
use super::process::{Folder, Process};
use crate::gateway::{chat, question};
use crate::wire;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const LIVES: usize = 6;
/// Callers at a time.
const CALLERS: usize = 8;

/// Asks until the process is gone.
async fn ask_on(address: std::net::SocketAddr, caller: usize) {
    for n in 0.. {
        let id = format!("c{caller}-{n}");
        let request = chat(&[("x-request-id", &id)], &question(&json!({})));
        let Ok(mut stream) = TcpStream::connect(address).await else {
            return;
        };
        let mut answer = Vec::new();
        let sent = stream.write_all(&request).await;
        if sent.is_err() || stream.read_buf(&mut answer).await.is_err() || answer.is_empty() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_gateway_leaves_at_most_a_torn_line_and_the_next_goes_on() {
    // Small files, so that some lives end near a rotation.
    let folder = Folder::new("rotate_bytes = 16384\nfsync = \"never\"");
    let config = folder.path().to_str().unwrap().to_owned();
    let mut records = 0;
    for life in 1..=LIVES {
        let process = Process::start(&folder).await;
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            callers.spawn(ask_on(process.address, caller));
        }
        // So many records more, and then at once.
        while folder.records().len() < records + life * 13 {
            tokio::task::yield_now().await;
        }
        process.kill().await;
        callers.join_all().await;
        let (code, said, _) = audit(&["verify", "--config", &config, "--json"]).await;
        assert_eq!(code, Some(0), "life {life}: {said}");
        let verdict: Value = serde_json::from_str(&said).unwrap();
        assert!(verdict["torn"].as_array().unwrap().len() <= life, "{said}");
        let now = verdict["records"].as_u64().unwrap();
        records = usize::try_from(now).unwrap();
        assert_eq!(verdict["last"]["seq"], records - 1);
    }
    let last = Process::start(&folder).await;
    let reply = wire::send(last.address, &chat(&[], &question(&json!({})))).await;
    assert_eq!(reply.status, 200);
    last.end().await;
    let (code, said, _) = audit(&["verify", "--config", &config]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(folder.records().len() > records);
}

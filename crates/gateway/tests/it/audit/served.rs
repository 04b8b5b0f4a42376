//! What a served request leaves.
#![cfg(unix)]

use super::command::audit;
use super::process::{Folder, LONG, Process, serve};
use evenkeel::Settings;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

#[tokio::test]
async fn each_request_leaves_a_record_and_a_restart_goes_on() {
    let folder = Folder::new("");
    let first = Process::start(&folder).await;
    for n in 0..3 {
        assert_eq!(first.ask(&format!("req-{n}")).await.status, 200);
    }
    let (status, ready) = first.ready().await;
    assert_eq!(status, 200);
    assert_eq!(ready["audit"]["failing"], serde_json::Value::Null);
    let said = first.end().await;
    let told = |event: &str| said.iter().any(|line| line.contains(event));
    assert!(told("audit_checkpoint"), "{said:?}");
    let second = Process::start(&folder).await;
    assert_eq!(second.ask("req-3").await.status, 200);
    second.end().await;

    let records = folder.records();
    let answers: Vec<_> = records.iter().filter(|r| r["kind"] == "answer").collect();
    let ids: Vec<_> = answers
        .iter()
        .map(|r| r["request_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["req-0", "req-1", "req-2", "req-3"]);
    assert_ne!(answers[0]["instance"], answers[3]["instance"]);
    let settings = Settings::load(folder.path()).unwrap();
    let stamp = settings.config().stamp.clone().unwrap();
    for answer in answers {
        assert_eq!(answer["policy"]["version"], "v7");
        assert_eq!(answer["policy"]["sha256"], *stamp.sha256);
        assert_eq!(answer["model"]["answered"], "a/big");
    }
    let config = folder.path().to_str().unwrap();
    let (code, said, _) = audit(&["verify", "--config", config]).await;
    assert_eq!(code, Some(0), "{said}");
    let query = ["query", "--config", config, "--request", "req-2"];
    let (_, said, _) = audit(&query).await;
    assert!(said.contains("a/big, primary, ok"), "{said}");
}

/// Whoever still had the observers would hold up the end for as long as last writes may
/// take: that is told.
#[tokio::test]
async fn a_stop_in_good_order_waits_for_nobody() {
    let alerts = "
        [alerts]
        webhook_url = \"http://127.0.0.1:9/alerts\"
        webhook_secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"";
    let folder = Folder::new(alerts);
    let process = Process::start(&folder).await;
    assert_eq!(process.ask("req-0").await.status, 200);
    let said = process.end().await;
    let waited: Vec<_> = said
        .iter()
        .filter(|l| l.contains("left_unwritten"))
        .collect();
    assert_eq!(waited, [""; 0]);
    assert!(
        said.iter().any(|line| line.contains("\"stopped\"")),
        "{said:?}"
    );
}

#[tokio::test]
async fn two_gateways_do_not_share_a_log() {
    let folder = Folder::new("");
    let first = Process::start(&folder).await;
    let mut second = serve(&folder);
    let status = timeout(LONG, second.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(1));
    let mut said = String::new();
    let mut stderr = second.stderr.take().unwrap();
    stderr.read_to_string(&mut said).await.unwrap();
    assert!(
        said.contains("another process writes this audit log"),
        "{said}"
    );
    first.end().await;
}

//! Shadowed calls, over sockets and onto the disk.

use crate::gateway::{Gateway, Setup, upstream};
use evenkeel_chaos::Behaviour;
use evenkeel_core::{Event, EventKind, Observer};
use evenkeel_gateway::ShadowLog;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::Notify;

/// Hears of the end of shadows.
#[derive(Debug)]
struct Ends(Arc<Notify>);

impl Observer for Ends {
    fn on(&self, event: &Event) {
        if matches!(event.kind, EventKind::Shadowed(_)) {
            self.0.notify_one();
        }
    }
}

/// The line that the gateway writes of a call that `p0/m0` and, as its shadow, `p1/m1`
/// answer so.
pub(crate) async fn pair(live: &str, next: &str) -> String {
    let answering = upstream("live", Behaviour::default().with_text(live)).await;
    let next = upstream("next", Behaviour::default().with_text(next)).await;
    let setup = Setup {
        role: "shadow = { model = \"p1/m1\", share = 1.0, capture = true }",
        ..Setup::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let (log, writer) = ShadowLog::new(folder.path().to_owned());
    let ended = Arc::new(Notify::new());
    let observers: Vec<Arc<dyn Observer>> = vec![Arc::new(log), Arc::new(Ends(ended.clone()))];
    let gateway = Gateway::observed(&[&answering, &next], setup, "", Arc::new(observers));
    let reply = gateway.ask().await;
    assert_eq!(reply.json()["model"], "p0/m0");
    assert_eq!(reply.json()["evenkeel"]["attempts"], 1);
    ended.notified().await;
    gateway.stop();
    gateway.ended().await;
    writer.run().await;
    std::fs::read_to_string(folder.path().join("planner.jsonl")).unwrap()
}

#[tokio::test]
async fn a_shadowed_call_is_written_down_and_its_client_hears_nothing_of_it() {
    let text = pair("live words", "next words").await;
    let line: Value = serde_json::from_str(text.trim()).unwrap();
    let words = |side: &str| line[side]["answer"]["choices"][0]["message"]["content"].clone();
    assert_eq!(words("live"), "live words");
    assert_eq!(words("shadow"), "next words");
    assert_eq!(line["request"]["messages"][0]["content"], "Say hi. n42");
    assert!(!text.contains("sk-upstream"), "no key");
}

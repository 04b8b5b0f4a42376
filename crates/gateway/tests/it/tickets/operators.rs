//! What an operator does with tickets.

use super::{ask_as, down, id_of, keeping, ticket};
use crate::admin::operate;
use crate::gateway::{Gateway, Setup, upstream};
use serde_json::json;

fn escalating() -> Setup {
    Setup {
        role: r#"on_exhausted = "escalate"
        queue = { base_ms = 3600000, cap_ms = 3600000 }"#,
        ..keeping()
    }
}

#[tokio::test]
async fn an_operator_lists_reads_and_answers() {
    let up = upstream("up", down()).await;
    let gateway = Gateway::with(&[&up], escalating());
    let id = id_of(&ask_as(&gateway, "evk-ann", &[("x-evenkeel-session", "s1")]).await);
    ask_as(&gateway, "evk-bob", &[]).await;
    let listed = operate(&gateway, "GET /admin/tickets?state=escalated&limit=5", "").await;
    let listed = listed.json();
    let tickets = listed["tickets"].as_array().unwrap();
    assert_eq!(tickets.len(), 2);
    assert_eq!(tickets[1]["id"], id.as_str(), "the newest first");
    assert!(tickets[0]["caller"].as_str() != tickets[1]["caller"].as_str());
    assert!(
        !listed.to_string().contains("Say hi"),
        "a list shows no prompt"
    );
    let line = format!("GET /admin/tickets/{id}");
    let read = operate(&gateway, &line, "").await.json();
    assert_eq!(read["request"]["messages"][0]["content"], "Say hi. n42");
    assert_eq!(read["session"], "s1");
    let answer = format!("POST /admin/tickets/{id}/answer");
    for bad in ["{}", "{\"text\": \"  \"}", "{\"choices\": []}", "no json"] {
        let refused = operate(&gateway, &answer, bad).await;
        assert_eq!(refused.status, 400, "{bad}: {}", refused.body);
    }
    let done = operate(&gateway, &answer, "{\"text\": \"By hand.\"}").await;
    assert_eq!(
        (done.status, &done.json()["state"]),
        (200, &json!("answered"))
    );
    let seen = ticket(&gateway, "GET", "evk-ann", &id).await.json();
    let completion = &seen["answer"];
    assert_eq!(completion["choices"][0]["message"]["content"], "By hand.");
    assert_eq!(completion["evenkeel"]["route"], "operator");
    for act in ["answer", "retry", "drop"] {
        let line = format!("POST /admin/tickets/{id}/{act}");
        let refused = operate(&gateway, &line, "{\"text\": \"Twice.\"}").await;
        assert_eq!(refused.status, 409, "{act}: {}", refused.body);
        assert_eq!(refused.error()["code"], "ticket_closed");
    }
}

#[tokio::test]
async fn an_operator_retries_and_drops() {
    let up = upstream("up", down()).await;
    let gateway = Gateway::with(&[&up], escalating());
    let id = id_of(&ask_as(&gateway, "evk-ann", &[]).await);
    let asked = up.requests().len();
    up.set(evenkeel_chaos::Behaviour::default());
    let retried = operate(&gateway, &format!("POST /admin/tickets/{id}/retry"), "").await;
    assert_eq!(retried.status, 200, "{}", retried.body);
    up.wait_until(|stats| stats.ok == 1).await;
    assert_eq!(up.requests().len(), asked + 1);
    up.set(down());
    let other = id_of(&ask_as(&gateway, "evk-ann", &[]).await);
    let dropped = operate(&gateway, &format!("POST /admin/tickets/{other}/drop"), "").await;
    assert_eq!(dropped.json()["state"], "dropped");
    let unknown = operate(&gateway, "POST /admin/tickets/tkt_0/drop", "").await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test]
async fn a_query_that_means_nothing_is_refused() {
    let up = upstream("up", down()).await;
    let gateway = Gateway::with(&[&up], keeping());
    for query in [
        "state=open",
        "limit=0",
        "limit=x",
        "limit=1001",
        "stat=queued",
    ] {
        let reply = operate(&gateway, &format!("GET /admin/tickets?{query}"), "").await;
        assert_eq!(reply.status, 400, "{query}");
    }
    let role = operate(&gateway, "GET /admin/tickets?role=other", "").await;
    assert_eq!(role.json(), json!({ "tickets": [] }));
}

//! What a caller gets in place of an answer, and how it gets the answer.

use super::{ask_as, ask_for, down, id_of, keeping, ticket};
use crate::gateway::{Gateway, upstream};
use crate::wire::Reply;
use evenkeel_chaos::{Behaviour, Fault};
use serde_json::json;
use std::time::Duration;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(30);

/// Asks for the ticket until it is there: each look is an exchange with the store.
async fn answered(gateway: &Gateway, key: &str, id: &str) -> Reply {
    let looking = async {
        loop {
            let reply = ticket(gateway, "GET", key, id).await;
            assert_eq!(reply.status, 200, "{}", reply.body);
            if reply.json()["state"] == "answered" {
                return reply;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, looking).await.unwrap()
}

/// `OpenAI`'s clients read any 2xx as an answer: who has said nothing gets an error.
#[tokio::test]
async fn a_client_that_knows_no_tickets_gets_an_error_that_names_one() {
    let up = upstream("up", down()).await;
    let gateway = Gateway::with(&[&up], keeping());
    for fields in [json!({}), json!({ "stream": true })] {
        let reply = ask_for(&gateway, "evk-ann", &[], &fields).await;
        let error = reply.error();
        assert_eq!(
            (reply.status, error["code"].as_str()),
            (503, Some("queued"))
        );
        assert_eq!(error["cause"], "transient");
        assert_eq!(reply.header("x-should-retry"), Some("false"));
        let address = format!("/v1/evenkeel/tickets/{}", id_of(&reply));
        assert_eq!(reply.header("location"), Some(address.as_str()));
        assert_eq!(error["ticket"]["url"], address);
    }
}

#[tokio::test]
async fn a_client_that_takes_a_ticket_gets_one_and_its_answer_later() {
    let up = upstream("up", down()).await;
    let gateway = Gateway::with(&[&up], keeping());
    for header in [
        ("prefer", "respond-async"),
        ("x-evenkeel-accept-ticket", "true"),
    ] {
        up.set(down());
        let reply = ask_as(&gateway, "evk-ann", &[header]).await;
        assert_eq!(reply.status, 202, "{}", reply.body);
        assert_eq!(reply.header("preference-applied"), Some("respond-async"));
        let body = reply.json();
        assert_eq!(body["object"], "evenkeel.ticket");
        assert_eq!(
            (&body["state"], &body["role"]),
            (&json!("queued"), &json!("planner"))
        );
        assert_eq!(body["error"]["code"], "transient");
        assert!(
            body.get("choices").is_none(),
            "nothing that looks like an answer"
        );
        up.set(Behaviour::default().with_text("at last"));
        let id = id_of(&reply);
        let answer = answered(&gateway, "evk-ann", &id).await.json();
        let completion = &answer["answer"];
        assert_eq!(completion["choices"][0]["message"]["content"], "at last");
        assert_eq!(completion["evenkeel"]["model_id"], "p0/m0");
        assert!(answer.get("error").is_none(), "{answer}");
        assert!(answer["attempts"].as_u64().unwrap() >= 1);
    }
}

#[tokio::test]
async fn a_ticket_is_its_callers_alone() {
    let up = upstream("up", down()).await;
    let gateway = Gateway::with(&[&up], keeping());
    let id = id_of(&ask_as(&gateway, "evk-ann", &[]).await);
    for (key, id, status) in [
        ("evk-ann", id.as_str(), 200),
        ("evk-bob", id.as_str(), 404),
        ("evk-eve", id.as_str(), 401),
        ("evk-ann", "tkt_00", 404),
        ("evk-ann", "..%2f", 404),
    ] {
        let reply = ticket(&gateway, "GET", key, id).await;
        assert_eq!(reply.status, status, "{key} {id}: {}", reply.body);
    }
    assert_eq!(ticket(&gateway, "DELETE", "evk-bob", &id).await.status, 404);
    for _ in 0..2 {
        let reply = ticket(&gateway, "DELETE", "evk-ann", &id).await;
        assert_eq!(
            (reply.status, &reply.json()["state"]),
            (200, &json!("dropped"))
        );
    }
    up.set(Behaviour::default());
    assert_eq!(ask_as(&gateway, "evk-ann", &[]).await.status, 200);
    let reply = ticket(&gateway, "GET", "evk-ann", &id).await;
    assert_eq!(reply.json()["state"], "dropped");
}

#[tokio::test]
async fn the_same_key_is_the_same_ticket_and_in_the_end_the_same_answer() {
    let up = upstream("up", down()).await;
    let gateway = Gateway::with(&[&up], keeping());
    let key = ("idempotency-key", "k1");
    let first = id_of(&ask_as(&gateway, "evk-ann", &[key]).await);
    let again = ask_as(&gateway, "evk-ann", &[key]).await;
    assert_eq!(id_of(&again), first);
    assert_eq!(again.status, 503);
    let bob = id_of(&ask_as(&gateway, "evk-bob", &[key]).await);
    assert_ne!(bob, first);
    let other = ask_for(&gateway, "evk-ann", &[key], &json!({ "seed": 7 })).await;
    assert_eq!(other.status, 422);
    assert_eq!(other.error()["code"], "idempotency_key_reused");
    up.set(Behaviour::default().with_text("once"));
    answered(&gateway, "evk-ann", &first).await;
    answered(&gateway, "evk-bob", &bob).await;
    let asked = up.requests().len();
    let whole = ask_as(&gateway, "evk-ann", &[key]).await;
    assert_eq!(whole.status, 200, "{}", whole.body);
    assert_eq!(whole.json()["choices"][0]["message"]["content"], "once");
    let stream = ask_for(&gateway, "evk-ann", &[key], &json!({ "stream": true })).await;
    assert_eq!(stream.events().last().map(String::as_str), Some("[DONE]"));
    let chunks = stream.chunks();
    assert_eq!(chunks[0]["evenkeel"]["model_id"], "p0/m0");
    let text: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(text, "once");
    assert_eq!(up.requests().len(), asked, "nobody is asked again");
}

/// What is kept is what the caller said, extra fields and all.
#[tokio::test]
async fn an_upstream_is_asked_for_a_ticket_as_it_was_for_the_call() {
    let up = upstream("up", down()).await;
    let gateway = Gateway::with(&[&up], keeping());
    let fields = json!({ "temperature": 0.1, "x_own": { "deep": [1, null] }, "user": "u" });
    let id = id_of(&ask_for(&gateway, "evk-ann", &[], &fields).await);
    up.set(Behaviour::default());
    answered(&gateway, "evk-ann", &id).await;
    let requests = up.requests();
    assert!(requests.len() >= 2);
    assert_eq!(requests[0].body, requests[requests.len() - 1].body);
}

/// The request's own faults are told as ever.
#[tokio::test]
async fn what_time_cannot_mend_is_no_ticket() {
    let up = upstream("up", Behaviour::failing(Fault::status(400))).await;
    let gateway = Gateway::with(&[&up], keeping());
    let reply = ask_as(&gateway, "evk-ann", &[("prefer", "respond-async")]).await;
    assert_eq!(reply.status, 400);
    assert!(reply.error().get("ticket").is_none());
}

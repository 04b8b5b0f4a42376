//! Workflow runs and feedback, as callers report them.

use crate::gateway::{Gateway, Setup, question, upstream};
use crate::wire::{self, Reply};
use evenkeel_chaos::{Behaviour, Fault};
use serde_json::{Value, json};

const ONE: (&str, &str) = ("authorization", "Bearer evk-one");
const TWO: (&str, &str) = ("x-api-key", "evk-two");

async fn post(gateway: &Gateway, path: &str, key: (&str, &str), body: &[u8]) -> Reply {
    let request = wire::request(&format!("POST {path}"), &[key], body);
    wire::send(gateway.address, &request).await
}

async fn get(gateway: &Gateway, path: &str, key: (&str, &str)) -> Reply {
    let request = wire::request(&format!("GET {path}"), &[key], b"");
    wire::send(gateway.address, &request).await
}

async fn report(gateway: &Gateway, path: &str, key: (&str, &str), body: &Value) -> Reply {
    post(gateway, path, key, body.to_string().as_bytes()).await
}

/// A gateway with two keys whose primary is down.
async fn degraded() -> Gateway {
    let down = upstream("down", Behaviour::failing(Fault::status(503))).await;
    let up = upstream("up", Behaviour::default()).await;
    let setup = Setup {
        server: "client_keys = [\"evk-one\", \"evk-two\"]",
        ..Setup::default()
    };
    let gateway = Gateway::with(&[&down, &up], setup);
    let headers = [
        ONE,
        ("x-evenkeel-workflow", "run 7"),
        ("x-request-id", "r-1"),
    ];
    let reply = gateway.chat(&headers, &question(&json!({}))).await;
    assert_eq!(reply.header("x-evenkeel-degraded"), Some("true"));
    gateway
}

#[tokio::test]
async fn a_run_is_looked_at_and_ended_by_who_made_its_calls() {
    let gateway = degraded().await;
    let path = "/v1/evenkeel/workflows/run%207";
    let run = get(&gateway, path, ONE).await.json();
    assert_eq!((&run["id"], &run["calls"]), (&json!("run 7"), &json!(1)));
    assert_eq!(
        (&run["level"], &run["outcome"]),
        (&json!("major"), &Value::Null)
    );
    assert_eq!(run["degraded_roles"][0]["model_id"], "p1/m1");
    assert_eq!(run["degraded_roles"][0]["reason"], "overloaded");

    let partial = json!({ "outcome": "partial" });
    for reply in [
        get(&gateway, path, TWO).await,
        report(&gateway, path, TWO, &partial).await,
        get(&gateway, "/v1/evenkeel/workflows/other", ONE).await,
    ] {
        assert_eq!(reply.status, 404);
        assert_eq!(reply.error()["code"], "workflow_not_found");
    }
    for _ in 0..2 {
        let ended = report(&gateway, path, ONE, &partial).await;
        assert_eq!(
            (ended.status, &ended.json()["outcome"]),
            (200, &json!("partial"))
        );
    }
    let otherwise = report(&gateway, path, ONE, &json!({ "outcome": "success" })).await;
    assert_eq!(otherwise.status, 409);
    assert_eq!(otherwise.error()["code"], "workflow_ended");
    assert_eq!(otherwise.header("x-should-retry"), Some("false"));
}

#[tokio::test]
async fn feedback_is_taken_from_the_key_that_made_the_call() {
    let gateway = degraded().await;
    let path = "/v1/evenkeel/feedback";
    let good = json!({ "request_id": "r-1", "score": 0.75 });
    let other = report(&gateway, path, TWO, &good).await;
    assert_eq!(other.status, 404);
    assert_eq!(other.error()["code"], "request_not_found");
    let judged = report(&gateway, path, ONE, &good).await;
    assert_eq!(judged.status, 200, "{}", judged.body);
    assert_eq!(
        judged.json(),
        json!({
            "request_id": "r-1", "role": "planner", "model_id": "p1/m1", "rung": 1,
            "degraded": true, "score": 0.75
        })
    );
    let again = json!({ "request_id": "r-1", "success": true });
    assert_eq!(
        report(&gateway, path, ONE, &again).await.json()["score"],
        1.0
    );
    let quality = gateway.router.quality("planner").unwrap();
    assert_eq!((quality[1].judged, quality[1].mean_score), (1, Some(1.0)));
}

#[tokio::test]
async fn a_report_that_says_nothing_is_refused_and_says_what_is_missing() {
    let gateway = degraded().await;
    let (run, feedback) = ("/v1/evenkeel/workflows/run%207", "/v1/evenkeel/feedback");
    for (path, body, code, param) in [
        (run, "{}", "missing_required_parameter", json!("outcome")),
        (
            run,
            r#"{"outcome":"fine"}"#,
            "invalid_value",
            json!("outcome"),
        ),
        (run, r#"{"outcome":1}"#, "invalid_value", json!("outcome")),
        (run, "[]", "invalid_type", Value::Null),
        (run, "{", "invalid_json", Value::Null),
        (
            feedback,
            "{}",
            "missing_required_parameter",
            json!("request_id"),
        ),
        (
            feedback,
            r#"{"request_id":7}"#,
            "invalid_value",
            json!("request_id"),
        ),
        (
            feedback,
            r#"{"request_id":"r-1"}"#,
            "missing_required_parameter",
            json!("success"),
        ),
        (
            feedback,
            r#"{"request_id":"r-1","success":1}"#,
            "invalid_value",
            json!("success"),
        ),
        (
            feedback,
            r#"{"request_id":"r-1","score":1.01}"#,
            "invalid_value",
            json!("score"),
        ),
        (
            feedback,
            r#"{"request_id":"r-1","score":"1"}"#,
            "invalid_value",
            json!("score"),
        ),
        (
            feedback,
            r#"{"request_id":"r-1","success":true,"score":1}"#,
            "invalid_value",
            json!("score"),
        ),
    ] {
        let reply = post(&gateway, path, ONE, body.as_bytes()).await;
        assert_eq!(reply.status, 400, "{body}");
        let error = reply.error();
        assert_eq!(
            (&error["code"], &error["param"]),
            (&json!(code), &param),
            "{body}"
        );
    }
    let large = vec![b' '; 20_000];
    assert_eq!(post(&gateway, feedback, ONE, &large).await.status, 413);
    let nobody = ("x-api-key", "evk-three");
    for reply in [
        get(&gateway, run, nobody).await,
        post(&gateway, run, nobody, b"{}").await,
        post(&gateway, feedback, nobody, &large).await,
    ] {
        assert_eq!(reply.status, 401);
        assert_eq!(reply.error()["code"], "invalid_client_key");
    }
    assert_eq!(get(&gateway, feedback, ONE).await.status, 405);
}

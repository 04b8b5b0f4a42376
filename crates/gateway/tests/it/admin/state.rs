//! What operators see.

use super::{operated, setup, state};
use crate::gateway::{Gateway, question, upstream};
use evenkeel_chaos::{Behaviour, Fault};
use serde_json::{Value, json};
use std::time::Duration;

async fn ask(gateway: &Gateway) -> u16 {
    let key = [("authorization", "Bearer evk-client")];
    gateway.chat(&key, &question(&json!({}))).await.status
}

fn rung(state: &Value, rung: usize) -> &Value {
    &state["roles"][0]["rungs"][rung]
}

#[tokio::test]
async fn a_healthy_role_stands_on_its_primary() {
    let ups = [
        upstream("a", Behaviour::default()).await,
        upstream("b", Behaviour::default()).await,
    ];
    let gateway = operated(&[&ups[0], &ups[1]]);
    for _ in 0..3 {
        assert_eq!(ask(&gateway).await, 200);
    }
    let state = state(&gateway).await;
    let role = &state["roles"][0];
    assert_eq!(role["role"], "planner");
    assert_eq!((&role["rung"], &role["epoch"]), (&json!(0), &json!(0)));
    assert_eq!(role["model"], "p0/m0");
    assert_eq!(role["goes_to"], 0);
    let primary = rung(&state, 0);
    assert_eq!(primary["total"]["samples"], 3);
    assert!(primary["total"]["p95_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(primary["total"]["p95_limit_ms"], 5000.0);
    assert_eq!(primary["first_token"]["samples"], 0);
    assert_eq!(primary["refused"], Value::Null);
    assert_eq!(primary["breaker"]["state"], "closed");
    assert_eq!(primary["provider"]["breaker"]["state"], "closed");
    assert_eq!(primary["semantic_breaker"]["state"], "closed");
    assert_eq!(primary["recovery"]["stage"], "serving");
    assert_eq!(
        (&primary["in_use"], &primary["max_concurrency"]),
        (&json!(0), &json!(64))
    );
    assert_eq!(primary["hold"], Value::Null);
}

/// Each thing that keeps a model away says since when, until when and why.
#[tokio::test]
async fn what_keeps_a_model_away_is_told() {
    for (fault, times, field, refused, why) in [
        (
            Fault::status(500),
            5,
            "breaker",
            "breaker_open",
            "consecutive_failures",
        ),
        (
            Fault::rate_limited(Duration::from_secs(30)),
            1,
            "cooldown",
            "cooldown",
            "rate_limited",
        ),
        (Fault::status(401), 1, "hold", "hold", "auth"),
    ] {
        let ups = [
            upstream("a", Behaviour::failing(fault)).await,
            upstream("b", Behaviour::default()).await,
        ];
        let gateway = Gateway::with(&[&ups[0], &ups[1]], setup());
        for _ in 0..times {
            assert_eq!(ask(&gateway).await, 200);
        }
        let state = state(&gateway).await;
        let primary = rung(&state, 0);
        assert_eq!(primary["refused"]["why"], refused, "{primary}");
        assert_eq!(state["roles"][0]["goes_to"], 1);
        // A credential is its provider's.
        let told = match field {
            "hold" => &primary["provider"]["hold"],
            field => &primary[field],
        };
        assert_eq!(told["why"], why, "{primary}");
        let at = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let now = at(&state["at"]);
        assert!(
            at(&told["since"]) <= now && now < at(&told["until"]),
            "{told}"
        );
        assert!(at(&state["started"]) <= now);
    }
}

#[tokio::test]
async fn no_key_is_in_it() {
    let up = upstream("a", Behaviour::default()).await;
    let state = state(&operated(&[&up])).await.to_string();
    for secret in ["sk-upstream", "CANARY", "evk-client"] {
        assert!(!state.contains(secret), "{secret} in {state}");
    }
}

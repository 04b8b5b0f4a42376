//! What operators do.

use super::{operate, operated, state};
use crate::gateway::{Gateway, question, upstream};
use crate::wire::Reply;
use evenkeel_chaos::{Behaviour, Fault, Upstream};
use serde_json::{Value, json};

async fn pair() -> [Upstream; 2] {
    [
        upstream("a", Behaviour::default()).await,
        upstream("b", Behaviour::default()).await,
    ]
}

async fn ask(gateway: &Gateway) -> Reply {
    let key = [("authorization", "Bearer evk-client")];
    let reply = gateway.chat(&key, &question(&json!({}))).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply
}

async fn act(gateway: &Gateway, line: &str, body: &Value) -> Value {
    let reply = operate(gateway, line, &body.to_string()).await;
    assert!(matches!(reply.status, 200 | 201), "{}", reply.body);
    reply.json()
}

#[tokio::test]
async fn a_rung_is_forced_by_its_number_or_model_and_let_go() {
    let ups = pair().await;
    let gateway = operated(&[&ups[0], &ups[1]]);
    let line = "POST /admin/roles/planner/force";
    for (force, changed) in [
        (json!({"rung": 1}), true),
        (json!({"model": "p1/m1"}), false),
    ] {
        let said = act(&gateway, line, &force).await;
        assert_eq!(said["forced"], 1);
        assert_eq!(
            (&said["rung"], &said["model"]),
            (&json!(1), &json!("p1/m1"))
        );
        assert_eq!(said["changed"], changed);
    }
    let reply = ask(&gateway).await;
    assert_eq!(reply.header("x-evenkeel-rung"), Some("1"));
    assert_eq!(reply.header("x-evenkeel-route"), Some("substitute"));
    assert_eq!(reply.header("x-evenkeel-reason"), Some("manual"));
    assert_eq!(state(&gateway).await["roles"][0]["forced"], 1);
    for let_go in [json!({"model": null}), json!({"rung": null})] {
        let said = act(&gateway, line, &let_go).await;
        assert_eq!((&said["forced"], &said["rung"]), (&Value::Null, &json!(0)));
    }
    assert_eq!(
        ask(&gateway).await.header("x-evenkeel-route"),
        Some("primary")
    );
}

/// A model's name has slashes, as they are or in percent form.
#[tokio::test]
async fn breakers_are_operated_by_model_provider_and_role() {
    let ups = pair().await;
    let gateway = operated(&[&ups[0], &ups[1]]);
    for (target, role, reason) in [
        ("p0/m0", Value::Null, "breaker_open"),
        ("p0%2Fm0", Value::Null, "breaker_open"),
        ("p0", Value::Null, "breaker_open"),
        ("p0/m0", json!("planner"), "quality_gate"),
    ] {
        let line = format!("POST /admin/breakers/{target}");
        let order = |action: &str| json!({ "action": action, "role": role });
        assert_eq!(
            act(&gateway, &line, &order("force_open")).await["changed"],
            true
        );
        let reply = ask(&gateway).await;
        assert_eq!(reply.header("x-evenkeel-rung"), Some("1"), "{target}");
        assert_eq!(reply.header("x-evenkeel-reason"), Some(reason));
        act(&gateway, &line, &order("disable")).await;
        act(&gateway, &line, &order("reset")).await;
        assert_eq!(ask(&gateway).await.header("x-evenkeel-rung"), Some("0"));
    }
}

#[tokio::test]
async fn a_hold_is_lifted() {
    let up = upstream("a", Behaviour::failing(Fault::status(401))).await;
    let fallback = upstream("b", Behaviour::default()).await;
    let gateway = operated(&[&up, &fallback]);
    ask(&gateway).await;
    up.set(Behaviour::default());
    assert_eq!(
        ask(&gateway).await.header("x-evenkeel-reason"),
        Some("hold")
    );
    let said = act(&gateway, "POST /admin/models/p0/m0/release", &json!({})).await;
    assert_eq!(said["provider_hold"], "auth");
    assert_eq!(ask(&gateway).await.header("x-evenkeel-rung"), Some("0"));
}

#[tokio::test]
async fn a_drill_runs_is_shown_and_is_ended() {
    let ups = pair().await;
    let gateway = operated(&[&ups[0], &ups[1]]);
    for kind in ["kill_switch", "eol"] {
        let order = json!({ "kind": kind, "model": "p0/m0", "duration_ms": 600_000 });
        let begun = act(&gateway, "POST /admin/drills", &order).await;
        let reply = ask(&gateway).await;
        assert_eq!(reply.header("x-evenkeel-rung"), Some("1"));
        assert_eq!(reply.header("x-evenkeel-reason"), Some("drill"));
        let again = operate(&gateway, "POST /admin/drills", &order.to_string()).await;
        assert_eq!(again.status, 409);
        assert_eq!(again.error()["code"], "drill_running");
        let shown = state(&gateway).await;
        assert_eq!(shown["drills"][0]["kind"], kind);
        assert_eq!(shown["drills"][0]["answered"], 1);
        let line = format!("DELETE /admin/drills/{}", begun["id"]);
        let ended = act(&gateway, &line, &json!({})).await;
        assert!(ended["first_fallback_ms"].as_f64().unwrap() > 0.0);
        assert_eq!(ask(&gateway).await.header("x-evenkeel-rung"), Some("0"));
        assert_eq!(operate(&gateway, &line, "").await.status, 404);
    }
    assert_eq!(state(&gateway).await["drills"], json!([]));
}

const FORCE: &str = "POST /admin/roles/planner/force";
const BREAKER: &str = "POST /admin/breakers/p0/m0";
const DRILLS: &str = "POST /admin/drills";

/// Orders, and what they are refused with: status, code, field.
const REFUSED: &[(&str, &str, u16, &str, &str)] = &[
    (FORCE, "{}", 400, "missing_required_parameter", "rung"),
    (
        FORCE,
        r#"{"rung": 0, "model": "p0/m0"}"#,
        400,
        "missing_required_parameter",
        "rung",
    ),
    (FORCE, r#"{"rung": 2}"#, 400, "invalid_value", "rung"),
    (
        FORCE,
        r#"{"rung": 18446744073709551615}"#,
        400,
        "invalid_value",
        "rung",
    ),
    (FORCE, r#"{"rung": -1}"#, 400, "invalid_type", "rung"),
    (FORCE, r#"{"rung": "1"}"#, 400, "invalid_type", "rung"),
    (FORCE, r#"{"model": "m1"}"#, 400, "invalid_value", "model"),
    (
        FORCE,
        r#"{"model": "p9/m9"}"#,
        404,
        "model_not_found",
        "model",
    ),
    (
        FORCE,
        r#"{"rung": 1, "rank": 1}"#,
        400,
        "unknown_parameter",
        "rank",
    ),
    (FORCE, "[1]", 400, "invalid_type", ""),
    (FORCE, "{\"rung\": ", 400, "invalid_json", ""),
    (FORCE, "\u{0}\u{ff}", 400, "invalid_json", ""),
    (
        "POST /admin/roles/pilot/force",
        r#"{"rung": 0}"#,
        404,
        "role_not_found",
        "role",
    ),
    (
        "POST /admin/roles/planner%2Fforce/force",
        r#"{"rung": 0}"#,
        404,
        "role_not_found",
        "role",
    ),
    (BREAKER, "{}", 400, "missing_required_parameter", "action"),
    (
        BREAKER,
        r#"{"action": "explode"}"#,
        400,
        "invalid_value",
        "action",
    ),
    (
        BREAKER,
        r#"{"action": "reset", "role": "pilot"}"#,
        404,
        "role_not_found",
        "role",
    ),
    (
        "POST /admin/breakers/p9/m9",
        r#"{"action": "reset"}"#,
        404,
        "model_not_found",
        "model",
    ),
    (
        "POST /admin/breakers/p9",
        r#"{"action": "reset"}"#,
        404,
        "provider_not_found",
        "provider",
    ),
    (
        "POST /admin/breakers/%2F",
        r#"{"action": "reset"}"#,
        400,
        "invalid_value",
        "model",
    ),
    ("POST /admin/models/p0/m0", "{}", 404, "unknown_path", ""),
    (
        "POST /admin/models/p9/m9/release",
        "{}",
        404,
        "model_not_found",
        "model",
    ),
    (
        "POST /admin/models/m0/release",
        "{}",
        400,
        "invalid_value",
        "model",
    ),
    (
        DRILLS,
        r#"{"kind": "fire", "model": "p0/m0", "duration_ms": 1}"#,
        400,
        "invalid_value",
        "kind",
    ),
    (
        DRILLS,
        r#"{"kind": "eol", "model": "p0/m0"}"#,
        400,
        "missing_required_parameter",
        "duration_ms",
    ),
    (
        DRILLS,
        r#"{"kind": "eol", "model": "p0/m0", "duration_ms": 0}"#,
        400,
        "invalid_value",
        "duration_ms",
    ),
    (
        DRILLS,
        r#"{"kind": "eol", "model": "p0/m0", "duration_ms": 86400001}"#,
        400,
        "invalid_value",
        "duration_ms",
    ),
    (
        DRILLS,
        r#"{"kind": "eol", "model": "p9/m9", "duration_ms": 1}"#,
        404,
        "model_not_found",
        "model",
    ),
    ("DELETE /admin/drills/1", "", 404, "drill_not_found", "id"),
    ("DELETE /admin/drills/x", "", 404, "drill_not_found", "id"),
];

#[tokio::test]
async fn what_cannot_be_done_is_refused_with_its_reason() {
    let ups = pair().await;
    let gateway = operated(&[&ups[0], &ups[1]]);
    for (line, body, status, code, param) in REFUSED.iter().copied() {
        let reply = operate(&gateway, line, body).await;
        let error = reply.error();
        assert_eq!(
            (reply.status, &error["code"]),
            (status, &json!(code)),
            "{line} {body}"
        );
        let told = error["param"].as_str().unwrap_or_default();
        assert_eq!(told, param, "{line} {body}");
    }
    let shown = state(&gateway).await;
    assert_eq!(shown["roles"][0]["epoch"], 0);
    assert_eq!(shown["roles"][0]["rungs"][0]["breaker"]["why"], Value::Null);
}

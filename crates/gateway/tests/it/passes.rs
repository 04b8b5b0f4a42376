//! Calls with no routing.

use crate::gateway::{Gateway, Setup, question, upstream};
use evenkeel_chaos::{Behaviour, Fault};
use serde_json::json;

const OFF: [(&str, &str); 1] = [("x-evenkeel-off", "true")];

fn allowed() -> Setup {
    Setup {
        server: "allow_pass = true",
        ..Setup::default()
    }
}

#[tokio::test]
async fn a_model_is_asked_by_its_name_and_a_primary_alone() {
    let ups = [
        upstream("a", Behaviour::default()).await,
        upstream("b", Behaviour::default()).await,
    ];
    let gateway = Gateway::with(&[&ups[0], &ups[1]], allowed());
    for stream in [false, true] {
        let body = question(&json!({ "model": "p1/m1", "stream": stream }));
        let reply = gateway.chat(&[], &body).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        assert_eq!(reply.header("x-evenkeel-model"), Some("p1/m1"));
        assert_eq!(reply.header("x-evenkeel-role"), Some("p1/m1"));
    }
    assert_eq!((ups[0].requests().len(), ups[1].requests().len()), (0, 2));
    ups[0].set(Behaviour::failing(Fault::status(500)));
    let reply = gateway.chat(&OFF, &question(&json!({}))).await;
    assert_eq!(
        (reply.status, &reply.error()["code"]),
        (502, &json!("upstream_error"))
    );
    assert_eq!((ups[0].requests().len(), ups[1].requests().len()), (1, 2));
    // The same call with routing.
    gateway.assert_well().await;
    let nowhere = gateway
        .chat(&[], &question(&json!({ "model": "nope/m" })))
        .await;
    assert_eq!(
        (nowhere.status, &nowhere.error()["code"]),
        (404, &json!("role_not_found"))
    );
}

/// Off by default: a name with a slash names nothing, and the header is refused
/// rather than passed over.
#[tokio::test]
async fn a_pass_is_refused_unless_it_is_allowed() {
    let up = upstream("a", Behaviour::default()).await;
    let gateway = Gateway::start(&[&up]);
    let named = gateway
        .chat(&[], &question(&json!({ "model": "p0/m0" })))
        .await;
    assert_eq!(
        (named.status, &named.error()["code"]),
        (404, &json!("role_not_found"))
    );
    let off = gateway.chat(&OFF, &question(&json!({}))).await;
    assert_eq!(
        (off.status, &off.error()["code"]),
        (403, &json!("pass_not_allowed"))
    );
    let unclear = gateway
        .chat(&[("x-evenkeel-off", "yes")], &question(&json!({})))
        .await;
    assert_eq!(
        (unclear.status, &unclear.error()["code"]),
        (400, &json!("invalid_header"))
    );
    assert_eq!(up.requests().len(), 0);
    let on = gateway
        .chat(&[("x-evenkeel-off", "false")], &question(&json!({})))
        .await;
    assert_eq!(on.status, 200);
}

//! Calls with no routing.

use crate::gateway::{Gateway, Setup, question, upstream};
use evenkeel_chaos::{Behaviour, Fault};
use serde_json::{Value, json};

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

/// C002: the backup hears nothing of a call without fallback, whatever happens when.
#[tokio::test]
async fn a_call_without_fallback_ends_in_the_failure_of_its_primary() {
    let told_within = Fault::ErrorInStream {
        after: 0,
        code: Some("server_error".to_owned()),
        message: "internal".to_owned(),
    };
    let backup = upstream("b", Behaviour::default()).await;
    let primary = upstream("a", Behaviour::default()).await;
    let gateway = Gateway::with(&[&primary, &backup], allowed());
    for (fault, code, cause) in [
        // Before there is a connection, or an answer.
        (Fault::Refuse, "upstream_unreachable", "unreachable"),
        (Fault::Reset, "upstream_error", "transient"),
        (Fault::status(503), "overloaded", "overloaded"),
        (Fault::status(401), "upstream_auth", "auth"),
        // Before the first token of an answer that has begun.
        (told_within, "upstream_error", "transient"),
        (Fault::CutAfter(0), "upstream_error", "transient"),
        // After partial text: nor is the stream gone on with.
        (Fault::CutAfter(3), "upstream_error", "transient"),
        (Fault::ResetAfter(3), "upstream_error", "transient"),
        (Fault::StallAfter(3), "upstream_timeout", "timeout"),
    ] {
        primary.set(Behaviour::failing(fault.clone()));
        for stream in [false, true] {
            let before = primary.requests().len();
            let headers = [
                OFF[0],
                ("x-evenkeel-stall-ms", "150"),
                ("x-evenkeel-deadline-ms", "2000"),
            ];
            let body = question(&json!({ "stream": stream }));
            let reply = gateway.chat(&headers, &body).await;
            let error = if reply.status == 200 {
                assert!(stream && !reply.body.contains("[DONE]"), "{fault:?}");
                let last = reply.events().pop().unwrap();
                serde_json::from_str::<Value>(&last).unwrap()["error"].clone()
            } else {
                reply.error()
            };
            let told = (&error["code"], &error["cause"]);
            assert_eq!(
                told,
                (&json!(code), &json!(cause)),
                "{fault:?} {stream}: {error}"
            );
            assert!(primary.requests().len() - before <= 1, "{fault:?} {stream}");
        }
    }
    assert_eq!(backup.requests().len(), 0);
    // The same call with fallback.
    let reply = gateway.ask().await;
    assert_eq!((reply.status, backup.requests().len()), (200, 1));
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

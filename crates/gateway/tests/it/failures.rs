//! Upstreams that fail: what a caller is told when nothing could answer.

use crate::gateway::{Gateway, upstream};
use crate::wire::Reply;
use evenkeel_chaos::{Behaviour, Fault};
use serde_json::json;
use std::time::Duration;

/// The answer when the only model has this fault, and proof that the gateway
/// answers once the fault is gone.
async fn with_fault(fault: Fault, stream: bool) -> Reply {
    let up = upstream("up", Behaviour::failing(fault)).await;
    let gateway = Gateway::start(&[&up]);
    let reply = if stream {
        gateway.ask_stream().await
    } else {
        gateway.ask().await
    };
    let well = upstream("well", Behaviour::default()).await;
    let other = Gateway::start(&[&well]);
    other.assert_well().await;
    let health = crate::wire::request("GET /healthz", &[], b"");
    assert_eq!(
        crate::wire::send(gateway.address, &health).await.status,
        200
    );
    reply
}

fn code(reply: &Reply) -> (u16, String) {
    let error = reply.error();
    (reply.status, error["code"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn each_class_has_a_status_and_a_code() {
    for (fault, status, told) in [
        (Fault::status(500), 502, "upstream_error"),
        (Fault::status(503), 503, "overloaded"),
        (Fault::status(402), 429, "insufficient_quota"),
        (Fault::status(401), 502, "upstream_auth"),
        (Fault::status(404), 404, "model_not_found"),
        (Fault::status(504), 504, "upstream_timeout"),
        (Fault::context_window(), 400, "context_length_exceeded"),
        (Fault::Refuse, 502, "upstream_unreachable"),
        (Fault::Reset, 502, "upstream_error"),
        (Fault::Close, 502, "upstream_error"),
    ] {
        for stream in [false, true] {
            let reply = with_fault(fault.clone(), stream).await;
            assert_eq!(code(&reply), (status, told.to_owned()), "{fault:?}");
            // The request's own fault has the way to whoever found it, as its record has.
            let route = if status == 400 { "primary" } else { "none" };
            assert_eq!(reply.header("x-evenkeel-route"), Some(route), "{fault:?}");
        }
    }
}

/// The code of a whole answer, and that of a stream, whose events are read one
/// by one: where it ends before it has said anything it ended early.
#[tokio::test]
async fn upstream_nonsense_is_an_error_never_an_answer() {
    for (fault, whole, stream) in [
        (
            Fault::Html { status: 200 },
            "upstream_malformed",
            "upstream_malformed",
        ),
        (
            Fault::Html { status: 502 },
            "upstream_error",
            "upstream_error",
        ),
        (Fault::NoChoices, "upstream_malformed", "upstream_error"),
        (Fault::Empty, "upstream_invalid", "upstream_invalid"),
        (Fault::ErrorIn200, "upstream_error", "upstream_error"),
        (Fault::GzipBomb, "upstream_malformed", "upstream_malformed"),
    ] {
        for (streamed, told) in [(false, whole), (true, stream)] {
            let reply = with_fault(fault.clone(), streamed).await;
            assert_eq!(
                code(&reply),
                (502, told.to_owned()),
                "{fault:?} stream: {streamed}"
            );
        }
    }
    let reply = with_fault(Fault::TruncatedJson, false).await;
    assert_eq!(code(&reply), (502, "upstream_malformed".to_owned()));
}

/// A whole answer that never ends is bounded by the deadline, if not by its size.
#[tokio::test]
async fn an_endless_answer_ends_with_the_deadline() {
    let behaviour = Behaviour::failing(Fault::Endless).with_inter_token(Duration::from_millis(5));
    let up = upstream("up", behaviour).await;
    let gateway = Gateway::start(&[&up]);
    let body = crate::gateway::question(&json!({}));
    let reply = gateway
        .chat(&[("x-evenkeel-deadline-ms", "300")], &body)
        .await;
    assert_eq!(code(&reply), (504, "upstream_timeout".to_owned()));
    up.set(Behaviour::default());
    gateway.assert_well().await;
}

#[tokio::test]
async fn a_rate_limit_passes_its_wait_on() {
    let reply = with_fault(Fault::rate_limited(Duration::from_secs(7)), false).await;
    assert_eq!(code(&reply), (429, "rate_limit_exceeded".to_owned()));
    assert_eq!(reply.header("retry-after"), Some("7"));
    assert_eq!(reply.header("x-should-retry"), None);
}

/// Official clients sleep as long as they are told.
#[tokio::test]
async fn a_long_wait_is_told_in_the_body_and_no_client_sleeps_through_it() {
    let reply = with_fault(Fault::rate_limited(Duration::from_secs(70)), false).await;
    let error = reply.error();
    assert_eq!(reply.header("retry-after"), Some("10"));
    assert_eq!(reply.header("x-should-retry"), Some("false"));
    let wait = error["retry_after_ms"].as_u64().unwrap();
    assert!((60_000..=70_000).contains(&wait), "{wait}");
}

#[tokio::test]
async fn a_bad_request_is_passed_on_as_the_provider_said_it() {
    let fault = Fault::Status {
        status: 400,
        code: Some("invalid_value".to_owned()),
        message: "temperature must be below 2".to_owned(),
        retry_after: None,
    };
    let reply = with_fault(fault, false).await;
    let error = reply.error();
    assert_eq!(code(&reply), (400, "invalid_value".to_owned()));
    assert_eq!(error["message"], "temperature must be below 2");
}

#[tokio::test]
async fn an_exhausted_roster_names_every_rung() {
    let first = upstream("first", Behaviour::failing(Fault::status(500))).await;
    let second = upstream("second", Behaviour::failing(Fault::Refuse)).await;
    let gateway = Gateway::start(&[&first, &second]);
    for stream in [false, true] {
        let reply = if stream {
            gateway.ask_stream().await
        } else {
            gateway.ask().await
        };
        let error = reply.error();
        assert_eq!(code(&reply), (503, "roster_exhausted".to_owned()));
        assert_eq!(error["cause"], "transient");
        let rungs = error["rungs"].as_array().unwrap();
        assert_eq!(rungs[0], json!({ "model": "p0/m0", "class": "transient" }));
        assert_eq!(
            rungs[1],
            json!({ "model": "p1/m1", "class": "unreachable" })
        );
        assert_eq!(reply.header("x-should-retry"), Some("false"));
        assert_eq!(reply.header("x-evenkeel-reason"), Some("roster_exhausted"));
    }
    first.set(Behaviour::default());
    gateway.assert_well().await;
}

#[tokio::test]
async fn a_caller_may_shorten_the_deadline() {
    let up = upstream("up", Behaviour::failing(Fault::Hang)).await;
    let gateway = Gateway::start(&[&up]);
    let body = crate::gateway::question(&json!({}));
    let reply = tokio::time::timeout(
        Duration::from_secs(4),
        gateway.chat(&[("x-evenkeel-deadline-ms", "200")], &body),
    )
    .await
    .unwrap();
    assert_eq!(code(&reply), (504, "upstream_timeout".to_owned()));
}

/// A hold keeps the second call off the model; the answer says until when.
#[tokio::test]
async fn refused_rungs_are_named_with_their_refusal() {
    let first = upstream("first", Behaviour::failing(Fault::status(401))).await;
    let second = upstream("second", Behaviour::failing(Fault::status(500))).await;
    let gateway = Gateway::start(&[&first, &second]);
    gateway.ask().await;
    let error = gateway.ask().await.error();
    let rung = &error["rungs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|rung| rung["model"] == "p0/m0")
        .unwrap()
        .clone();
    assert_eq!(rung["refused"], "hold");
    assert!(rung["retry_in_ms"].as_u64().unwrap() > 10_000);
    assert_eq!(first.requests().len(), 1);
}

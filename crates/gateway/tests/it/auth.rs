//! Who may call, and what becomes of keys.

use crate::gateway::{Gateway, Setup, question, upstream};
use crate::wire;
use evenkeel_chaos::Behaviour;
use evenkeel_gateway::{BindError, Limits, Server};
use evenkeel_roster::ServerConfig;
use serde_json::json;

fn keyed() -> Setup {
    Setup {
        server: "client_keys = [\"evk-one\", \"evk-two\"]",
        ..Setup::default()
    }
}

/// C040, C217: the client's key opens the gateway and goes no further.
#[tokio::test]
async fn a_client_key_is_asked_for_and_never_sent_upstream() {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = Gateway::with(&[&up], keyed());
    let body = question(&json!({}));
    for headers in [
        &[("authorization", "Bearer evk-one")][..],
        &[("x-api-key", "evk-two")],
        &[("authorization", "Bearer wrong"), ("x-api-key", "evk-one")],
    ] {
        assert_eq!(
            gateway.chat(headers, &body).await.status,
            200,
            "{headers:?}"
        );
    }
    for seen in up.requests() {
        assert_eq!(seen.headers["authorization"], "Bearer sk-upstream-0");
        let sent = format!("{:?} {}", seen.headers, seen.body);
        assert!(!sent.contains("evk-"), "{sent}");
    }
}

#[tokio::test]
async fn without_a_good_key_nothing_is_answered() {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = Gateway::with(&[&up], keyed());
    let large = question(&json!({ "padding": "x".repeat(2_000_000) }));
    for headers in [
        &[][..],
        &[("authorization", "Bearer evk-CLIENT-SECRET-123456")],
        &[("authorization", "evk-one")],
        &[("x-api-key", "evk-on")],
    ] {
        let reply = gateway.chat(headers, &large).await;
        assert_eq!(reply.status, 401);
        let error = reply.error();
        assert_eq!(error["code"], "invalid_client_key");
        assert!(!reply.body.contains("CLIENT-SECRET"));
    }
    let models = wire::request("GET /v1/models", &[], b"");
    assert_eq!(wire::send(gateway.address, &models).await.status, 401);
    let health = wire::request("GET /healthz", &[], b"");
    assert_eq!(wire::send(gateway.address, &health).await.status, 200);
    assert_eq!(up.requests().len(), 0);
}

#[tokio::test]
async fn an_open_gateway_listens_on_loopback_only() {
    let up = upstream("up", Behaviour::default()).await;
    let router = Gateway::start(&[&up]).router.clone();
    let bind = |listen: &str, keys: Vec<&str>, allow_open| {
        let config = ServerConfig {
            listen: listen.to_owned(),
            client_keys: keys.into_iter().map(Into::into).collect(),
            allow_open,
            ..ServerConfig::default()
        };
        Server::bind(&config, router.clone(), Limits::default())
    };
    let open = bind("0.0.0.0:0", vec![], false).unwrap_err();
    assert!(matches!(open, BindError::Open { .. }), "{open}");
    assert!(bind("[::]:0", vec![], false).is_err());
    assert!(bind("127.0.0.2:0", vec![], false).is_ok());
    assert!(bind("localhost:0", vec![], false).is_ok());
    assert!(bind("0.0.0.0:0", vec!["evk-one"], false).is_ok());
    assert!(bind("0.0.0.0:0", vec![], true).is_ok());
    let taken = bind("127.0.0.1:0", vec![], false).unwrap();
    let again = bind(&taken.local_addr().to_string(), vec![], false).unwrap_err();
    assert!(matches!(again, BindError::Listen { .. }), "{again}");
    let nowhere = bind("nowhere", vec![], false).unwrap_err();
    assert!(matches!(nowhere, BindError::Address { .. }), "{nowhere}");
}

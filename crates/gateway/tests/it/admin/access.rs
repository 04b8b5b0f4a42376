//! Who may operate, and what callers without the token can do: nothing.

use super::{TOKEN, operate, operated, setup, state};
use crate::gateway::{Gateway, Setup, question, upstream};
use crate::wire;
use evenkeel_chaos::Behaviour;
use evenkeel_gateway::Limits;
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(10);

#[tokio::test]
async fn nothing_is_answered_without_the_token() {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = operated(&[&up]);
    let admin = gateway.admin.unwrap();
    let large = "x".repeat(2_000_000);
    for headers in [
        &[][..],
        &[("authorization", "Bearer evk-client")],
        &[("authorization", "Bearer evk-OPERATOR-CANAR")],
        &[("authorization", "Bearer evk-OPERATOR-CANARYY")],
        &[("authorization", "evk-OPERATOR-CANARY")],
        &[("x-api-key", "")],
    ] {
        for (line, body) in [
            ("GET /admin/state", ""),
            ("POST /admin/state", ""),
            ("GET /admin/nothing", ""),
            ("GET /", ""),
            ("GET //admin/state", ""),
            ("GET /admin/../admin/state", ""),
            ("GET /admin/%2e%2e/state", ""),
            ("POST /admin/state?token=evk-OPERATOR-CANARY", &large),
        ] {
            let reply = wire::send(admin, &wire::request(line, headers, body.as_bytes())).await;
            assert_eq!(reply.status, 401, "{line} {headers:?}");
            let error = reply.error();
            assert_eq!(error["code"], "invalid_admin_token");
            assert!(!reply.body.contains("CANARY"), "{}", reply.body);
        }
    }
    state(&gateway).await;
}

#[tokio::test]
async fn with_the_token_only_the_paths_that_there_are_are_answered() {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = operated(&[&up]);
    for (line, status, code) in [
        ("GET /admin/nothing", 404, "unknown_path"),
        ("GET /admin/state/", 404, "unknown_path"),
        ("GET //admin/state", 404, "unknown_path"),
        ("GET /admin/../admin/state", 404, "unknown_path"),
        ("GET /v1/models", 404, "unknown_path"),
        ("DELETE /admin/state", 405, "method_not_allowed"),
    ] {
        let reply = operate(&gateway, line, "").await;
        assert_eq!(reply.status, status, "{line}");
        assert_eq!(reply.error()["code"], code, "{line}");
    }
}

/// The token opens nothing on the clients' address, where there is no /admin.
#[tokio::test]
async fn clients_have_no_admin_paths() {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = operated(&[&up]);
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("authorization", bearer.as_str())];
    let request = wire::request("GET /admin/state", &headers, b"");
    assert_eq!(wire::send(gateway.address, &request).await.status, 404);
    let asked = gateway.chat(&headers, &question(&json!({}))).await;
    assert_eq!(asked.status, 401);
    assert_eq!(up.requests().len(), 0);
}

#[tokio::test]
async fn without_the_table_there_is_no_such_address() {
    let up = upstream("up", Behaviour::default()).await;
    assert_eq!(Gateway::start(&[&up]).admin, None);
}

/// A head that never ends is answered and cut, and while the operators'
/// connections are all taken by such clients, callers are served as ever.
#[tokio::test]
async fn clients_that_send_nothing_or_drip_hold_nobody_up() {
    let up = upstream("up", Behaviour::default()).await;
    let limits = Limits {
        head: Duration::from_millis(200),
        idle: Duration::from_millis(400),
        ..Limits::default()
    };
    let gateway = Gateway::with(&[&up], Setup { limits, ..setup() });
    let admin = gateway.admin.unwrap();
    let mut open = Vec::new();
    for begun in 0..80_u32 {
        let mut connection = TcpStream::connect(admin).await.unwrap();
        if begun % 2 == 0 {
            connection
                .write_all(b"GET /admin/state HTTP/1.1\r\nhost: ")
                .await
                .unwrap();
        }
        open.push(connection);
    }
    let key = [("authorization", "Bearer evk-client")];
    let asked = gateway.chat(&key, &question(&json!({}))).await;
    assert_eq!(asked.status, 200, "{}", asked.body);
    // An operator's request waits for a place, which the clocks free.
    timeout(LONG, state(&gateway)).await.unwrap();
    let mut answer = Vec::new();
    let dripping = &mut open[0];
    timeout(LONG, dripping.read_to_end(&mut answer))
        .await
        .unwrap()
        .unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.contains("408"), "{answer}");
}

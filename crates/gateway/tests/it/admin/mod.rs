//! The operators' address.

mod access;
mod acts;
mod reload;
mod signal;
mod state;

use crate::gateway::{Gateway, Setup};
use crate::wire::{self, Reply};
use evenkeel_chaos::Upstream;
use serde_json::Value;

pub(crate) const TOKEN: &str = "evk-OPERATOR-CANARY";

/// A gateway with an operators' address.
pub(crate) fn setup() -> Setup {
    Setup {
        server: r#"client_keys = ["evk-client"]
        admin = { listen = "127.0.0.1:0", token = "evk-OPERATOR-CANARY" }"#,
        ..Setup::default()
    }
}

pub(crate) fn operated(upstreams: &[&Upstream]) -> Gateway {
    Gateway::with(upstreams, setup())
}

/// An operator's request with the token, and a body or none.
pub(crate) async fn operate(gateway: &Gateway, line: &str, body: &str) -> Reply {
    let bearer = format!("Bearer {TOKEN}");
    let request = wire::request(line, &[("authorization", &bearer)], body.as_bytes());
    wire::send(gateway.admin.unwrap(), &request).await
}

/// What `GET /admin/state` says.
pub(crate) async fn state(gateway: &Gateway) -> Value {
    let reply = operate(gateway, "GET /admin/state", "").await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()
}

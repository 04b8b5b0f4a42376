//! Kept calls: what callers, operators and webhooks see of them.

mod callers;
pub(crate) mod hook;
mod killed;
mod operators;
mod webhook;

use crate::gateway::{Gateway, Setup, question};
use crate::wire::{self, Reply};
use evenkeel_chaos::{Behaviour, Fault};
use serde_json::{Value, json};

/// A gateway that keeps calls, tries them often and has an operators' address.
pub(crate) fn keeping() -> Setup {
    Setup {
        server: r#"state_dir = "state"
        client_keys = ["evk-ann", "evk-bob"]
        admin = { listen = "127.0.0.1:0", token = "evk-OPERATOR-CANARY" }"#,
        role: r#"on_exhausted = "queue"
        queue = { base_ms = 10, cap_ms = 50 }"#,
        shared: "[breaker]\nfailure_threshold = 1000\nfailure_rate = 1.0\nmin_calls = 1000",
        ..Setup::default()
    }
}

pub(crate) fn down() -> Behaviour {
    Behaviour::failing(Fault::status(500))
}

/// Asks as the holder of a key.
pub(crate) async fn ask_as(gateway: &Gateway, key: &str, headers: &[(&str, &str)]) -> Reply {
    ask_for(gateway, key, headers, &json!({})).await
}

pub(crate) async fn ask_for(
    gateway: &Gateway,
    key: &str,
    headers: &[(&str, &str)],
    fields: &Value,
) -> Reply {
    let bearer = format!("Bearer {key}");
    let mut all = vec![("authorization", bearer.as_str())];
    all.extend_from_slice(headers);
    gateway.chat(&all, &question(fields)).await
}

/// `GET`, `DELETE` and so on of a ticket.
pub(crate) async fn ticket(gateway: &Gateway, method: &str, key: &str, id: &str) -> Reply {
    let bearer = format!("Bearer {key}");
    let line = format!("{method} /v1/evenkeel/tickets/{id}");
    let request = wire::request(&line, &[("authorization", &bearer)], b"");
    wire::send(gateway.address, &request).await
}

/// The id of the ticket that an error or a 202 names.
pub(crate) fn id_of(reply: &Reply) -> String {
    let body = reply.json();
    let id = body["error"]["ticket"]["id"].as_str();
    let id = id.or_else(|| body["id"].as_str());
    id.unwrap_or_else(|| panic!("no ticket: {body}")).to_owned()
}

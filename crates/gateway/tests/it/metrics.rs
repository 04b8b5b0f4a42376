//! `/metrics`: who may read it, and what it says.

use crate::admin::operate;
use crate::gateway::{Gateway, Setup, question, upstream};
use crate::tickets::{ask_as, down, keeping};
use crate::wire::{self, Reply};
use evenkeel_chaos::{Behaviour, Upstream};
use evenkeel_document::SourceFile;
use serde_json::json;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

async fn get(address: SocketAddr, key: Option<&str>) -> Reply {
    let bearer = key.map(|key| format!("Bearer {key}"));
    let headers: Vec<_> = bearer
        .iter()
        .map(|b| ("authorization", b.as_str()))
        .collect();
    let request = wire::request("GET /metrics", &headers, b"");
    wire::send(address, &request).await
}

async fn pair() -> [Upstream; 2] {
    [
        upstream("a", Behaviour::default()).await,
        upstream("b", Behaviour::default()).await,
    ]
}

const ADMIN: &str = r#"admin = { listen = "127.0.0.1:0", token = "evk-OPERATOR-CANARY" }"#;

fn setup(server: &'static str) -> Setup {
    Setup {
        server,
        ..Setup::default()
    }
}

#[tokio::test]
async fn a_call_shows_at_the_next_reading() {
    let ups = pair().await;
    let gateway = Gateway::start(&[&ups[0], &ups[1]]);
    let reply = get(gateway.address, None).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(
        reply.header("content-type"),
        Some("text/plain; version=0.0.4")
    );
    let count = |body: &str| {
        let mut lines = body.lines();
        let line = lines.find(|line| {
            line.starts_with("evenkeel_requests_total{")
                && line.contains(r#"role="planner""#)
                && line.contains(r#"route="primary""#)
        });
        line.unwrap().rsplit(' ').next().unwrap().to_owned()
    };
    assert_eq!(count(&reply.body), "0");
    let answer = gateway.chat(&[], &question(&json!({}))).await;
    assert_eq!(answer.status, 200);
    assert_eq!(count(&get(gateway.address, None).await.body), "1");
}

/// Conformance 7 and C153: what callers make up is in no label, and nothing stays in flight.
#[tokio::test]
async fn callers_make_no_series_and_leave_nothing_in_flight() {
    let ups = pair().await;
    let gateway = Gateway::start(&[&ups[0], &ups[1]]);
    let series = |body: &str| {
        let known = body.lines().filter(|line| !line.starts_with('#'));
        known
            .filter_map(|line| line.rsplit_once(' '))
            .map(|(series, _)| series.to_owned())
            .collect::<BTreeSet<String>>()
    };
    let ask = async |n: u32| {
        let made_up = question(&json!({ "model": format!("role-{n}") }));
        assert_eq!(gateway.chat(&[], &made_up).await.status, 404);
        let named = [
            ("x-evenkeel-task", format!("task-{n}")),
            ("x-evenkeel-workflow", format!("run-{n}")),
            ("x-evenkeel-session", format!("session-{n}")),
            ("x-role", format!("random-{n}")),
        ];
        let named = named
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        assert_eq!(
            gateway.chat(&named, &question(&json!({}))).await.status,
            200
        );
    };
    ask(0).await;
    let first = series(&get(gateway.address, None).await.body);
    for n in 1..100 {
        ask(n).await;
    }
    let body = get(gateway.address, None).await.body;
    let new: Vec<_> = series(&body).difference(&first).cloned().collect();
    assert_eq!(new, Vec::<String>::new());
    assert!(body.contains("evenkeel_inflight_requests{role=\"planner\"} 0\n"));
}

#[tokio::test]
async fn where_clients_need_a_key_so_do_readers() {
    let ups = pair().await;
    let gateway = Gateway::with(&[&ups[0], &ups[1]], setup(r#"client_keys = ["evk-one"]"#));
    assert_eq!(get(gateway.address, None).await.status, 401);
    assert_eq!(get(gateway.address, Some("evk-two")).await.status, 401);
    assert_eq!(get(gateway.address, Some("evk-one")).await.status, 200);
    let open = setup("client_keys = [\"evk-one\"]\nmetrics = \"open\"");
    let gateway = Gateway::with(&[&ups[0], &ups[1]], open);
    assert_eq!(get(gateway.address, None).await.status, 200);
}

#[tokio::test]
async fn operators_read_them_at_their_own_address_and_a_reload_changes_who_may() {
    let ups = pair().await;
    let server = concat!(
        "client_keys = [\"evk-one\"]\nmetrics = \"admin\"\n",
        r#"admin = { listen = "127.0.0.1:0", token = "evk-OPERATOR-CANARY" }"#
    );
    assert!(server.ends_with(ADMIN));
    let gateway = Gateway::with(&[&ups[0], &ups[1]], setup(server));
    assert_eq!(get(gateway.address, Some("evk-one")).await.status, 404);
    assert_eq!(get(gateway.admin.unwrap(), None).await.status, 401);
    assert_eq!(operate(&gateway, "GET /metrics", "").await.status, 200);
    let off = gateway
        .file()
        .replace("metrics = \"admin\"", "metrics = \"off\"");
    gateway.rewrite(&off);
    assert_eq!(
        operate(&gateway, "POST /admin/reload", "").await.status,
        200
    );
    assert_eq!(operate(&gateway, "GET /metrics", "").await.status, 404);
    assert_eq!(get(gateway.address, Some("evk-one")).await.status, 404);
}

#[tokio::test]
async fn a_reload_brings_the_series_of_its_roles() {
    let ups = pair().await;
    let server = concat!(
        "metrics = \"open\"\n",
        r#"admin = { listen = "127.0.0.1:0", token = "evk-OPERATOR-CANARY" }"#
    );
    let gateway = Gateway::with(&[&ups[0], &ups[1]], setup(server));
    let named = |body: &str| body.contains(r#"role="critic""#);
    assert!(!named(&get(gateway.address, None).await.body));
    let more = gateway
        .file()
        .replace("[agent_roles.planner]", "[agent_roles.critic]");
    gateway.rewrite(&more);
    assert_eq!(
        operate(&gateway, "POST /admin/reload", "").await.status,
        200
    );
    let body = get(gateway.address, None).await.body;
    // The role that is gone keeps what it has counted.
    assert!(named(&body) && body.contains(r#"role="planner""#));
}

#[tokio::test]
async fn tickets_are_counted_as_they_are_kept() {
    let ups = [upstream("a", down()).await, upstream("b", down()).await];
    let gateway = Gateway::with(&[&ups[0], &ups[1]], keeping());
    let tickets = |body: &str, state: &str| {
        let labels = format!(r#"evenkeel_tickets{{role="planner",state="{state}"}} "#);
        let line = body.lines().find_map(|line| line.strip_prefix(&labels));
        line.map(str::to_owned)
    };
    let body = get(gateway.address, Some("evk-ann")).await.body;
    assert_eq!(tickets(&body, "queued").as_deref(), Some("0"), "{body}");
    assert_eq!(ask_as(&gateway, "evk-ann", &[]).await.status, 503);
    let body = get(gateway.address, Some("evk-ann")).await.body;
    assert_eq!(tickets(&body, "queued").as_deref(), Some("1"));
    assert_eq!(tickets(&body, "answered").as_deref(), Some("0"));
}

#[tokio::test]
async fn a_run_is_counted_under_the_name_that_its_id_begins_with() {
    let ups = pair().await;
    let server = "workflows = [\"research\"]";
    let gateway = Gateway::with(&[&ups[0], &ups[1]], setup(server));
    let run = [("x-evenkeel-workflow", "research/7")];
    assert_eq!(gateway.chat(&run, &question(&json!({}))).await.status, 200);
    let line = "POST /v1/evenkeel/workflows/research%2F7";
    let request = wire::request(line, &[], br#"{"outcome": "success"}"#);
    let reply = wire::send(gateway.address, &request).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let body = get(gateway.address, None).await.body;
    let counted = r#"evenkeel_workflows_total{outcome="success",workflow="research"} 1"#;
    assert!(body.contains(counted), "{body}");
}

/// The configuration of `deploy/compose.yaml` is one that a gateway takes.
#[test]
fn the_shipped_configuration_is_good() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/evenkeel");
    let file = |name: &str| {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        SourceFile::new(name, text)
    };
    let files = [file("evenkeel.toml"), file("roster.toml")];
    let env =
        |name: &str| (name == "EVENKEEL_CLIENT_KEY").then(|| "evk-a-client-of-ours".to_owned());
    let today = jiff::civil::date(2026, 11, 30);
    let loaded = evenkeel_roster::load(&files, &env, today).unwrap();
    assert_eq!(loaded.config.roles["writer"].rungs.len(), 2);
}

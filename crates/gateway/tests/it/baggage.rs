//! What callers say earlier answers have lost: who is believed, and what goes on.

use crate::gateway::{Gateway, Setup, chat, question, upstream};
use crate::wire::{self, Reply};
use evenkeel_chaos::{Behaviour, Fault, Upstream};
use serde_json::json;
use std::net::SocketAddr;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;

const BEFORE: &str = "vendor=x;p=1,evenkeel.degraded=1,evenkeel.depth=2,evenkeel.min_capability=0.83,\
                      evenkeel.quality=0.80,evenkeel.workflow=run-7,evenkeel.agents=reader|a%257Cb%253Bc";

async fn down_and_up() -> (Upstream, Upstream) {
    let down = upstream("down", Behaviour::failing(Fault::status(503))).await;
    (down, upstream("up", Behaviour::default()).await)
}

fn with(server: &'static str, role: &'static str) -> Setup {
    Setup {
        server,
        role,
        ..Setup::default()
    }
}

/// The value of one of evenkeel's members of an answer's baggage.
fn member<'a>(reply: &'a Reply, key: &str) -> Option<&'a str> {
    let members = reply.header("baggage")?.split(',');
    members
        .filter_map(|member| member.strip_prefix("evenkeel.")?.split_once('='))
        .find_map(|(known, value)| (known == key).then_some(value))
}

async fn ask(gateway: &Gateway, baggage: &str) -> Reply {
    let body = question(&json!({}));
    gateway.chat(&[("baggage", baggage)], &body).await
}

/// The same from another address of this machine.
async fn ask_from(source: &str, gateway: &Gateway, headers: &[(&str, &str)]) -> Reply {
    let socket = TcpSocket::new_v4().unwrap();
    let source: SocketAddr = format!("{source}:0").parse().unwrap();
    socket.bind(source).unwrap();
    let mut connection = socket.connect(gateway.address).await.unwrap();
    let request = chat(headers, &question(&json!({})));
    connection.write_all(&request).await.unwrap();
    wire::receive(&mut connection).await
}

#[tokio::test]
async fn a_trusted_callers_context_goes_on_with_one_more_step_and_to_no_provider() {
    let (down, up) = down_and_up().await;
    let gateway = Gateway::start(&[&down, &up]);
    let body = question(&json!({ "stream": true }));
    for reply in [
        ask(&gateway, BEFORE).await,
        gateway.chat(&[("baggage", BEFORE)], &body).await,
    ] {
        assert_eq!(reply.status, 200, "{}", reply.body);
        assert_eq!(member(&reply, "depth"), Some("3"));
        assert_eq!(
            member(&reply, "agents"),
            Some("reader|a%257Cb%253Bc|planner")
        );
        assert_eq!(member(&reply, "active"), Some("p1/m1"));
        assert_eq!(member(&reply, "primary"), Some("p0/m0"));
        assert_eq!(member(&reply, "reason"), Some("overloaded"));
        assert_eq!(member(&reply, "workflow"), Some("run-7"));
        // The fallback is unqualified: nothing is known of it.
        assert_eq!(member(&reply, "min_capability"), Some("0.00"));
        assert!(reply.header("baggage").unwrap().ends_with(",vendor=x;p=1"));
    }
    // Conformance 10: as deep as the caller said and one, both times.
    let page = wire::send(gateway.address, &wire::request("GET /metrics", &[], b"")).await;
    for line in [
        r#"evenkeel_degradation_depth_sum{role="planner"} 6"#,
        r#"evenkeel_degradation_depth_count{role="planner"} 2"#,
    ] {
        assert!(page.body.contains(line), "{line}");
    }
    for seen in down.requests().iter().chain(&up.requests()) {
        let sent = format!("{:?} {}", seen.headers, seen.body);
        for word in ["baggage", "evenkeel.", "run-7", "vendor"] {
            assert!(!sent.contains(word), "{word} in {sent}");
        }
    }
}

/// Others' members go on as they came to a provider of one's own, from whom is believed.
#[tokio::test]
async fn a_provider_that_propagates_gets_what_a_trusted_caller_carries() {
    let up = upstream("up", Behaviour::default()).await;
    for (server, carries) in [("", true), ("trusted_networks = []", false)] {
        let setup = Setup {
            server,
            provider: "propagate = true",
            ..Setup::default()
        };
        let gateway = Gateway::with(&[&up], setup);
        assert_eq!(ask(&gateway, BEFORE).await.status, 200);
        let seen = up.requests();
        let sent = seen.last().unwrap().headers.get("baggage");
        let sent = sent.map(String::as_str);
        assert_eq!(
            sent.is_some_and(|sent| sent.ends_with(",vendor=x;p=1")),
            carries,
            "{sent:?}"
        );
        assert_eq!(
            sent.is_some_and(|sent| sent.contains("evenkeel.depth=2")),
            carries,
            "{sent:?}"
        );
    }
}

#[tokio::test]
async fn a_healthy_step_passes_the_context_on_and_adds_nothing_of_its_own() {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = Gateway::start(&[&up]);
    assert_eq!(gateway.ask().await.header("baggage"), None);
    let foreign = "a=1, b = 2;x ,c=%41";
    assert_eq!(
        ask(&gateway, foreign).await.header("baggage"),
        Some("a=1,b = 2;x,c=%41")
    );
    let first = ask(&gateway, BEFORE).await;
    let again = ask(&gateway, first.header("baggage").unwrap()).await;
    assert_eq!(member(&first, "depth"), Some("2"));
    assert_eq!(again.header("baggage"), first.header("baggage"));
    let body = question(&json!({}));
    let named = gateway
        .chat(&[("x-evenkeel-workflow", "run-8")], &body)
        .await;
    assert_eq!(
        named.header("baggage"),
        Some("evenkeel.degraded=0,evenkeel.workflow=run-8")
    );
}

#[tokio::test]
async fn who_is_not_trusted_is_not_believed() {
    let (down, up) = down_and_up().await;
    let role = "on_degraded_input = \"refuse\"";
    let key = ("authorization", "Bearer evk-one");
    // Loopback by default, in whichever family; else whoever is configured.
    let by_default = Gateway::with(&[&down, &up], with("", role));
    let one = Gateway::with(
        &[&down, &up],
        with("trusted_networks = [\"127.0.0.1\"]", role),
    );
    let nobody = Gateway::with(
        &[&down, &up],
        with("client_keys = [\"evk-one\"]\ntrusted_networks = []", role),
    );
    let holders = Gateway::with(
        &[&down, &up],
        with(
            "client_keys = [\"evk-one\"]\ntrusted_networks = []\ntrust_client_keys = true",
            role,
        ),
    );
    for (gateway, source, believed) in [
        (&by_default, "127.0.0.1", true),
        (&by_default, "127.0.0.2", true),
        (&one, "127.0.0.1", true),
        (&one, "127.0.0.2", false),
        (&nobody, "127.0.0.1", false),
        (&holders, "127.0.0.1", true),
    ] {
        let reply = ask_from(source, gateway, &[key, ("baggage", BEFORE)]).await;
        if believed {
            assert_eq!(reply.status, 424, "{source}: {}", reply.body);
            continue;
        }
        // Forged: the call begins with nothing, and only others' members go on.
        assert_eq!(reply.status, 200, "{source}: {}", reply.body);
        assert_eq!(member(&reply, "depth"), Some("1"));
        assert_eq!(member(&reply, "agents"), Some("planner"));
        assert_eq!(member(&reply, "workflow"), None);
        assert!(reply.header("baggage").unwrap().ends_with(",vendor=x;p=1"));
    }
}

#[tokio::test]
async fn a_role_that_refuses_degraded_input_says_so_in_the_clients_words() {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = Gateway::with(&[&up], with("", "on_degraded_input = \"refuse\""));
    let reply = ask(&gateway, BEFORE).await;
    assert_eq!(reply.status, 424);
    let error = reply.error();
    assert_eq!(error["code"], "degraded_input");
    assert_eq!(error["type"], "invalid_request_error");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("0.83") && message.contains("`a|b;c`"),
        "{message}"
    );
    assert_eq!(reply.header("x-should-retry"), Some("false"));
    // The code says why: the reasons of a route are a closed set.
    assert_eq!(reply.header("x-evenkeel-route"), Some("primary"));
    assert_eq!(reply.header("x-evenkeel-reason"), None);
    assert_eq!(reply.header("x-evenkeel-attempts"), Some("0"));
    assert_eq!(member(&reply, "depth"), Some("2"));
    assert_eq!(up.requests().len(), 0);
    gateway.assert_well().await;
}

#[tokio::test]
async fn no_baggage_fails_a_request() {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = Gateway::start(&[&up]);
    let long = format!("evenkeel.depth=1,k={}", "v".repeat(9_000));
    let many = "evenkeel.depth=9,".repeat(480);
    for junk in [
        long.as_str(),
        &many,
        "",
        ",,,;=;=,",
        "evenkeel.",
        "evenkeel.depth=999,evenkeel.agents=%,evenkeel.since=-1,evenkeel.quality=NaN",
        "evenkeel.agents=%25FF|%25",
        "\u{e9}venkeel=1",
    ] {
        let reply = ask(&gateway, junk).await;
        assert_eq!(reply.status, 200, "{junk:.40}: {}", reply.body);
        assert!(reply.header("baggage").is_none_or(|b| b.len() <= 8_192));
    }
    // Several headers are one list.
    let body = question(&json!({}));
    let headers = [("baggage", "a=1"), ("baggage", BEFORE), ("baggage", "b=2")];
    let reply = gateway.chat(&headers, &body).await;
    assert!(
        reply
            .header("baggage")
            .unwrap()
            .ends_with(",a=1,vendor=x;p=1,b=2")
    );
    assert_eq!(member(&reply, "depth"), Some("2"));
}

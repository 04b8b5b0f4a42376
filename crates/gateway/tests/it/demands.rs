//! Task, complexity, capability and pinned roster, as headers of a request.

use crate::gateway::{Gateway, Setup, question, upstream};
use crate::wire::Reply;
use evenkeel_chaos::{Behaviour, Fault, Upstream};
use serde_json::{Value, json};

/// `p0/m0` (1.0) and `p1/m1` (0.9), with a task that turns their order.
async fn gateway(primary: Behaviour) -> (Vec<Upstream>, Gateway) {
    let first = upstream("first", primary).await;
    let second = upstream("second", Behaviour::default()).await;
    let role = r#"
        allow_pinned_roster = true
        complexity = { medium = 0.85 }
        [agent_roles.planner.tasks.review]
        order = ["p1/m1", "p0/m0"]
        "#;
    let setup = Setup {
        role,
        fallback: "capability_score = 0.9",
        ..Setup::default()
    };
    let gateway = Gateway::with(&[&first, &second], setup);
    (vec![first, second], gateway)
}

fn model(reply: &Reply) -> &str {
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.header("x-evenkeel-model").unwrap()
}

async fn ask(gateway: &Gateway, headers: &[(&str, &str)]) -> Reply {
    gateway.chat(headers, &question(&json!({}))).await
}

/// Status, code and param of an error.
fn told(reply: &Reply) -> (u16, String, Value) {
    let error = reply.error();
    let code = error["code"].as_str().unwrap().to_owned();
    (reply.status, code, error["param"].clone())
}

#[tokio::test]
async fn a_task_has_its_own_order_and_an_unknown_one_none() {
    let (_up, gateway) = gateway(Behaviour::default()).await;
    let review = ask(&gateway, &[("x-evenkeel-task", "review")]).await;
    assert_eq!(model(&review), "p1/m1");
    assert_eq!(review.header("x-evenkeel-rung"), Some("0"));
    assert_eq!(review.header("x-evenkeel-degraded"), Some("false"));
    let unknown = ask(&gateway, &[("x-evenkeel-task", "unheard-of")]).await;
    assert_eq!(model(&unknown), "p0/m0");
}

#[tokio::test]
async fn what_a_request_asks_for_is_kept_whole_and_streamed() {
    let (up, gateway) = gateway(Behaviour::failing(Fault::status(500))).await;
    for stream in [false, true] {
        let body = question(&json!({ "stream": stream }));
        let medium = gateway.chat(&[("x-evenkeel-complexity", "medium")], &body);
        assert_eq!(model(&medium.await), "p1/m1");
        let asked = up[1].requests().len();
        for header in [
            ("x-evenkeel-complexity", "high"),
            ("x-evenkeel-min-capability", "0.91"),
        ] {
            let reply = gateway.chat(&[header], &body).await;
            let error = reply.error();
            assert_eq!(told(&reply).0, 503, "{header:?}: {error}");
            assert_eq!(error["code"], "roster_exhausted");
            let refused = &error["rungs"][1];
            assert_eq!(refused["refused"], "below_capability");
            assert_eq!(refused["capability_score"], 0.9);
            assert_eq!(up[1].requests().len(), asked, "never asked");
        }
    }
}

#[tokio::test]
async fn a_request_may_name_its_models() {
    let (_up, gateway) = gateway(Behaviour::default()).await;
    let reply = ask(&gateway, &[("x-evenkeel-roster", "p1/m1, p0/m0")]).await;
    assert_eq!(model(&reply), "p1/m1");
    assert_eq!(reply.header("x-evenkeel-reason"), Some("manual"));
}

#[tokio::test]
async fn a_header_that_asks_for_nonsense_is_refused_before_anybody_is_asked() {
    let (up, gateway) = gateway(Behaviour::default()).await;
    let roster = "x-evenkeel-roster";
    for (header, value, code) in [
        ("x-evenkeel-complexity", "hard", "invalid_header"),
        ("x-evenkeel-min-capability", "lots", "invalid_header"),
        (roster, "m0", "invalid_header"),
        (roster, "", "invalid_header"),
        (roster, "p0/m0,p0/m0", "invalid_pinned_roster"),
        (roster, "p7/m7", "unknown_pinned_model"),
    ] {
        let reply = ask(&gateway, &[(header, value)]).await;
        let expected = (400, code.to_owned(), json!(header));
        assert_eq!(told(&reply), expected, "{header}: {value}");
    }
    let long = "t".repeat(300);
    let reply = ask(&gateway, &[("x-evenkeel-task", &long)]).await;
    assert_eq!(told(&reply).1, "invalid_header");
    let message = ask(&gateway, &[("x-evenkeel-complexity", "hard")])
        .await
        .error();
    assert!(
        message["message"]
            .as_str()
            .unwrap()
            .contains("low, medium, high")
    );
    assert_eq!(up[0].requests().len() + up[1].requests().len(), 0);
    gateway.assert_well().await;
}

#[tokio::test]
async fn a_pinned_roster_needs_the_policys_leave_and_too_much_is_the_callers_mistake() {
    let only = upstream("only", Behaviour::default()).await;
    let gateway = Gateway::start(&[&only]);
    let reply = ask(&gateway, &[("x-evenkeel-roster", "p0/m0")]).await;
    let code = "pinned_roster_not_allowed".to_owned();
    assert_eq!(told(&reply), (400, code, json!("x-evenkeel-roster")));
    let (up, gateway) = self::gateway(Behaviour::default()).await;
    let headers = [
        ("x-evenkeel-roster", "p1/m1"),
        ("x-evenkeel-min-capability", "0.95"),
    ];
    let reply = ask(&gateway, &headers).await;
    assert_eq!(told(&reply).0, 400);
    assert_eq!(reply.error()["code"], "below_capability");
    assert_eq!(up[1].requests().len(), 0);
}

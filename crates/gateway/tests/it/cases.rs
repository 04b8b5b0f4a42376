//! What reaches a fallback, and what outcomes lead to, through the binary's own sockets.

use crate::gateway::{Gateway, Setup, question, upstream};
use evenkeel_chaos::{Behaviour, Fault, SeenRequest};
use serde_json::json;

/// Every text of a request as it came: header names and values, and the body.
fn everything(seen: &SeenRequest) -> String {
    format!("{:?} {}", seen.headers, seen.body)
}

/// C018, C179: the fallback gets its own key, address and model name, and
/// nothing of the primary's, whatever made the call move and however it was asked.
#[tokio::test]
async fn a_fallback_is_asked_with_its_own_key_address_and_model_name() {
    for fault in [
        Fault::status(503),
        Fault::status(401),
        Fault::status(404),
        Fault::status(429),
        Fault::Refuse,
        Fault::Reset,
    ] {
        for stream in [false, true] {
            let first = upstream("first", Behaviour::failing(fault.clone())).await;
            let second = upstream("second", Behaviour::default()).await;
            let gateway = Gateway::start(&[&first, &second]);
            let body = question(&json!({ "stream": stream, "user": "someone" }));
            let reply = gateway
                .chat(&[("authorization", "Bearer sk-client")], &body)
                .await;
            assert_eq!(reply.status, 200, "{fault:?}: {}", reply.body);
            assert_eq!(reply.header("x-evenkeel-model"), Some("p1/m1"));

            let seen = second.requests();
            assert_eq!(seen.len(), 1, "{fault:?}");
            let seen = &seen[0];
            assert_eq!(seen.headers["authorization"], "Bearer sk-upstream-1");
            assert_eq!(seen.headers["host"], second.address().to_string());
            assert_eq!(seen.body["model"], "m1");
            let all = everything(seen);
            for foreign in ["sk-upstream-0", "sk-client", "m0", "p0", "planner"] {
                assert!(!all.contains(foreign), "{foreign} in {all}");
            }
            assert!(!all.contains(&first.address().to_string()), "{all}");
            // And the other way round.
            for seen in first.requests() {
                assert_eq!(seen.headers["authorization"], "Bearer sk-upstream-0");
                assert_eq!(seen.body["model"], "m0");
                assert!(!everything(&seen).contains("m1"));
            }
        }
    }
}

/// C064: outcomes reach the breaker from the sockets on.
#[tokio::test]
async fn a_failing_primary_is_asked_until_its_breaker_opens_and_no_more() {
    for stream in [false, true] {
        let first = upstream("first", Behaviour::failing(Fault::status(500))).await;
        let second = upstream("second", Behaviour::default()).await;
        let setup = Setup {
            server: "[breaker]\nfailure_threshold = 3",
            ..Setup::default()
        };
        let gateway = Gateway::with(&[&first, &second], setup);
        for _ in 0..6 {
            let body = question(&json!({ "stream": stream }));
            let reply = gateway.chat(&[], &body).await;
            assert_eq!(reply.status, 200, "{}", reply.body);
        }
        assert_eq!(first.requests().len(), 3, "no layer below retries either");
        assert_eq!(second.requests().len(), 6);
    }
}

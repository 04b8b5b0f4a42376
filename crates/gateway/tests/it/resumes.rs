//! Streams that go on with another model, through the binary's own sockets.

use crate::gateway::{Gateway, Setup, question, upstream};
use evenkeel_chaos::{Behaviour, Fault};
use serde_json::{Value, json};

const TEXT: &str = "Ebb — and  flow,\n\nслово 🙂 end of it.";

fn text(chunks: &[Value]) -> String {
    chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect()
}

fn says(text: &str) -> Behaviour {
    Behaviour::default().with_text(text)
}

/// C105: the next target is tried, in a way that the caller can see.
#[tokio::test]
async fn a_stream_that_breaks_goes_on_with_the_next_model_behind_a_marked_joint() {
    for (fault, reason) in [
        (Fault::CutAfter(3), "transient"),
        (Fault::ResetAfter(3), "transient"),
        (Fault::EndAfter(3), "transient"),
        (Fault::FalseDoneAfter(3), "transient"),
        (Fault::StallAfter(3), "timeout"),
    ] {
        let first = upstream("first", says(TEXT).with_fault(fault.clone())).await;
        let second = upstream("second", says(TEXT)).await;
        let gateway = Gateway::start(&[&first, &second]);
        let fields = json!({ "stream": true, "stream_options": { "include_usage": true } });
        let headers = [("x-evenkeel-stall-ms", "150")];
        let reply = gateway.chat(&headers, &question(&fields)).await;
        assert!(reply.complete);
        let chunks = reply.chunks();
        assert_eq!(text(&chunks), TEXT, "{fault:?}");
        assert_eq!(reply.events().last().map(String::as_str), Some("[DONE]"));
        for chunk in &chunks {
            for name in ["id", "created", "model"] {
                assert_eq!(chunk[name], chunks[0][name], "{fault:?}: {chunk}");
            }
        }
        let told: Vec<&Value> = chunks
            .iter()
            .filter(|c| c.get("evenkeel").is_some())
            .collect();
        let who: Vec<&str> = told
            .iter()
            .map(|chunk| chunk["evenkeel"]["model_id"].as_str().unwrap())
            .collect();
        // The first chunk, the joint, the finish, the usage.
        assert_eq!(who, ["p0/m0", "p1/m1", "p1/m1", "p1/m1"], "{fault:?}");
        let joint = told[1];
        assert_eq!(joint["choices"][0]["delta"], json!({}));
        assert_eq!(joint["choices"][0]["finish_reason"], Value::Null);
        assert_eq!(joint["evenkeel"]["fallback_reason"], reason);
        assert_eq!(joint["evenkeel"]["route"], "fallback");
        assert_eq!(joint["evenkeel"]["degraded"], true);
    }
}

#[tokio::test]
async fn a_model_that_takes_a_prefill_is_given_the_text_so_far() {
    let first = upstream("first", says(TEXT).with_fault(Fault::CutAfter(4))).await;
    let second = upstream("second", says(TEXT).with_continuation()).await;
    let setup = Setup {
        server: "[[models]]\nid = \"p1/m1\"\nprefill = true",
        ..Setup::default()
    };
    let gateway = Gateway::with(&[&first, &second], setup);
    let reply = gateway.ask_stream().await;
    assert_eq!(text(&reply.chunks()), TEXT);
    let asked = &second.requests()[0].body["messages"];
    let begun = asked.as_array().unwrap().last().unwrap();
    assert_eq!(begun["role"], "assistant");
    let begun = begun["content"].as_str().unwrap();
    assert!(
        TEXT.starts_with(begun) && begun == begun.trim_end(),
        "{begun:?}"
    );
    assert_eq!(
        first.requests()[0].body["messages"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

/// C022: what cannot go on ends in the product's own error, and never in a clean end.
#[tokio::test]
async fn a_stream_that_cannot_go_on_ends_in_the_error_of_its_break() {
    let first = upstream("first", says(TEXT).with_fault(Fault::CutAfter(3))).await;
    let second = upstream("second", says("Something else.")).await;
    let fail = Setup {
        role: "on_stream_break = \"fail\"",
        ..Setup::default()
    };
    for (setup, asked) in [(Setup::default(), 1), (fail, 0)] {
        let before = second.requests().len();
        let gateway = Gateway::with(&[&first, &second], setup);
        let reply = gateway.ask_stream().await;
        let last: Value = serde_json::from_str(reply.events().last().unwrap()).unwrap();
        assert_eq!(last["error"]["code"], "upstream_error");
        assert_eq!(last["error"]["cause"], "transient");
        assert!(!reply.body.contains("[DONE]") && !reply.body.contains("Something"));
        assert_eq!(second.requests().len() - before, asked);
    }
}

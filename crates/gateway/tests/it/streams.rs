//! Streams, event by event.

use crate::gateway::{Gateway, Setup, question, upstream};
use evenkeel_chaos::{Behaviour, Fault};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn a_stream_is_whole_and_of_one_piece() {
    let behaviour = Behaviour::default().with_text("one two three");
    let up = upstream("up", behaviour).await;
    let gateway = Gateway::start(&[&up]);
    let reply = gateway.ask_stream().await;
    assert_eq!(reply.status, 200);
    assert!(reply.complete);
    let content_type = reply.header("content-type").unwrap();
    assert!(
        content_type.starts_with("text/event-stream"),
        "{content_type}"
    );
    assert_eq!(reply.header("x-evenkeel-model"), Some("p0/m0"));
    assert!(reply.header("x-evenkeel-overhead-ms").is_some());
    for line in reply.body.lines().filter(|line| !line.is_empty()) {
        assert!(line.starts_with("data: "), "{line}");
    }
    assert_eq!(reply.events().last().map(String::as_str), Some("[DONE]"));
    let chunks = reply.chunks();
    for chunk in &chunks {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!(chunk["model"], "p0/m0");
        assert_eq!(chunk["id"], chunks[0]["id"]);
        assert_eq!(chunk["created"], chunks[0]["created"]);
        assert!(chunk.get("usage").is_none_or(Value::is_null), "{chunk}");
    }
    assert!(!chunks[0]["id"].as_str().unwrap().is_empty());
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(text(&chunks), "one two three");
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    let with_meta: Vec<usize> = (0..chunks.len())
        .filter(|i| chunks[*i].get("evenkeel").is_some())
        .collect();
    assert_eq!(with_meta, [0, chunks.len() - 1]);
    assert_eq!(chunks[0]["evenkeel"]["model_id"], "p0/m0");
    assert_eq!(last["evenkeel"]["route"], "primary");
}

fn text(chunks: &[Value]) -> String {
    chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect()
}

#[tokio::test]
async fn usage_comes_last_and_only_if_asked_for() {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = Gateway::start(&[&up]);
    let body = question(&json!({ "stream": true, "stream_options": { "include_usage": true } }));
    let chunks = gateway.chat(&[], &body).await.chunks();
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert!(last["usage"]["completion_tokens"].as_u64().unwrap() > 0);
    assert_eq!(last["evenkeel"]["model_id"], "p0/m0");
}

/// C105: the caller can always tell a broken answer from a whole one.
#[tokio::test]
async fn a_break_after_the_commit_ends_in_an_error_event() {
    for (fault, code) in [
        (Fault::CutAfter(3), "upstream_error"),
        (Fault::ResetAfter(3), "upstream_error"),
        (Fault::EndAfter(3), "upstream_error"),
        (Fault::FalseDoneAfter(3), "upstream_error"),
    ] {
        let up = upstream("up", Behaviour::failing(fault.clone())).await;
        let other = upstream("other", Behaviour::default()).await;
        let gateway = Gateway::start(&[&up, &other]);
        let reply = gateway.ask_stream().await;
        assert_eq!(reply.status, 200, "{fault:?}");
        assert!(reply.complete);
        let events = reply.events();
        assert!(!events.contains(&"[DONE]".to_owned()), "{fault:?}");
        let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
        assert_eq!(last["error"]["code"], code, "{fault:?}: {last}");
        assert_eq!(last["error"]["cause"], "transient");
        for field in ["message", "type", "param"] {
            assert!(last["error"].get(field).is_some(), "{field}");
        }
        let finished = reply
            .chunks()
            .iter()
            .any(|c| !c["choices"][0]["finish_reason"].is_null());
        assert!(!finished, "{fault:?}: {}", reply.body);
        gateway.assert_well().await;
    }
}

#[tokio::test]
async fn an_error_within_the_stream_is_told_with_its_class() {
    let fault = Fault::ErrorInStream {
        after: 2,
        code: None,
        message: "something broke".to_owned(),
    };
    let up = upstream("up", Behaviour::failing(fault)).await;
    let gateway = Gateway::start(&[&up]);
    let reply = gateway.ask_stream().await;
    let last: Value = serde_json::from_str(reply.events().last().unwrap()).unwrap();
    assert!(last["error"]["code"].is_string(), "{last}");
    assert!(!reply.body.contains("[DONE]"));
}

#[tokio::test]
async fn a_stall_after_the_commit_is_a_timeout() {
    let up = upstream("up", Behaviour::failing(Fault::StallAfter(2))).await;
    let gateway = Gateway::start(&[&up]);
    let body = question(&json!({ "stream": true }));
    let reply = gateway.chat(&[("x-evenkeel-stall-ms", "150")], &body).await;
    let last: Value = serde_json::from_str(reply.events().last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "upstream_timeout");
    assert_eq!(last["error"]["cause"], "timeout");
}

#[tokio::test]
async fn a_break_before_the_commit_is_invisible() {
    for fault in [
        Fault::CutAfter(0),
        Fault::ErrorIn200,
        Fault::NoChoices,
        Fault::Empty,
        Fault::Html { status: 200 },
        Fault::GzipBomb,
    ] {
        let bad = upstream("bad", Behaviour::failing(fault.clone())).await;
        let good = upstream("good", Behaviour::default().with_text("from the other")).await;
        let gateway = Gateway::start(&[&bad, &good]);
        let reply = gateway.ask_stream().await;
        assert_eq!(reply.status, 200, "{fault:?}");
        assert_eq!(text(&reply.chunks()), "from the other", "{fault:?}");
        assert_eq!(reply.header("x-evenkeel-model"), Some("p1/m1"));
        assert_eq!(
            reply.header("x-evenkeel-reason"),
            reply.chunks()[0]["evenkeel"]["fallback_reason"].as_str()
        );
    }
}

/// An endless stream is bounded by the deadline and ends in an error.
#[tokio::test]
async fn an_endless_stream_ends_with_the_deadline() {
    let behaviour = Behaviour::failing(Fault::Endless).with_inter_token(Duration::from_millis(5));
    let up = upstream("up", behaviour).await;
    let gateway = Gateway::start(&[&up]);
    let body = question(&json!({ "stream": true }));
    let reply = gateway
        .chat(&[("x-evenkeel-deadline-ms", "300")], &body)
        .await;
    let last: Value = serde_json::from_str(reply.events().last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "upstream_timeout", "{last}");
    assert!(reply.chunks().len() > 5);
    up.set(Behaviour::default());
    gateway.assert_well().await;
}

#[tokio::test]
async fn a_held_stream_is_whole_or_from_another_model() {
    let bad = upstream("bad", Behaviour::failing(Fault::CutAfter(3))).await;
    let good = upstream("good", Behaviour::default().with_text("whole answer")).await;
    let setup = Setup {
        role: "commit = \"full\"",
        ..Setup::default()
    };
    let gateway = Gateway::with(&[&bad, &good], setup);
    let reply = gateway.ask_stream().await;
    assert_eq!(text(&reply.chunks()), "whole answer");
    assert_eq!(reply.events().last().map(String::as_str), Some("[DONE]"));
}

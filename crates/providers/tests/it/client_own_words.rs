//! A server that refuses what the caller never said is asked without it.

use crate::server::{
    Key, Request, STREAM_HEAD, Server, all, answer_body, call, chunk, client, ok, request,
    response, text, text_event,
};
use evenkeel_core::{Class, Provider};
use evenkeel_providers::{Client, ClientConfig, ClientOptions, Dialect, ModelOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::io::AsyncWriteExt;

type Log = Arc<Mutex<Vec<Value>>>;

/// A server that refuses requests with `field` and answers the others.
async fn without(field: &'static str) -> (Server, Log) {
    let log = Log::default();
    let kept = Arc::clone(&log);
    let server = Server::new(move |_, mut socket| {
        let kept = Arc::clone(&kept);
        async move {
            while let Some(Request { body, .. }) = request(&mut socket).await {
                let asked: Value = serde_json::from_slice(&body).unwrap();
                let answer = if asked.get(field).is_some() {
                    refusal(field)
                } else if asked["stream"] == true {
                    [
                        STREAM_HEAD,
                        &chunk(&text_event("hi")),
                        &chunk("data: [DONE]\n\n"),
                        "0\r\n\r\n",
                    ]
                    .concat()
                    .into_bytes()
                } else {
                    ok("application/json", &answer_body("hi"))
                };
                kept.lock().unwrap().push(asked);
                socket.write_all(&answer).await.unwrap();
            }
        }
    })
    .await;
    (server, log)
}

fn refusal(field: &str) -> Vec<u8> {
    let body = json!({"error": {"message": format!("Unknown field: {field}"),
        "type": "invalid_request_error", "param": field}});
    let head = "content-type: application/json\r\n";
    response(400, head, body.to_string().as_bytes())
}

fn sent(log: &Log, field: &str) -> Vec<bool> {
    let log = log.lock().unwrap();
    log.iter().map(|asked| asked.get(field).is_some()).collect()
}

/// Case C162: one further call without the field, and none of it the next time.
#[tokio::test]
async fn a_stream_is_asked_for_its_usage_until_the_server_refuses() {
    let (server, log) = without("stream_options").await;
    let client = server.client();
    let Err(refused) = client.stream(call()).await else {
        panic!("the server takes no stream_options");
    };
    assert!(refused.own_words && refused.class == Class::BadRequest);
    for _ in 0..2 {
        let events = all(client.stream(call()).await.unwrap()).await;
        assert_eq!(text(&events), "hi");
    }
    assert_eq!(sent(&log, "stream_options"), [true, false, false]);
}

/// Case C162: a profile can say so from the start.
#[tokio::test]
async fn a_model_whose_streams_have_no_usage_is_not_asked_for_it() {
    let (server, log) = without("stream_options").await;
    let model = ModelOptions {
        stream_usage: Some(false),
        ..ModelOptions::default()
    };
    let options = ClientOptions {
        models: BTreeMap::from([("small".to_owned(), model)]),
        ..ClientOptions::default()
    };
    let client = client(&server.url(), options);
    let events = all(client.stream(call()).await.unwrap()).await;
    assert_eq!(text(&events), "hi");
    assert_eq!(sent(&log, "stream_options"), [false]);
}

#[tokio::test]
async fn the_cap_goes_under_the_name_that_the_server_takes() {
    let (server, log) = without("max_tokens").await;
    let client = server.client();
    let capped = || {
        let mut call = call();
        Arc::make_mut(&mut call.request).max_output_tokens = Some(64);
        call
    };
    let refused = client.complete(capped()).await.unwrap_err();
    assert!(refused.own_words);
    client.complete(capped()).await.unwrap();
    let log = log.lock().unwrap();
    assert_eq!(log[1]["max_completion_tokens"], 64);
    assert_eq!(log[1].get("max_tokens"), None);
}

#[tokio::test]
async fn what_the_caller_said_stays_the_callers_to_mend() {
    let (server, log) = without("temperature").await;
    let client = server.client();
    for _ in 0..2 {
        let mut call = call();
        Arc::make_mut(&mut call.request).sampling.temperature = Some(0.5);
        let refused = client.complete(call).await.unwrap_err();
        assert!(!refused.own_words && refused.capability_gap);
    }
    assert_eq!(sent(&log, "temperature"), [true, true]);
}

/// A format that has no other way to write its cap learns nothing.
#[tokio::test]
async fn a_format_without_another_word_does_not_ask_for_a_second_try() {
    let server = Server::answering(refusal("max_tokens")).await;
    let config = ClientConfig {
        dialect: Dialect::Anthropic,
        base_url: format!("http://{}", server.address),
        key: Arc::new(Key),
        propagate: false,
    };
    let client = Client::new(config).unwrap();
    let refused = client.complete(call()).await.unwrap_err();
    assert!(refused.capability_gap && !refused.own_words, "{refused}");
}

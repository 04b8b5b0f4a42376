//! Clients that leave: their call ends with them.

use crate::gateway::{Gateway, Setup, chat, question, upstream};
use evenkeel_chaos::{Behaviour, Fault, Latency, Upstream};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Within this an upstream must have noticed. It takes a millisecond where the
/// machine is free; without notice it is the 20 s of the answer.
const SOON: Duration = Duration::from_secs(5);

/// Sends a request, waits until the upstream has it, leaves with `leave`, and
/// asserts that the upstream's connection is closed soon and nothing else begun.
async fn leaves(request: Vec<u8>, leave: impl AsyncFnOnce(TcpStream)) {
    let slow = Behaviour::healthy(Latency::millis(20_000));
    let up = upstream("up", slow).await;
    let other = upstream("other", Behaviour::default()).await;
    let gateway = Gateway::start(&[&up, &other]);
    let mut connection = TcpStream::connect(gateway.address).await.unwrap();
    connection.write_all(&request).await.unwrap();
    up.wait_until(|stats| stats.in_flight == 1).await;
    leave(connection).await;
    gone(&up).await;
    assert_eq!(other.stats().started, 0);
}

async fn gone(up: &Upstream) {
    let stats = timeout(SOON, up.wait_until(|s| s.in_flight == 0))
        .await
        .expect("the upstream call goes on without its caller");
    assert_eq!(stats.cancelled, 1, "{stats:?}");
}

/// C036.
#[tokio::test]
async fn a_client_that_leaves_a_whole_answer_ends_it_upstream() {
    let request = chat(&[], &question(&json!({})));
    leaves(request, async |connection| drop(connection)).await;
}

#[tokio::test]
async fn a_client_that_leaves_before_the_first_token_ends_the_stream_upstream() {
    let request = chat(&[], &question(&json!({ "stream": true })));
    leaves(request, async |connection| drop(connection)).await;
}

#[tokio::test]
async fn a_client_that_is_cut_off_ends_its_call() {
    let request = chat(&[], &question(&json!({})));
    leaves(request, async |connection| {
        // A reset instead of an orderly close.
        socket2::SockRef::from(&connection)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
        drop(connection);
    })
    .await;
}

/// hyper looks for the end of a connection only while it holds no bytes of it.
#[tokio::test]
async fn a_client_that_sent_more_than_its_request_is_noticed_too() {
    for beyond in ["\r\n", "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"] {
        let mut request = chat(&[], &question(&json!({})));
        request.extend_from_slice(beyond.as_bytes());
        leaves(request, async |connection| drop(connection)).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_in_mid_stream_ends_it_upstream() {
    let behaviour = Behaviour::failing(Fault::Endless).with_inter_token(Duration::from_millis(10));
    let up = upstream("up", behaviour).await;
    let gateway = Gateway::start(&[&up]);
    let mut connection = TcpStream::connect(gateway.address).await.unwrap();
    let request = chat(&[], &question(&json!({ "stream": true })));
    connection.write_all(&request).await.unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("data: ") {
        connection.read_buf(&mut seen).await.unwrap();
    }
    drop(connection);
    gone(&up).await;
}

/// Leaves a stream once `seen` has come of it, or at once where that is empty; the
/// upstream's connection closes and nothing else begins.
async fn leaves_stream(role: &'static str, behaviour: Behaviour, seen: &str) {
    let up = upstream("up", behaviour).await;
    let other = upstream("other", Behaviour::default()).await;
    let setup = Setup {
        role,
        ..Setup::default()
    };
    let gateway = Gateway::with(&[&up, &other], setup);
    let mut connection = TcpStream::connect(gateway.address).await.unwrap();
    let request = chat(&[], &question(&json!({ "stream": true })));
    connection.write_all(&request).await.unwrap();
    let mut got = Vec::new();
    while !String::from_utf8_lossy(&got).contains(seen) {
        connection.read_buf(&mut got).await.unwrap();
    }
    up.wait_until(|stats| stats.in_flight == 1).await;
    drop(connection);
    gone(&up).await;
    assert_eq!(other.stats().started, 0);
}

#[tokio::test]
async fn a_client_that_leaves_between_signs_of_life_ends_its_call() {
    let slow = Behaviour::healthy(Latency::millis(20_000));
    leaves_stream("heartbeat_after_ms = 20", slow, ": keep-alive").await;
}

#[tokio::test]
async fn a_client_that_leaves_a_held_stream_ends_it_upstream() {
    let endless = || Behaviour::failing(Fault::Endless).with_inter_token(Duration::from_millis(10));
    leaves_stream("commit = \"full\"", endless(), "").await;
    let window = "commit = \"window\"\ncommit_window = { tokens = 100000, ms = 60000 }";
    leaves_stream(window, endless(), "").await;
}

/// The attempt that is to go on is the caller's too.
#[tokio::test]
async fn a_client_that_leaves_while_another_model_is_to_go_on_ends_that() {
    let cut = Behaviour::failing(Fault::CutAfter(2));
    let first = upstream("first", cut).await;
    let slow = Behaviour::healthy(Latency::millis(20_000));
    let second = upstream("second", slow).await;
    let gateway = Gateway::start(&[&first, &second]);
    let mut connection = TcpStream::connect(gateway.address).await.unwrap();
    let request = chat(&[], &question(&json!({ "stream": true })));
    connection.write_all(&request).await.unwrap();
    second.wait_until(|stats| stats.in_flight == 1).await;
    drop(connection);
    gone(&second).await;
}

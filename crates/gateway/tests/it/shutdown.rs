//! Shutting down: what runs is finished, nothing new is taken.

use crate::gateway::{Gateway, Setup, chat, question, upstream};
use crate::wire;
use evenkeel_chaos::{Behaviour, Fault, Latency};
use evenkeel_gateway::Limits;
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(30);

/// C208.
#[tokio::test]
async fn calls_in_flight_are_finished_and_no_new_ones_taken() {
    let behaviour = Behaviour::healthy(Latency::millis(200))
        .with_tokens(10)
        .with_inter_token(Duration::from_millis(30));
    let up = upstream("up", behaviour).await;
    let gateway = Gateway::start(&[&up]);
    let mut idle = TcpStream::connect(gateway.address).await.unwrap();
    let mut calls = Vec::new();
    for stream in [false, true] {
        let mut connection = TcpStream::connect(gateway.address).await.unwrap();
        let request = chat(&[], &question(&json!({ "stream": stream })));
        connection.write_all(&request).await.unwrap();
        calls.push(connection);
    }
    up.wait_until(|stats| stats.in_flight == 2).await;
    gateway.stop();
    let mut rest = Vec::new();
    let read = timeout(LONG, idle.read_to_end(&mut rest)).await.unwrap();
    assert!(
        read.is_ok() && rest.is_empty(),
        "idle connections close at once"
    );
    let new = TcpStream::connect(gateway.address).await;
    assert!(new.is_err(), "the port is closed");
    let whole = wire::receive(&mut calls[0]).await;
    assert_eq!(whole.status, 200);
    assert_eq!(whole.header("connection"), Some("close"));
    let stream = wire::receive(&mut calls[1]).await;
    assert!(stream.complete);
    assert_eq!(stream.events().last().map(String::as_str), Some("[DONE]"));
    timeout(LONG, gateway.ended()).await.unwrap();
}

#[tokio::test]
async fn what_outlives_the_drain_time_is_cut() {
    let up = upstream("up", Behaviour::failing(Fault::Hang)).await;
    let setup = Setup {
        limits: Limits {
            drain: Duration::from_millis(100),
            ..Limits::default()
        },
        ..Setup::default()
    };
    let gateway = Gateway::with(&[&up], setup);
    let mut connection = TcpStream::connect(gateway.address).await.unwrap();
    connection
        .write_all(&chat(&[], &question(&json!({}))))
        .await
        .unwrap();
    up.wait_until(|stats| stats.in_flight == 1).await;
    gateway.stop();
    timeout(LONG, gateway.ended()).await.unwrap();
    up.wait_until(|stats| stats.in_flight == 0).await;
}

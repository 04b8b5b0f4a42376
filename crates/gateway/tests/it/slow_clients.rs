//! Clients that take their time, on purpose or not.

use crate::gateway::{Gateway, Setup, chat, question, upstream};
use crate::wire;
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_gateway::Limits;
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

fn hasty() -> Setup {
    Setup {
        limits: Limits {
            head: Duration::from_millis(400),
            body_stall: Duration::from_millis(150),
            body: Duration::from_millis(400),
            idle: Duration::from_secs(5),
            write_stall: Duration::from_millis(200),
            ..Limits::default()
        },
        ..Setup::default()
    }
}

const LONG: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_head_that_does_not_end_is_timed_out() {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = Gateway::with(&[&up], hasty());
    let mut connection = TcpStream::connect(gateway.address).await.unwrap();
    connection
        .write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-slow:")
        .await
        .unwrap();
    let reply = timeout(LONG, wire::receive(&mut connection)).await.unwrap();
    assert_eq!(reply.status, 408);
    assert_eq!(reply.error()["code"], "request_timeout");
    gateway.assert_well().await;
}

/// The clock runs from the head's first byte: dripping does not help.
#[tokio::test]
async fn a_dripping_head_is_timed_out() {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = Gateway::with(&[&up], hasty());
    let mut connection = TcpStream::connect(gateway.address).await.unwrap();
    let (mut read, mut write) = connection.split();
    let drip = async {
        while write.write_all(b"a").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let mut answer = Vec::new();
    tokio::select! {
        () = drip => {}
        _ = timeout(LONG, read.read_to_end(&mut answer)) => {}
    }
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.contains("408") && answer.contains("request_timeout"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_body_that_stops_or_drips_is_timed_out() {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = Gateway::with(&[&up], hasty());
    let whole = chat(&[], &question(&json!({})));
    for every in [None, Some(Duration::from_millis(30))] {
        let mut connection = TcpStream::connect(gateway.address).await.unwrap();
        let cut = whole.len() - 40;
        connection.write_all(&whole[..cut]).await.unwrap();
        let (mut read, mut write) = connection.split();
        let drip = async {
            let Some(every) = every else {
                return std::future::pending().await;
            };
            for byte in &whole[cut..] {
                if write.write_all(&[*byte]).await.is_err() {
                    break;
                }
                tokio::time::sleep(every).await;
            }
        };
        let mut answer = vec![0; 4096];
        let n = tokio::select! {
            () = drip => panic!("the whole body was taken"),
            n = timeout(LONG, read.read(&mut answer)) => n.unwrap().unwrap(),
        };
        let answer = String::from_utf8_lossy(&answer[..n]);
        assert!(
            answer.contains("408") && answer.contains("request_timeout"),
            "{answer}"
        );
    }
    assert_eq!(up.requests().len(), 0);
    gateway.assert_well().await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_quietly_and_a_slow_answer_is_not() {
    let slow = evenkeel_chaos::Latency::millis(700);
    let up = upstream("up", Behaviour::healthy(slow)).await;
    let mut setup = hasty();
    setup.limits.idle = Duration::from_millis(300);
    let gateway = Gateway::with(&[&up], setup);
    let mut connection = TcpStream::connect(gateway.address).await.unwrap();
    connection
        .write_all(&chat(&[], &question(&json!({}))))
        .await
        .unwrap();
    let reply = wire::receive(&mut connection).await;
    assert_eq!(reply.status, 200);
    let mut rest = Vec::new();
    timeout(LONG, connection.read_to_end(&mut rest))
        .await
        .unwrap()
        .unwrap();
    assert!(rest.is_empty());
}

/// A second request on the same connection has the head's whole time again.
#[tokio::test]
async fn each_head_has_its_own_time() {
    let up = upstream("up", Behaviour::default()).await;
    let gateway = Gateway::with(&[&up], hasty());
    let mut connection = TcpStream::connect(gateway.address).await.unwrap();
    let request = chat(&[], &question(&json!({})));
    for _ in 0..3 {
        connection.write_all(&request).await.unwrap();
        assert_eq!(wire::receive(&mut connection).await.status, 200);
        // Longer than a head may take, shorter than a connection may idle.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// C207: the pressure reaches the upstream, and then the connection ends.
#[tokio::test]
async fn a_client_that_does_not_read_is_let_go_with_its_upstream() {
    let up = upstream("up", Behaviour::failing(Fault::Endless)).await;
    let gateway = Gateway::with(&[&up], hasty());
    let socket = TcpSocket::new_v4().unwrap();
    // So that little fills what the kernel holds for the client.
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut connection = socket.connect(gateway.address).await.unwrap();
    connection
        .write_all(&chat(&[], &question(&json!({ "stream": true }))))
        .await
        .unwrap();
    let stats = timeout(LONG, up.wait_until(|s| s.started == 1 && s.in_flight == 0))
        .await
        .expect("the upstream stream goes on for a client that does not read");
    assert_eq!(stats.cancelled, 1);
    drop(connection);
    gateway.stop();
    timeout(LONG, gateway.ended()).await.unwrap();
}

#[tokio::test]
async fn connections_over_the_limit_wait_for_their_turn() {
    let up = upstream("up", Behaviour::default()).await;
    let setup = Setup {
        limits: Limits {
            connections: 2,
            ..Limits::default()
        },
        ..Setup::default()
    };
    let gateway = Gateway::with(&[&up], setup);
    let first = TcpStream::connect(gateway.address).await.unwrap();
    let second = TcpStream::connect(gateway.address).await.unwrap();
    let waiting = gateway.ask();
    tokio::pin!(waiting);
    assert!(
        timeout(Duration::from_millis(200), &mut waiting)
            .await
            .is_err()
    );
    drop(first);
    assert_eq!(timeout(LONG, waiting).await.unwrap().status, 200);
    drop(second);
}

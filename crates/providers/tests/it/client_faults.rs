//! Faults of the transport: each has its class, and what is safe to repeat is
//! repeated without a word.

use crate::server::{
    KEY, STREAM_HEAD, Server, all, answer_body, call, chunk, client, closed, ok, request, reset,
    response, soon, text, text_event,
};
use evenkeel_core::{Class, Failure, Phase, Provider, Scope, StreamEvent};
use evenkeel_providers::ClientOptions;
use futures_util::StreamExt;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::Notify;

#[tokio::test]
async fn a_reset_before_the_answer_is_transient_and_asked_once() {
    let server = Server::new(|_, mut socket| async move {
        request(&mut socket).await;
        reset(&socket);
    })
    .await;
    let failure = server.client().complete(call()).await.unwrap_err();
    assert_eq!(failure.class, Class::Transient, "{failure}");
    assert!(failure.source().is_some());
    assert_eq!(server.connections(), 1);
}

/// A server whose first connection answers once and then does `fault` to the
/// next request; later connections answer.
async fn stale_after_one(fault: &'static [u8]) -> (Server, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    let server = Server::new(move |n, mut socket| {
        let count = Arc::clone(&count);
        async move {
            let mut served = 0;
            while request(&mut socket).await.is_some() {
                count.fetch_add(1, Ordering::SeqCst);
                if n == 0 && served == 1 {
                    socket.write_all(fault).await.unwrap();
                    if fault.is_empty() {
                        reset(&socket);
                    }
                    return;
                }
                served += 1;
                let answer = ok("application/json", &answer_body("Yes."));
                socket.write_all(&answer).await.unwrap();
            }
        }
    })
    .await;
    (server, requests)
}

#[tokio::test]
async fn a_reset_of_a_reused_connection_is_repeated_on_a_fresh_one() {
    let (server, requests) = stale_after_one(b"").await;
    let client = server.client();
    client.complete(call()).await.unwrap();
    let answer = client.complete(call()).await.unwrap();
    assert_eq!(answer.plain_text(), "Yes.");
    assert_eq!(server.connections(), 2);
    assert_eq!(requests.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn an_answer_that_had_begun_is_never_asked_for_again() {
    let (server, requests) = stale_after_one(b"HTTP/1.1 200").await;
    let client = server.client();
    client.complete(call()).await.unwrap();
    let failure = client.complete(call()).await.unwrap_err();
    assert_eq!(failure.class, Class::Transient, "{failure}");
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}

/// C190
#[tokio::test]
async fn a_pool_of_dead_connections_costs_no_call() {
    let first_wave = Arc::new(tokio::sync::Barrier::new(10));
    let hang_up = Arc::new(Notify::new());
    let (wave, signal) = (Arc::clone(&first_wave), Arc::clone(&hang_up));
    let server = Server::new(move |n, mut socket| {
        let (wave, signal) = (Arc::clone(&wave), Arc::clone(&signal));
        async move {
            request(&mut socket).await;
            if n < 10 {
                // All ten are open at once.
                wave.wait().await;
            }
            let answer = ok("application/json", &answer_body("Yes."));
            socket.write_all(&answer).await.unwrap();
            if n < 10 {
                signal.notified().await;
                reset(&socket);
            } else {
                closed(&mut socket).await;
            }
        }
    })
    .await;
    let client = Arc::new(server.client());
    let calls = |n: usize| {
        let client = Arc::clone(&client);
        futures_util::future::join_all((0..n).map(move |_| {
            let client = Arc::clone(&client);
            async move { client.complete(call()).await }
        }))
    };
    assert!(soon(calls(10)).await.iter().all(Result::is_ok));
    assert_eq!(server.connections(), 10);
    hang_up.notify_waiters();
    for result in soon(calls(3)).await {
        assert_eq!(result.unwrap().plain_text(), "Yes.");
    }
}

#[tokio::test]
async fn nobody_listening_is_unreachable() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let client = client(&format!("http://{address}/v1"), ClientOptions::default());
    let failure = client.complete(call()).await.unwrap_err();
    assert_eq!(
        (failure.class, failure.scope),
        (Class::Unreachable, Scope::Provider)
    );
    // Where that was is for whoever logs it: the message may go to a client.
    assert!(!failure.message.contains(&address.to_string()), "{failure}");
    let source = failure.source.as_deref().unwrap().to_string();
    assert_eq!(source, format!("at {address}"));
    assert!(failure.message.contains("refused"), "{failure}");
}

#[tokio::test]
async fn a_name_that_cannot_be_looked_up_is_unreachable() {
    // No name server is needed to refuse a label this long.
    let host = format!("{}.invalid", "x".repeat(70));
    let client = client(&format!("http://{host}/v1"), ClientOptions::default());
    let failure = soon(client.complete(call())).await.unwrap_err();
    assert_eq!(failure.class, Class::Unreachable, "{failure}");
}

#[tokio::test]
async fn a_port_that_speaks_no_tls_is_unreachable() {
    let server = Server::answering(ok("application/json", &answer_body("Yes."))).await;
    let plain = Server::new(|_, mut socket| async move {
        let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    })
    .await;
    for address in [server.address, plain.address] {
        let url = format!("https://{address}/v1");
        let mut call = call();
        call.connect = Duration::from_millis(300);
        let failure = client(&url, ClientOptions::default())
            .complete(call)
            .await
            .unwrap_err();
        // The one waits for a request, the other talks at once.
        let expected = if address == plain.address {
            Class::Unreachable
        } else {
            Class::Timeout
        };
        assert_eq!(failure.class, expected, "{failure}");
    }
}

/// C220: look-up, connection and handshake share one clock.
#[tokio::test]
async fn a_handshake_that_never_ends_is_ended_by_the_connect_clock() {
    let server = Server::new(|_, mut socket| async move { closed(&mut socket).await }).await;
    let url = format!("https://{}/v1", server.address);
    let mut call = call();
    call.connect = Duration::from_millis(60);
    let failure = soon(client(&url, ClientOptions::default()).complete(call))
        .await
        .unwrap_err();
    assert_eq!(failure.class, Class::Timeout);
    assert_eq!(failure.phase, Some(Phase::Connect));
    assert!(failure.message.contains("60 ms"), "{failure}");
}

#[tokio::test]
async fn the_connect_clock_does_not_bound_the_answer() {
    let server = Server::new(|_, mut socket| async move {
        request(&mut socket).await;
        tokio::time::sleep(Duration::from_millis(120)).await;
        let answer = ok("application/json", &answer_body("Yes."));
        socket.write_all(&answer).await.unwrap();
    })
    .await;
    let mut call = call();
    call.connect = Duration::from_millis(60);
    assert!(server.client().complete(call).await.is_ok());
}

#[tokio::test]
async fn an_answer_cut_short_is_transient() {
    let short = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"choices\":";
    let server = Server::answering(short.to_vec()).await;
    let failure = server.client().complete(call()).await.unwrap_err();
    assert_eq!(failure.class, Class::Transient, "{failure}");
}

/// C022, C101 and a cut inside a chunk.
#[tokio::test]
async fn a_stream_cut_short_is_transient_after_what_it_brought() {
    for ending in ["", "0\r\n\r\n", "40\r\ndata: {\"cho"] {
        let bytes = format!("{STREAM_HEAD}{}{ending}", chunk(&text_event("half")));
        let server = Server::answering(bytes).await;
        let events = all(server.client().stream(call()).await.unwrap()).await;
        assert_eq!(text(&events), "half");
        let failure = last_failure(&events);
        assert_eq!(failure.class, Class::Transient, "{ending:?}: {failure}");
        assert!(
            !events
                .iter()
                .any(|e| matches!(e, Ok(StreamEvent::End | StreamEvent::Finish(_))))
        );
    }
    let server = Server::new(|_, mut socket| async move {
        request(&mut socket).await;
        let begun = format!("{STREAM_HEAD}{}", chunk(&text_event("half")));
        socket.write_all(begun.as_bytes()).await.unwrap();
        // Let the client read before the reset discards what it has not read.
        let mut byte = [0];
        let _ = socket.try_read(&mut byte);
        tokio::time::sleep(Duration::from_millis(50)).await;
        reset(&socket);
    })
    .await;
    let events = all(server.client().stream(call()).await.unwrap()).await;
    let failure = last_failure(&events);
    assert_eq!(failure.class, Class::Transient);
    assert!(failure.source().is_some());
}

fn last_failure(events: &[Result<StreamEvent, Failure>]) -> &Failure {
    events.last().unwrap().as_ref().unwrap_err()
}

#[tokio::test]
async fn dropping_a_call_closes_its_connection() {
    let gone = Arc::new(Notify::new());
    let signal = Arc::clone(&gone);
    let server = Server::new(move |_, mut socket| {
        let signal = Arc::clone(&signal);
        async move {
            let request = request(&mut socket).await.unwrap();
            if request.head.contains("accept: text/event-stream") {
                let begun = format!("{STREAM_HEAD}{}", chunk(&text_event("half")));
                socket.write_all(begun.as_bytes()).await.unwrap();
            }
            closed(&mut socket).await;
            signal.notify_one();
        }
    })
    .await;
    let client = server.client();
    // While it waits for headers: the server has the request, and never answers.
    let waiting = client.complete(call());
    assert!(
        tokio::time::timeout(Duration::from_millis(50), waiting)
            .await
            .is_err()
    );
    soon(gone.notified()).await;
    // In the middle of a stream.
    let mut stream = client.stream(call()).await.unwrap();
    while !matches!(stream.next().await, Some(Ok(StreamEvent::Delta(_)))) {}
    drop(stream);
    soon(gone.notified()).await;
    // With a stream that nobody began to read.
    drop(client.stream(call()).await.unwrap());
    soon(gone.notified()).await;
}

#[tokio::test]
async fn an_error_status_is_classified_with_its_headers_and_body() {
    let headers = "content-type: application/json\r\nretry-after: Sun, 06 Nov 1994 08:49:37 GMT\r\nx-should-retry: false\r\n";
    let body =
        br#"{"error":{"message":"The engine is currently overloaded","code":"engine_overloaded"}}"#;
    let server = Server::answering(response(503, headers, body)).await;
    let failure = server.client().complete(call()).await.unwrap_err();
    assert_eq!(
        (failure.class, failure.status),
        (Class::Overloaded, Some(503))
    );
    assert_eq!(failure.code.as_deref(), Some("engine_overloaded"));
    // The date is past: no wait.
    assert_eq!(failure.retry_after, Some(Duration::ZERO));
    assert!(!failure.same_model_may_help);
}

#[tokio::test]
async fn an_error_body_that_breaks_off_keeps_its_status() {
    let cut = b"HTTP/1.1 529 -\r\ncontent-length: 900\r\n\r\n{\"error\":";
    let server = Server::answering(cut.to_vec()).await;
    let failure = server.client().complete(call()).await.unwrap_err();
    assert_eq!(failure.class, Class::Overloaded, "{failure}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let headers = "location: http://127.0.0.1:1/elsewhere\r\n";
    let server = Server::answering(response(307, headers, b"")).await;
    let failure = server.client().complete(call()).await.unwrap_err();
    assert_eq!(failure.class, Class::Malformed);
}

/// C038
#[tokio::test]
async fn a_key_echoed_by_the_server_is_never_shown() {
    let body = format!(
        r#"{{"error":{{"message":"Invalid key. Received API Key = {KEY} (sk-test-AAAA...DDDD)","code":"401"}}}}"#
    );
    let server = Server::answering(response(
        401,
        "content-type: application/json\r\n",
        body.as_bytes(),
    ))
    .await;
    let failure = server.client().complete(call()).await.unwrap_err();
    assert_eq!((failure.class, failure.status), (Class::Auth, Some(401)));
    assert!(failure.message.contains("Invalid key"));
    let event =
        "data: {\"error\":{\"message\":\"bad key sk-test-AAAABBBBCCCCDDDD\",\"code\":401}}\n\n";
    let server = Server::answering(ok("text/event-stream", event)).await;
    let events = all(server.client().stream(call()).await.unwrap()).await;
    for failure in [&failure, last_failure(&events)] {
        for shown in [failure.to_string(), format!("{failure:?}")] {
            assert!(
                !shown.contains("AAAA") && !shown.contains("sk-test"),
                "{shown}"
            );
        }
    }
}

/// C039
#[tokio::test]
async fn a_key_in_the_address_is_never_shown() {
    let client = client(
        "http://127.0.0.1:1/v1?key=AIzaTESTKEY0123456789",
        ClientOptions::default(),
    );
    let failure = client.complete(call()).await.unwrap_err();
    let mut shown = vec![
        failure.to_string(),
        format!("{failure:?}"),
        format!("{client:?}"),
    ];
    let mut below = failure.source();
    while let Some(error) = below {
        shown.push(format!("{error} {error:?}"));
        below = error.source();
    }
    for shown in shown {
        assert!(!shown.contains("AIzaTESTKEY"), "{shown}");
        assert!(!shown.contains(KEY), "{shown}");
    }
}

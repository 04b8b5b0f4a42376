//! Answers that arrive well, in every form a server may give them.

use crate::server::{
    KEY, STOP_EVENT, STREAM_HEAD, Server, all, answer_body, call, chunk, client, ok, request,
    response, text, text_event,
};
use evenkeel_core::{
    Baggage, Class, Failure, KeySource, MissingKey, Provider, StreamEvent, TraceContext,
};
use evenkeel_providers::{Client, ClientConfig, ClientOptions, Dialect};
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use secrecy::SecretString;
use serde_json::json;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

#[tokio::test]
async fn a_request_carries_our_key_our_trace_and_nothing_else() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let server = Server::new(move |_, mut socket| {
        let log = Arc::clone(&log);
        async move {
            while let Some(request) = request(&mut socket).await {
                log.lock().unwrap().push(request);
                let answer = ok("application/json", &answer_body("Yes."));
                socket.write_all(&answer).await.unwrap();
            }
        }
    })
    .await;
    let client = server.client();
    let mut call = call();
    call.context.trace = Some(TraceContext {
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
        tracestate: "".into(),
    });
    call.context.session = Some("private".into());
    let carried =
        "evenkeel.degraded=1,evenkeel.depth=2,evenkeel.min_capability=0.83,evenkeel.quality=0.90";
    call.context.baggage = Baggage::read([carried, "Vendor=X;p=1"]);
    call.context.degradation = call.context.baggage.degradation();
    let answer = client.complete(call).await.unwrap();
    assert_eq!(answer.plain_text(), "Yes.");
    assert_eq!((answer.created, answer.usage.unwrap().input), (7, 3));

    let seen = seen.lock().unwrap();
    let mut head: Vec<&str> = seen[0].head.lines().filter(|l| !l.is_empty()).collect();
    assert_eq!(head.remove(0), "post /v1/chat/completions http/1.1");
    head.sort_unstable();
    let length = format!("content-length: {}", seen[0].body.len());
    let host = format!("host: {}", server.address);
    assert_eq!(
        head,
        [
            "accept-encoding: identity",
            "accept: application/json",
            &format!("authorization: bearer {}", KEY.to_lowercase()),
            // The head is read in lower case.
            &format!("baggage: {carried},vendor=x;p=1"),
            &length,
            "content-type: application/json",
            &host,
            "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            concat!("user-agent: evenkeel/", env!("CARGO_PKG_VERSION")),
        ]
    );
    let body: serde_json::Value = serde_json::from_slice(&seen[0].body).unwrap();
    assert_eq!(
        body,
        serde_json::json!({"model": "small", "messages": [{"role": "user", "content": "Is it high tide?"}]})
    );
}

#[tokio::test]
async fn streams_and_answers_share_one_connection() {
    let server = Server::new(|_, mut socket| async move {
        let mut streamed = 0;
        while let Some(request) = request(&mut socket).await {
            if request.head.contains("accept: text/event-stream") {
                streamed += 1;
                for piece in [
                    STREAM_HEAD.to_owned(),
                    chunk(": hold on\n\n"),
                    chunk(&text_event("Ti")),
                    chunk(&format!("{}{STOP_EVENT}", text_event("de"))),
                    chunk("data: [DONE]\n\n"),
                    "0\r\n\r\n".to_owned(),
                ] {
                    socket.write_all(piece.as_bytes()).await.unwrap();
                    tokio::task::yield_now().await;
                }
            } else {
                let answer = ok("application/json", &answer_body(&streamed.to_string()));
                socket.write_all(&answer).await.unwrap();
            }
        }
    })
    .await;
    let client = server.client();
    for round in 1..=3 {
        let events = all(client.stream(call()).await.unwrap()).await;
        assert_eq!(text(&events), "Tide");
        assert!(
            matches!(events[0], Ok(StreamEvent::KeepAlive)),
            "{events:?}"
        );
        assert!(matches!(events.last(), Some(Ok(StreamEvent::End))));
        let answer = client.complete(call()).await.unwrap();
        assert_eq!(answer.plain_text(), round.to_string());
    }
    assert_eq!(server.connections(), 1);
}

#[derive(Debug)]
struct Rotating(AtomicUsize);

impl KeySource for Rotating {
    fn key(&self) -> Result<Option<SecretString>, MissingKey> {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => Ok(Some("first-key".into())),
            1 => Ok(None),
            2 => Ok(Some("new\nline".into())),
            _ => Err(MissingKey("HARBOUR_KEY is not set".into())),
        }
    }
}

#[tokio::test]
async fn the_key_is_asked_for_at_every_request() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let server = Server::new(move |_, mut socket| {
        let log = Arc::clone(&log);
        async move {
            while let Some(request) = request(&mut socket).await {
                log.lock()
                    .unwrap()
                    .push(request.head.contains("authorization: bearer first-key"));
                let answer = ok("application/json", &answer_body("Yes."));
                socket.write_all(&answer).await.unwrap();
            }
        }
    })
    .await;
    let client = Client::new(ClientConfig {
        dialect: Dialect::OpenAi,
        base_url: server.url(),
        key: Arc::new(Rotating(AtomicUsize::new(0))),
        propagate: false,
    })
    .unwrap();
    assert!(client.complete(call()).await.is_ok());
    assert!(client.complete(call()).await.is_ok());
    for said in ["no header can carry", "HARBOUR_KEY is not set"] {
        let failure = client.complete(call()).await.unwrap_err();
        assert_eq!(failure.class, Class::Auth);
        assert!(
            failure.message.contains(said) && !failure.message.contains("line"),
            "{failure}"
        );
    }
    assert_eq!(*seen.lock().unwrap(), [true, false]);
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn compression_that_was_not_asked_for_is_undone() {
    let body = answer_body("Yes.");
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    zlib.write_all(body.as_bytes()).unwrap();
    for (name, bytes) in [
        ("gzip", gzip(body.as_bytes())),
        (
            "x-gzip",
            [gzip(&body.as_bytes()[..9]), gzip(&body.as_bytes()[9..])].concat(),
        ),
        ("deflate", zlib.finish().unwrap()),
        ("identity", body.clone().into_bytes()),
    ] {
        let headers = format!("content-type: application/json\r\ncontent-encoding: {name}\r\n");
        let server = Server::answering(response(200, &headers, &bytes)).await;
        let answer = server.client().complete(call()).await.unwrap();
        assert_eq!(answer.plain_text(), "Yes.", "{name}");
    }
    let stream = gzip(format!("{}{STOP_EVENT}data: [DONE]\n\n", text_event("Yes.")).as_bytes());
    let headers = "content-type: text/event-stream\r\ncontent-encoding: gzip\r\n";
    let server = Server::answering(response(200, headers, &stream)).await;
    let events = all(server.client().stream(call()).await.unwrap()).await;
    assert_eq!(text(&events), "Yes.");
    assert!(matches!(events.last(), Some(Ok(StreamEvent::End))));
}

#[tokio::test]
async fn the_content_type_decides_what_an_answer_is() {
    // A whole answer to a request for a stream.
    let server =
        Server::answering(ok("application/json; charset=utf-8", &answer_body("Yes."))).await;
    let events = all(server.client().stream(call()).await.unwrap()).await;
    assert_eq!(text(&events), "Yes.");
    assert!(matches!(
        events[0],
        Ok(StreamEvent::Start { created: 7, .. })
    ));
    assert!(matches!(events.last(), Some(Ok(StreamEvent::End))));
    // The same without any content type.
    let server = Server::answering(response(200, "", answer_body("Yes.").as_bytes())).await;
    let events = all(server.client().stream(call()).await.unwrap()).await;
    assert_eq!(text(&events), "Yes.");
    assert!(matches!(events.last(), Some(Ok(StreamEvent::End))));
    // A stream to a request for a whole answer.
    let stream = format!("{}{}{STOP_EVENT}", text_event("Ye"), text_event("s."));
    let server = Server::answering(ok("text/event-stream", &stream)).await;
    let answer = server.client().complete(call()).await.unwrap();
    assert_eq!(answer.plain_text(), "Yes.");
}

#[tokio::test]
async fn an_error_with_status_200_is_an_error_with_its_wait() {
    let headers = "content-type: application/json\r\nretry-after: 7\r\n";
    let body = br#"{"error":{"message":"slow down","type":"rate_limit_error","code":"rate_limit_exceeded"}}"#;
    let server = Server::answering(response(200, headers, body)).await;
    let whole = server.client().complete(call()).await.unwrap_err();
    let Err(streamed) = server.client().stream(call()).await else {
        panic!("an error is no stream")
    };
    for failure in [whole, streamed] {
        assert_eq!(failure.class, Class::RateLimited);
        assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
    }
}

#[tokio::test]
async fn a_stream_that_stays_open_after_its_finish_is_complete() {
    let server = Server::new(|_, mut socket| async move {
        request(&mut socket).await;
        let text = format!(
            "{STREAM_HEAD}{}",
            chunk(&format!("{}{STOP_EVENT}", text_event("Yes.")))
        );
        socket.write_all(text.as_bytes()).await.unwrap();
        // Signs of life do not keep it open.
        let alive = chunk(": keep-alive\n\n");
        while socket.write_all(alive.as_bytes()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let events = all(server.narrow_client(1 << 20).stream(call()).await.unwrap()).await;
    assert_eq!(text(&events), "Yes.");
    assert!(
        matches!(events.last(), Some(Ok(StreamEvent::End))),
        "{events:?}"
    );
}

#[tokio::test]
async fn a_private_certificate_is_trusted_where_the_config_says_so() {
    let ca = include_bytes!("../../../../fixtures/tls/ca.pem").to_vec();
    let server = tls_server().await;
    let url = format!("https://localhost:{}/v1", server.address.port());
    let trusting = ClientOptions {
        root_certificates: Some(ca),
        ..ClientOptions::default()
    };
    let answer = client(&url, trusting).complete(call()).await.unwrap();
    assert_eq!(answer.plain_text(), "Yes.");
    let failure: Failure = client(&url, ClientOptions::default())
        .complete(call())
        .await
        .unwrap_err();
    assert_eq!(failure.class, Class::Unreachable);
    assert!(failure.message.contains("certificate"), "{failure}");
}

/// A server whose certificate only `fixtures/tls/ca.pem` vouches for.
pub(crate) async fn tls_server() -> Server {
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let certificate =
        CertificateDer::from_pem_slice(include_bytes!("../../../../fixtures/tls/server.pem"))
            .unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../../../../fixtures/tls/server.key"))
        .unwrap();
    let provider = tokio_rustls::rustls::crypto::ring::default_provider();
    let config = tokio_rustls::rustls::ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    Server::new(move |_, socket| {
        let acceptor = acceptor.clone();
        async move {
            // A client that does not trust us hangs up here.
            let Ok(mut socket) = acceptor.accept(socket).await else {
                return;
            };
            while request(&mut socket).await.is_some() {
                let answer = ok("application/json", &answer_body("Yes."));
                socket.write_all(&answer).await.unwrap();
            }
        }
    })
    .await
}

/// A stream of Gemini's as one array comes under the type of a document.
#[tokio::test]
async fn an_array_of_chunks_is_a_stream_whatever_its_content_type() {
    let part = |text: &str, reason: Option<&str>| {
        let content = json!({"parts": [{"text": text}], "role": "model"});
        json!({"candidates": [{"content": content, "finishReason": reason, "index": 0}]})
    };
    let array = json!([part("Ye", None), part("s.", Some("STOP"))]).to_string();
    let blank = format!(" \n{array}");
    for (headers, body) in [
        ("content-type: application/json\r\n", blank.into_bytes()),
        (
            "content-type: application/json\r\ncontent-encoding: gzip\r\n",
            gzip(array.as_bytes()),
        ),
        (
            "content-type: application/json\r\n",
            part("Yes.", Some("STOP")).to_string().into_bytes(),
        ),
    ] {
        let server = Server::answering(response(200, headers, &body)).await;
        let config = ClientConfig {
            dialect: Dialect::Gemini,
            base_url: server.url(),
            key: Arc::new(crate::server::Key),
            propagate: false,
        };
        let client = Client::new(config).unwrap();
        let events = all(client.stream(call()).await.unwrap()).await;
        assert_eq!(text(&events), "Yes.");
        assert!(matches!(events.last(), Some(Ok(StreamEvent::End))));
        assert_eq!(client.complete(call()).await.unwrap().plain_text(), "Yes.");
    }
}

//! Hostile and broken upstreams: a clear failure each, and bounded memory.

use crate::server::{
    STREAM_HEAD, Server, all, call, chunk, ok, request, response, soon, text_event,
};
use evenkeel_core::{Class, Failure, Provider};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use tokio::io::AsyncWriteExt;

/// The limit of the clients here, bytes.
const LIMIT: usize = 256 * 1024;

async fn failures(server: &Server) -> [Failure; 2] {
    let client = server.narrow_client(LIMIT);
    let whole = soon(client.complete(call())).await.unwrap_err();
    let streamed = match soon(client.stream(call())).await {
        Err(failure) => failure,
        Ok(stream) => soon(all(stream)).await.pop().unwrap().unwrap_err(),
    };
    [whole, streamed]
}

/// A server that begins an answer and repeats a piece until the client leaves.
async fn endless(head: &'static str, piece: String) -> Server {
    Server::new(move |_, mut socket| {
        let piece = piece.clone();
        async move {
            request(&mut socket).await;
            socket.write_all(head.as_bytes()).await.unwrap();
            while socket.write_all(piece.as_bytes()).await.is_ok() {}
        }
    })
    .await
}

#[tokio::test]
async fn an_answer_without_end_is_cut_at_the_limit() {
    let json = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"a\":\"";
    let server = endless(json, "x".repeat(10_000)).await;
    for failure in failures(&server).await {
        assert_eq!(failure.class, Class::Malformed);
        assert!(
            failure.message.contains("limit of 262144 bytes"),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn a_stream_without_end_is_cut_at_the_limit() {
    for piece in [
        // Content, one endless line, one endless bare document.
        chunk(&text_event(&"x".repeat(5_000))),
        chunk(&format!("data: {}", "x".repeat(5_000))),
        chunk(&format!("{{\"a\":[\n{}", " ".repeat(5_000))),
    ] {
        let server = endless(STREAM_HEAD, piece).await;
        let failures = failures(&server).await;
        for failure in failures {
            assert_eq!(failure.class, Class::Malformed, "{failure}");
            assert!(
                failure.message.contains("limit of 262144 bytes"),
                "{failure}"
            );
        }
    }
}

#[tokio::test]
async fn a_compression_bomb_is_defused() {
    let mut bomb = GzEncoder::new(Vec::new(), Compression::default());
    let zeros = vec![b' '; 1 << 20];
    for _ in 0..50 {
        bomb.write_all(&zeros).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 300_000, "{}", bomb.len());
    for kind in ["application/json", "text/event-stream"] {
        let headers = format!("content-type: {kind}\r\ncontent-encoding: gzip\r\n");
        let server = Server::answering(response(200, &headers, &bomb)).await;
        for failure in failures(&server).await {
            assert_eq!(failure.class, Class::Malformed, "{failure}");
            assert!(
                failure.message.contains("limit of 262144 bytes"),
                "{failure}"
            );
        }
    }
    // In the body of an error it changes nothing.
    let headers = "content-type: application/json\r\ncontent-encoding: gzip\r\n";
    let server = Server::answering(response(500, headers, &bomb)).await;
    for failure in failures(&server).await {
        assert_eq!(failure.class, Class::Transient, "{failure}");
    }
}

#[tokio::test]
async fn an_encoding_that_cannot_be_undone_is_malformed() {
    let headers = "content-type: application/json\r\ncontent-encoding: br\r\n";
    let server = Server::answering(response(200, headers, b"\x0b\x02\x80")).await;
    for failure in failures(&server).await {
        assert_eq!(failure.class, Class::Malformed);
        assert!(failure.message.contains("`br`"), "{failure}");
    }
    let headers = "content-type: application/json\r\ncontent-encoding: gzip\r\n";
    let server = Server::answering(response(200, headers, b"not gzip at all")).await;
    for failure in failures(&server).await {
        assert_eq!(failure.class, Class::Malformed, "{failure}");
    }
}

#[tokio::test]
async fn a_web_page_is_no_answer() {
    let page = "<!DOCTYPE html><html><title>Log in</title><p>to the harbour network</html>";
    for kind in [
        "text/html",
        "text/event-stream",
        "application/json",
        "text/plain",
    ] {
        let server = Server::answering(ok(kind, page)).await;
        for failure in failures(&server).await {
            assert_eq!(failure.class, Class::Malformed, "{kind}: {failure}");
            assert!(failure.message.contains("Log in"), "{failure}");
            assert!(!failure.message.contains('<'), "{failure}");
        }
    }
}

/// C160
#[tokio::test]
async fn lines_of_json_are_another_dialect() {
    let server = Server::answering(ok("application/x-ndjson", "{\"done\":true}\n")).await;
    let failure = server.client().stream(call()).await.err().unwrap();
    assert_eq!(failure.class, Class::Malformed);
    assert!(
        failure.message.contains("application/x-ndjson"),
        "{failure}"
    );
}

#[tokio::test]
async fn what_is_no_answer_is_malformed() {
    let deep = "[".repeat(100_000);
    for body in [
        "",
        "\"ok\"",
        "[]",
        "7",
        "null",
        "{}",
        "{\"choices\":[]}",
        "{\"choices\":[7]}",
        "{\"choices\":[{}]}",
        "{\"choices\":[{\"message\":",
        "{\"content\":\"\u{c3}(\"",
        &deep,
    ] {
        let server = Server::answering(ok("application/json", body)).await;
        for failure in failures(&server).await {
            assert_eq!(failure.class, Class::Malformed, "{body:.40}: {failure}");
        }
    }
    let invalid = response(
        200,
        "content-type: application/json\r\n",
        b"{\"content\":\"\xc3(\"}",
    );
    let server = Server::answering(invalid).await;
    for failure in failures(&server).await {
        assert_eq!(failure.class, Class::Malformed, "{failure}");
    }
}

#[tokio::test]
async fn a_flood_of_headers_is_malformed() {
    let many: Vec<String> = (0..5_000)
        .map(|i| format!("x-flood-{i}: {i}\r\n"))
        .collect();
    let many = many.concat();
    let server = Server::answering(response(200, &many, b"{}")).await;
    for failure in failures(&server).await {
        assert_eq!(failure.class, Class::Malformed, "{failure}");
    }
    let server = endless(
        "HTTP/1.1 200 OK\r\n",
        format!("x-flood: {}\r\n", "x".repeat(9_000)),
    )
    .await;
    for failure in failures(&server).await {
        assert_eq!(failure.class, Class::Malformed, "{failure}");
    }
    let server = endless("HTTP/1.1 200 OK\r\nx-endless: ", "x".repeat(9_000)).await;
    for failure in failures(&server).await {
        assert_eq!(failure.class, Class::Malformed, "{failure}");
    }
}

#[tokio::test]
async fn what_is_not_http_is_malformed() {
    let server = Server::answering(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec()).await;
    for failure in failures(&server).await {
        assert_eq!(failure.class, Class::Malformed, "{failure}");
        assert!(
            failure.message.contains("did not answer in HTTP"),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn an_error_body_without_end_is_cut() {
    let head = "HTTP/1.1 503 -\r\ncontent-type: text/plain\r\n\r\n";
    let server = endless(head, "too busy ".repeat(1_000)).await;
    for failure in failures(&server).await {
        assert_eq!(failure.class, Class::Overloaded, "{failure}");
        assert!(
            failure.message.starts_with("HTTP 503: too busy"),
            "{failure}"
        );
    }
}

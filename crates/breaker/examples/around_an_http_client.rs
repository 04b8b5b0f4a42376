//! A breaker around an HTTP client's calls to an upstream that is overloaded for a while and says so.
//!
//! `cargo run -p evenkeel-breaker --example around_an_http_client`: loopback only, some three seconds. The
//! client is hyper-util's; around any other (reqwest's, say) `call` has the same shape.
#![expect(clippy::print_stdout, reason = "an example")]

use std::{
    error::Error,
    time::{Duration, Instant},
};

use bytes::Bytes;
use evenkeel_breaker::{Breaker, BreakerConfig, Refused};
use http::{HeaderMap, StatusCode, Uri, header::RETRY_AFTER};
use http_body_util::{BodyExt, Empty};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
    time::sleep,
};

type HttpClient = Client<HttpConnector, Empty<Bytes>>;
type BoxError = Box<dyn Error + Send + Sync>;

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The permit is held until the body is there. A `?` before that drops it, which counts as nothing: failures
/// are told, not dropped.
async fn call(breaker: &Breaker, client: &HttpClient, uri: Uri) -> Result<Bytes, BoxError> {
    let permit = breaker.admit(now())?;
    let (head, body) = match client.get(uri).await {
        Ok(response) => response.into_parts(),
        Err(error) => {
            permit.failure(now(), None);
            return Err(error.into());
        }
    };
    if head.status.is_server_error() {
        permit.failure(now(), retry_after(&head.headers));
        return Err(head.status.to_string().into());
    }
    if head.status.is_client_error() {
        permit.ignore();
        return Err(head.status.to_string().into());
    }
    match body.collect().await {
        Ok(body) => {
            permit.success(now());
            Ok(body.to_bytes())
        }
        Err(error) => {
            permit.failure(now(), None);
            Err(error.into())
        }
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Answers one call after another; the fourth to the sixth with 503.
async fn upstream(listener: TcpListener) -> Result<(), BoxError> {
    for nth in 1.. {
        let (mut socket, _) = listener.accept().await?;
        let mut request = BufReader::new(&mut socket).lines();
        while request
            .next_line()
            .await?
            .is_some_and(|line| !line.is_empty())
        {}
        let status = match nth {
            4..=6 => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::OK,
        };
        let head = format!("HTTP/1.1 {status}\r\nretry-after: 1\r\nconnection: close\r\n");
        socket.write_all(head.as_bytes()).await?;
        socket.write_all(b"content-length: 5\r\n\r\nhello").await?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let uri: Uri = format!("http://{}/", listener.local_addr()?).parse()?;
    let config = BreakerConfig {
        failure_threshold: 3,
        open: Duration::from_millis(200),
        ..BreakerConfig::default()
    };
    let breaker = Breaker::new(config, 1, now())?
        .with_listener(|change| println!("           breaker: {change}"));
    let client = Client::builder(TokioExecutor::new()).build_http();
    let start = now();
    let calls = async {
        while start.elapsed() < Duration::from_secs(3) {
            let at = start.elapsed().as_millis();
            match call(&breaker, &client, uri.clone()).await {
                Ok(body) => println!("{at:>5} ms   {}", String::from_utf8_lossy(&body)),
                Err(error) if error.is::<Refused>() => println!("{at:>5} ms   not called: {error}"),
                Err(error) => println!("{at:>5} ms   {error}"),
            }
            sleep(Duration::from_millis(150)).await;
        }
        Ok(())
    };
    tokio::select! {
        ended = calls => ended,
        failed = upstream(listener) => failed,
    }
}

//! A breaker around reqwest's calls to an upstream that is overloaded for a while and says so.
//!
//! `cargo run -p evenkeel-breaker --example around_reqwest`: loopback only, some three seconds.
#![expect(clippy::print_stdout, reason = "an example")]

use std::{
    error::Error,
    time::{Duration, Instant},
};

use evenkeel_breaker::{Breaker, BreakerConfig, Refused};
use reqwest::{
    Client, StatusCode,
    header::{HeaderMap, RETRY_AFTER},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
    time::sleep,
};

type BoxError = Box<dyn Error + Send + Sync>;

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The permit is held until the body is there. A `?` before that drops it, which counts as nothing: failures
/// are told, not dropped.
async fn call(breaker: &Breaker, client: &Client, url: &str) -> Result<String, BoxError> {
    let permit = breaker.admit(now())?;
    let response = match client.get(url).send().await {
        Ok(response) => response,
        Err(error) => {
            permit.failure(now(), None);
            return Err(error.into());
        }
    };
    let status = response.status();
    if status.is_server_error() {
        permit.failure(now(), retry_after(response.headers()));
        return Err(status.to_string().into());
    }
    if status.is_client_error() {
        permit.ignore();
        return Err(status.to_string().into());
    }
    match response.text().await {
        Ok(body) => {
            permit.success(now());
            Ok(body)
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
    let url = format!("http://{}/", listener.local_addr()?);
    let config = BreakerConfig {
        failure_threshold: 3,
        open: Duration::from_millis(200),
        ..BreakerConfig::default()
    };
    let breaker = Breaker::new(config, 1, now())?
        .with_listener(|change| println!("           breaker: {change}"));
    // The client's own retries would hide failures from the breaker, and a proxy the upstream.
    let client = Client::builder()
        .retry(reqwest::retry::never())
        .no_proxy()
        .build()?;
    let start = now();
    let calls = async {
        while start.elapsed() < Duration::from_secs(3) {
            let at = start.elapsed().as_millis();
            match call(&breaker, &client, &url).await {
                Ok(body) => println!("{at:>5} ms   {body}"),
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

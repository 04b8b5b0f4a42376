//! The HTTP client of the exporters.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use opentelemetry_http::{HttpClient, HttpError};
use std::fmt;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Longest answer of a collector that is read, bytes: it says no more than how many items
/// it refused, and why.
const LONGEST_ANSWER: usize = 64 * 1024;
/// Connections that are kept while nothing is sent: one for each signal.
const MOST_IDLE: usize = 3;
/// How long an idle connection is kept; shorter than what servers usually wait.
const IDLE: Duration = Duration::from_secs(30);

type Outbound = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Sends what exporters hand it. They ask from threads without a runtime; the exchange
/// itself runs on the one that it was made with.
#[derive(Clone)]
pub(super) struct CollectorClient {
    client: Outbound,
    runtime: Handle,
    timeout: Duration,
}

impl fmt::Debug for CollectorClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectorClient")
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl CollectorClient {
    /// A client without a connection yet. `timeout` is that of an exchange, connecting and
    /// reading the answer included.
    ///
    /// # Errors
    /// Where TLS cannot be had.
    pub(super) fn new(runtime: Handle, timeout: Duration) -> Result<Self, rustls::Error> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let https = HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(rustls::crypto::ring::default_provider())?
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(MOST_IDLE)
            .build(https);
        Ok(Self {
            client,
            runtime,
            timeout,
        })
    }

    async fn exchange(self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.client.request(request.map(Full::new)).await?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, LONGEST_ANSWER).collect().await?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

#[async_trait::async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (answer, answered) = oneshot::channel();
        let (sender, timeout) = (self.clone(), self.timeout);
        // The exporter's thread waits for it; the clock ends it.
        self.runtime.spawn(async move {
            let exchanged = tokio::time::timeout(timeout, sender.exchange(request)).await;
            let late = |_| -> HttpError { format!("no answer within {timeout:?}").into() };
            // Nobody listens any more where the exporter has been given up.
            let _ = answer.send(exchanged.map_err(late).and_then(|answer| answer));
        });
        answered.await?
    }
}

//! The client of what the gateway posts to of its own accord: webhook and validators.

use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::time::Duration;

/// Connections to one address that are kept while nobody uses them.
const MOST_IDLE: usize = 8;

/// HTTP/1.1, with or without TLS. It follows no redirects.
pub(crate) type OutboundClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A client with connections of its own, each made within `connect`.
pub(crate) fn client(connect: Duration) -> Result<OutboundClient, rustls::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(connect));
    let https = HttpsConnectorBuilder::new()
        .with_provider_and_webpki_roots(rustls::crypto::ring::default_provider())?
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(MOST_IDLE)
        .build(https))
}

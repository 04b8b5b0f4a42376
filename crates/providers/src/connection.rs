//! Connections, and what is known of each: how many bytes it brought.

use crate::config::{ClientOptions, ProviderConfigError};
use crate::endpoint::Endpoint;
use crate::proxy::Proxy;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_service::Service;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Stream = TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>>;

/// Idle time after which the kernel asks whether the peer lives, so that a
/// peer that vanished is noticed.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

/// What is known of one connection. It tells whether a request that failed had
/// any byte of an answer, which decides whether it may be sent again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line(Arc<LineCounts>);

#[derive(Debug, Default)]
struct LineCounts {
    /// Bytes read.
    read: AtomicU64,
    /// Bytes read up to the end of the last complete answer.
    answered: AtomicU64,
}

impl Line {
    /// An answer was read to its end.
    pub(crate) fn answered(&self) {
        let read = self.0.read.load(Ordering::Relaxed);
        self.0.answered.store(read, Ordering::Relaxed);
    }

    /// Whether it served an answer before and has brought nothing since.
    pub(crate) fn is_reused_and_silent(&self) -> bool {
        let answered = self.0.answered.load(Ordering::Relaxed);
        answered > 0 && self.0.read.load(Ordering::Relaxed) == answered
    }
}

/// The way to a port: straight, or through a proxy.
#[derive(Clone)]
struct Way {
    tcp: HttpConnector,
    proxy: Option<Proxy>,
}

impl Service<http::Uri> for Way {
    type Response = TokioIo<TcpStream>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: http::Uri) -> Self::Future {
        let Some(proxy) = self.proxy.clone() else {
            let connecting = self.tcp.call(uri);
            return Box::pin(async move { Ok(connecting.await?) });
        };
        if uri.scheme() != Some(&http::uri::Scheme::HTTPS) {
            let connecting = self.tcp.call(proxy.uri);
            return Box::pin(async move { Ok(connecting.await?) });
        }
        let mut tunnel = Tunnel::new(proxy.uri, self.tcp.clone());
        if let Some(authorization) = proxy.authorization {
            tunnel = tunnel.with_auth(authorization);
        }
        let connecting = tunnel.call(uri);
        Box::pin(async move { Ok(connecting.await?) })
    }
}

/// Opens connections.
#[derive(Clone)]
pub(crate) struct Connector {
    way: HttpsConnector<Way>,
    has_proxy: bool,
    /// One permit a connection, idle ones included.
    room: Arc<Semaphore>,
}

impl Connector {
    pub(crate) fn new(options: &ClientOptions) -> Result<Self, ProviderConfigError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(TCP_KEEPALIVE));
        let provider = rustls::crypto::ring::default_provider();
        let builder = match &options.root_certificates {
            None => HttpsConnectorBuilder::new().with_provider_and_webpki_roots(provider)?,
            Some(pem) => {
                let config = ClientConfig::builder_with_provider(Arc::new(provider))
                    .with_safe_default_protocol_versions()?
                    .with_root_certificates(roots(pem)?)
                    .with_no_client_auth();
                HttpsConnectorBuilder::new().with_tls_config(config)
            }
        };
        let way = Way {
            tcp,
            proxy: options.proxy.clone(),
        };
        Ok(Self {
            way: builder.https_or_http().enable_http1().wrap_connector(way),
            has_proxy: options.proxy.is_some(),
            room: Arc::new(Semaphore::new(options.limits.max_connections)),
        })
    }
}

fn roots(pem: &[u8]) -> Result<RootCertStore, ProviderConfigError> {
    let wrong = |e: &dyn std::fmt::Display| ProviderConfigError::Certificates(e.to_string());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|e| wrong(&e))?;
        roots.add(certificate).map_err(|e| wrong(&e))?;
    }
    if roots.is_empty() {
        return Err(wrong(&"no certificate found, expected PEM"));
    }
    Ok(roots)
}

impl Service<http::Uri> for Connector {
    type Response = TokioIo<Counted>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.way.poll_ready(cx)
    }

    fn call(&mut self, uri: http::Uri) -> Self::Future {
        // Through a tunnel the server itself is spoken to.
        let by_proxy = self.has_proxy && uri.scheme() != Some(&http::uri::Scheme::HTTPS);
        let room = Arc::clone(&self.room);
        let mut way = self.way.clone();
        Box::pin(async move {
            // One that falls idle meanwhile is used instead, and this one dropped.
            let permit = room.acquire_owned().await?;
            let connecting = way.call(uri);
            Ok(TokioIo::new(Counted {
                by_proxy,
                _permit: permit,
                stream: TokioIo::new(connecting.await?),
                line: Line::default(),
            }))
        })
    }
}

/// A connection that counts what it reads.
pub(crate) struct Counted {
    /// Whether a proxy reads the requests, and wants whole addresses in them.
    by_proxy: bool,
    /// Its place among the connections that may be open.
    _permit: OwnedSemaphorePermit,
    stream: Stream,
    line: Line,
}

impl Connection for Counted {
    fn connected(&self) -> Connected {
        let connected = self.stream.connected().extra(self.line.clone());
        connected.proxy(self.by_proxy)
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        let read = buf.filled().len() - before;
        self.line.0.read.fetch_add(read as u64, Ordering::Relaxed);
        result
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The pool of an endpoint, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pooling {
    pub(crate) idle: Duration,
    pub(crate) max_idle: usize,
    pub(crate) max_connections: usize,
}

impl Pooling {
    pub(crate) fn of(endpoint: &Endpoint, options: &ClientOptions) -> Self {
        Self {
            idle: endpoint.idle,
            max_idle: options.limits.max_idle_connections,
            max_connections: options.limits.max_connections,
        }
    }
}

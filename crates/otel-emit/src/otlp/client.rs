//! The HTTP client of the exporters.

use super::{OtlpError, OtlpSettings};
use bytes::Bytes;
use http::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use opentelemetry_http::{HttpClient, HttpError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::sync::Arc;
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

/// Who sends.
const AGENT: &str = concat!("evenkeel/", env!("CARGO_PKG_VERSION"));
/// What is sent.
const PROTOBUF: &str = "application/x-protobuf";

type Outbound = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Sends what exporters hand it. They ask from threads without a runtime; the exchange
/// itself runs on the one that it was made with.
#[derive(Clone)]
pub(super) struct CollectorClient {
    client: Outbound,
    runtime: Handle,
    timeout: Duration,
    /// All that a request has, but for how its body is coded.
    headers: HeaderMap,
}

impl fmt::Debug for CollectorClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectorClient")
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl CollectorClient {
    /// A client without a connection yet, of the collector of `settings`. Their timeout is
    /// that of an exchange, connecting and reading the answer included.
    ///
    /// # Errors
    /// Where TLS cannot be had, or the certificates or a header are none.
    pub(super) fn new(runtime: Handle, settings: &OtlpSettings) -> Result<Self, OtlpError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let provider = rustls::crypto::ring::default_provider();
        let builder = match &settings.root_certificates {
            None => HttpsConnectorBuilder::new().with_provider_and_webpki_roots(provider)?,
            Some(pem) => {
                let config = ClientConfig::builder_with_provider(Arc::new(provider))
                    .with_safe_default_protocol_versions()?
                    .with_root_certificates(roots(pem)?)
                    .with_no_client_auth();
                HttpsConnectorBuilder::new().with_tls_config(config)
            }
        };
        let https = builder.https_or_http().enable_http1().wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(MOST_IDLE)
            .build(https);
        Ok(Self {
            client,
            runtime,
            timeout: settings.timeout,
            headers: headers(settings)?,
        })
    }

    /// A request with the collector's headers. Those that the exporter puts in are not all
    /// ours: it takes what `OTEL_EXPORTER_OTLP_HEADERS` has, which may be another
    /// collector's key.
    fn addressed(&self, request: Request<Bytes>) -> Request<Bytes> {
        let (mut head, body) = request.into_parts();
        let coding = head.headers.remove(CONTENT_ENCODING);
        head.headers.clone_from(&self.headers);
        if let Some(coding) = coding {
            head.headers.insert(CONTENT_ENCODING, coding);
        }
        Request::from_parts(head, body)
    }

    async fn exchange(self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.client.request(request.map(Full::new)).await?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, LONGEST_ANSWER).collect().await?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

fn roots(pem: &[u8]) -> Result<RootCertStore, OtlpError> {
    let wrong = |why: &dyn fmt::Display| OtlpError::Certificates {
        why: why.to_string(),
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() {
        return Err(wrong(&"no certificate found, expected PEM"));
    }
    Ok(roots)
}

/// The headers of every request: those of the settings, and what OTLP asks for.
fn headers(settings: &OtlpSettings) -> Result<HeaderMap, OtlpError> {
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    for (name, value) in &settings.headers {
        let read = name.parse::<HeaderName>().ok();
        let read = read.zip(HeaderValue::from_str(value).ok());
        let Some((name, mut value)) = read else {
            return Err(OtlpError::Header { name: name.clone() });
        };
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROTOBUF));
    Ok(headers)
}

#[async_trait::async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (answer, answered) = oneshot::channel();
        let (sender, timeout) = (self.clone(), self.timeout);
        let request = self.addressed(request);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::Service;

    fn client(name: &str) -> Result<CollectorClient, OtlpError> {
        let service = Service::new("planner", "1.2.3", "i-1");
        let mut settings = OtlpSettings::new("http://127.0.0.1:9", service);
        let header = (name.to_owned(), "Bearer a%20b".to_owned());
        settings.headers = [header].into();
        CollectorClient::new(Handle::current(), &settings)
    }

    #[tokio::test]
    async fn a_request_has_the_settings_headers_and_none_that_an_exporter_found() {
        let found = Request::post("http://127.0.0.1:9/v1/traces")
            .header("authorization", "another collector's key")
            .header("x-other", "secret")
            .header("content-encoding", "gzip")
            .body(Bytes::new());
        let sent = client("Authorization").unwrap().addressed(found.unwrap());
        let mut headers: Vec<_> = sent
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        headers.sort_unstable();
        assert_eq!(
            headers,
            [
                ("authorization", "Bearer a%20b"),
                ("content-encoding", "gzip"),
                ("content-type", PROTOBUF),
                ("user-agent", AGENT),
            ]
        );
        assert!(!format!("{sent:?}").contains("Bearer"));
    }

    #[tokio::test]
    async fn a_header_that_is_none_is_refused_by_its_name() {
        let error = client("no header").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the collector cannot be sent `no header`: its name or its value is none of a header"
        );
    }

    #[tokio::test]
    async fn certificates_that_are_none_are_refused() {
        for (pem, why) in [
            (&b"no certificate"[..], "no certificate found, expected PEM"),
            (
                b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                "invalid",
            ),
        ] {
            let mut settings = OtlpSettings::new("https://[::1]:9", Service::new("a", "1", "i"));
            settings.root_certificates = Some(pem.to_vec());
            let error = CollectorClient::new(Handle::current(), &settings).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}

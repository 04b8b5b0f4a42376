//! What is sent where, and who it says it comes from.

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

/// Spans, or events as log records, that may wait to be sent. A collector that is slow for
/// a minute at 100 requests per second leaves some 18,000 spans waiting.
const QUEUE: usize = 16_384;
/// Memory that waits, bytes: so much of what carries no content is about as many items as
/// the queue has.
const QUEUE_BYTES: usize = 32 * 1024 * 1024;
/// How long an exchange with the collector may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often what waits is sent.
const EVERY: Duration = Duration::from_secs(2);

/// Where telemetry is sent by OTLP over HTTP (protobuf), and how much of it.
#[derive(Clone)]
#[non_exhaustive]
pub struct OtlpSettings {
    /// The collector's address, without `/v1/traces`.
    pub endpoint: String,
    /// Headers of every request. Their values may be secrets: `Debug` does not show them.
    pub headers: HashMap<String, String>,
    /// Certificates, PEM, that vouch for the collector in place of the public roots.
    pub root_certificates: Option<Vec<u8>>,
    /// How long an exchange with the collector may take: 10 s.
    pub timeout: Duration,
    /// How often what waits is sent: 2 s.
    pub every: Duration,
    /// Spans, and events as log records, that may wait: 16,384 of each. Beyond it they are
    /// dropped and counted.
    pub queue: usize,
    /// Memory, about, of what may wait, bytes: 32 MiB for spans, and as much for events.
    /// Beyond it they are dropped and counted likewise.
    pub queue_bytes: usize,
    /// Share of traces that begin here which are sent, 0..=1: all. A trace that came in is
    /// sent where its sender does.
    pub sample_ratio: f64,
    /// Who it comes from.
    pub service: Service,
}

impl fmt::Debug for OtlpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpSettings")
            .field("endpoint", &self.endpoint)
            .field("headers", &self.headers.keys())
            .field("has_roots", &self.root_certificates.is_some())
            .field("timeout", &self.timeout)
            .field("every", &self.every)
            .field("queue", &self.queue)
            .field("queue_bytes", &self.queue_bytes)
            .field("sample_ratio", &self.sample_ratio)
            .field("service", &self.service)
            .finish()
    }
}

impl OtlpSettings {
    /// Everything to the collector at `endpoint`, as from `service`.
    pub fn new(endpoint: impl Into<String>, service: Service) -> Self {
        Self {
            endpoint: endpoint.into(),
            headers: HashMap::new(),
            root_certificates: None,
            timeout: TIMEOUT,
            every: EVERY,
            queue: QUEUE,
            queue_bytes: QUEUE_BYTES,
            sample_ratio: 1.0,
            service,
        }
    }

    /// The address that a signal is sent to.
    pub(super) fn address(&self, signal: &str) -> String {
        format!("{}/v1/{signal}", self.endpoint.trim_end_matches('/'))
    }
}

/// Who telemetry comes from: OpenTelemetry's resource.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Service {
    /// `service.name`.
    pub name: String,
    /// `service.version`.
    pub version: String,
    /// `service.instance.id`: one per process.
    pub instance: String,
    /// `deployment.environment.name`.
    pub environment: Option<String>,
    /// Further attributes, by name.
    pub attributes: Vec<(String, String)>,
}

impl Service {
    /// A service without environment.
    pub fn new(
        name: impl Into<String>,
        version: impl Into<String>,
        instance: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            instance: instance.into(),
            environment: None,
            attributes: Vec::new(),
        }
    }

    /// It as a resource. Nothing is read from the environment.
    pub fn resource(&self) -> Resource {
        let further = self.attributes.iter();
        let further = further.map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
        let environment = self.environment.clone();
        let environment =
            environment.map(|name| KeyValue::new("deployment.environment.name", name));
        Resource::builder_empty()
            .with_attributes(further)
            .with_attributes(environment)
            .with_attributes([
                KeyValue::new("service.name", self.name.clone()),
                KeyValue::new("service.version", self.version.clone()),
                KeyValue::new("service.instance.id", self.instance.clone()),
            ])
            .build()
    }
}

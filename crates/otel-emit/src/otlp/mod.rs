//! Telemetry to a collector, by OTLP over HTTP.
//!
//! Nothing here holds up a request: what is to be sent waits in a bounded queue for a
//! thread of its own, whatever the collector does. What does not fit, and what the
//! collector does not take, is counted and told of once.

mod cause;
mod client;
mod load;
mod loss;
mod refusal;
mod settings;

pub use self::settings::{OtlpSettings, Service};
/// The SDK's, which spans to a collector are made by.
pub use opentelemetry_sdk::trace::{SdkTracer, Span as SdkSpan};

use self::client::CollectorClient;
use self::load::Bounds;
use self::loss::{Bounded, Counting, Waiting};
use self::refusal::{Entire, Last, SignalClient};
use crate::metrics::{Losses, Signal};
use crate::semconv;
use crate::spans::EventLog;
use opentelemetry::logs::LoggerProvider as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{
    ExporterBuildError, LogExporter, MetricExporter, Protocol, SpanExporter, WithExportConfig,
    WithHttpConfig,
};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{BatchLogProcessor, SdkLoggerProvider};
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider,
};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use tokio::runtime::Handle;

/// Why telemetry cannot be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtlpError {
    /// There is no TLS.
    #[error("the collector cannot be reached: no TLS")]
    Tls(#[from] rustls::Error),
    /// The certificates of the settings are none.
    #[error("the certificates that the collector is to be known by cannot be used: {why}")]
    Certificates {
        /// What is wrong with them.
        why: String,
    },
    /// A header of the settings is none.
    #[error("the collector cannot be sent `{name}`: its name or its value is none of a header")]
    Header {
        /// Its name. The value may be a secret.
        name: String,
    },
    /// The exporter refuses its settings.
    #[error("the collector cannot be sent to at `{endpoint}`")]
    Exporter {
        /// The address.
        endpoint: String,
        /// What is wrong.
        #[source]
        source: ExporterBuildError,
    },
}

/// A collector that telemetry is sent to.
#[derive(Debug)]
pub struct Collector {
    settings: OtlpSettings,
    client: CollectorClient,
}

impl Collector {
    /// A collector that is asked on `runtime`, which must outlive what is sent. Nothing is
    /// sent yet.
    ///
    /// # Errors
    /// [`OtlpError::Tls`], [`OtlpError::Certificates`], [`OtlpError::Header`].
    pub fn new(settings: OtlpSettings, runtime: Handle) -> Result<Self, OtlpError> {
        let client = CollectorClient::new(runtime, &settings)?;
        Ok(Self { settings, client })
    }

    /// What it is told that telemetry comes from.
    pub fn service(&self) -> &Service {
        &self.settings.service
    }

    /// An exporter of metrics. It fails where the collector refuses some of them, too.
    ///
    /// # Errors
    /// [`OtlpError::Exporter`].
    pub fn metrics(&self) -> Result<impl PushMetricExporter + use<>, OtlpError> {
        let last = Last::default();
        let exporter = self
            .aimed(MetricExporter::builder().with_http(), "metrics", &last)
            .build()
            .map_err(|source| self.refused(source))?;
        Ok(Entire {
            inner: exporter,
            last,
        })
    }

    /// The way for spans and events. Starts a thread for each.
    ///
    /// # Errors
    /// [`OtlpError::Exporter`].
    pub fn traces(&self, losses: &Losses) -> Result<Traces, OtlpError> {
        let most = Bounds {
            items: self.settings.queue,
            bytes: self.settings.queue_bytes,
        };
        let waiting = |signal| Waiting::new(signal, most, losses.clone());
        let (spans, events) = (waiting(Signal::Span), waiting(Signal::Event));
        Ok(Traces {
            tracers: self.tracers(&spans)?,
            loggers: self.loggers(&events)?,
            spans,
            events,
        })
    }

    fn tracers(&self, waiting: &Arc<Waiting>) -> Result<SdkTracerProvider, OtlpError> {
        let last = Last::default();
        let exporter = self
            .aimed(SpanExporter::builder().with_http(), "traces", &last)
            .build()
            .map_err(|source| self.refused(source))?;
        let counting = Counting {
            inner: exporter,
            waiting: waiting.clone(),
            last,
        };
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(self.settings.queue)
            .with_scheduled_delay(self.settings.every)
            .build();
        let batches = BatchSpanProcessor::builder(counting)
            .with_batch_config(config)
            .build();
        let sampler = Sampler::TraceIdRatioBased(self.settings.sample_ratio);
        Ok(SdkTracerProvider::builder()
            .with_resource(self.settings.service.resource())
            .with_sampler(Sampler::ParentBased(Box::new(sampler)))
            .with_span_processor(Bounded {
                inner: batches,
                waiting: waiting.clone(),
            })
            .build())
    }

    fn loggers(&self, waiting: &Arc<Waiting>) -> Result<SdkLoggerProvider, OtlpError> {
        let last = Last::default();
        let exporter = self
            .aimed(LogExporter::builder().with_http(), "logs", &last)
            .build()
            .map_err(|source| self.refused(source))?;
        let counting = Counting {
            inner: exporter,
            waiting: waiting.clone(),
            last,
        };
        let config = opentelemetry_sdk::logs::BatchConfigBuilder::default()
            .with_max_queue_size(self.settings.queue)
            .with_scheduled_delay(self.settings.every)
            .build();
        let batches = BatchLogProcessor::builder(counting)
            .with_batch_config(config)
            .build();
        Ok(SdkLoggerProvider::builder()
            .with_resource(self.settings.service.resource())
            .with_log_processor(Bounded {
                inner: batches,
                waiting: waiting.clone(),
            })
            .build())
    }

    /// A builder of an exporter with the collector's address for a signal, and all that is
    /// the same for every signal; its answers are noted on `last`.
    fn aimed<B: WithExportConfig + WithHttpConfig>(
        &self,
        builder: B,
        signal: &str,
        last: &Last,
    ) -> B {
        let client = SignalClient {
            client: self.client.clone(),
            last: last.clone(),
        };
        builder
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(self.settings.address(signal))
            .with_timeout(self.settings.timeout)
    }

    fn refused(&self, source: ExporterBuildError) -> OtlpError {
        OtlpError::Exporter {
            endpoint: self.settings.endpoint.clone(),
            source,
        }
    }
}

/// The way of spans and events to the collector.
#[derive(Debug)]
pub struct Traces {
    tracers: SdkTracerProvider,
    loggers: SdkLoggerProvider,
    spans: Arc<Waiting>,
    events: Arc<Waiting>,
}

impl Traces {
    /// What makes spans.
    pub fn tracer(&self) -> SdkTracer {
        self.tracers.tracer_with_scope(semconv::scope())
    }

    /// What takes events as log records.
    pub fn event_log(&self) -> Arc<dyn EventLog> {
        Arc::new(self.loggers.logger_with_scope(semconv::scope()))
    }

    /// Sends what waits and ends, within `limit` for each of the two steps. Says what went
    /// wrong, in a line each. Blocks: in async code to be called where blocking is allowed.
    pub fn shutdown(&self, limit: Duration) -> Vec<String> {
        let mut problems = Vec::new();
        let mut note = |doing: &str, result: OTelSdkResult| {
            if let Err(error) = result {
                problems.push(format!("{doing}: {error}"));
            }
        };
        let (tracers, loggers) = (self.tracers.clone(), self.loggers.clone());
        let flushed = within(limit, move || {
            [tracers.force_flush(), loggers.force_flush()]
        });
        match flushed {
            Some([spans, events]) => {
                note("spans that waited", spans);
                note("events that waited", events);
            }
            None => note("flush", Err(late(limit))),
        }
        note("end of spans", self.tracers.shutdown_with_timeout(limit));
        note("end of events", self.loggers.shutdown_with_timeout(limit));
        for (what, waiting) in [("spans", &self.spans), ("events", &self.events)] {
            if waiting.lost() > 0 {
                problems.push(format!(
                    "{} {what} were lost since the start",
                    waiting.lost()
                ));
            }
        }
        problems
    }
}

fn late(limit: Duration) -> opentelemetry_sdk::error::OTelSdkError {
    opentelemetry_sdk::error::OTelSdkError::Timeout(limit)
}

/// What `act` gives, if it does within `limit`; else it goes on alone, to an end of its own.
fn within<T: Send + 'static>(
    limit: Duration,
    act: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || done.send(act()));
    result.recv_timeout(limit).ok()
}

//! The SDK behind the instruments: one meter provider, read by `/metrics` and, where
//! there is a collector, pushed to it.

use super::instruments::{MANY, MANY_SERIES};
use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry_prometheus::PrometheusExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{
    Instrument, InstrumentKind, PeriodicReader, Pipeline, SdkMeterProvider, Stream, Temporality,
};
use prometheus::{Registry, TextEncoder};
use std::sync::Weak;
use std::time::Duration;

/// The media type of [`Exposition::text`].
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// Why metrics cannot be collected or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExpositionError {
    /// The exporter cannot be made.
    #[error("metrics cannot be exported: {0}")]
    Exporter(String),
    /// What was collected cannot be written.
    #[error("metrics cannot be written: {0}")]
    Text(#[from] prometheus::Error),
}

/// Metrics of this process, to be read as Prometheus text and, where there is an
/// exporter, pushed.
#[derive(Debug, Clone)]
pub struct Exposition {
    registry: Registry,
    provider: SdkMeterProvider,
}

impl Exposition {
    /// Metrics that are only read. No resource: the text does not show one.
    ///
    /// # Errors
    /// [`ExpositionError::Exporter`]: the SDK does not take the exporter.
    pub fn new() -> Result<Self, ExpositionError> {
        let (registry, reader) = scraped()?;
        let provider = SdkMeterProvider::builder()
            .with_view(many)
            .with_reader(reader)
            .build();
        Ok(Self { registry, provider })
    }

    /// Metrics that are also pushed to `exporter`, every `interval` and at shutdown.
    ///
    /// # Errors
    /// [`ExpositionError::Exporter`]: the SDK does not take the exporter.
    pub fn pushing(
        resource: Resource,
        exporter: impl PushMetricExporter,
        interval: Duration,
    ) -> Result<Self, ExpositionError> {
        let (registry, reader) = scraped()?;
        let pushed = PeriodicReader::builder(exporter).with_interval(interval);
        let provider = SdkMeterProvider::builder()
            .with_resource(resource)
            .with_view(many)
            .with_reader(reader)
            .with_reader(Fresh(pushed.build()))
            .build();
        Ok(Self { registry, provider })
    }

    /// Makes instruments; evenkeel's scope.
    pub fn meter(&self) -> Meter {
        self.provider.meter("evenkeel")
    }

    /// The provider, to flush and shut down. Both block.
    pub fn provider(&self) -> &SdkMeterProvider {
        &self.provider
    }

    /// Everything as Prometheus text, as of now. Blocks while it collects: a few
    /// milliseconds for a few thousand series.
    ///
    /// # Errors
    /// [`ExpositionError::Text`]: a family cannot be written as text.
    pub fn text(&self) -> Result<String, ExpositionError> {
        let families = self.registry.gather();
        Ok(TextEncoder::new().encode_to_string(&families)?)
    }
}

fn scraped() -> Result<(Registry, Fresh<PrometheusExporter>), ExpositionError> {
    let registry = Registry::new();
    let exporter = opentelemetry_prometheus::exporter()
        .with_registry(registry.clone())
        // Else every sample carries the scope, and a series the resource.
        .scope_info_enabled(false)
        .without_target_info()
        .build()
        .map_err(|error| ExpositionError::Exporter(error.to_string()))?;
    Ok((registry, Fresh(exporter)))
}

/// Gives the instruments that need it more room.
fn many(instrument: &Instrument) -> Option<Stream> {
    if !MANY.contains(&instrument.name()) {
        return None;
    }
    let stream = Stream::builder().with_cardinality_limit(MANY_SERIES);
    stream.build().ok()
}

/// Shows of gauges only what was observed since they were read last. As it is, the SDK
/// goes on showing the last value of a series that is observed no more: a window that has
/// run empty would stay in breach for ever.
#[derive(Debug)]
struct Fresh<R>(R);

impl<R: MetricReader> MetricReader for Fresh<R> {
    fn register_pipeline(&self, pipeline: Weak<Pipeline>) {
        self.0.register_pipeline(pipeline);
    }

    fn collect(&self, metrics: &mut ResourceMetrics) -> OTelSdkResult {
        self.0.collect(metrics)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn temporality(&self, kind: InstrumentKind) -> Temporality {
        match kind {
            InstrumentKind::Gauge | InstrumentKind::ObservableGauge => Temporality::Delta,
            other => self.0.temporality(other),
        }
    }
}

//! The SDK behind the instruments: one meter provider, read by `/metrics` and, where
//! there is a collector, pushed to it.

use super::instruments::{MANY, MANY_SERIES};
use crate::semconv;
use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry_prometheus::PrometheusExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{
    Instrument, InstrumentKind, ManualReader, Pipeline, SdkMeterProvider, Stream, Temporality,
};
use prometheus::{Registry, TextEncoder};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Weak};
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
    /// What was collected was not taken.
    #[error("metrics were not taken: {0}")]
    Push(#[from] OTelSdkError),
}

/// Metrics of this process, to be read as Prometheus text and, where there is an
/// exporter, pushed.
#[derive(Debug, Clone)]
pub struct Exposition {
    registry: Registry,
    provider: SdkMeterProvider,
    /// Where values are pushed to, if they are.
    outlet: Option<Arc<dyn Outlet>>,
}

/// All values as of one moment, to be [pushed](Exposition::push).
#[derive(Debug)]
pub struct Collected(ResourceMetrics);

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
        Ok(Self {
            registry,
            provider,
            outlet: None,
        })
    }

    /// Metrics that can also be [pushed](Self::push), to `exporter`, as from `resource`.
    ///
    /// # Errors
    /// [`ExpositionError::Exporter`]: the SDK does not take the exporter.
    pub fn pushing(
        resource: Resource,
        exporter: impl PushMetricExporter,
    ) -> Result<Self, ExpositionError> {
        let (registry, reader) = scraped()?;
        let pushed = ManualReader::builder().with_temporality(exporter.temporality());
        let pushed = Fresh(Arc::new(pushed.build()));
        let provider = SdkMeterProvider::builder()
            .with_resource(resource)
            .with_view(many)
            .with_reader(reader)
            .with_reader(pushed.clone())
            .build();
        let outlet = Pushed {
            reader: pushed,
            exporter,
        };
        Ok(Self {
            registry,
            provider,
            outlet: Some(Arc::new(outlet)),
        })
    }

    /// Makes instruments; evenkeel's scope.
    pub fn meter(&self) -> Meter {
        self.provider.meter_with_scope(semconv::scope())
    }

    /// Whether there is somewhere to [push](Self::push) to.
    pub fn pushes(&self) -> bool {
        self.outlet.is_some()
    }

    /// Everything as of now, to be [pushed](Self::push); none where there is no exporter.
    /// Blocks while it collects: a few milliseconds for a few thousand series.
    ///
    /// # Errors
    /// [`ExpositionError::Push`]: the SDK cannot collect.
    pub fn collect(&self) -> Result<Option<Collected>, ExpositionError> {
        let Some(outlet) = &self.outlet else {
            return Ok(None);
        };
        let mut metrics = ResourceMetrics::default();
        outlet.collect(&mut metrics)?;
        Ok(Some(Collected(metrics)))
    }

    /// Pushes what was collected; it is the exporter's to say how long that may take, and
    /// how it waits. It encodes on the thread that asks: milliseconds for thousands of
    /// series. Dropped meanwhile, it may have been taken.
    ///
    /// # Errors
    /// [`ExpositionError::Push`]: it was not taken. Nothing is lost by that: the next push
    /// has all that was counted.
    pub async fn push(&self, collected: Collected) -> Result<(), ExpositionError> {
        match &self.outlet {
            None => Ok(()),
            Some(outlet) => Ok(outlet.export(&collected.0).await?),
        }
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
    Ok((registry, Fresh(Arc::new(exporter))))
}

type Exporting<'a> = Pin<Box<dyn Future<Output = OTelSdkResult> + Send + 'a>>;

/// Where values go when they are pushed.
trait Outlet: fmt::Debug + Send + Sync {
    fn collect(&self, metrics: &mut ResourceMetrics) -> OTelSdkResult;
    fn export<'a>(&'a self, metrics: &'a ResourceMetrics) -> Exporting<'a>;
}

/// An exporter, and the reader that collects for it.
///
/// The SDK's own periodic reader asks at moments of its own, when nobody has looked how
/// things are: gauges would show what they were when somebody read them last.
struct Pushed<E> {
    reader: Fresh<ManualReader>,
    exporter: E,
}

impl<E> fmt::Debug for Pushed<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pushed").finish_non_exhaustive()
    }
}

impl<E: PushMetricExporter> Outlet for Pushed<E> {
    fn collect(&self, metrics: &mut ResourceMetrics) -> OTelSdkResult {
        self.reader.collect(metrics)
    }

    fn export<'a>(&'a self, metrics: &'a ResourceMetrics) -> Exporting<'a> {
        Box::pin(self.exporter.export(metrics))
    }
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
struct Fresh<R>(Arc<R>);

impl<R> Clone for Fresh<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

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

//! Values on their way to a collector.

use super::catalogue;
use super::gauges::snapshot;
use evenkeel_core::{Observer as _, Route};
use evenkeel_otel_emit::metrics::{Build, Exposition, ExpositionError, Metrics};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::metrics::data::{
    AggregatedMetrics, MetricData, ResourceMetrics, SumDataPoint,
};
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, Temporality};
use std::time::Duration;

const BUILD: Build = Build {
    version: "1.2.3",
    revision: "abc",
};

fn pushing(exporter: impl PushMetricExporter) -> (Metrics, Exposition) {
    let resource = Resource::builder_empty().build();
    let exposition = Exposition::pushing(resource, exporter).unwrap();
    let metrics = Metrics::new(&exposition.meter(), catalogue(), BUILD);
    (metrics, exposition)
}

async fn push(exposition: &Exposition) -> Result<(), ExpositionError> {
    let collected = exposition.collect()?.expect("there is an exporter");
    exposition.push(collected).await
}

/// Points of a gauge, or the sum of a counter, in the last push.
fn last(exporter: &InMemoryMetricExporter, name: &str) -> Option<(usize, u64)> {
    let pushed = exporter.get_finished_metrics().unwrap();
    let scope = pushed.last().unwrap().scope_metrics().next().unwrap();
    assert_eq!(scope.scope().name(), "evenkeel");
    assert_eq!(scope.scope().version(), Some(env!("CARGO_PKG_VERSION")));
    let metric = scope.metrics().find(|metric| metric.name() == name)?;
    Some(match metric.data() {
        AggregatedMetrics::F64(MetricData::Gauge(gauge)) => (gauge.data_points().count(), 0),
        AggregatedMetrics::U64(MetricData::Sum(sum)) => {
            assert_eq!(sum.temporality(), Temporality::Cumulative);
            (0, sum.data_points().map(SumDataPoint::value).sum())
        }
        other => panic!("{name}: {other:?}"),
    })
}

#[tokio::test]
async fn a_push_has_all_that_was_counted_and_gauges_as_they_were_last_shown() {
    let exporter = InMemoryMetricExporter::default();
    let (metrics, exposition) = pushing(exporter.clone());
    assert!(exposition.pushes());
    push(&exposition).await.unwrap();
    assert_eq!(last(&exporter, "evenkeel.latency.p95"), None);
    metrics.show(snapshot());
    push(&exposition).await.unwrap();
    let (windows, _) = last(&exporter, "evenkeel.latency.p95").unwrap();
    assert_eq!(windows, 2);
    // What is shown no more is gone, though nobody has read it in between.
    metrics.show(evenkeel_otel_emit::metrics::Snapshot::default());
    push(&exposition).await.unwrap();
    assert_eq!(last(&exporter, "evenkeel.latency.p95"), None);
    for n in 1..=2 {
        let kind = super::events::call("planner", Some("openai/gpt"), Route::Primary);
        let (at, call) = (super::at(), None);
        metrics.on(&evenkeel_core::Event { at, call, kind });
        push(&exposition).await.unwrap();
        assert_eq!(last(&exporter, "evenkeel.requests"), Some((0, n)));
    }
}

/// A collector that takes nothing.
#[derive(Debug)]
struct Refusing;

impl PushMetricExporter for Refusing {
    async fn export(&self, _: &ResourceMetrics) -> OTelSdkResult {
        Err(OTelSdkError::InternalFailure("405".to_owned()))
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}

#[tokio::test]
async fn a_push_that_is_not_taken_is_told() {
    let (_metrics, exposition) = pushing(Refusing);
    let refused = push(&exposition).await.unwrap_err();
    assert!(refused.to_string().contains("405"), "{refused}");
    // `/metrics` has it all the same.
    assert!(exposition.text().unwrap().contains("evenkeel_build_info"));
    let alone = Exposition::new().unwrap();
    assert!(!alone.pushes() && alone.collect().unwrap().is_none());
}

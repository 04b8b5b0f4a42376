//! What an exporter does to who serves calls: nothing.

use super::GatewayMetrics;
use evenkeel_otel_emit::metrics::{Exposition, Snapshot};
use evenkeel_roster::Config;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Holds its thread up until it is let go, and fails where nobody does.
struct Stubborn(Mutex<Receiver<()>>);

impl PushMetricExporter for Stubborn {
    async fn export(&self, _: &ResourceMetrics) -> OTelSdkResult {
        let limit = Duration::from_secs(10);
        let released = self.0.lock().unwrap().recv_timeout(limit);
        released.map_err(|_| OTelSdkError::Timeout(limit))
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
async fn an_exporter_that_holds_its_thread_up_holds_up_nobody_else() {
    let (release, released) = channel();
    let resource = Resource::builder_empty().build();
    let exporter = Stubborn(Mutex::new(released));
    let exposition = Exposition::pushing(resource, exporter).unwrap();
    let metrics = GatewayMetrics::new(&Config::default(), exposition);
    let others = async {
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        release.send(()).unwrap();
    };
    let (pushed, ()) = tokio::join!(metrics.push(Snapshot::default), others);
    pushed.unwrap();
}

//! What a collector refuses of a batch that it takes: it answers 200, and how many items of
//! it were not taken (OTLP's partial success).

use super::client::CollectorClient;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use prost::Message;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How many items of the last batch were refused: from who reads the answer to who counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Refused(Arc<AtomicU64>);

impl Refused {
    /// Of the last batch that was taken; what is asked for is forgotten.
    pub(super) fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// What an answer says was refused; one that cannot be read says nothing. The answers of
/// the three signals are one on the wire, but for names.
fn refused(answer: &[u8]) -> u64 {
    let answer = ExportTraceServiceResponse::decode(answer).ok();
    let partial = answer.and_then(|answer| answer.partial_success);
    partial.map_or(0, |partial| {
        u64::try_from(partial.rejected_spans).unwrap_or(0)
    })
}

/// The client of the exporter of one signal.
#[derive(Debug)]
pub(super) struct SignalClient {
    pub(super) client: CollectorClient,
    pub(super) refused: Refused,
}

#[async_trait::async_trait]
impl HttpClient for SignalClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.client.send_bytes(request).await?;
        if answer.status().is_success() {
            let count = refused(answer.body());
            self.refused.0.store(count, Ordering::Relaxed);
        }
        Ok(answer)
    }
}

/// An exporter of metrics that has failed where a part was refused.
pub(super) struct Entire<E> {
    pub(super) inner: E,
    pub(super) refused: Refused,
}

impl<E> fmt::Debug for Entire<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entire").finish_non_exhaustive()
    }
}

impl<E: PushMetricExporter> PushMetricExporter for Entire<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.inner.export(metrics).await?;
        match self.refused.take() {
            0 => Ok(()),
            count => {
                let why = format!("the collector refused {count} data points");
                Err(OTelSdkError::InternalFailure(why))
            }
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.inner.temporality()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_how_many_were_refused() {
        // partial_success { rejected: 3, error_message: "no" }
        assert_eq!(refused(b"\x0a\x06\x08\x03\x12\x02no"), 3);
        // Warnings alone, -1, nothing, and what is no answer.
        assert_eq!(refused(b"\x0a\x04\x12\x02no"), 0);
        let negative = b"\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        assert_eq!(refused(negative), 0);
        for none in [&b""[..], b"{}", b"{\"partialSuccess\":{}}", b"<html>"] {
            assert_eq!(refused(none), 0, "{none:?}");
        }
    }
}

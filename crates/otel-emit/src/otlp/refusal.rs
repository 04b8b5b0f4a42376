//! What became of a batch: a collector may answer 200, and how many items of it were not
//! taken (OTLP's partial success); what answers may be no collector; and nothing may answer.

use super::cause;
use super::client::CollectorClient;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use prost::Message;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What an exchange came to, as far as the exporter does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// Items of the batch that were refused, though it was taken.
    pub(super) refused: u64,
    /// Why something is lost.
    pub(super) why: Option<String>,
}

impl Heard {
    /// From an answer that takes the batch. One that cannot be read says nothing, where it is
    /// in a form that collectors answer in. The answers of the three signals are one on the
    /// wire, but for names.
    fn of(headers: &HeaderMap, body: &[u8]) -> Self {
        let Ok(answer) = ExportTraceServiceResponse::decode(body) else {
            return match foreign(headers) {
                None => Self::default(),
                // Whatever it is took nothing.
                Some(kind) => Self {
                    refused: u64::MAX,
                    why: Some(format!(
                        "what answers there is no collector: it sent {kind}"
                    )),
                },
            };
        };
        let refused = answer.partial_success.map(|partial| partial.rejected_spans);
        Self {
            refused: refused.map_or(0, |count| u64::try_from(count).unwrap_or(0)),
            why: None,
        }
    }
}

/// What a body is, where it is neither protobuf nor JSON.
fn foreign(headers: &HeaderMap) -> Option<&'static str> {
    let kind = headers.get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    match kind.as_str() {
        "application/x-protobuf" | "application/protobuf" | "application/json" => None,
        "text/html" => Some("a web page"),
        _ => Some("something that is neither protobuf nor JSON"),
    }
}

/// What the last exchange of a signal came to: from who reads the answer to who counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Last(Arc<Mutex<Heard>>);

impl Last {
    fn set(&self, heard: Heard) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = heard;
    }

    /// What is asked for is forgotten.
    pub(super) fn take(&self) -> Heard {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The client of the exporter of one signal.
#[derive(Debug)]
pub(super) struct SignalClient {
    pub(super) client: CollectorClient,
    pub(super) last: Last,
}

#[async_trait::async_trait]
impl HttpClient for SignalClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.client.send_bytes(request).await;
        self.last.set(match &answer {
            Ok(answer) if answer.status().is_success() => {
                Heard::of(answer.headers(), answer.body())
            }
            // The exporter tells the status itself.
            Ok(_) => Heard::default(),
            // Of this it only says that it was the network.
            Err(error) => Heard {
                refused: 0,
                why: Some(cause::words(&**error)),
            },
        });
        answer
    }
}

/// An exporter of metrics that has failed where a part was refused.
pub(super) struct Entire<E> {
    pub(super) inner: E,
    pub(super) last: Last,
}

impl<E> fmt::Debug for Entire<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entire").finish_non_exhaustive()
    }
}

impl<E: PushMetricExporter> PushMetricExporter for Entire<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let result = self.inner.export(metrics).await;
        let failed = |why| Err(OTelSdkError::InternalFailure(why));
        match (result, self.last.take()) {
            (Ok(()), Heard { refused: 0, .. }) => Ok(()),
            (_, Heard { why: Some(why), .. }) => failed(why),
            (Err(error), _) => Err(error),
            (Ok(()), Heard { refused, .. }) => {
                failed(format!("the collector refused {refused} data points"))
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

    fn heard(kind: &'static str, body: &[u8]) -> Heard {
        let mut headers = HeaderMap::new();
        if !kind.is_empty() {
            headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
        }
        Heard::of(&headers, body)
    }

    #[test]
    fn an_answer_says_how_many_were_refused() {
        let refused = |body| heard("application/x-protobuf", body).refused;
        // partial_success { rejected: 3, error_message: "no" }
        assert_eq!(refused(b"\x0a\x06\x08\x03\x12\x02no"), 3);
        // Warnings alone, and -1.
        assert_eq!(refused(b"\x0a\x04\x12\x02no"), 0);
        let negative = b"\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        assert_eq!(refused(negative), 0);
        for kind in ["", "application/x-protobuf", "text/html"] {
            assert_eq!(heard(kind, b""), Heard::default(), "nothing is an answer");
        }
        for kind in ["application/json", "Application/JSON; charset=utf-8"] {
            assert_eq!(heard(kind, b"{\"partialSuccess\":{}}"), Heard::default());
        }
    }

    #[test]
    fn what_is_no_collector_took_nothing() {
        for (kind, body, what) in [
            ("text/html; charset=utf-8", &b"<html>"[..], "a web page"),
            ("text/plain", b"OK", "neither protobuf nor JSON"),
            ("", b"garbage", "neither protobuf nor JSON"),
        ] {
            let heard = heard(kind, body);
            assert_eq!(heard.refused, u64::MAX, "{kind}");
            assert!(heard.why.unwrap().contains(what), "{kind}");
        }
    }
}

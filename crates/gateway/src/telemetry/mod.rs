//! Traces, events and metrics on their way to a collector, and the span of each request.

mod body;
#[cfg(test)]
mod scenarios;

pub(crate) use self::body::traced;

use axum::body::Body;
use evenkeel_core::{Observer, SystemClock, TraceContext};
use evenkeel_otel_emit::metrics::Losses;
use evenkeel_otel_emit::otlp::{Collector, OtlpError, OtlpSettings, SdkTracer, Service, Traces};
use evenkeel_otel_emit::spans::{EventsAs, HttpRequest, Records, ServerSpan, Spans};
use evenkeel_otel_emit::{Capture, CaptureContent, Redaction};
use evenkeel_roster::{
    CaptureContent as ConfiguredCapture, EventsAs as ConfiguredEvents, Redactions, TelemetryConfig,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use secrecy::ExposeSecret;
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// The span of a request that is being served.
pub(crate) type RequestSpan = ServerSpan<evenkeel_otel_emit::otlp::SdkSpan>;

/// The collector that `config` of that folder names, as from `instance`; none where it names
/// none. To be called in the runtime that is to send.
///
/// # Errors
/// [`OtlpError`].
pub fn collector(
    config: &TelemetryConfig,
    folder: &Path,
    instance: &str,
) -> Result<Option<Collector>, OtlpError> {
    let Some(endpoint) = &config.endpoint else {
        return Ok(None);
    };
    let mut service = Service::new(&config.service_name, env!("CARGO_PKG_VERSION"), instance);
    service.environment.clone_from(&config.environment);
    service.attributes = config.resource.clone().into_iter().collect();
    let mut settings = OtlpSettings::new(endpoint, service);
    settings.headers = config
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), value.expose_secret().to_owned()))
        .collect();
    settings.root_certificates = match &config.ca_file {
        None => None,
        Some(file) => {
            let file = folder.join(file);
            let read = std::fs::read(&file);
            Some(read.map_err(|error| OtlpError::Certificates {
                why: format!("`ca_file` {}: {error}", file.display()),
            })?)
        }
    };
    settings.timeout = config.timeout;
    settings.queue = usize::try_from(config.queue).unwrap_or(usize::MAX);
    settings.sample_ratio = config.sample_ratio;
    Collector::new(settings, Handle::current()).map(Some)
}

/// The configuration's patterns, taken out of what is kept.
struct Patterns(Redactions);

impl Redaction for Patterns {
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.0.redact(text)
    }
}

/// Spans and events of everything that the router tells, on their way to a collector.
#[derive(Debug)]
pub struct Tracing {
    spans: Arc<Spans<SdkTracer>>,
    traces: Traces,
}

impl Tracing {
    /// Spans to `collector`, with what `config` says of content and events. What is lost
    /// is counted on `losses`.
    ///
    /// # Errors
    /// [`OtlpError`].
    pub fn new(
        config: &TelemetryConfig,
        collector: &Collector,
        losses: &Losses,
    ) -> Result<Self, OtlpError> {
        let traces = collector.traces(losses)?;
        let events = match config.events {
            ConfiguredEvents::Span => EventsAs::Span,
            ConfiguredEvents::Log => EventsAs::Log,
            ConfiguredEvents::Both => EventsAs::Both,
        };
        let content = match config.capture_content {
            ConfiguredCapture::None => CaptureContent::None,
            ConfiguredCapture::Span => CaptureContent::Span,
            ConfiguredCapture::Event => CaptureContent::Event,
        };
        if content != CaptureContent::None {
            tracing::warn!(
                event = "content_captured",
                capture_content = content.as_str(),
                redacts = !config.redact.is_empty(),
                "prompts and answers are kept in telemetry: they are personal data"
            );
        }
        let redact = config.redact.clone();
        let capture = Capture {
            content,
            redaction: (!redact.is_empty()).then(|| Arc::new(Patterns(redact)) as _),
        };
        let spans = Spans::new(traces.tracer(), Arc::new(SystemClock))
            .with_records(Records::new(events, traces.event_log()))
            .with_content(Some(capture));
        Ok(Self {
            spans: Arc::new(spans),
            traces,
        })
    }

    /// What has to hear of everything, before all others: it is asked what to call it.
    pub fn observer(&self) -> Arc<dyn Observer> {
        self.spans.clone()
    }

    /// What makes the spans of requests.
    pub(crate) fn spans(&self) -> Arc<Spans<SdkTracer>> {
        self.spans.clone()
    }

    /// Sends what waits and ends, within `limit` for each of three steps, and says what of it
    /// could not be sent.
    pub async fn shutdown(self, limit: Duration) {
        let traces = self.traces;
        let ended = tokio::task::spawn_blocking(move || traces.shutdown(limit)).await;
        for problem in ended.unwrap_or_default() {
            tracing::warn!(event = "telemetry_incomplete", problem, "at the end");
        }
    }
}

/// The span of a request on `route`, where there is tracing.
pub(crate) fn begin(
    spans: Option<&Arc<Spans<SdkTracer>>>,
    method: &str,
    route: &'static str,
    headers: &HeaderMap,
    at: Instant,
) -> Option<RequestSpan> {
    let trace = inbound(headers);
    let request = HttpRequest {
        method,
        route,
        trace: trace.as_ref(),
    };
    Some(spans?.serve(request, at))
}

/// Longest `tracestate` that is taken over, in bytes. W3C asks for 512 at least.
const LONGEST_STATE: usize = 4_096;

/// The trace that a request came in on, where it is well-formed; W3C asks for a broken
/// one to be ignored, and for one that is there twice as well.
pub(crate) fn inbound(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all("traceparent").iter();
    let (Some(parent), None) = (parents.next(), parents.next()) else {
        return None;
    };
    let parent = parent.to_str().ok()?.trim();
    let state: Option<Vec<&str>> = headers
        .get_all("tracestate")
        .iter()
        .map(|part| part.to_str().ok())
        .collect();
    let state = state.unwrap_or_default().join(",");
    let context = TraceContext {
        traceparent: parent.into(),
        tracestate: if state.len() <= LONGEST_STATE {
            state.into()
        } else {
            "".into()
        },
    };
    evenkeel_otel_emit::is_trace_context(&context).then_some(context)
}

/// Tells the caller the trace of its call, or of its request where there was none.
pub(crate) fn put_trace(
    response: &mut Response<Body>,
    call: Option<&TraceContext>,
    request: Option<&RequestSpan>,
) {
    let own = call.or_else(|| request.map(RequestSpan::context));
    if let Some(context) = own
        && let Ok(value) = HeaderValue::from_str(&context.traceparent)
    {
        let name = HeaderName::from_static("traceparent");
        response.headers_mut().entry(name).or_insert(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_broken_or_forged_trace_is_ignored() {
        assert!(inbound(&headers(&[("traceparent", GOOD)])).is_some());
        for bad in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        ] {
            assert!(
                inbound(&headers(&[("traceparent", bad)])).is_none(),
                "{bad}"
            );
        }
        let twice = headers(&[("traceparent", GOOD), ("traceparent", GOOD)]);
        assert!(inbound(&twice).is_none());
    }

    #[test]
    fn a_state_is_joined_and_one_that_is_too_long_left_out() {
        let of = |state: &str| {
            let pairs = [
                ("traceparent", GOOD),
                ("tracestate", "a=1"),
                ("tracestate", state),
            ];
            inbound(&headers(&pairs)).unwrap().tracestate
        };
        assert_eq!(&*of("b=2"), "a=1,b=2");
        assert_eq!(&*of(&"x".repeat(LONGEST_STATE)), "");
    }
}

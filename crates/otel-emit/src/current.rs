//! The trace that an application is in, for calls it makes.

use crate::trace_context;
use evenkeel_core::{CallContext, TraceContext};
use opentelemetry::trace::TraceContextExt as _;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Puts calls into the application's own trace, where it uses `tracing` with the layer of
/// `tracing-opentelemetry`.
///
/// ```
/// use evenkeel_core::CallContext;
/// use evenkeel_otel_emit::TracingContext as _;
///
/// let context = CallContext::default().in_current_span();
/// # assert!(context.trace.is_none(), "no span is entered here");
/// ```
pub trait TracingContext {
    /// With the current span as parent of the call's; unchanged where there is none.
    #[must_use]
    fn in_current_span(self) -> Self;
}

impl TracingContext for CallContext {
    fn in_current_span(mut self) -> Self {
        if let Some(current) = current() {
            self.trace = Some(current);
        }
        self
    }
}

fn current() -> Option<TraceContext> {
    let context = Span::current().context();
    let span = context.span();
    let span = span.span_context();
    span.is_valid().then(|| trace_context::write(span))
}

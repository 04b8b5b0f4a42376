//! The span of a request that is served over HTTP, by the stable conventions for HTTP.

use super::{Anchor, Spans, held};
use crate::trace_context;
use crate::value::{short, text};
use crate::{names, semconv};
use evenkeel_core::TraceContext;
use opentelemetry::KeyValue;
use opentelemetry::trace::{Span, SpanKind, Status, Tracer};
use std::time::Instant;

/// A request as its span tells of it: no query, no address, no header.
#[derive(Debug, Clone, Copy)]
pub struct HttpRequest<'a> {
    /// Its method; one that HTTP does not know is told as `_OTHER`.
    pub method: &'a str,
    /// The route that serves it, which is of a closed set: `/v1/chat/completions`.
    pub route: &'static str,
    /// The trace it came in on, if its sender named one.
    pub trace: Option<&'a TraceContext>,
}

/// The span of a request that is being served. Dropped, it ends.
#[derive(Debug)]
pub struct ServerSpan<S: Span> {
    span: S,
    anchor: Anchor,
    context: TraceContext,
}

impl<T> Spans<T>
where
    T: Tracer + Send + Sync,
    T::Span: Span + Send + Sync + 'static,
{
    /// The span of a request whose head came at `at`.
    pub fn serve(&self, request: HttpRequest<'_>, at: Instant) -> ServerSpan<T::Span> {
        let HttpRequest {
            method,
            route,
            trace,
        } = request;
        let anchor = self.anchor(at);
        let known = |known: &&&str| **known == method;
        let method = semconv::METHODS.iter().find(known).copied();
        let builder = self
            .tracer
            .span_builder(format!("{} {route}", method.unwrap_or(semconv::ANY_METHOD)))
            .with_kind(SpanKind::Server)
            .with_start_time(anchor.time)
            .with_attributes([
                text(
                    semconv::HTTP_REQUEST_METHOD,
                    method.unwrap_or(semconv::OTHER_METHOD),
                ),
                text(semconv::HTTP_ROUTE, route),
                text(semconv::URL_PATH, route),
                text(semconv::URL_SCHEME, "http"),
            ]);
        let parent = held::below(trace.and_then(trace_context::read));
        let span = self.tracer.build_with_context(builder, &parent);
        ServerSpan {
            context: trace_context::write(span.span_context()),
            span,
            anchor,
        }
    }
}

impl<S: Span> ServerSpan<S> {
    /// Its context: what is asked for the request is below it.
    pub fn context(&self) -> &TraceContext {
        &self.context
    }

    /// The head of the answer goes out; of an error of ours, that is an error here.
    pub fn answered(&mut self, status: u16, request_id: &str) {
        let code = KeyValue::new(semconv::HTTP_RESPONSE_STATUS_CODE, i64::from(status));
        self.span.set_attribute(code);
        self.span
            .set_attribute(text(names::REQUEST_ID, short(request_id).to_owned()));
        if status >= 500 {
            self.span
                .set_attribute(text(semconv::ERROR_TYPE, status.to_string()));
            self.span.set_status(Status::error("server error"));
        }
    }

    /// The last byte has gone out, or the client is gone.
    pub fn end(mut self, at: Instant) {
        self.span.end_with_timestamp(self.anchor.time(at));
    }
}

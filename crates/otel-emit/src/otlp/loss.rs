//! Bounds on what waits to be sent, and a count of what is lost.

use crate::metrics::{Losses, Signal};
use opentelemetry::{Context, InstrumentationScope};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter, LogProcessor, SdkLogRecord};
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter, SpanProcessor};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// What waits to be sent of one signal.
#[derive(Debug)]
pub(super) struct Waiting {
    signal: Signal,
    most: usize,
    items: AtomicUsize,
    losses: Losses,
    /// Whether something was lost since the collector last took anything.
    is_losing: AtomicBool,
    /// Items lost since the process began.
    lost: AtomicU64,
}

impl Waiting {
    /// At most `most` items of `signal` wait.
    pub(super) fn new(signal: Signal, most: usize, losses: Losses) -> Arc<Self> {
        Arc::new(Self {
            signal,
            most,
            items: AtomicUsize::new(0),
            losses,
            is_losing: AtomicBool::new(false),
            lost: AtomicU64::new(0),
        })
    }

    /// Items lost since the process began.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Whether there is room for one more; then it waits. `events` are lost with it if not.
    fn admit(&self, events: usize) -> bool {
        let taken = self
            .items
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
                (waiting < self.most).then_some(waiting + 1)
            });
        if taken.is_err() {
            self.lose(1, events, "too many wait to be sent");
        }
        taken.is_ok()
    }

    /// `count` items have been taken out to be sent, and were or were not.
    fn sent(&self, count: usize, events: usize, result: &OTelSdkResult) {
        self.items.fetch_sub(count, Ordering::Relaxed);
        match result {
            Ok(()) => self.recovered(),
            Err(error) => self.lose(count, events, &error.to_string()),
        }
    }

    /// Counts a loss; the first of an episode is told.
    fn lose(&self, count: usize, events: usize, why: &str) {
        let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        self.losses.lost(self.signal, number(count));
        if events > 0 {
            self.losses.lost(Signal::Event, number(events));
        }
        self.lost.fetch_add(number(count), Ordering::Relaxed);
        if !self.is_losing.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                event = "telemetry_lost",
                signal = self.signal.as_str(),
                why,
                "telemetry is being lost; requests are not held up"
            );
        }
    }

    fn recovered(&self) {
        if self.is_losing.load(Ordering::Relaxed) && self.is_losing.swap(false, Ordering::Relaxed) {
            tracing::info!(
                event = "telemetry_recovered",
                signal = self.signal.as_str(),
                lost = self.lost(),
                "the collector takes telemetry again"
            );
        }
    }
}

/// A processor that lets no more in than may wait.
#[derive(Debug)]
pub(super) struct Bounded<P> {
    pub(super) inner: P,
    pub(super) waiting: Arc<Waiting>,
}

impl<P: SpanProcessor> SpanProcessor for Bounded<P> {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.inner.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() && self.waiting.admit(span.events.len()) {
            self.inner.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl<P: LogProcessor> LogProcessor for Bounded<P> {
    fn emit(&self, record: &mut SdkLogRecord, scope: &InstrumentationScope) {
        if self.waiting.admit(0) {
            self.inner.emit(record, scope);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// An exporter that tells what became of each batch.
#[derive(Debug)]
pub(super) struct Counting<E> {
    pub(super) inner: E,
    pub(super) waiting: Arc<Waiting>,
}

impl<E: SpanExporter> SpanExporter for Counting<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let events = batch.iter().map(|span| span.events.len()).sum();
        let result = self.inner.export(batch).await;
        self.waiting.sent(count, events, &result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.inner.shutdown()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl<E: LogExporter> LogExporter for Counting<E> {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let count = batch.iter().count();
        let result = self.inner.export(batch).await;
        self.waiting.sent(count, 0, &result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.inner.shutdown()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

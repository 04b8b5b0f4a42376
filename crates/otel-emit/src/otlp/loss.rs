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

    /// Counts events that a span had no room for: the SDK keeps 128 of each.
    fn left_out(&self, events: u32) {
        if events > 0 {
            self.losses.lost(Signal::Event, u64::from(events));
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
        if !span.span_context.is_sampled() {
            return;
        }
        self.waiting.left_out(span.events.dropped_count);
        if self.waiting.admit(span.events.len()) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::metrics::MeterProvider as _;
    use opentelemetry::metrics::noop::NoopMeterProvider;
    use opentelemetry_sdk::error::OTelSdkError;
    use std::sync::Mutex;
    use tracing::field::{Field, Visit};
    use tracing_subscriber::layer::{Context as Within, SubscriberExt};

    /// Keeps what each log line is called.
    #[derive(Debug, Clone, Default)]
    struct Told(Arc<Mutex<Vec<String>>>);

    impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Told {
        fn on_event(&self, event: &tracing::Event<'_>, _: Within<'_, S>) {
            event.record(&mut self.clone());
        }
    }

    impl Visit for Told {
        fn record_str(&mut self, field: &Field, value: &str) {
            if field.name() == "event" {
                self.0.lock().unwrap().push(value.to_owned());
            }
        }

        fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
    }

    fn waiting(most: usize) -> Arc<Waiting> {
        let meter = NoopMeterProvider::new().meter("test");
        let counter = meter.u64_counter("dropped").build();
        Waiting::new(Signal::Span, most, Losses(counter))
    }

    fn failed() -> OTelSdkResult {
        Err(OTelSdkError::InternalFailure("413".to_owned()))
    }

    // Conformance 11: the loss is logged once an episode, however it comes about.
    #[test]
    fn an_episode_of_losses_is_told_when_it_begins_and_when_it_is_over() {
        let (waiting, told) = (waiting(2), Told::default());
        let subscriber = tracing_subscriber::registry().with(told.clone());
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..5 {
                waiting.admit(1);
            }
            waiting.sent(2, 0, &failed());
            waiting.admit(0);
            waiting.sent(1, 0, &failed());
            assert_eq!(*told.0.lock().unwrap(), ["telemetry_lost"]);
            waiting.admit(0);
            waiting.sent(1, 0, &Ok(()));
            waiting.admit(0);
            waiting.sent(1, 0, &Ok(()));
            waiting.admit(0);
            waiting.sent(1, 0, &failed());
        });
        let course = ["telemetry_lost", "telemetry_recovered", "telemetry_lost"];
        assert_eq!(*told.0.lock().unwrap(), course);
        assert_eq!(waiting.lost(), 3 + 2 + 1 + 1);
    }

    #[test]
    fn what_is_sent_makes_room() {
        let waiting = waiting(1);
        assert!(waiting.admit(0));
        assert!(!waiting.admit(0));
        waiting.sent(1, 0, &Ok(()));
        assert!(waiting.admit(0));
    }
}

//! Bounds on what waits to be sent, and a count of what is lost.

use super::load::{Bounds, Load};
use super::refusal::{Heard, Last};
use crate::metrics::{Losses, Signal};
use opentelemetry::{Context, InstrumentationScope};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter, LogProcessor, SdkLogRecord};
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter, SpanProcessor};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Why items of a batch that was taken are lost.
const REFUSED: &str = "the collector takes batches in part";

/// What waits to be sent of one signal.
#[derive(Debug)]
pub(super) struct Waiting {
    signal: Signal,
    most: Bounds,
    items: AtomicUsize,
    bytes: AtomicUsize,
    losses: Losses,
    /// Whether something was lost since the collector last took anything.
    is_losing: AtomicBool,
    /// Items lost since the process began.
    lost: AtomicU64,
}

impl Waiting {
    /// At most `most` of `signal` waits.
    pub(super) fn new(signal: Signal, most: Bounds, losses: Losses) -> Arc<Self> {
        Arc::new(Self {
            signal,
            most,
            items: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            losses,
            is_losing: AtomicBool::new(false),
            lost: AtomicU64::new(0),
        })
    }

    /// Items lost since the process began.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Whether there is room for more; then it waits, else it is lost.
    fn admit(&self, more: Load) -> bool {
        if !take(&self.items, more.items, self.most.items) {
            self.lose(more.items, more.events, "too many wait to be sent");
            return false;
        }
        if !take(&self.bytes, more.bytes, self.most.bytes) {
            self.items.fetch_sub(more.items, Ordering::Relaxed);
            self.lose(more.items, more.events, "too much waits to be sent");
            return false;
        }
        true
    }

    /// A batch has been taken out to be sent, and was or was not; of one that was, the
    /// collector may have refused some items, as was `heard`.
    fn sent(&self, batch: Load, heard: &Heard, result: &OTelSdkResult) {
        self.items.fetch_sub(batch.items, Ordering::Relaxed);
        self.bytes.fetch_sub(batch.bytes, Ordering::Relaxed);
        let refused = usize::try_from(heard.refused).unwrap_or(usize::MAX);
        let why = heard.why.as_deref();
        match result {
            Err(error) => {
                let said = || error.to_string();
                let why = why.map_or_else(said, str::to_owned);
                self.lose(batch.items, batch.events, &why);
            }
            Ok(()) if refused == 0 => self.recovered(),
            // It does not say which: of a part of the spans nobody knows the events.
            Ok(()) if refused < batch.items => self.lose(refused, 0, why.unwrap_or(REFUSED)),
            Ok(()) => self.lose(batch.items, batch.events, why.unwrap_or(REFUSED)),
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

/// Adds `more` to what waits, where that is not more than `most` then.
fn take(waiting: &AtomicUsize, more: usize, most: usize) -> bool {
    let fits = |waiting: usize| waiting.checked_add(more).filter(|sum| *sum <= most);
    let taken = waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
    taken.is_ok()
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
        if self.waiting.admit(Load::of_span(&span)) {
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
        if self.waiting.admit(Load::of_record(record)) {
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
    pub(super) last: Last,
}

impl<E: SpanExporter> SpanExporter for Counting<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let load = batch.iter().map(Load::of_span).sum();
        let result = self.inner.export(batch).await;
        self.waiting.sent(load, &self.last.take(), &result);
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
        let load = batch
            .iter()
            .map(|(record, _)| Load::of_record(record))
            .sum();
        let result = self.inner.export(batch).await;
        self.waiting.sent(load, &self.last.take(), &result);
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

    /// Runs with `told` as the only one who hears.
    fn heard_by(told: &Told, run: impl FnOnce()) {
        let subscriber = tracing_subscriber::registry().with(told.clone());
        // With a single dispatcher whichever thread first comes by a line decides for all
        // whether anybody hears it.
        let _another = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
        tracing::subscriber::with_default(subscriber, run);
    }

    const BYTES: usize = 1_000;

    fn waiting(items: usize) -> Arc<Waiting> {
        let meter = NoopMeterProvider::new().meter("test");
        let counter = meter.u64_counter("dropped").build();
        let most = Bounds {
            items,
            bytes: BYTES,
        };
        Waiting::new(Signal::Span, most, Losses(counter))
    }

    /// So many spans, small ones.
    fn spans(items: usize) -> Load {
        Load {
            items,
            events: 0,
            bytes: items,
        }
    }

    fn heard(refused: u64) -> Heard {
        Heard { refused, why: None }
    }

    fn failed() -> OTelSdkResult {
        Err(OTelSdkError::InternalFailure("413".to_owned()))
    }

    // Conformance 11: the loss is logged once an episode, however it comes about.
    #[test]
    fn an_episode_of_losses_is_told_when_it_begins_and_when_it_is_over() {
        let (waiting, told) = (waiting(2), Told::default());
        heard_by(&told, || {
            for _ in 0..5 {
                waiting.admit(spans(1));
            }
            waiting.sent(spans(2), &heard(0), &failed());
            waiting.admit(spans(1));
            waiting.sent(spans(1), &heard(0), &failed());
            assert_eq!(*told.0.lock().unwrap(), ["telemetry_lost"]);
            waiting.admit(spans(1));
            waiting.sent(spans(1), &heard(0), &Ok(()));
            waiting.admit(spans(1));
            waiting.sent(spans(1), &heard(0), &Ok(()));
            waiting.admit(spans(1));
            waiting.sent(spans(1), &heard(0), &failed());
        });
        let course = ["telemetry_lost", "telemetry_recovered", "telemetry_lost"];
        assert_eq!(*told.0.lock().unwrap(), course);
        assert_eq!(waiting.lost(), 3 + 2 + 1 + 1);
    }

    #[test]
    fn what_is_sent_makes_room() {
        let waiting = waiting(1);
        assert!(waiting.admit(spans(1)));
        assert!(!waiting.admit(spans(1)));
        waiting.sent(spans(1), &heard(0), &Ok(()));
        assert!(waiting.admit(spans(1)));
    }

    #[test]
    fn what_is_large_is_bounded_by_its_memory() {
        let waiting = waiting(100);
        let large = Load {
            bytes: BYTES / 2,
            ..spans(1)
        };
        assert!(waiting.admit(large) && waiting.admit(large));
        assert!(!waiting.admit(spans(1)));
        // One that had no room takes none.
        waiting.sent(large, &heard(0), &Ok(()));
        assert!((0..99).all(|_| waiting.admit(spans(1))));
        assert!(!waiting.admit(spans(1)));
        assert_eq!(waiting.lost(), 2);
    }

    #[test]
    fn what_a_collector_refuses_of_what_it_takes_is_lost() {
        let (waiting, told) = (waiting(100), Told::default());
        heard_by(&told, || {
            for (refused, lost) in [(0, 0), (3, 3), (7, 8), (0, 8)] {
                waiting.admit(spans(5));
                waiting.sent(spans(5), &heard(refused), &Ok(()));
                assert_eq!(waiting.lost(), lost);
            }
        });
        let course = ["telemetry_lost", "telemetry_recovered"];
        assert_eq!(*told.0.lock().unwrap(), course);
    }
}

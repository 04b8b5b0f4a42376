//! How much what waits to be sent is, in items and in memory.

use opentelemetry::logs::AnyValue;
use opentelemetry::{Array, KeyValue, Value};
use opentelemetry_sdk::logs::SdkLogRecord;
use opentelemetry_sdk::trace::SpanData;
use std::iter::Sum;
use std::ops::Add;

/// Spans or log records, with what they carry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) items: usize,
    /// Events on spans.
    pub(super) events: usize,
    /// Memory, about: allocators and spare room aside.
    pub(super) bytes: usize,
}

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) items: usize,
    pub(super) bytes: usize,
}

impl Add for Load {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            items: self.items + other.items,
            events: self.events + other.events,
            bytes: self.bytes + other.bytes,
        }
    }
}

impl Sum for Load {
    fn sum<I: Iterator<Item = Self>>(loads: I) -> Self {
        loads.fold(Self::default(), Add::add)
    }
}

impl Load {
    pub(super) fn of_span(span: &SpanData) -> Self {
        let on_events = span
            .events
            .iter()
            .map(|event| size_of_val(event) + event.name.len() + attributes(&event.attributes));
        let on_links = span.links.iter().map(|link| {
            let state = link.span_context.trace_state().header().len();
            size_of_val(link) + state + attributes(&link.attributes)
        });
        let own = size_of::<SpanData>()
            + span.name.len()
            + span.span_context.trace_state().header().len()
            + attributes(&span.attributes);
        Self {
            items: 1,
            events: span.events.len(),
            bytes: own + on_events.sum::<usize>() + on_links.sum::<usize>(),
        }
    }

    pub(super) fn of_record(record: &SdkLogRecord) -> Self {
        let attributes = record.attributes_iter();
        let attributes = attributes.map(|kv| size_of_val(kv) + any(&kv.1));
        Self {
            items: 1,
            events: 0,
            bytes: size_of::<SdkLogRecord>() + attributes.sum::<usize>(),
        }
    }
}

fn attributes(attributes: &[KeyValue]) -> usize {
    let texts = attributes.iter().map(|kv| text(&kv.value));
    size_of_val(attributes) + texts.sum::<usize>()
}

/// What a value has beside its own place: keys are constants.
fn text(value: &Value) -> usize {
    match value {
        Value::String(text) => text.as_str().len(),
        Value::Array(Array::String(texts)) => {
            let lengths = texts
                .iter()
                .map(|text| size_of_val(text) + text.as_str().len());
            lengths.sum()
        }
        _ => 0,
    }
}

fn any(value: &AnyValue) -> usize {
    match value {
        AnyValue::String(text) => text.as_str().len(),
        AnyValue::ListAny(values) => {
            let sizes = values.iter().map(|value| size_of_val(value) + any(value));
            sizes.sum()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::logs::{LogRecord as _, Logger as _, LoggerProvider as _};
    use opentelemetry::trace::{Span as _, Tracer as _, TracerProvider as _};
    use opentelemetry_sdk::logs::{InMemoryLogExporter, SdkLoggerProvider};
    use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};

    fn values(length: usize) -> [KeyValue; 2] {
        let text = "x".repeat(length);
        let texts = Array::String(vec![text.clone().into(), text.clone().into()]);
        [
            KeyValue::new("text", text),
            KeyValue::new("texts", Value::Array(texts)),
        ]
    }

    fn span(length: usize) -> Load {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder()
            .with_simple_exporter(exporter.clone())
            .build();
        let mut span = provider.tracer("test").start("span");
        span.set_attributes(values(length));
        span.add_event("event", values(length).into());
        span.end();
        Load::of_span(&exporter.get_finished_spans().unwrap()[0])
    }

    #[test]
    fn a_span_is_as_large_as_its_texts_and_those_of_its_events() {
        let (small, large) = (span(0), span(1_000));
        assert_eq!((small.items, small.events), (1, 1));
        assert_eq!(large.bytes - small.bytes, 6_000);
        assert!((400..4_000).contains(&small.bytes), "{small:?}");
    }

    #[test]
    fn a_record_is_as_large_as_its_texts() {
        let record = |length: usize| {
            let exporter = InMemoryLogExporter::default();
            let provider = SdkLoggerProvider::builder()
                .with_simple_exporter(exporter.clone())
                .build();
            let logger = provider.logger("test");
            let mut record = logger.create_log_record();
            let text: AnyValue = "x".repeat(length).into();
            record.add_attribute("texts", AnyValue::ListAny(Box::new(vec![text.clone()])));
            record.add_attribute("text", text);
            logger.emit(record);
            Load::of_record(&exporter.get_emitted_logs().unwrap()[0].record)
        };
        assert_eq!(record(1_000).bytes - record(0).bytes, 2_000);
    }
}

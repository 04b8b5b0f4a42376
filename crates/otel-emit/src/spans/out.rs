//! Events as span events, as log records, or as both.

use super::event::SpanEvent;
use crate::semconv;
use opentelemetry::KeyValue;
use opentelemetry::logs::{AnyValue, LogRecord as _, Logger, Severity};
use opentelemetry::trace::SpanContext;
use opentelemetry::{Array, StringValue, Value};
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// Where the events of a call go (`events.as`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EventsAs {
    /// On its span: every back end shows them there.
    #[default]
    Span,
    /// Into log records with the span's context: what OpenTelemetry is going over to.
    Log,
    /// Both.
    Both,
}

/// Takes events as log records.
pub trait EventLog: Send + Sync {
    /// Takes one: `name` is its event name, `context` that of the span it belongs to.
    fn record(
        &self,
        name: &'static str,
        attributes: Vec<KeyValue>,
        time: SystemTime,
        context: &SpanContext,
    );
}

impl<L: Logger + Send + Sync> EventLog for L {
    fn record(
        &self,
        name: &'static str,
        attributes: Vec<KeyValue>,
        time: SystemTime,
        context: &SpanContext,
    ) {
        let mut record = self.create_log_record();
        record.set_event_name(name);
        record.set_timestamp(time);
        record.set_observed_timestamp(time);
        record.set_severity_number(Severity::Info);
        record.set_severity_text(Severity::Info.name());
        record.set_trace_context(
            context.trace_id(),
            context.span_id(),
            Some(context.trace_flags()),
        );
        for KeyValue { key, value, .. } in attributes {
            record.add_attribute(key, any(value));
        }
        self.emit(record);
    }
}

fn any(value: Value) -> AnyValue {
    match value {
        Value::Bool(value) => value.into(),
        Value::I64(value) => value.into(),
        Value::F64(value) => value.into(),
        Value::String(value) => value.into(),
        Value::Array(Array::String(values)) => {
            let values = values.into_iter().map(AnyValue::String);
            AnyValue::ListAny(Box::new(values.collect()))
        }
        other => StringValue::from(other.to_string()).into(),
    }
}

/// Where events go. By default on spans.
#[derive(Clone, Default)]
pub struct Records {
    events_as: EventsAs,
    log: Option<Arc<dyn EventLog>>,
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records")
            .field("events_as", &self.events_as)
            .finish_non_exhaustive()
    }
}

impl Records {
    /// Events go as `events_as` says; `log` takes those that are log records.
    pub fn new(events_as: EventsAs, log: Arc<dyn EventLog>) -> Self {
        Self {
            events_as,
            log: Some(log),
        }
    }

    /// Hands an event on: to `on_span`, to the log, or to both.
    pub(super) fn emit(
        &self,
        event: SpanEvent,
        time: SystemTime,
        context: &SpanContext,
        on_span: impl FnOnce(&'static str, Vec<KeyValue>),
    ) {
        let SpanEvent {
            name,
            log_name,
            attributes,
        } = event;
        let log = self
            .log
            .as_ref()
            .filter(|_| self.events_as != EventsAs::Span);
        match log {
            None => on_span(name, attributes),
            Some(log) => {
                if self.events_as == EventsAs::Both {
                    on_span(name, attributes.clone());
                }
                log.record(log_name, attributes, time, context);
            }
        }
    }

    /// Hands on what was said, where it is to be an event of its own: of a call that is not
    /// sampled it leaves no more than its span does.
    pub(super) fn said(
        &self,
        said: impl FnOnce() -> Vec<KeyValue>,
        time: SystemTime,
        context: &SpanContext,
    ) {
        if let Some(log) = self.log.as_ref().filter(|_| context.is_sampled()) {
            log.record(semconv::OPERATION_DETAILS, said(), time, context);
        }
    }
}

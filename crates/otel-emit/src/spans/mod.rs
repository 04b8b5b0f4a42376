//! Spans of calls and attempts, made from what the router tells.

mod attempt;
mod background;
mod call;
mod event;
mod held;
mod out;
mod server;

pub use self::out::{EventLog, EventsAs, Records};
pub use self::server::{HttpRequest, ServerSpan};

use self::background::Affected;
use self::event::SpanEvent;
use self::held::{Held, OpenAttempt, OpenCall};
use crate::content::{Capture, Captured};
use crate::trace_context;
use evenkeel_core::{CallId, Clock, Event, EventKind, Observer, TraceContext};
use opentelemetry::trace::{Span, SpanContext, Tracer};
use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Makes a span of each call and each attempt, and puts what is decided on them.
///
/// It keeps the open spans itself, by call and attempt, since attempts of one call run
/// side by side and no task is in its span. A call that ends leaves nothing, however it
/// ends; a loser that is kept open to be measured has its span until then.
pub struct Spans<T: Tracer> {
    tracer: T,
    clock: Arc<dyn Clock>,
    held: Held<T::Span>,
    affected: Affected,
    records: Records,
    content: Option<Captured>,
}

impl<T: Tracer> fmt::Debug for Spans<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spans")
            .field("open", &self.held.len())
            .field("records", &self.records)
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}

/// What the calendar said at an instant, so that a span's times are as exact as the
/// monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Anchor {
    at: Instant,
    time: SystemTime,
}

impl Anchor {
    /// The calendar time of an instant.
    pub(crate) fn time(self, at: Instant) -> SystemTime {
        match at.checked_duration_since(self.at) {
            Some(after) => self.time + after,
            None => self.time - self.at.saturating_duration_since(at),
        }
    }
}

impl<T: Tracer> Spans<T> {
    /// Spans by `tracer`, whose times are `clock`'s. Events go on spans, and nothing of
    /// what was said is kept.
    pub fn new(tracer: T, clock: Arc<dyn Clock>) -> Self {
        Self {
            tracer,
            clock,
            held: Held::default(),
            affected: Affected::default(),
            records: Records::default(),
            content: None,
        }
    }

    /// With events as log records, beside those on spans or in their place.
    #[must_use]
    pub fn with_records(mut self, records: Records) -> Self {
        self.records = records;
        self
    }

    /// With what was asked and answered. It is personal data: only where somebody has
    /// decided so.
    #[must_use]
    pub fn with_content(mut self, capture: Option<Capture>) -> Self {
        self.content = capture.and_then(Captured::of);
        self
    }

    /// Spans that are open: of calls and attempts.
    pub fn open(&self) -> usize {
        self.held.len()
    }

    fn anchor(&self, at: Instant) -> Anchor {
        Anchor {
            at,
            time: self.clock.now(),
        }
    }
}

impl<T> Spans<T>
where
    T: Tracer + Send + Sync,
    T::Span: Span + Send + Sync + 'static,
{
    fn call_started(&self, id: CallId, event: &Event) {
        let EventKind::CallStarted {
            trace,
            session,
            streams,
            ..
        } = &event.kind
        else {
            return;
        };
        let anchor = self.anchor(event.at);
        let parent = trace.as_ref().and_then(trace_context::read);
        let builder = call::builder(&self.tracer, &event.kind).with_start_time(anchor.time);
        let span = self
            .tracer
            .build_with_context(builder, &held::below(parent));
        let open = OpenCall::new(span, anchor, *streams, session.clone());
        self.held.open(id, open);
    }

    fn attempt_started(&self, id: CallId, event: &Event) {
        let EventKind::AttemptStarted {
            attempt, content, ..
        } = &event.kind
        else {
            return;
        };
        let Some((call, session)) = self.held.call(id) else {
            return;
        };
        let time = call.anchor.time(event.at);
        let mut builder = attempt::builder(&self.tracer, &event.kind, session.as_ref());
        let asked = self.content.as_ref().zip(content.as_ref());
        if let Some((captured, request)) = asked.filter(|(captured, _)| captured.on_span) {
            let said = captured.request(request);
            builder.attributes.get_or_insert_default().extend(said);
        }
        let parent = held::below(Some(call.context));
        let builder = builder.with_start_time(time);
        let span = self.tracer.build_with_context(builder, &parent);
        if let Some((captured, request)) = asked.filter(|(captured, _)| !captured.on_span) {
            let said = || captured.request(request);
            self.records.said(said, time, span.span_context());
        }
        let open = OpenAttempt::new(span, call.anchor);
        self.held.open_attempt((id, *attempt), open);
    }

    fn attempt_ended(&self, id: CallId, event: &Event) {
        let EventKind::AttemptEnded {
            attempt,
            kept,
            content,
            ..
        } = &event.kind
        else {
            return;
        };
        let Some(mut open) = self.held.take_attempt((id, *attempt)) else {
            return;
        };
        let time = open.anchor.time(event.at);
        attempt::finish(&mut open.span, &event.kind);
        if let (Some(captured), Some(answer)) = (&self.content, content) {
            if captured.on_span {
                open.span.set_attributes(captured.answer(answer));
            } else {
                let said = || captured.answer(answer);
                self.records.said(said, time, open.span.span_context());
            }
        }
        if *kept {
            self.held.open_attempt((id, *attempt), open);
        } else {
            open.span.end_with_timestamp(time);
        }
    }

    fn loser_closed(&self, id: CallId, attempt: usize, at: Instant) {
        if let Some(mut open) = self.held.take_attempt((id, attempt)) {
            open.span.end_with_timestamp(open.anchor.time(at));
        }
    }

    fn call_ended(&self, id: CallId, event: &Event) {
        let Some(open) = self.held.close(id) else {
            return;
        };
        self.affected.note_end(&event.kind, &open.context);
        let time = open.anchor.time(event.at);
        let mut span = held::locked(&open.span);
        call::finish(&mut *span, open.streams, &event.kind);
        span.end_with_timestamp(time);
    }

    /// An event of the contract: on the span of its call, else on one of its own.
    fn happened(&self, event: &Event, told: SpanEvent) {
        if let Some(open) = event.call.and_then(|id| self.held.span(id)) {
            let time = open.anchor.time(event.at);
            self.affected.note_move(&event.kind, &open.context);
            let context = open.context;
            self.records.emit(told, time, &context, |name, attributes| {
                held::locked(&open.span).add_event_with_timestamp(name, time, attributes);
            });
            return;
        }
        let Some(name) = background::span_of(&event.kind) else {
            return;
        };
        let time = self.anchor(event.at).time;
        let mut builder = background::builder(&self.tracer, name, &event.kind);
        builder.links = self.affected.links(&event.kind);
        let builder = builder.with_start_time(time);
        let mut span = self.tracer.build_with_context(builder, &held::below(None));
        let context = span.span_context().clone();
        self.records.emit(told, time, &context, |name, attributes| {
            span.add_event_with_timestamp(name, time, attributes);
        });
        span.end_with_timestamp(time);
    }

    fn probed(&self, event: &Event) {
        let time = self.anchor(event.at).time;
        let mut builder = background::probe(&self.tracer, &event.kind, time);
        builder.links = self.affected.links(&event.kind);
        let mut span = self.tracer.build_with_context(builder, &held::below(None));
        background::finish_probe(&mut span, &event.kind);
        span.end_with_timestamp(time);
    }

    fn judged(&self, id: CallId, event: &Event) {
        let Some((call, _)) = self.held.call(id) else {
            return;
        };
        let time = call.anchor.time(event.at);
        let builder = background::gate(&self.tracer, &event.kind, time);
        let parent = held::below(Some(call.context));
        self.tracer
            .build_with_context(builder, &parent)
            .end_with_timestamp(time);
    }
}

impl<T> Observer for Spans<T>
where
    T: Tracer + Send + Sync,
    T::Span: Span + Send + Sync + 'static,
{
    fn on(&self, event: &Event) {
        match (&event.kind, event.call) {
            (EventKind::CallStarted { .. }, Some(id)) => self.call_started(id, event),
            (EventKind::AttemptStarted { .. }, Some(id)) => self.attempt_started(id, event),
            (EventKind::AttemptEnded { .. }, Some(id)) => self.attempt_ended(id, event),
            (EventKind::LoserClosed { attempt, .. }, Some(id)) => {
                self.loser_closed(id, *attempt, event.at);
            }
            (EventKind::AnswerJudged { .. }, Some(id)) => self.judged(id, event),
            (EventKind::CallEnded { .. }, Some(id)) => self.call_ended(id, event),
            (EventKind::Probed { .. }, _) => self.probed(event),
            (kind, _) => {
                if let Some(told) = event::of(kind) {
                    self.happened(event, told);
                }
            }
        }
    }

    fn context(&self, call: CallId, attempt: usize) -> Option<TraceContext> {
        let context = self.held.attempt((call, attempt))?;
        Some(trace_context::write(&context))
    }

    fn call_context(&self, call: CallId) -> Option<TraceContext> {
        let (open, _) = self.held.call(call)?;
        Some(trace_context::write(&open.context))
    }

    fn wants_content(&self) -> bool {
        self.content.is_some()
    }
}

/// What a span below the call's needs of it.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) context: SpanContext,
    pub(crate) anchor: Anchor,
}

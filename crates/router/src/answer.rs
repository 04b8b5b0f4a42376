//! What a call gives back.

use crate::attempt::{Slot, Upstream, or_broken};
use crate::call::Call;
use crate::drive::{Winning, Won, hear, now, upstream};
use crate::notice::Notice;
use evenkeel_core::{
    ChatResponse, DegradationContext, Failure, Meta, StreamEvent, TraceContext, Trail,
};
use futures_core::Stream;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::time::{Sleep, sleep_until};

/// A whole answer, who gave it and how that came about.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The answer.
    pub response: ChatResponse,
    /// Who gave it.
    pub meta: Meta,
    /// What a call that builds on this answer is to carry.
    pub degradation: DegradationContext,
    /// Everything that happened.
    pub trail: Arc<Trail>,
    /// The call's own trace context, where an observer traces.
    pub trace: Option<TraceContext>,
}

/// A committed stream: its first events are there, the rest follows.
///
/// It ends with [`StreamEvent::End`], or with one `Err` where the answer broke
/// off after the commit and nobody could go on with it; it never just ends. Where
/// another attempt goes on there is a [`StreamEvent::Resumed`] at the joint. The stall
/// clock and the deadline go on. Dropping it before its end closes the upstream
/// connection.
pub struct AnswerStream {
    call: Call,
    index: usize,
    meta: Meta,
    /// What the upstream's event let pass, for the moment in which it is taken.
    passed: Vec<StreamEvent>,
    ready: VecDeque<StreamEvent>,
    notice: Notice,
    /// None: the whole answer was held and is in `ready`, or the stream is over.
    rest: Option<Box<Slot>>,
    timer: Pin<Box<Sleep>>,
    /// What the timer stands at.
    armed: Instant,
    /// When an event was handed out, until the caller comes back for the next.
    handed_out: Option<Instant>,
}

impl fmt::Debug for AnswerStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerStream")
            .field("meta", &self.meta)
            .finish_non_exhaustive()
    }
}

impl Answer {
    pub(crate) fn new(won: Won) -> Self {
        let trail = won.call.trail();
        let degradation = won.call.degradation(&won.meta);
        let mut response = match won.answer {
            Winning::Whole(response) => *response,
            Winning::Stream(_) | Winning::Held(_) => {
                unreachable!("a call for a whole answer is won by a whole answer")
            }
        };
        Notice::of(&won.call).append(&mut response, &won.meta);
        Self {
            response,
            meta: won.meta,
            degradation,
            trail,
            trace: won.call.trace.clone(),
        }
    }
}

impl AnswerStream {
    pub(crate) fn new(won: Won) -> Self {
        let (ready, rest) = match won.answer {
            Winning::Stream(mut slot) => (std::mem::take(&mut slot.held), Some(slot)),
            Winning::Held(events) => (events, None),
            Winning::Whole(_) => unreachable!("a call for a stream is won by a stream"),
        };
        let armed = now();
        let mut call = won.call;
        let ready = if rest.is_some() {
            call.begin_delivery();
            delivered(&mut call, won.index, ready, armed)
        } else {
            ready.into()
        };
        Self {
            notice: Notice::of(&call),
            call,
            index: won.index,
            meta: won.meta,
            passed: Vec::new(),
            ready,
            rest,
            timer: Box::pin(sleep_until(tokio::time::Instant::from_std(armed))),
            armed,
            handed_out: Some(now()),
        }
    }

    /// Who answers, and why: where the stream was resumed, who goes on with it; after
    /// the stream's end also what it cost.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// What a call that builds on this answer is to carry.
    pub fn degradation(&self) -> DegradationContext {
        self.call.degradation(&self.meta)
    }

    /// The call's own trace context, where an observer traces.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.call.trace.as_ref()
    }

    /// What has happened so far.
    pub fn trail(&self) -> Arc<Trail> {
        self.call.trail()
    }

    /// The upstream broke: another attempt goes on, or the stream is over.
    ///
    /// # Errors
    /// What the caller is told, where nobody goes on.
    fn broke(&mut self, failure: Failure) -> Result<(), Failure> {
        self.rest = None;
        let next = self.call.broke(self.index, failure, &mut self.meta, now());
        let (attempt, rung) = next?;
        self.call.forgo_shadow();
        self.index = attempt;
        self.rest = Some(Box::new(upstream(&self.call, attempt, rung)));
        Ok(())
    }

    /// Takes what came of the upstream; what the caller may have of it is in `ready`.
    fn take(&mut self, event: Upstream) -> Result<(), Failure> {
        let event = match event {
            Upstream::Event(event) => event,
            Upstream::Failed(failure) => return Err(failure),
            Upstream::Whole(_) | Upstream::Validated(..) => {
                unreachable!("a committed stream gives events")
            }
        };
        hear(&mut self.call, self.index, &event, now());
        let ends = event == StreamEvent::End;
        if let Some(slot) = &mut self.rest {
            if self.call.adds_up() {
                slot.sum.push(&event);
            }
            slot.pass(event, &mut self.passed)?;
        }
        for event in self.passed.drain(..) {
            let ready = &mut self.ready;
            self.call.deliver(self.index, event, ready, now())?;
        }
        if ends {
            let answer = self.rest.take().map(|slot| slot.sum.finish());
            if let Some(Ok(answer)) = &answer {
                self.call.said(self.index, answer);
            }
            self.call.completed(self.index, &mut self.meta, now());
            if let Some(Ok(answer)) = answer {
                self.call.shadow(self.index, &answer, now());
            }
        }
        Ok(())
    }

    /// The failure of the clock that has run out, if one has; else the timer is
    /// armed for the next one.
    fn check_clocks(&mut self, cx: &mut Context<'_>) -> Option<Failure> {
        loop {
            let now = now();
            if let Some(failure) = self.call.clock_ran_out(self.index, now) {
                return Some(failure);
            }
            let due = self.call.next_clock(now);
            if due != self.armed {
                self.armed = due;
                let due = tokio::time::Instant::from_std(due);
                self.timer.as_mut().reset(due);
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return None;
            }
            // Spent: it must be armed anew.
            self.armed = now;
        }
    }
}

/// What the caller gets of what an attempt held until its commit.
fn delivered(
    call: &mut Call,
    index: usize,
    held: Vec<StreamEvent>,
    now: Instant,
) -> VecDeque<StreamEvent> {
    let mut ready = VecDeque::with_capacity(held.len());
    for event in held {
        call.deliver(index, event, &mut ready, now)
            .expect("a stream that begins has nothing to go on from");
    }
    ready
}

impl Stream for AnswerStream {
    type Item = Result<StreamEvent, Failure>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if let Some(since) = this.handed_out.take() {
            this.call.reader_back(this.index, since, now());
        }
        loop {
            if let Some(event) = this.ready.pop_front() {
                this.handed_out = Some(now());
                if let StreamEvent::Resumed(meta) = &event {
                    this.meta.clone_from(meta);
                }
                let event = this.notice.before(event, &this.meta, &mut this.ready);
                return Poll::Ready(Some(Ok(event)));
            }
            let Some(slot) = this.rest.as_mut() else {
                return Poll::Ready(None);
            };
            // First: an upstream that is always ready must not hold the deadline off.
            let taken = if let Some(failure) = this.call.past_deadline(now()) {
                Err(failure)
            } else if let Poll::Ready(event) = slot.events.as_mut().poll_next(cx) {
                this.take(or_broken(event))
            } else {
                match this.check_clocks(cx) {
                    Some(failure) => Err(failure),
                    None => return Poll::Pending,
                }
            };
            if let Err(told) = taken.or_else(|failure| this.broke(failure)) {
                return Poll::Ready(Some(Err(told)));
            }
        }
    }
}

//! What a call gives back.

use crate::attempt::{Slot, Upstream, or_broken};
use crate::call::Call;
use crate::drive::{Winning, Won, hear, now};
use crate::notice::Notice;
use evenkeel_core::{ChatResponse, DegradationContext, Failure, Meta, StreamEvent, Trail};
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
}

/// A committed stream: its first events are there, the rest follows.
///
/// It ends with [`StreamEvent::End`], or with one `Err` where the answer broke
/// off after the commit; it never just ends. The stall clock and the deadline
/// go on. Dropping it before its end closes the upstream connection.
pub struct AnswerStream {
    call: Call,
    index: usize,
    meta: Meta,
    ready: VecDeque<StreamEvent>,
    notice: Notice,
    /// None: the whole answer was held and is in `ready`, or the stream is over.
    rest: Option<Box<Slot>>,
    timer: Pin<Box<Sleep>>,
    /// What the timer stands at.
    armed: Instant,
    /// An event was handed out, and the upstream has not been waited for since.
    handed_out: bool,
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
        Self {
            notice: Notice::of(&won.call),
            call: won.call,
            index: won.index,
            meta: won.meta,
            ready: ready.into(),
            rest,
            timer: Box::pin(sleep_until(tokio::time::Instant::from_std(armed))),
            armed,
            handed_out: true,
        }
    }

    /// Who answers, and why; after the stream's end also what it cost.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// What a call that builds on this answer is to carry.
    pub fn degradation(&self) -> DegradationContext {
        self.call.degradation(&self.meta)
    }

    /// What has happened so far.
    pub fn trail(&self) -> Arc<Trail> {
        self.call.trail()
    }

    fn broke(&mut self, failure: Failure) -> Poll<Option<Result<StreamEvent, Failure>>> {
        self.rest = None;
        self.call.broke(self.index, &failure, &mut self.meta, now());
        Poll::Ready(Some(Err(failure)))
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
            slot.pass(event, &mut self.ready)?;
        }
        if ends {
            self.rest = None;
            self.call.completed(self.index, &mut self.meta, now());
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

impl Stream for AnswerStream {
    type Item = Result<StreamEvent, Failure>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(event) = this.ready.pop_front() {
                this.handed_out = true;
                let event = this.notice.before(event, &this.meta, &mut this.ready);
                return Poll::Ready(Some(Ok(event)));
            }
            let Some(slot) = this.rest.as_mut() else {
                return Poll::Ready(None);
            };
            // First: an upstream that is always ready must not hold the deadline off.
            if let Some(failure) = this.call.past_deadline(now()) {
                return this.broke(failure);
            }
            if let Poll::Ready(event) = slot.events.as_mut().poll_next(cx) {
                if let Err(failure) = this.take(or_broken(event)) {
                    return this.broke(failure);
                }
                continue;
            }
            if std::mem::take(&mut this.handed_out) {
                this.call.reader_back(this.index, now());
            }
            return match this.check_clocks(cx) {
                Some(failure) => this.broke(failure),
                None => Poll::Pending,
            };
        }
    }
}

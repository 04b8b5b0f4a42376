//! Waiting for a free place at a model that lacks nothing else.

use super::Call;
use super::attempt::Planned;
use evenkeel_core::{AttemptKind, Refusal};
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;

/// Shortest time in the queue before the call looks at other rungs again.
const LOOK_AFTER: Duration = Duration::from_millis(10);

/// A call in the queues of all the rungs that lack no more than a place.
#[derive(Debug)]
pub(super) struct Queued {
    /// The best first.
    pub(super) rungs: Vec<usize>,
    kind: AttemptKind,
    began: Instant,
    /// When the call looks again at what else can be asked, or may queue no longer.
    pub(super) until: Instant,
}

impl Call {
    /// Queues for the rungs that only lack a free place, up to the best one's patience: the
    /// first that has one is asked. Meanwhile others may become fit to be asked.
    pub(super) fn wait_for_place(&mut self, kind: AttemptKind, now: Instant) -> bool {
        let only_full = |r| self.full(r) && self.refusal(r, now).is_none();
        let mut rungs = self.all(false, only_full);
        if rungs.is_empty() {
            rungs = self.all(true, only_full);
        }
        let Some(best) = rungs.first().copied() else {
            return false;
        };
        let returns = self.earliest_look(now);
        let Some(until) = self.may_queue_until(best, now) else {
            return false;
        };
        self.queued = Some(Queued {
            rungs,
            kind,
            began: now,
            until: returns.map_or(until, |at| until.min(at)),
        });
        true
    }

    /// When a rung that refuses for a while may be asked again.
    fn earliest_look(&self, now: Instant) -> Option<Instant> {
        let waits = (0..self.role.rungs.len()).filter_map(|r| self.refusal(r, now)?.retry_in());
        let wait = self.spread(waits.min()?).max(LOOK_AFTER);
        now.checked_add(wait)
    }

    /// Until when this call may queue: one patience for all its queueing.
    fn may_queue_until(&mut self, rung: usize, now: Instant) -> Option<Instant> {
        let until = match self.queue_until {
            Some(until) => until,
            None => self.patience(rung, now).ends_at.unwrap_or(self.deadline),
        };
        let until = until.min(self.deadline);
        self.queue_until = Some(until);
        (until > now).then_some(until)
    }

    /// Ends the queueing, if the call queues: into the trail with it, as a wait for `rung`,
    /// else for the best one.
    pub(super) fn leave_queue(&mut self, rung: Option<usize>, now: Instant) -> Option<Queued> {
        let queued = self.queued.take()?;
        let waited = now.saturating_duration_since(queued.began);
        if !waited.is_zero() {
            let reason = Refusal::AtCapacity.as_str();
            let rung = rung.unwrap_or(queued.rungs[0]);
            self.note_wait(rung, waited, reason, queued.began);
        }
        Some(queued)
    }

    /// The time in the queue is over without a place: whoever can be asked by now is, and the
    /// call queues on while its patience lasts.
    pub(super) fn look_again(&mut self, now: Instant) {
        if let Some(queued) = self.leave_queue(None, now) {
            self.go_on(queued.kind, now);
        }
    }

    /// A place at a queued rung is free, and this call's; it is given back where the
    /// deadline has come too.
    pub(crate) fn place_free(&mut self, rung: usize, place: OwnedSemaphorePermit, now: Instant) {
        if let Some(Queued { kind, began, .. }) = self.leave_queue(Some(rung), now)
            && now < self.deadline
        {
            let planned = Planned {
                rung,
                kind,
                at: began,
                repeats: None,
            };
            self.start_planned(planned, Some(place), now);
        }
    }
}

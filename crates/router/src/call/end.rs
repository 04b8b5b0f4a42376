//! How attempts and calls end, and what is told of it.

use super::Call;
use super::reported::End;
use crate::demand::below_all;
use crate::error::{CallError, CallErrorKind, RungEnd, RungEndKind};
use crate::on_behalf::on_behalf;
use evenkeel_core::{
    AttemptKind, AttemptOutcome, Class, EventKind, Failure, Meta, Phase, Refusal, Route, Trail,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl Call {
    /// Marks an attempt as ended, in the trail and to the observer.
    /// `kept`: its upstream stays open to be measured.
    pub(super) fn end_attempt(
        &mut self,
        index: usize,
        outcome: AttemptOutcome,
        kept: bool,
        now: Instant,
    ) {
        let spent = self.spent(index, &outcome);
        let attempt = &mut self.attempts[index];
        if let Some(booking) = attempt.booking.take() {
            let throttle = &self.role.rungs[attempt.rung].model.throttle;
            throttle.settle(&booking, &spent.billed, now);
        }
        attempt.running = false;
        attempt.spent = Some(spent);
        let (usage, usage_estimated) = (spent.told(), spent.is_estimate);
        attempt.asks_again_at_end = attempt.asks_again.take();
        let rejected = attempt.rejected;
        let (class, status) = match &outcome {
            AttemptOutcome::Failed(failure) => (Some(failure.class), failure.status),
            _ => (None, None),
        };
        let model = &self.role.rungs[attempt.rung].model;
        let kind = EventKind::AttemptEnded {
            role: self.role.name.clone(),
            attempt: index,
            rung: attempt.rung,
            model: model.id.clone(),
            server: model.provider.server.clone(),
            streams: self.streaming,
            duration: now.saturating_duration_since(attempt.started),
            first_token: attempt
                .first_content
                .map(|at| at.saturating_duration_since(attempt.started)),
            usage,
            usage_estimated,
            cost: spent.cost,
            outcome: outcome.word(rejected),
            class,
            status,
            reported: attempt.reported.clone(),
            kept,
            content: attempt.content.take(),
        };
        let since = self.since(now);
        if let Some(record) = self.trail.attempt_mut(index) {
            record.ended = Some(since);
            record.usage = usage;
            record.usage_estimated = usage_estimated;
            record.outcome = outcome;
            record.rejected = rejected;
            record.cost = spent.cost;
        }
        self.tell(now, kind);
    }

    /// The attempt wins: its whole answer is valid, or it commits. The others lose.
    pub(crate) fn won(&mut self, index: usize, now: Instant) -> Meta {
        for other in 0..self.attempts.len() {
            if other != index && self.attempts[other].running {
                self.lose(other, true, now);
            }
        }
        self.planned = None;
        on_behalf((self.id, Some(Class::Semantic)), || {
            for useless in self.useless.drain(..) {
                let _ = useless.failure(now, None);
            }
        });
        self.winner = Some(index);
        self.answering = Some(index);
        self.attempts[index].patience.spent = true;
        self.attempts[index].asks_again = None;
        self.attempts[index].window_ends = None;
        let meta = self.meta(index);
        self.note_drills(Some(meta.rung), now);
        self.tell_route(index, now);
        self.role.note_answered();
        meta
    }

    /// The winner's answer is complete. Puts into `meta` what it cost, and what was not
    /// passed on as it was meant.
    pub(crate) fn completed(&mut self, index: usize, meta: &mut Meta, now: Instant) {
        self.measured(index, now);
        let rung = self.attempts[index].rung;
        let model = self.role.rungs[rung].model.clone();
        if let Some(usage) = self.attempts[index].usage {
            self.calibrate(index, usage.input);
            self.note_usage(index, usage);
        }
        if let Some(permits) = self.attempts[index].permits.take() {
            on_behalf((self.id, None), || permits.succeeded(&model, now));
        }
        self.end_attempt(index, AttemptOutcome::Won, false, now);
        meta.adapted.clone_from(&self.attempts[index].adapted);
        self.price(index, meta);
        self.account_answer(meta, true, now);
        let end = End {
            outcome: "ok",
            meta: Some(meta.clone()),
            class: None,
            error: None,
        };
        self.end(end, now);
    }

    /// The failure of a committed stream that is still running at the deadline.
    pub(crate) fn past_deadline(&self, now: Instant) -> Option<Failure> {
        let ms = self.clocks.deadline.as_millis();
        let message = || format!("the answer was not complete within {ms} ms");
        (now >= self.deadline).then(|| Failure::timeout(Phase::Deadline, message()))
    }

    /// The clock of the committed stream that ran out, if one did.
    pub(crate) fn clock_ran_out(&mut self, index: usize, now: Instant) -> Option<Failure> {
        self.count_age(index, now);
        if let Some(failure) = self.past_deadline(now) {
            return Some(failure);
        }
        self.attempts[index]
            .pace
            .as_mut()
            .and_then(|pace| pace.check(now))
    }

    /// When the committed stream's next clock runs out.
    pub(crate) fn next_clock(&self, now: Instant) -> Instant {
        self.wake(now)
    }

    pub(super) fn meta(&self, index: usize) -> Meta {
        let attempt = &self.attempts[index];
        let rung = &self.role.rungs[attempt.rung];
        let (route, reason) = self.route(index);
        // One that goes on with a stream has not made it begin later.
        let begun = self.attempts[self.winner.unwrap_or(index)].started;
        Meta {
            role: self.role.name.to_string(),
            model_id: rung.model.id.clone(),
            rung: attempt.rung,
            route,
            primary: self.role.rungs[0].model.id.clone(),
            capability_score: rung.capability_score,
            quality_ratio: rung.quality_ratio,
            degraded: attempt.rung > 0,
            fallback_reason: reason,
            notice: self.role.policy.degraded.notice_of(attempt.rung),
            attempts: self.attempts.len(),
            latency_added: begun.saturating_duration_since(self.started),
            adapted: attempt.adapted.clone(),
            cost_usd: None,
            added_cost_usd: None,
            cost_is_estimate: false,
        }
    }

    /// What moved the call off its primary, the first that did if several hold.
    pub(super) fn route(&self, index: usize) -> (Route, Option<&'static str>) {
        let winner = &self.attempts[index];
        if winner.rung == 0 {
            return (Route::Primary, None);
        }
        if let Some(resume) = &self.resume {
            return (Route::Fallback, Some(resume.reason()));
        }
        let moved = || {
            self.role
                .reason()
                .map(evenkeel_core::SubstitutionReason::as_str)
        };
        if self.demand.first() == Some(winner.rung) {
            return (Route::Fallback, Some(Refusal::NotPinned.told()));
        }
        let first = &self.attempts[0];
        // Meant for a lower rung: the active one, or a canary between it and the primary.
        if first.rung > 0 && first.kind == AttemptKind::First {
            return (Route::Substitute, moved());
        }
        if let Some(from) = winner.hedge_of {
            if winner.by_word {
                return (Route::Substitute, moved().or(Some(self.hedge_reason(from))));
            }
            return (Route::Hedge, Some(self.hedge_reason(from)));
        }
        (Route::Fallback, self.failover_reason())
    }

    /// How the rung the call was meant for ended, else the first that did.
    fn failover_reason(&self) -> Option<&'static str> {
        self.first_end().map(|(_, end)| end.told())
    }

    fn first_end(&self) -> Option<&(usize, RungEndKind)> {
        let own = self.ends.iter().find(|(rung, _)| *rung == self.assigned);
        own.or(self.ends.first())
    }

    pub(super) fn hedge_reason(&self, from: usize) -> &'static str {
        let projected = self
            .attempts
            .iter()
            .any(|a| a.rung == from && a.patience.projected);
        if projected {
            "projected_deadline_miss"
        } else {
            "patience_exceeded"
        }
    }

    fn tell_route(&mut self, index: usize, now: Instant) {
        self.end_races(Some(index), now);
        if !self.falls_back(index) {
            return;
        }
        let end = self.first_end();
        let failed = end.and_then(|(rung, end)| Some((end.class()?, self.status(*rung))));
        let reason = self.failover_reason().unwrap_or("transient");
        self.tell_fallback(index, reason, failed, now);
    }

    /// Whether attempt `index`, which answers, does so because a failure or a refusal moved
    /// the call to another model than its primary.
    pub(super) fn falls_back(&self, index: usize) -> bool {
        let winner = &self.attempts[index];
        winner.rung > 0 && winner.hedge_of.is_none() && winner.rung != self.assigned
    }

    /// Tells that attempt `index` answers because of `reason`, and where that is a failure,
    /// its class and its status.
    pub(super) fn tell_fallback(
        &self,
        index: usize,
        reason: &'static str,
        failed: Option<(Class, Option<u16>)>,
        now: Instant,
    ) {
        let attempt = &self.attempts[index];
        let (class, status) = failed.unzip();
        self.tell(
            now,
            EventKind::ModelFallback {
                role: self.role.name.clone(),
                task: self.context.task.clone(),
                request_id: self.context.request_id.clone(),
                primary: self.role.rungs[0].model.id.clone(),
                fallback: self.role.rungs[attempt.rung].model.id.clone(),
                rung: attempt.rung,
                reason,
                class,
                status: status.flatten(),
                latency_added: attempt.started.saturating_duration_since(self.started),
            },
        );
    }

    /// The HTTP status that the last failed attempt at a rung came with.
    fn status(&self, rung: usize) -> Option<u16> {
        let at_rung = self.failures().filter(|(at, _)| *at == rung);
        at_rung.last()?.1.status
    }

    /// Counts the call on the drills of models ranked above the rung that
    /// answered, or of any where none did.
    fn note_drills(&self, answered: Option<usize>, now: Instant) {
        if !self.role.around.drills.any() {
            return;
        }
        let above = answered.unwrap_or(self.role.rungs.len());
        for rung in &self.role.rungs[..above] {
            if let Some(drill) = rung.model.drill.current(now) {
                drill.counted(answered.is_some(), now);
            }
        }
    }

    /// Every rung failed or refused.
    pub(super) fn end_exhausted(&mut self, now: Instant) {
        for rung in 0..self.role.rungs.len() {
            let left_out = self.demand.refusal(&self.role, rung) == Some(Refusal::NotPinned);
            if !left_out && !self.ends.iter().any(|(r, _)| *r == rung) {
                self.ends
                    .push((rung, RungEndKind::Refused(Refusal::AtCapacity)));
            }
        }
        // The rung the call was meant for leads, the others follow by rank.
        let first = self.assigned;
        self.ends.sort_by_key(|(rung, _)| (*rung != first, *rung));
        let ends: Vec<RungEnd> = self.ends.iter().map(|end| self.rung_end(end)).collect();
        let kind = match (self.ends.as_slice(), self.last_failure.take()) {
            ([(_, RungEndKind::Failed(_))], Some(failure)) => CallErrorKind::Failed(failure),
            // Every model ended its answer where the caller said: that is the caller's to know.
            (_, Some(failure)) if self.all_ended_as_asked() => CallErrorKind::Failed(failure),
            // Nothing that may be asked can do as much: that is the caller's to know.
            (ends, _) if !ends.is_empty() && ends.iter().all(|(_, end)| end.is_below()) => {
                CallErrorKind::Failed(below_all(ends.iter().filter_map(|(_, end)| end.refusal())))
            }
            ([(_, RungEndKind::Refused(refusal))], _) => {
                CallErrorKind::Failed(refused_alone(*refusal))
            }
            // No rung's window is large enough: that is the caller's to know.
            (ends, failure) if ends.iter().all(|(_, end)| end.is_overflow()) => {
                let alone = || refused_alone(widest(ends));
                CallErrorKind::Failed(failure.unwrap_or_else(alone))
            }
            _ => CallErrorKind::Exhausted(ends.clone()),
        };
        let is_exhausted = match &kind {
            // The caller is told of the only model itself.
            CallErrorKind::Failed(failure) => {
                self.role.rungs.len() == 1 && failure.class.is_of_models()
            }
            _ => true,
        };
        if is_exhausted {
            self.tell_exhausted(&ends, now);
        }
        self.fail(kind, now);
    }

    fn rung_end(&self, (rung, end): &(usize, RungEndKind)) -> RungEnd {
        RungEnd {
            model: self.role.rungs[*rung].model.id.clone(),
            end: *end,
        }
    }

    /// Ends the call without an answer.
    pub(super) fn fail(&mut self, kind: CallErrorKind, now: Instant) {
        self.note_drills(None, now);
        let retry_after = match &kind {
            CallErrorKind::Failed(failure) => failure.retry_after,
            CallErrorKind::DegradedInput { .. } => None,
            _ => self.earliest_return(now),
        };
        let class = kind.class();
        let (route, reason) = self.way_without_answer("error", Some(kind.error_type()));
        self.account_failure(&kind, now);
        let end = End {
            outcome: "error",
            meta: None,
            class,
            error: Some(kind.error_type()),
        };
        let trail = self.end(end, now);
        self.steps.clear();
        self.steps.push_back(super::Step::Fail(CallError {
            kind,
            retry_after,
            route,
            reason,
            trail,
            trace: self.trace.clone(),
        }));
    }

    fn tell_exhausted(&self, ends: &[RungEnd], now: Instant) {
        if !self.role.note_exhausted() {
            return;
        }
        let mut tried = Vec::new();
        let mut refused = Vec::new();
        for rung in ends {
            match rung.end {
                RungEndKind::Failed(class) => tried.push((rung.model.clone(), class)),
                RungEndKind::Refused(refusal) => refused.push((rung.model.clone(), refusal)),
            }
        }
        self.tell(
            now,
            EventKind::RosterExhausted {
                role: self.role.name.clone(),
                task: self.context.task.clone(),
                primary: self.role.rungs[0].model.id.clone(),
                tried,
                refused,
                last: self.last_failed(),
            },
        );
    }

    /// The class of the last attempt that failed.
    fn last_failed(&self) -> Option<Class> {
        self.failures().last().map(|(_, failure)| failure.class)
    }

    /// What attempts failed with, and at which rung, in the order they began.
    fn failures(&self) -> impl Iterator<Item = (usize, &Failure)> {
        self.trail.attempts().filter_map(|a| match &a.outcome {
            AttemptOutcome::Failed(failure) => Some((a.rung, failure)),
            _ => None,
        })
    }

    /// When the first of the rungs that refuse now takes calls again.
    fn earliest_return(&self, now: Instant) -> Option<Duration> {
        (0..self.role.rungs.len())
            .filter(|r| self.demand.refusal(&self.role, *r).is_none())
            .filter_map(|r| {
                let refusal = self.role.refusal(r, now, self.today);
                refusal.or_else(|| self.near_limit(r, now))
            })
            .filter_map(Refusal::retry_in)
            .min()
    }

    pub(super) fn end(&mut self, end: End, now: Instant) -> Arc<Trail> {
        self.ended = true;
        self.role.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.end_races(None, now);
        let trail = Arc::new(self.trail.clone());
        self.tell_end(end, trail.clone(), now);
        trail
    }

    /// What has happened so far.
    pub(crate) fn trail(&self) -> Arc<Trail> {
        Arc::new(self.trail.clone())
    }

    /// Upstreams to close, after a win.
    pub(crate) fn closes(&mut self) -> impl Iterator<Item = (usize, Option<crate::keep::Loser>)> {
        self.steps.drain(..).filter_map(|step| match step {
            super::Step::Close { attempt, keep } => Some((attempt, keep)),
            _ => None,
        })
    }

    /// The caller left: nothing of this call goes on.
    pub(crate) fn cancel(&mut self, now: Instant) {
        if self.ended {
            return;
        }
        self.leave_queue(None, now);
        for index in 0..self.attempts.len() {
            if !self.attempts[index].running {
                continue;
            }
            let rung = self.attempts[index].rung;
            self.attempts[index].permits = None;
            if let Some(observation) = self.attempts[index].observation.take() {
                self.role.gave_up(self.at(rung), observation, now);
            }
            self.end_attempt(index, AttemptOutcome::Cancelled, false, now);
        }
        let end = End {
            outcome: "cancelled",
            // Of a stream that had committed.
            meta: self.answering.map(|index| self.meta(index)),
            class: None,
            error: None,
        };
        self.end(end, now);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.cancel(tokio::time::Instant::now().into_std());
    }
}

/// The refusal of the rung with the largest window, of those whose windows are too small.
fn widest(ends: &[(usize, RungEndKind)]) -> Refusal {
    let windows = ends.iter().filter_map(|(_, end)| match end.refusal()? {
        Refusal::ContextWindow { needed, window } => Some((window, needed)),
        _ => None,
    });
    let (window, needed) = windows.max().unwrap_or_default();
    Refusal::ContextWindow { needed, window }
}

/// The failure of a call whose only rung could not be asked.
fn refused_alone(refusal: Refusal) -> Failure {
    let (class, message) = match refusal {
        Refusal::Cooldown(_) => (
            Class::RateLimited,
            "the model cools down after a rate limit",
        ),
        Refusal::RateLimitNear(_) => (
            Class::RateLimited,
            "the request would go over the model's rate limit",
        ),
        Refusal::Hold { class, .. } => (class, "the model is set aside after an earlier failure"),
        Refusal::Drill(_) => (Class::Overloaded, "a drill has taken the model away"),
        Refusal::EndOfLife => (Class::ModelGone, "the model is past its end of life"),
        Refusal::ContextWindow { needed, window } => {
            let message = format!(
                "the request does not fit the model's context window: it takes about {needed} tokens \
                 with room for an answer, of {window}"
            );
            return Failure::new(Class::ContextWindow, message);
        }
        Refusal::Lacks(what) => {
            let message = format!("the model lacks what the request needs: {what}");
            let mut failure = Failure::new(Class::BadRequest, message);
            failure.capability_gap = true;
            return failure;
        }
        Refusal::AtCapacity => (Class::Overloaded, "the model is at its concurrency limit"),
        Refusal::SemanticBreakerOpen(_) => (
            Class::Overloaded,
            "the model's answers failed validation too often",
        ),
        _ => (Class::Overloaded, "the model's circuit breaker is open"),
    };
    let failure = Failure::new(class, message);
    match refusal.retry_in() {
        Some(wait) => failure.with_retry_after(wait),
        None => failure,
    }
}

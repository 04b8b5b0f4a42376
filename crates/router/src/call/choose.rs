//! Which rung is asked next.

use super::Call;
use super::attempt::Planned;
use crate::error::RungEndKind;
use crate::health::Permits;
use crate::on_behalf::on_behalf;
use crate::rung::limits;
use evenkeel_core::{AttemptKind, Class, Refusal, TrailStep};
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;

/// Shortest and longest pause before a rung on trial is asked again.
const TRIAL_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(200));

/// What rungs come behind others for, the least reason first.
const BEHIND: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

/// How many times T95 a call waits for trials: an answer as late as a healthy
/// model's latest, and as much again until it is the call's turn.
const TRIAL_PATIENCES: u32 = 2;

/// A rung that can be asked after a while.
#[derive(Debug, Clone, Copy)]
struct Return {
    left: Duration,
    rung: usize,
    reason: &'static str,
    kind: AttemptKind,
}

impl Call {
    /// Whether this call has asked the rung already.
    pub(super) fn tried(&self, rung: usize) -> bool {
        self.attempts.iter().any(|a| a.rung == rung)
    }

    /// Why this call can't ask the rung as of `now`, benching and capacity left out.
    pub(super) fn refusal(&self, rung: usize, now: Instant) -> Option<Refusal> {
        if let Some(refusal) = self.demand.refusal(&self.role, rung) {
            return Some(refusal);
        }
        if self.tried(rung) {
            return Some(Refusal::Tried);
        }
        if let Some(refusal) = self.provider_failed(rung) {
            return Some(refusal);
        }
        let refusal = self.role.refusal(rung, now, self.today);
        refusal
            .or_else(|| self.cannot_take(rung))
            .or_else(|| self.near_limit(rung, now))
    }

    /// Why the call has to wait before it asks the rung: it would go over a rate limit.
    pub(super) fn near_limit(&self, rung: usize, now: Instant) -> Option<Refusal> {
        let model = &self.role.rungs[rung].model;
        model.near_limit(|| self.draw(rung), now)
    }

    pub(super) fn full(&self, rung: usize) -> bool {
        self.role.rungs[rung].model.capacity.available_permits() == 0
    }

    pub(super) fn benched(&self, rung: usize) -> bool {
        self.role.rungs[rung].recovery.benched()
    }

    /// Whether this call failed at the rung's provider in a way its models share.
    fn provider_failed(&self, rung: usize) -> Option<Refusal> {
        let provider = &self.role.rungs[rung].model.provider.name;
        let failed = self.failed_providers.iter().find(|(p, _)| p == provider);
        failed.map(|(_, class)| Refusal::ProviderFailed(*class))
    }

    /// What a rung comes behind others for: first that it takes only a part of the
    /// request, then that the call costs more there than the role's ceiling.
    fn behind(&self, rung: usize) -> (bool, bool) {
        (self.is_cut(rung), self.over_cost(rung).is_some())
    }

    /// All rungs, in the order in which this call asks them.
    fn ranked(&self) -> impl Iterator<Item = usize> {
        (0..self.role.rungs.len()).map(|place| self.demand.rung(place))
    }

    /// The best rung, benched or not, of which `is` holds. One that takes the
    /// whole request comes before those that take a part of it, and of either kind
    /// one within the role's cost ceiling before those above it.
    fn best(&self, benched: bool, is: impl Fn(usize) -> bool) -> Option<usize> {
        let fitting = |r: &usize| self.benched(*r) == benched && is(*r);
        let first = self
            .ranked()
            .find(|r| fitting(r) && self.behind(*r) == BEHIND[0]);
        let any = || self.ranked().filter(fitting);
        first.or_else(|| any().min_by_key(|r| self.behind(*r)))
    }

    /// All rungs, benched or not, of which `is` holds, in the order of [`best`](Self::best).
    pub(super) fn all(&self, benched: bool, is: impl Fn(usize) -> bool) -> Vec<usize> {
        let fitting = |r: &usize| self.benched(*r) == benched && is(*r);
        let mut rungs: Vec<usize> = self.ranked().filter(fitting).collect();
        rungs.sort_by_key(|r| self.behind(*r));
        rungs
    }

    fn usable(&self, rung: usize, now: Instant) -> bool {
        !self.full(rung) && self.refusal(rung, now).is_none()
    }

    /// The best rung other than `except` that could be asked now; benched
    /// rungs are passed over.
    pub(super) fn next_usable(&self, except: usize, now: Instant) -> Option<usize> {
        self.best(false, |r| r != except && self.usable(r, now))
    }

    /// The best benched rung other than `except` that could be asked now.
    pub(super) fn last_resort(&self, except: usize, now: Instant) -> Option<usize> {
        self.best(true, |r| r != except && self.usable(r, now))
    }

    /// Why a rung that this call has asked can't be asked again. A cooldown
    /// does not keep it off: the retry keeps its own wait.
    pub(super) fn would_refuse_retry(&self, rung: usize, now: Instant) -> Option<Refusal> {
        let refusal = self.role.refusal_of_retry(rung, now, self.today);
        refusal.or_else(|| self.provider_failed(rung))
    }

    /// Whether an attempt of that kind asks a rung that this call has asked before.
    pub(super) fn asks_anew(&self, rung: usize, kind: AttemptKind) -> bool {
        kind == AttemptKind::Retry || (kind == AttemptKind::Resume && self.tried(rung))
    }

    /// Permits for an attempt, with a place it has queued for if it has. A
    /// retry is not refused by a cooldown: it waited.
    pub(super) fn permits(
        &self,
        rung: usize,
        kind: AttemptKind,
        place: Option<OwnedSemaphorePermit>,
        now: Instant,
    ) -> Result<Permits, Refusal> {
        let refusal = if self.asks_anew(rung, kind) {
            self.would_refuse_retry(rung, now)
        } else {
            self.refusal(rung, now)
        };
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let at = &self.role.rungs[rung];
        let capacity = if let Some(place) = place {
            place
        } else {
            let place = at.model.capacity.clone().try_acquire_owned();
            place.map_err(|_| Refusal::AtCapacity)?
        };
        let (semantic, breakers) = on_behalf((self.id, None), || {
            let semantic = at.semantic.admit_owned(now);
            let semantic = semantic.map_err(|r| Refusal::SemanticBreakerOpen(r.retry_in))?;
            Ok((semantic, at.model.admit(now)?))
        })?;
        // Last: what is booked here is not given back.
        let booking = at.model.throttle.admit(|| self.draw(rung), now);
        let booking = booking.map_err(Refusal::RateLimitNear)?;
        Ok(Permits {
            breakers,
            semantic,
            capacity,
            booking,
        })
    }

    /// Asks the best rung that is left: first those not benched, then, as the
    /// last resort, the benched ones; of each those that take the whole request
    /// first, and of these those within the role's cost ceiling. None means every
    /// rung refused.
    pub(super) fn start_next(&mut self, kind: AttemptKind, now: Instant) -> Option<usize> {
        let tiers = [false, true].map(|last_resort| BEHIND.map(|behind| (last_resort, behind)));
        for (last_resort, behind) in tiers.into_iter().flatten() {
            for place in 0..self.role.rungs.len() {
                let rung = self.demand.rung(place);
                if self.tried(rung) {
                    continue;
                }
                if self.behind(rung) != behind {
                    if !behind.1
                        && self.demand.refusal(&self.role, rung).is_none()
                        && let Some(over_cost) = self.over_cost(rung)
                    {
                        self.note_skipped(rung, over_cost, now);
                    }
                    continue;
                }
                if self.benched(rung) != last_resort {
                    if !last_resort {
                        self.note_skipped(rung, Refusal::Benched, now);
                    }
                    continue;
                }
                let kind = if last_resort {
                    AttemptKind::LastResort
                } else {
                    kind
                };
                match self.start(rung, kind, now) {
                    Ok(index) => return Some(index),
                    Err(refusal) => self.note_refused(rung, refusal, now),
                }
            }
        }
        None
    }

    /// Goes on with the next rung, or waits for one, or ends the call.
    pub(super) fn go_on(&mut self, kind: AttemptKind, now: Instant) {
        if self.start_next(kind, now).is_some() {
            return;
        }
        if self.any_running()
            || self.ask_left_again(now)
            || self.wait_for_place(kind, now)
            || self.wait_for_trial(kind, now)
            || self.wait_for_return(now)
        {
            return;
        }
        self.end_exhausted(now);
    }

    /// A wait that begins at `began`: into the trail, as one with that before it
    /// where it goes on with it.
    pub(super) fn note_wait(
        &mut self,
        rung: usize,
        wait: Duration,
        reason: &'static str,
        began: Instant,
    ) {
        let at = self.since(began);
        if let Some(TrailStep::Waited {
            rung: r,
            wait: before,
            reason: same,
            at: from,
        }) = self.trail.steps.last_mut()
            && *r == rung
            && *same == reason
        {
            *before = (at + wait).saturating_sub(*from);
            return;
        }
        self.trail.steps.push(TrailStep::Waited {
            rung,
            wait,
            reason,
            at,
        });
    }

    /// Waits a moment for a rung whose half-open breaker has all its trials
    /// out: their end, soon, tells whether it takes calls again.
    fn wait_for_trial(&mut self, kind: AttemptKind, now: Instant) -> bool {
        let on_trial = |r| matches!(self.refusal(r, now), Some(Refusal::BreakerTrial(_)));
        let rung = self.best(false, on_trial);
        let Some(rung) = rung.or_else(|| self.best(true, on_trial)) else {
            return false;
        };
        let expected = self.role.rungs[rung].expected(self.measure, now);
        let pause = (expected / 4).clamp(TRIAL_PAUSE.0, TRIAL_PAUSE.1);
        let (t95, _) = limits(&self.role.policy, self.measure);
        let until = *self.trial_until.get_or_insert_with(|| {
            now.checked_add(t95.saturating_mul(TRIAL_PATIENCES))
                .unwrap_or(now)
        });
        if now + pause >= until.min(self.deadline) {
            return false;
        }
        self.note_wait(rung, pause, "breaker_trial", now);
        self.planned = Some(Planned {
            rung,
            kind,
            at: now + pause,
            repeats: None,
        });
        true
    }

    /// Waits for the end of a cooldown, or until a rate limit allows the call, at the rung
    /// that is back first of those whose answer then still fits the deadline. One that this
    /// call has met the limit of is asked again, as often as the policy repeats it.
    fn wait_for_return(&mut self, now: Instant) -> bool {
        let mut returns: Vec<Return> = (0..self.role.rungs.len())
            .filter_map(|rung| self.returns(rung, now))
            .collect();
        returns.sort_by_key(|back| (back.left, back.rung));
        for back in returns {
            let left = self.spread(back.left);
            let expected = self.role.rungs[back.rung].expected(self.measure, now);
            let fits = left.saturating_add(expected) < self.deadline.saturating_duration_since(now);
            if !fits || !self.takes_repeat(back, now) {
                continue;
            }
            self.note_wait(back.rung, left, back.reason, now);
            self.planned = Some(Planned {
                rung: back.rung,
                kind: back.kind,
                at: now + left,
                repeats: None,
            });
            return true;
        }
        false
    }

    /// When the rung can be asked again, where it is known.
    fn returns(&self, rung: usize, now: Instant) -> Option<Return> {
        let refusal = self.refusal(rung, now)?;
        let back = |left, reason, kind| Return {
            left,
            rung,
            reason,
            kind,
        };
        match refusal {
            Refusal::Cooldown(left) | Refusal::RateLimitNear(left) => {
                Some(back(left, refusal.as_str(), AttemptKind::Failover))
            }
            Refusal::Tried => {
                let limited = RungEndKind::Failed(Class::RateLimited);
                let met = self.ends.contains(&(rung, limited));
                let left = self.role.rungs[rung].model.cooldown.remaining(now)?;
                let may = met
                    && self.retries[rung] < self.role.policy.retry.rate_limited
                    && self.would_refuse_retry(rung, now).is_none();
                may.then(|| back(left, Class::RateLimited.as_str(), AttemptKind::Retry))
            }
            _ => None,
        }
    }

    /// Whether the retry budget has one for it, where it is a repeat.
    fn takes_repeat(&mut self, back: Return, now: Instant) -> bool {
        if back.kind != AttemptKind::Retry {
            return true;
        }
        let budget = &self.role.rungs[back.rung].model.provider.retries;
        let takes = budget.try_withdraw(now);
        if takes {
            self.retries[back.rung] += 1;
        } else {
            self.trail.steps.push(TrailStep::RetryRefused {
                rung: back.rung,
                at: self.since(now),
            });
        }
        takes
    }

    /// A wait, a little longer: callers that wait for the same return do not all come back
    /// at once.
    pub(super) fn spread(&self, left: Duration) -> Duration {
        let spread = (left / 10).min(Duration::from_secs(1));
        left + spread.mul_f64((self.unit.0)())
    }

    /// Asks a rung again that was left because it was slow, by the policy before it had
    /// answered: a late answer is better than none. Once per rung.
    fn ask_left_again(&mut self, now: Instant) -> bool {
        while let Some(rung) = self.left.pop() {
            let budget = &self.role.rungs[rung].model.provider.retries;
            if self.would_refuse_retry(rung, now).is_none() && budget.try_withdraw(now) {
                self.planned = Some(Planned {
                    rung,
                    kind: AttemptKind::Retry,
                    at: now,
                    repeats: None,
                });
                return true;
            }
        }
        false
    }

    /// A rung could not be asked: into the trail, once per rung and reason.
    fn note_skipped(&mut self, rung: usize, refusal: Refusal, now: Instant) {
        let known = self.trail.steps.iter().any(|s| match s {
            TrailStep::Skipped {
                rung: r,
                refusal: known,
                ..
            } => *r == rung && known.as_str() == refusal.as_str(),
            _ => false,
        });
        if !known {
            self.trail.steps.push(TrailStep::Skipped {
                rung,
                model: self.role.rungs[rung].model.id.clone(),
                refusal,
                at: self.since(now),
            });
        }
    }

    /// A rung refused: into the trail, and into the account of the call's end
    /// unless the caller has left it out itself.
    pub(super) fn note_refused(&mut self, rung: usize, refusal: Refusal, now: Instant) {
        self.note_skipped(rung, refusal, now);
        if refusal == Refusal::NotPinned {
            return;
        }
        match self.ends.iter_mut().find(|(r, _)| *r == rung) {
            // A rung that was only too dear is asked when the others are not to be had.
            Some((_, end)) if matches!(end, RungEndKind::Refused(Refusal::OverCost { .. })) => {
                *end = RungEndKind::Refused(refusal);
            }
            Some(_) => {}
            None => self.ends.push((rung, RungEndKind::Refused(refusal))),
        }
    }

    /// A rung failed: its class replaces an earlier end of the same rung.
    pub(super) fn note_failed(&mut self, rung: usize, class: Class) {
        match self.ends.iter_mut().find(|(r, _)| *r == rung) {
            Some((_, end)) => *end = RungEndKind::Failed(class),
            None => self.ends.push((rung, RungEndKind::Failed(class))),
        }
    }
}

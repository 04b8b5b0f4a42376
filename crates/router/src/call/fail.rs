//! What a failed attempt leads to.

use super::Call;
use super::attempt::{Patience, Planned, Repeats};
use crate::error::CallErrorKind;
use crate::on_behalf::on_behalf;
use crate::rung::{Measure, limits};
use evenkeel_breaker::Backoff;
use evenkeel_core::{
    AttemptKind, AttemptOutcome, Class, Failure, Finish, Phase, Refusal, Scope, TrailStep,
};
use evenkeel_roster::OnContentFilter;
use evenkeel_schema_adapter::AnswerError;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Gives random numbers 0..1, seeded by the router.
#[derive(Clone)]
pub(crate) struct Unit(pub(crate) Arc<dyn Fn() -> f64 + Send + Sync>);

impl fmt::Debug for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unit")
    }
}

impl Call {
    /// An attempt failed. Its upstream is closed already.
    pub(crate) fn failed(&mut self, index: usize, mut failure: Failure, now: Instant) {
        if let Some(bound) = self.ends_as_asked(index, &failure) {
            self.ended_as_asked.push(index);
            failure.message = format!("{}; {bound}", failure.message);
            // Asked the same again, it would end there again.
            failure.same_model_may_help = false;
        }
        let counts = self.says_of_model(index, &failure);
        self.failed_counting(index, failure, counts, now);
    }

    /// The failure that stops the call, with what had failed before it: that is why its rung
    /// was asked.
    fn after_others(&self, rung: usize, mut failure: Failure) -> Failure {
        let before = self.ends.iter().find_map(|(other, end)| {
            let class = end.class().filter(|_| *other != rung)?;
            Some((&self.role.rungs[*other].model.id, class))
        });
        if let Some((model, class)) = before {
            let own = &self.role.rungs[rung].model.id;
            failure.message = format!(
                "{model} failed ({class}), and {own} says: {}",
                failure.message
            );
        }
        failure
    }

    /// Where the caller made an answer end, if that is why it is useless: at a cap or at a
    /// text of its own.
    fn ends_as_asked(&self, index: usize, failure: &Failure) -> Option<String> {
        let is_useless = matches!(failure.class, Class::Malformed | Class::Semantic);
        let finish = self.attempts[index]
            .reported
            .finish
            .filter(|_| is_useless)?;
        let request = &self.request;
        match finish {
            Finish::Length => {
                let most = request.max_output_tokens?;
                Some(format!("the request allows it {most} tokens"))
            }
            Finish::Stop | Finish::StopSequence if !request.stop.is_empty() => {
                Some("the request has it end at texts of its own (`stop`)".to_owned())
            }
            _ => None,
        }
    }

    /// As [`failed`](Self::failed); `counts` says whether the failure is one of its model.
    pub(super) fn failed_counting(
        &mut self,
        index: usize,
        failure: Failure,
        counts: bool,
        now: Instant,
    ) {
        self.stop_attempt(index, &failure, counts, now);
        let rung = self.attempts[index].rung;
        let (hedge_of, race) = (self.attempts[index].hedge_of, self.attempts[index].race);
        // Also of an attempt that is to be repeated: the retry may yet be refused.
        self.last_failure = Some(failure.clone());
        if self.any_running() {
            // The race goes on: a hedge is replaced, a first attempt is not.
            if hedge_of.is_some()
                && self.another_may_help(index, &failure)
                && let Some(next) = self.start_next(AttemptKind::Failover, now)
            {
                self.attempts[next].hedge_of = hedge_of;
                self.attempts[next].race = race;
            }
            return;
        }
        if !self.another_may_help(index, &failure) {
            let failure = self.after_others(rung, failure);
            self.fail(CallErrorKind::Failed(failure), now);
        } else if failure.class == Class::ContextWindow {
            // A larger window first; else the same one again, with more left out.
            if self.start_next(AttemptKind::Failover, now).is_none() && !self.cut_again(index, now)
            {
                self.go_on(AttemptKind::Failover, now);
            }
        } else if !self.reword(index, &failure, now) && !self.retry(index, rung, &failure, now) {
            self.go_on(AttemptKind::Failover, now);
        }
    }

    /// Whether every attempt was made in vain for the caller's sake.
    pub(super) fn all_ended_as_asked(&self) -> bool {
        !self.attempts.is_empty() && self.ended_as_asked.len() == self.attempts.len()
    }

    /// Whether the failure says something of the model's health. A clock that
    /// the caller made shorter than the role's own, and shorter than T95, does
    /// not, nor does an end that the caller set: else one caller would open the
    /// breaker for all.
    pub(super) fn says_of_model(&self, index: usize, failure: &Failure) -> bool {
        if self.ended_as_asked.contains(&index) {
            return false;
        }
        let own = self.role.policy.clocks;
        let (used, own) = match failure.phase {
            Some(Phase::Connect) => (self.clocks.connect, own.connect),
            Some(Phase::FirstToken) => (self.clocks.first_token, own.first_token),
            Some(Phase::Stall) => (self.clocks.stall, own.stall),
            _ => return true,
        };
        let (t95, _) = limits(&self.role.policy, self.measure);
        used >= own.min(t95)
    }

    /// Books a failure: on breakers (if `counts`), on cooldowns and holds, in the trail.
    pub(super) fn stop_attempt(
        &mut self,
        index: usize,
        failure: &Failure,
        counts: bool,
        now: Instant,
    ) {
        if let Some(limits) = &failure.rate_limits {
            self.heard_limits(index, limits, now);
        }
        let attempt = &mut self.attempts[index];
        let rung = attempt.rung;
        let model = self.role.rungs[rung].model.clone();
        let permits = attempt.permits.take();
        if let Some(observation) = attempt.observation.take() {
            self.role.gave_up(self.at(rung), observation, now);
        }
        if let Some(permits) = permits
            && counts
        {
            let is_by_schema = is_by_schema(failure);
            let useless = on_behalf((self.id, Some(failure.class)), || {
                let permit = permits.failed(&model, failure, now)?;
                if is_by_schema {
                    return Some(permit);
                }
                let _ = permit.failure(now, failure.retry_after);
                None
            });
            self.useless.extend(useless);
        }
        if failure.scope == Scope::Provider {
            let provider = model.provider.name.clone();
            self.failed_providers.push((provider, failure.class));
        }
        if failure.class == Class::ContextWindow {
            let window = model.config.context_window.unwrap_or(self.tokens);
            self.overflowed = self.overflowed.max(Some(window));
            self.calibrate(index, window.saturating_add(1));
        }
        if let Some(aside) = model.set_aside(failure, now) {
            self.tell(now, aside.event(&model, failure.class));
        }
        self.note_failed(rung, failure.class);
        self.end_attempt(index, AttemptOutcome::Failed(failure.clone()), false, now);
    }

    /// Whether any further attempt, on whichever rung, may mend the failure.
    pub(super) fn another_may_help(&self, index: usize, failure: &Failure) -> bool {
        let accepted = matches!(
            failure.class,
            Class::Transient | Class::Malformed | Class::Semantic
        ) || (failure.class == Class::Timeout
            && failure.phase != Some(Phase::Connect));
        if !self.replayable && accepted {
            return false;
        }
        match failure.class {
            Class::BadRequest => {
                failure.capability_gap
                    || failure.own_words
                    || self.refuses_our_schema(index, failure)
                    || self.refuses_json_with_tools(index, failure)
            }
            Class::ContentFilter => self.role.policy.on_content_filter == OnContentFilter::Next,
            Class::Cancelled => false,
            Class::Transient
            | Class::RateLimited
            | Class::Overloaded
            | Class::QuotaExhausted
            | Class::Unreachable
            | Class::Timeout
            | Class::ContextWindow
            | Class::Auth
            | Class::ModelGone
            | Class::Malformed
            | Class::Semantic => true,
        }
    }

    /// Same-rung retries the policy allows for a class.
    fn retries_allowed(&self, failure: &Failure) -> u32 {
        let retry = &self.role.policy.retry;
        if !failure.same_model_may_help {
            return 0;
        }
        match failure.class {
            Class::Transient => retry.transient,
            Class::RateLimited => retry.rate_limited,
            Class::Overloaded => retry.overloaded,
            Class::Malformed => retry.malformed,
            Class::Semantic => retry.semantic,
            // Once, in other words than those it refused.
            Class::BadRequest => u32::from(failure.own_words),
            Class::QuotaExhausted
            | Class::Unreachable
            | Class::Timeout
            | Class::ContextWindow
            | Class::ContentFilter
            | Class::Auth
            | Class::ModelGone
            | Class::Cancelled => 0,
        }
    }

    /// Plans a retry on the same rung, if policy, time, breakers and budget allow it.
    fn retry(&mut self, index: usize, rung: usize, failure: &Failure, now: Instant) -> bool {
        let made = self.retries[rung];
        let policy = &self.role.policy.retry;
        if made >= self.retries_allowed(failure) || self.would_refuse_retry(rung, now).is_some() {
            return false;
        }
        let backoff = Backoff {
            base: policy.base,
            cap: policy.cap,
        };
        let wait = if failure.own_words {
            Duration::ZERO
        } else {
            backoff.delay(made + 1, (self.unit.0)())
        };
        let wait = wait.max(failure.retry_after.unwrap_or(Duration::ZERO));
        let allowed_in = self.near_limit(rung, now).and_then(Refusal::retry_in);
        let wait = wait.max(allowed_in.unwrap_or(Duration::ZERO));
        let patience = self.patience_of_retry(index, rung, now);
        if !self.wait_fits(rung, wait, patience, now) {
            return false;
        }
        if !self.role.rungs[rung]
            .model
            .provider
            .retries
            .try_withdraw(now)
        {
            self.trail.steps.push(TrailStep::RetryRefused {
                rung,
                at: self.since(now),
            });
            return false;
        }
        self.retries[rung] += 1;
        if !wait.is_zero() {
            self.trail.steps.push(TrailStep::Waited {
                rung,
                wait,
                reason: failure.class.as_str(),
                at: self.since(now),
            });
        }
        let attempt = &self.attempts[index];
        self.planned = Some(Planned {
            rung,
            kind: AttemptKind::Retry,
            at: now + wait,
            repeats: Some(Repeats {
                patience,
                asks_again: attempt.asks_again_at_end,
                hedge_of: attempt.hedge_of,
                race: attempt.race,
            }),
        });
        true
    }

    /// A planned retry that would go over a rate limit waits on, if that fits: the
    /// call has asked the rung already, and nobody else is to be asked in its place.
    pub(super) fn wait_to_retry(
        &mut self,
        planned: Planned,
        refusal: Refusal,
        now: Instant,
    ) -> bool {
        let Refusal::RateLimitNear(wait) = refusal else {
            return false;
        };
        let fits = planned
            .repeats
            .is_some_and(|repeats| self.wait_fits(planned.rung, wait, repeats.patience, now));
        if !fits {
            return false;
        }
        self.note_wait(planned.rung, wait, refusal.as_str(), now);
        self.planned = Some(Planned {
            at: now + wait,
            ..planned
        });
        true
    }

    /// A retry goes on with the patience of the attempt it repeats. Where that
    /// attempt had satisfied it, by its first content or by an answer that was
    /// then judged, the retry has its own.
    fn patience_of_retry(&self, index: usize, rung: usize, now: Instant) -> Patience {
        let attempt = &self.attempts[index];
        let measured = self.measure == Measure::FirstToken && attempt.first_content.is_some();
        if measured || attempt.judging.is_some() {
            return self.patience(rung, now);
        }
        attempt.patience
    }

    /// Whether a wait and the rung's expected latency fit the patience left
    /// while another rung is usable, else the deadline.
    fn wait_fits(&self, rung: usize, wait: Duration, patience: Patience, now: Instant) -> bool {
        let other = self.next_usable(rung, now).is_some();
        let end = if other {
            patience.ends_at.unwrap_or(self.deadline)
        } else {
            self.deadline
        };
        let expected = self.role.rungs[rung].expected(self.measure, now);
        wait.saturating_add(expected) < end.saturating_duration_since(now)
    }
}

/// Whether an answer is useless by the caller's own schema, which may be one that nobody
/// can meet.
fn is_by_schema(failure: &Failure) -> bool {
    match failure.source.as_deref() {
        Some(source) => source.is::<AnswerError>(),
        None => false,
    }
}

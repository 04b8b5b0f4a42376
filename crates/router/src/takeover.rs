//! What a new configuration takes over from the one before: health that still
//! means the same.

use crate::health::{ModelHealth, ProviderHealth};
use crate::role::Role;
use crate::rung::{Leaving, Measure, locked};
use evenkeel_core::{EventKind, RestorationReason, SubstitutionReason};
use evenkeel_probe::{RoleWord, Word};
use evenkeel_roster::RolePolicy;
use std::sync::{Arc, Mutex};
use std::time::Instant;

impl ProviderHealth {
    /// Goes on where `before`, of the same endpoint, has got to.
    pub(crate) fn take_over(&mut self, before: &Self) {
        let (breaker, budget) = &self.settings;
        if *breaker == before.settings.0 {
            self.breaker = before.breaker.clone();
        }
        if *budget == before.settings.1 {
            self.retries = before.retries.clone();
        }
        self.endpoint = before.endpoint.clone();
    }
}

impl ModelHealth {
    /// Goes on where `before`, the model of that name, has got to. What was
    /// spent on probes and the drill are the name's, the rest is the endpoint's.
    pub(crate) fn take_over(&mut self, before: &Self) {
        self.drill = before.drill.clone();
        self.probes = before.probes.clone();
        if !self.is(before) {
            return;
        }
        self.counter = before.counter.clone();
        self.billed = before.billed.clone();
        self.tools_or_json = before.tools_or_json.clone();
        if self.config.breaker == before.config.breaker {
            self.breaker = before.breaker.clone();
        }
        if self.config.cooldown == before.config.cooldown {
            self.cooldown = before.cooldown.clone();
        }
        if self.config.requests_per_minute == before.config.requests_per_minute
            && self.config.tokens_per_minute == before.config.tokens_per_minute
        {
            self.throttle = before.throttle.clone();
        }
        if self.config.max_concurrency == before.config.max_concurrency {
            self.capacity = before.capacity.clone();
        }
    }
}

/// How a role begins, with its tasks, where words could not be taken over.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    /// The moves that it comes to, where traffic was elsewhere.
    pub(crate) moved: Vec<EventKind>,
    /// A rung that an operator held it on is no longer there.
    pub(crate) let_go: bool,
}

impl Role {
    /// Goes on where `before`, the role of that name, has got to, and its tasks
    /// where theirs have.
    pub(crate) fn take_over(&mut self, before: &Self) {
        self.take_over_alone(before);
        for (name, task) in &mut self.tasks {
            let Some(unit) = task.apart.as_mut().and_then(Arc::get_mut) else {
                continue;
            };
            // Useless answers are counted by role and model, not by task.
            for rung in &mut unit.rungs {
                let own = self.rungs.iter().find(|own| own.model.is(&rung.model));
                if let Some(own) = own {
                    rung.semantic = own.semantic.clone();
                }
            }
            if let Some(old) = before.unit_of(name) {
                unit.take_over_alone(&old);
            }
        }
    }

    /// What stands for a task on rungs of its own.
    fn unit_of(&self, task: &str) -> Option<Arc<Self>> {
        self.tasks.get(task)?.apart.clone()
    }

    /// Nothing moves this role any more: another is in its place.
    pub(crate) fn stand_still(&self) {
        self.pin.close(self.word.load().rung);
    }

    /// Begins beside `before`, of the same name, whose place it takes: role and
    /// tasks alike go on from where they stood, or begin anew.
    pub(crate) fn settle(&mut self, before: &Self, now: Instant) -> Begun {
        let mut begun = Begun::default();
        if !self.shares_word(before) {
            self.begin_after(before, now, &mut begun);
        }
        for (name, task) in &before.tasks {
            let Some(old) = &task.apart else { continue };
            let new = self
                .tasks
                .get_mut(name)
                .and_then(|task| task.apart.as_mut());
            match new.and_then(Arc::get_mut) {
                Some(new) if new.shares_word(old) => {}
                Some(new) => new.begin_after(old, now, &mut begun),
                None => old.stand_still(),
            }
        }
        begun
    }

    fn take_over_alone(&mut self, before: &Self) {
        self.in_flight = before.in_flight.clone();
        self.mean_tokens = before.mean_tokens.clone();
        let (hedge, old) = (&self.policy.hedge, &before.policy.hedge);
        if hedge.burst == old.burst && hedge.budget.to_bits() == old.budget.to_bits() {
            self.hedges = before.hedges.clone();
        }
        let alike = judge_alike(&self.policy, &before.policy);
        for rung in &mut self.rungs {
            let same = before.rungs.iter().find(|old| rung.model.is(&old.model));
            let Some(old) = same else { continue };
            rung.output = old.output.clone();
            rung.take_drift(old);
            if alike {
                rung.take_windows(old);
            }
            if rung.model.config.breaker == old.model.config.breaker {
                rung.semantic = old.semantic.clone();
            }
        }
        let restore_alike = self.policy.restore == before.policy.restore
            && self.policy.signal == before.policy.signal;
        if !alike || !restore_alike || !self.has_roster_of(before) {
            return;
        }
        for (rung, old) in self.rungs.iter_mut().zip(&before.rungs) {
            rung.take_recovery(old);
        }
        self.word = before.word.clone();
        self.pin = before.pin.clone();
        self.since = before.since.clone();
        self.moved = before.moved.clone();
    }

    fn has_roster_of(&self, before: &Self) -> bool {
        let pairs = self.rungs.iter().zip(&before.rungs);
        self.rungs.len() == before.rungs.len()
            && pairs.into_iter().all(|(new, old)| new.model.is(&old.model))
    }

    /// Whether policy and roster say the same as those of `before`.
    pub(crate) fn is_as(&self, before: &Self) -> bool {
        self.policy == before.policy && self.has_roster_of(before)
    }

    fn shares_word(&self, before: &Self) -> bool {
        Arc::ptr_eq(&self.word, &before.word)
    }

    /// Ends the moves of `before` and begins on the primary, or on the rung
    /// that an operator holds the role on. Epochs go on.
    fn begin_after(&mut self, before: &Self, now: Instant, begun: &mut Begun) {
        let held = before.pin.rung();
        let Word { rung: from, epoch } = before.word.load();
        before.pin.close(from);
        let held_model = held.map(|rung| &before.rungs[rung].model.id);
        let pinned = held_model.and_then(|id| self.rungs.iter().position(|r| r.model.id == *id));
        let to = pinned.unwrap_or(0);
        if let Some(rung) = pinned {
            self.pin.close(rung);
        }
        let moves = to != from;
        let epoch = epoch + u64::from(moves);
        self.word = Arc::new(RoleWord::resume(Word { rung: to, epoch }));
        self.moved.send_replace(epoch);
        self.since = Arc::new(Mutex::new(now));
        if to > 0 {
            *locked(&self.rungs[0].left) = Some(Leaving {
                reason: SubstitutionReason::Manual,
                measure: Measure::Total,
                at: now,
            });
        }
        if moves {
            begun
                .moved
                .push(self.begun_elsewhere(before, from, to, epoch, now));
        }
        begun.let_go |= held.is_some() && pinned.is_none();
    }

    /// The event of a word that stands elsewhere after the change.
    fn begun_elsewhere(
        &self,
        before: &Self,
        from: usize,
        to: usize,
        epoch: u64,
        now: Instant,
    ) -> EventKind {
        let (role, task) = (self.name.clone(), self.task.clone());
        let from_model = before.rungs[from].model.id.clone();
        let to_model = self.rungs[to].model.id.clone();
        let latency = before.latency(from, Measure::Total, now);
        if to > from {
            return EventKind::ModelSubstitution {
                role,
                task,
                epoch,
                primary: self.rungs[0].model.id.clone(),
                from,
                from_model,
                to,
                to_model,
                reason: SubstitutionReason::Manual,
                latency,
            };
        }
        let left = before.rungs.get(to).and_then(|rung| *locked(&rung.left));
        EventKind::ModelRestoration {
            role,
            task,
            epoch,
            from,
            from_model,
            to,
            to_model,
            duration: left.map_or_else(
                || before.stood_for(now),
                |left| now.saturating_duration_since(left.at),
            ),
            reason: RestorationReason::Manual,
            latency: self.latency(to, Measure::Total, now),
            away: self.away(to),
        }
    }
}

/// Whether both policies draw the same verdict from the same latencies.
fn judge_alike(a: &RolePolicy, b: &RolePolicy) -> bool {
    (a.p95, a.p99, a.first_token_p95, a.first_token_p99)
        == (b.p95, b.p99, b.first_token_p95, b.first_token_p99)
        && (a.window, a.min_samples, a.spike_detector)
            == (b.window, b.min_samples, b.spike_detector)
        && a.confidence.to_bits() == b.confidence.to_bits()
}

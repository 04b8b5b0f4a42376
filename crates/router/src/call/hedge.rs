//! What happens when an attempt's patience runs out.

use super::{Call, Step};
use crate::keep::{KeptPlace, Loser, Lost};
use crate::rung::limits;
use evenkeel_core::{AttemptKind, ChatRequest, Class, EventKind, TrailStep, Value};
use evenkeel_roster::HedgeMode;
use std::time::{Duration, Instant};

/// Fields that store state at the provider or have it run on its own.
const STATEFUL: [&str; 3] = ["previous_response_id", "container", "background"];

/// Whether the request may be asked twice: it uses no provider-run tools and
/// stores nothing at the provider.
pub(super) fn replayable(request: &ChatRequest) -> bool {
    let fields = &request.extra.fields;
    let set = |key: &str| {
        fields
            .get(key)
            .is_some_and(|v| !matches!(v, Value::Null | Value::Bool(false)))
    };
    let own_tools = request.tools.iter().all(|t| {
        t.extra
            .fields
            .get("type")
            .is_none_or(|kind| kind == "function" || kind == "custom")
    });
    own_tools && !set("store") && !set("web_search_options") && !STATEFUL.into_iter().any(set)
}

/// Shortest and longest pause before a call that waits for any free place looks again.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(200));

impl Call {
    /// Starts a hedge, or notes why none starts.
    pub(super) fn out_of_patience(&mut self, index: usize, now: Instant) {
        let rung = self.attempts[index].rung;
        let in_breach = self.role.in_breach(rung, now);
        if let Err(reason) = self.may_hedge(rung, in_breach, now) {
            let may_change = matches!(reason, "budget" | "one_per_call" | "too_large" | "no_rung");
            let epoch = self.role.word.load().epoch;
            let passes = (reason == "no_rung").then(|| self.may_be_asked_at(rung, now));
            self.attempts[index].asks_again = may_change.then_some(epoch);
            self.attempts[index].looks_again = passes.flatten();
            self.note_hedge_refused(rung, reason, now);
            self.hedge_refused(index, reason, now);
            return;
        }
        if self.role.policy.hedge.mode == HedgeMode::Switch {
            self.note_failed(rung, Class::Timeout);
            self.left.push(rung);
            self.lose(index, false, now);
        }
        let Some(hedge) = self.start_next(AttemptKind::Hedge, now) else {
            if !self.any_running() {
                self.go_on(AttemptKind::Failover, now);
            }
            return;
        };
        self.hedges += 1;
        self.attempts[hedge].hedge_of = Some(rung);
        let race = self.begin_race(index, self.attempts[hedge].rung, now);
        self.attempts[hedge].race = Some(race);
        self.tell(
            now,
            EventKind::HedgeStarted {
                role: self.role.name.clone(),
                from: rung,
                to: self.attempts[hedge].rung,
                budgeted: !in_breach,
            },
        );
    }

    /// When a rung beside `except` may be asked that refuses for a while, or lacks no more
    /// than a place; none where nobody will be.
    fn may_be_asked_at(&self, except: usize, now: Instant) -> Option<Instant> {
        let (t95, _) = limits(&self.role.policy, self.measure);
        let pause = (t95 / 10).clamp(LOOK_AGAIN.0, LOOK_AGAIN.1);
        let others = (0..self.role.rungs.len()).filter(|r| *r != except);
        let waits = others.filter_map(|r| match self.refusal(r, now) {
            None => Some(pause),
            Some(refusal) => Some(refusal.retry_in()?.max(LOOK_AGAIN.0)),
        });
        now.checked_add(waits.min()?)
    }

    /// That no hedge starts: into the trail, once per rung and reason.
    fn note_hedge_refused(&mut self, rung: usize, reason: &'static str, now: Instant) {
        let is_known = self.trail.steps.iter().any(|step| {
            matches!(step, TrailStep::HedgeRefused { rung: r, reason: known, .. }
                if *r == rung && *known == reason)
        });
        if !is_known {
            self.trail.steps.push(TrailStep::HedgeRefused {
                rung,
                reason,
                at: self.since(now),
            });
        }
    }

    /// Whether the attempt at `rung` may be hedged as of `now`, and if not, why.
    fn may_hedge(&self, rung: usize, in_breach: bool, now: Instant) -> Result<(), &'static str> {
        let policy = &self.role.policy.hedge;
        if policy.mode == HedgeMode::Off {
            return Err("off");
        }
        if !self.replayable {
            return Err("not_hedgeable");
        }
        if !in_breach && self.tokens > policy.max_input_tokens {
            return Err("too_large");
        }
        if !in_breach && self.hedges > 0 {
            return Err("one_per_call");
        }
        let to = self.next_usable(rung, now);
        let to = to
            .or_else(|| self.last_resort(rung, now))
            .ok_or("no_rung")?;
        let left = self.deadline.saturating_duration_since(now);
        if self.role.rungs[to].need(self.measure, now) > left {
            return Err("deadline");
        }
        if !in_breach && !self.role.hedges.try_withdraw(self.hedge_cost) {
            return Err("budget");
        }
        Ok(())
    }

    /// Gives an attempt up because another goes on in its place. A first
    /// attempt that is younger than T95 may be kept open to be measured.
    pub(super) fn lose(&mut self, index: usize, may_keep: bool, now: Instant) {
        let (t95, t99) = limits(&self.role.policy, self.measure);
        let attempt = &mut self.attempts[index];
        let rung = attempt.rung;
        let age = now.saturating_duration_since(attempt.started);
        let hedge = attempt.hedge_of.is_some();
        let observation = attempt.observation.take();
        // Cancelled: it counts on no breaker and holds nothing of the call.
        attempt.permits = None;
        let until = if age < t95 { t95 } else { t99 };
        let wanted = observation.is_some() && may_keep && !hedge && age < until;
        let place = wanted
            .then(|| KeptPlace::reserve(&self.role, age >= t95))
            .flatten();
        let (started, kept) = (attempt.started, place.is_some());
        self.end_attempt(index, evenkeel_core::AttemptOutcome::Lost, kept, now);
        let keep = observation.and_then(|observation| {
            let of = Lost {
                call: self.id,
                attempt: index,
                rung,
                measure: self.measure,
                started,
            };
            Loser::new(&self.role, of, observation, place, now)
        });
        self.steps.push_back(Step::Close {
            attempt: index,
            keep,
        });
    }
}

//! The hedges of a call, each told of once when it has ended.

use super::Call;
use evenkeel_core::{EventKind, HedgeResult, Latency, Refusal};
use std::time::{Duration, Instant};

/// A hedge under way: an attempt beside one whose patience ran out, with its retries
/// and whoever takes its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Race {
    /// The rung whose patience ran out.
    from: usize,
    /// The rung that was asked beside it.
    to: usize,
    /// The patience that had run out.
    patience: Duration,
    /// What was known of the latency of the first of the two then.
    latency: Latency,
}

impl Call {
    /// A hedge to `to` begins because the patience of attempt `index` ran out. Its
    /// number among those of the call.
    pub(super) fn begin_race(&mut self, index: usize, to: usize, now: Instant) -> usize {
        let race = self.race(index, to, now);
        self.races.push(race);
        self.races.len() - 1
    }

    fn race(&self, index: usize, to: usize, now: Instant) -> Race {
        let from = self.attempts[index].rung;
        Race {
            from,
            to,
            patience: self.patience_of(index),
            latency: self.role.latency(from, self.measure, now),
        }
    }

    fn patience_of(&self, index: usize) -> Duration {
        let attempt = &self.attempts[index];
        let ends = attempt.patience.ends_at;
        ends.map_or(Duration::ZERO, |ends| {
            ends.saturating_duration_since(attempt.started)
        })
    }

    /// The race is over: attempt `winner` answers, or nobody does.
    pub(super) fn end_races(&mut self, winner: Option<usize>, now: Instant) {
        let won = winner.and_then(|index| {
            let attempt = &self.attempts[index];
            Some((attempt.race?, attempt.rung))
        });
        for (number, mut race) in std::mem::take(&mut self.races).into_iter().enumerate() {
            let result = match won {
                Some((race_won, rung)) if race_won == number => {
                    race.to = rung;
                    HedgeResult::Won
                }
                _ => HedgeResult::Lost,
            };
            self.tell_race(race, result, now);
        }
    }

    /// Tells, once per attempt, that the budget or a concurrency limit forbids a hedge.
    pub(super) fn hedge_refused(&mut self, index: usize, reason: &'static str, now: Instant) {
        let from = self.attempts[index].rung;
        let to = match reason {
            "budget" => {
                let next = self.next_usable(from, now);
                next.or_else(|| self.last_resort(from, now))
            }
            "no_rung" => (0..self.role.rungs.len()).find(|rung| {
                *rung != from
                    && self
                        .refusal(*rung, now)
                        .is_none_or(|r| r == Refusal::AtCapacity)
            }),
            _ => None,
        };
        if let Some(to) = to
            && !self.unhedged.contains(&index)
        {
            self.unhedged.push(index);
            let race = self.race(index, to, now);
            self.tell_race(race, HedgeResult::Refused, now);
        }
    }

    fn tell_race(&self, race: Race, result: HedgeResult, now: Instant) {
        let Race {
            from,
            to,
            patience,
            latency,
        } = race;
        let model = |rung: usize| self.role.rungs[rung].model.id.clone();
        self.tell(
            now,
            EventKind::HedgeEnded {
                role: self.role.name.clone(),
                task: self.context.task.clone(),
                request_id: self.context.request_id.clone(),
                from,
                from_model: model(from),
                to,
                to_model: model(to),
                result,
                reason: self.hedge_reason(from),
                patience,
                latency,
            },
        );
    }
}

//! Losers kept open a while, so that short deadlines do not hide a stalled primary.

use crate::attempt::{Slot, Upstream, or_broken};
use crate::role::Role;
use crate::rung::{At, Measure, limits};
use evenkeel_core::StreamEvent;
use evenkeel_probe::Observation;
use futures_util::StreamExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tokio::time::sleep_until;

/// Share of a role's calls under way whose losers may be kept at a time.
const KEPT_SHARE: usize = 20; // one in twenty: 5%

/// A first attempt that lost young and is still being measured. It holds no
/// permit and no budget of its call; its place among the kept is given back on drop.
#[derive(Debug)]
pub(crate) struct Loser {
    role: Arc<Role>,
    rung: usize,
    measure: Measure,
    observation: Option<Observation>,
    /// When it is given up: its age is T95 or T99 then.
    until: Instant,
    to_p99: bool,
}

impl Loser {
    /// Keeps the loser if `wanted` and there is room; else its observation ends here.
    pub(crate) fn new(
        role: &Arc<Role>,
        rung: usize,
        measure: Measure,
        observation: Observation,
        wanted: bool,
        now: Instant,
    ) -> Option<Self> {
        let (t95, t99) = limits(&role.policy, measure);
        let age = now.saturating_duration_since(observation.began());
        let to_p99 = age >= t95;
        if !wanted || !reserve(role, to_p99) {
            let at = At {
                rung,
                measure,
                call: None,
            };
            role.gave_up(at, observation, now);
            return None;
        }
        let until = observation.began() + if to_p99 { t99 } else { t95 };
        Some(Self {
            role: role.clone(),
            rung,
            measure,
            observation: Some(observation),
            until,
            to_p99,
        })
    }

    /// Goes on measuring in the background until the attempt's measure is
    /// complete, it fails, or its time is up. The router awaits it at shutdown.
    pub(crate) fn watch(self, slot: Slot) {
        let tasks = self.role.around.tasks.clone();
        tasks.spawn(self.run(slot));
    }

    async fn run(mut self, mut slot: Slot) {
        let until = tokio::time::Instant::from_std(self.until);
        let measured = loop {
            tokio::select! {
                biased;
                // First: a stream that is always ready must not hold it off.
                () = sleep_until(until) => break false,
                event = slot.events.next() => match or_broken(event) {
                    Upstream::Whole(_)
                    | Upstream::Validated(..)
                    | Upstream::Event(StreamEvent::End) => break true,
                    Upstream::Event(event) => {
                        if event.is_content() && self.measure == Measure::FirstToken {
                            break true;
                        }
                    }
                    Upstream::Failed(_) => break false,
                },
            }
        };
        drop(slot);
        let now = tokio::time::Instant::now().into_std();
        if let Some(observation) = self.observation.take() {
            if measured {
                self.role.measured(self.at(), observation, now);
            } else {
                self.role.gave_up(self.at(), observation, now);
            }
        }
    }

    fn at(&self) -> At {
        At {
            rung: self.rung,
            measure: self.measure,
            call: None,
        }
    }
}

fn reserve(role: &Role, to_p99: bool) -> bool {
    if to_p99 {
        return role.policy.hedge.keep_to_p99 && !role.kept_to_p99.swap(true, Ordering::Relaxed);
    }
    let most = (role.in_flight.load(Ordering::Relaxed) / KEPT_SHARE).max(1);
    role.kept
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |kept| {
            (kept < most).then_some(kept + 1)
        })
        .is_ok()
}

impl Drop for Loser {
    fn drop(&mut self) {
        if self.to_p99 {
            self.role.kept_to_p99.store(false, Ordering::Relaxed);
        } else {
            self.role.kept.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(observation) = self.observation.take() {
            let now = tokio::time::Instant::now().into_std();
            self.role.gave_up(self.at(), observation, now);
        }
    }
}

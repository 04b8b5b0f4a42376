//! Losers kept open a while, so that short deadlines do not hide a stalled primary.

use crate::attempt::{Slot, Upstream, or_broken};
use crate::role::Role;
use crate::rung::{At, Measure, limits};
use evenkeel_core::{CallId, EventKind, StreamEvent};
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
    lost: Lost,
    observation: Option<Observation>,
    /// When it is given up: its age is T95 or T99 then.
    until: Instant,
    /// Whether the measure it is kept for came to its end.
    measured: bool,
    place: KeptPlace,
}

/// An attempt that has lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lost {
    pub(crate) call: CallId,
    pub(crate) attempt: usize,
    pub(crate) rung: usize,
    pub(crate) measure: Measure,
    pub(crate) started: Instant,
}

/// A place among the losers that a role keeps open, given back on drop.
#[derive(Debug)]
pub(crate) struct KeptPlace {
    role: Arc<Role>,
    to_p99: bool,
}

impl KeptPlace {
    /// A place, if there is one.
    pub(crate) fn reserve(role: &Arc<Role>, to_p99: bool) -> Option<Self> {
        reserve(role, to_p99).then(|| Self {
            role: role.clone(),
            to_p99,
        })
    }
}

impl Drop for KeptPlace {
    fn drop(&mut self) {
        if self.to_p99 {
            self.role.kept_to_p99.store(false, Ordering::Relaxed);
        } else {
            self.role.kept.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Loser {
    /// Keeps the loser if it has a place; else its observation ends here.
    pub(crate) fn new(
        role: &Role,
        lost: Lost,
        observation: Observation,
        place: Option<KeptPlace>,
        now: Instant,
    ) -> Option<Self> {
        let Some(place) = place else {
            role.gave_up(lost.at(), observation, now);
            return None;
        };
        let (t95, t99) = limits(&role.policy, lost.measure);
        let until = observation.began() + if place.to_p99 { t99 } else { t95 };
        Some(Self {
            lost,
            observation: Some(observation),
            until,
            measured: false,
            place,
        })
    }

    /// Goes on measuring in the background until the attempt's measure is
    /// complete, it fails, or its time is up. The router awaits it at shutdown.
    pub(crate) fn watch(self, slot: Slot) {
        let tasks = self.place.role.around.tasks.clone();
        tasks.spawn(self.run(slot));
    }

    async fn run(mut self, mut slot: Slot) {
        let until = tokio::time::Instant::from_std(self.until);
        self.measured = loop {
            tokio::select! {
                biased;
                // First: a stream that is always ready must not hold it off.
                () = sleep_until(until) => break false,
                event = slot.events.next() => match or_broken(event) {
                    Upstream::Whole(_)
                    | Upstream::Validated(..)
                    | Upstream::Event(StreamEvent::End) => break true,
                    Upstream::Event(event) => {
                        if event.is_content() && self.lost.measure == Measure::FirstToken {
                            break true;
                        }
                    }
                    Upstream::Failed(_) => break false,
                },
            }
        };
        drop(slot);
    }
}

impl Lost {
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
        let now = tokio::time::Instant::now().into_std();
        let (role, lost) = (&self.place.role, self.lost);
        if let Some(observation) = self.observation.take() {
            if self.measured {
                role.measured(lost.at(), observation, now);
            } else {
                role.gave_up(lost.at(), observation, now);
            }
        }
        let closed = EventKind::LoserClosed {
            role: role.name.clone(),
            attempt: lost.attempt,
            model: role.rungs[lost.rung].model.id.clone(),
            duration: now.saturating_duration_since(lost.started),
            measured: self.measured,
        };
        role.around.tell(now, Some(lost.call), closed);
    }
}

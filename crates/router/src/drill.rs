//! Drills: a model is taken away for a while, to see that the rest holds.

use crate::rung::locked;
use crate::state::DrillState;
use evenkeel_core::{DrillKind, EventKind, ModelId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// No answer of a fallback yet.
const NONE: u64 = u64::MAX;

/// One drill, from its beginning to its end.
#[derive(Debug)]
pub(crate) struct Drill {
    pub(crate) id: u64,
    pub(crate) kind: DrillKind,
    pub(crate) model: ModelId,
    since: Instant,
    pub(crate) until: Instant,
    /// Microseconds from its beginning to the first answer of a fallback.
    first_fallback: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    /// Ends the task that waits for its end.
    pub(crate) over: CancellationToken,
}

impl Drill {
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        self.until.saturating_duration_since(now)
    }

    /// A call of a role with the model ended: a lower rung answered, or nobody.
    pub(crate) fn counted(&self, answered: bool, now: Instant) {
        if !answered {
            self.failed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.answered.fetch_add(1, Ordering::Relaxed);
        let after = now.saturating_duration_since(self.since).as_micros();
        let after = u64::try_from(after).unwrap_or(NONE - 1);
        self.first_fallback.fetch_min(after, Ordering::Relaxed);
    }

    fn first_fallback(&self) -> Option<Duration> {
        let micros = self.first_fallback.load(Ordering::Relaxed);
        (micros != NONE).then(|| Duration::from_micros(micros))
    }

    pub(crate) fn state(&self, now: Instant) -> DrillState {
        DrillState {
            id: self.id,
            kind: self.kind,
            model: self.model.clone(),
            age: now.saturating_duration_since(self.since),
            remaining: self.remaining(now),
            first_fallback: self.first_fallback(),
            answered: self.answered.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn started(&self) -> EventKind {
        EventKind::DrillStarted {
            drill: self.id,
            kind: self.kind,
            model: self.model.clone(),
            duration: self.until.saturating_duration_since(self.since),
        }
    }

    pub(crate) fn ended(&self, now: Instant) -> EventKind {
        let state = self.state(now);
        EventKind::DrillEnded {
            drill: state.id,
            kind: state.kind,
            model: state.model,
            duration: state.age,
            first_fallback: state.first_fallback,
            answered: state.answered,
            failed: state.failed,
        }
    }
}

/// Where a model looks for the drill that takes it away.
#[derive(Debug, Default)]
pub(crate) struct DrillPlace {
    /// The drill's number; 0 for none: the usual case costs one load.
    id: AtomicU64,
    drill: Mutex<Option<Arc<Drill>>>,
}

impl DrillPlace {
    /// The drill that runs at `now`. One whose time is up takes nothing away,
    /// also before its end is told.
    pub(crate) fn current(&self, now: Instant) -> Option<Arc<Drill>> {
        if self.id.load(Ordering::Acquire) == 0 {
            return None;
        }
        let drill = locked(&self.drill).clone();
        drill.filter(|drill| drill.until > now)
    }

    pub(crate) fn put(&self, drill: Arc<Drill>) {
        let id = drill.id;
        *locked(&self.drill) = Some(drill);
        self.id.store(id, Ordering::Release);
    }

    pub(crate) fn clear(&self) {
        self.id.store(0, Ordering::Release);
        *locked(&self.drill) = None;
    }
}

/// The drills of a router.
#[derive(Debug, Default)]
pub(crate) struct Drills {
    running: AtomicUsize,
    last_id: AtomicU64,
    by_id: Mutex<BTreeMap<u64, Arc<Drill>>>,
}

impl Drills {
    /// Whether any runs.
    pub(crate) fn any(&self) -> bool {
        self.running.load(Ordering::Acquire) > 0
    }

    /// Enters a drill of the model, or gives the number of the one it has.
    pub(crate) fn enter(
        &self,
        kind: DrillKind,
        model: &ModelId,
        lasting: Duration,
        now: Instant,
    ) -> Result<Arc<Drill>, u64> {
        let mut by_id = locked(&self.by_id);
        if let Some(running) = by_id.values().find(|drill| drill.model == *model) {
            return Err(running.id);
        }
        let drill = Arc::new(Drill {
            id: self.last_id.fetch_add(1, Ordering::Relaxed) + 1,
            kind,
            model: model.clone(),
            since: now,
            until: now + lasting,
            first_fallback: AtomicU64::new(NONE),
            answered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            over: CancellationToken::new(),
        });
        by_id.insert(drill.id, drill.clone());
        self.running.store(by_id.len(), Ordering::Release);
        Ok(drill)
    }

    /// Takes a drill out; none where it is over already.
    pub(crate) fn remove(&self, id: u64) -> Option<Arc<Drill>> {
        let mut by_id = locked(&self.by_id);
        let drill = by_id.remove(&id)?;
        self.running.store(by_id.len(), Ordering::Release);
        Some(drill)
    }

    /// Those that run, oldest first.
    pub(crate) fn states(&self, now: Instant) -> Vec<DrillState> {
        let by_id = locked(&self.by_id);
        by_id.values().map(|drill| drill.state(now)).collect()
    }
}

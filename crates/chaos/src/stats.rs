//! How many calls came and how they ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Counts of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Calls that came.
    pub started: u64,
    /// Calls whose answer was given in full.
    pub ok: u64,
    /// Calls that ended in a fault.
    pub failed: u64,
    /// Calls whose caller went away first.
    pub cancelled: u64,
    /// Calls that have not ended.
    pub in_flight: u64,
}

impl std::ops::Add for Stats {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            started: self.started + other.started,
            ok: self.ok + other.ok,
            failed: self.failed + other.failed,
            cancelled: self.cancelled + other.cancelled,
            in_flight: self.in_flight + other.in_flight,
        }
    }
}

/// How one call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Ok,
    Failed,
    Cancelled,
}

/// The counts of one model, shared with the calls in flight.
#[derive(Debug)]
pub(crate) struct Counts {
    stats: Mutex<Stats>,
    changed: Arc<Notify>,
}

impl Counts {
    /// Zeros; `changed` is told of every change.
    pub(crate) fn new(changed: Arc<Notify>) -> Self {
        Self {
            stats: Mutex::default(),
            changed,
        }
    }

    pub(crate) fn read(&self) -> Stats {
        *self.lock()
    }

    /// Counts a call that came. Dropped without an ending it ends as `if_dropped`.
    pub(crate) fn start(self: &Arc<Self>, if_dropped: Ending) -> CallGuard {
        let mut stats = self.lock();
        stats.started += 1;
        stats.in_flight += 1;
        drop(stats);
        self.changed.notify_waiters();
        CallGuard {
            counts: Arc::clone(self),
            ending: if_dropped,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Stats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call in flight; dropping it counts its ending.
#[derive(Debug)]
pub(crate) struct CallGuard {
    counts: Arc<Counts>,
    ending: Ending,
}

impl CallGuard {
    /// Ends the call.
    pub(crate) fn end(mut self, ending: Ending) {
        self.ending = ending;
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        let mut stats = self.counts.lock();
        stats.in_flight -= 1;
        match self.ending {
            Ending::Ok => stats.ok += 1,
            Ending::Failed => stats.failed += 1,
            Ending::Cancelled => stats.cancelled += 1,
        }
        drop(stats);
        self.counts.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_counted_once_by_how_it_ended() {
        let counts = Arc::new(Counts::new(Arc::default()));
        let open = counts.start(Ending::Cancelled);
        counts.start(Ending::Cancelled).end(Ending::Ok);
        counts.start(Ending::Cancelled).end(Ending::Failed);
        drop(counts.start(Ending::Cancelled));
        let expected = Stats {
            started: 4,
            ok: 1,
            failed: 1,
            cancelled: 1,
            in_flight: 1,
        };
        assert_eq!(counts.read(), expected);
        drop(open);
        assert_eq!((counts.read().cancelled, counts.read().in_flight), (2, 0));
    }
}

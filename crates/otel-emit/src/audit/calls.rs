//! Calls that have begun and not ended.

use super::id::Text64;
use evenkeel_core::CallId;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Parts of the table, each with a lock of its own.
const SHARDS: usize = 16;

/// What records of a call's decisions need to know of it.
#[derive(Debug, Clone)]
pub(super) struct OpenCall {
    pub(super) request_id: Text64,
    /// The trace it came in on.
    pub(super) trace_id: Option<Box<str>>,
}

/// The table of open calls. A lock is held for one look-up.
#[derive(Debug, Default)]
pub(super) struct Calls([Mutex<HashMap<CallId, OpenCall>>; SHARDS]);

impl Calls {
    fn shard(&self, call: CallId) -> MutexGuard<'_, HashMap<CallId, OpenCall>> {
        // Numbers are given out one by one.
        let at = call.get() % SHARDS as u64;
        let shard = &self.0[usize::try_from(at).unwrap_or(0)];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, call: CallId, open: OpenCall) {
        self.shard(call).insert(call, open);
    }

    pub(super) fn get(&self, call: CallId) -> Option<OpenCall> {
        self.shard(call).get(&call).cloned()
    }

    pub(super) fn remove(&self, call: CallId) -> Option<OpenCall> {
        self.shard(call).remove(&call)
    }

    pub(super) fn count(&self) -> usize {
        let shards = self.0.iter();
        shards
            .map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).len())
            .sum()
    }
}

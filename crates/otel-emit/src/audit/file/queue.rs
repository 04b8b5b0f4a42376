//! What stands between those who tell and the one who writes.

use crate::audit::kind::{KindCounts, RecordKind};
use crate::audit::record::{AuditGap, Record};
use crate::audit::sink::{AuditStatus, FailureKind};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Of the room, the share that is kept for calls under way where no new ones are taken
/// while records cannot be written.
const RESERVE: usize = 4;

/// How long the first record of a batch waits for others.
const LINGER: Duration = Duration::from_millis(1);

/// A bounded queue of records, and what is known of their writing.
#[derive(Debug)]
pub(super) struct Queue {
    room: usize,
    inner: Mutex<Inner>,
    /// Something came, or it is closed.
    filled: Condvar,
    /// Something was written, or the writer has ended.
    settled: Condvar,
    /// Whether the last attempt to write failed, or the queue is near its end.
    is_unsound: AtomicBool,
    pub(super) written: KindCounts,
    pub(super) lost: KindCounts,
    failed_writes: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    records: VecDeque<Box<Record>>,
    /// Records taken out and not written yet.
    held: usize,
    stage: Stage,
    is_writer_waiting: bool,
    failing: Option<(SystemTime, FailureKind)>,
    /// What was lost and not told of yet.
    gap: Option<AuditGap>,
    /// Whether the record that tells of it is not written yet.
    is_telling: bool,
}

/// How far it is with the queue's end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Open,
    /// Nothing more is taken.
    Closed,
    /// And nothing more will be written.
    Ended,
}

/// What the writer finds.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) records: VecDeque<Box<Record>>,
    /// What was lost before them or after, as far as it has not been told.
    pub(super) gap: Option<AuditGap>,
    /// Nothing more will come.
    pub(super) is_closed: bool,
}

impl Queue {
    pub(super) fn new(room: usize) -> Self {
        Self {
            room,
            inner: Mutex::default(),
            filled: Condvar::new(),
            settled: Condvar::new(),
            is_unsound: AtomicBool::new(false),
            written: KindCounts::default(),
            lost: KindCounts::default(),
            failed_writes: AtomicU64::new(0),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a record, or counts it as lost where there is no room.
    pub(super) fn push(&self, record: Box<Record>) {
        let mut inner = self.inner();
        if inner.stage != Stage::Open || inner.records.len() + inner.held >= self.room {
            self.lost.add(record.kind);
            let gap = inner.gap.get_or_insert_with(|| AuditGap {
                since: record.time,
                lost: KindCounts::default(),
            });
            gap.lost.add(record.kind);
            return;
        }
        inner.records.push_back(record);
        self.judge(&inner);
        if std::mem::take(&mut inner.is_writer_waiting) {
            drop(inner);
            self.filled.notify_one();
        }
    }

    /// Takes all there is, at most `most`. Waits for something, at most so long.
    pub(super) fn take(&self, most: usize, wait: Option<Duration>) -> Taken {
        let mut inner = self.inner();
        if inner.records.is_empty() && inner.gap.is_none() && inner.stage == Stage::Open {
            inner.is_writer_waiting = true;
            inner = self.wait(inner, wait);
            inner.is_writer_waiting = false;
            if !inner.records.is_empty() {
                inner = self.linger(inner);
            }
        }
        let count = inner.records.len().min(most);
        let rest = inner.records.split_off(count);
        let records = std::mem::replace(&mut inner.records, rest);
        let gap = inner.gap.take();
        inner.held = records.len();
        inner.is_telling = gap.is_some();
        Taken {
            gap,
            is_closed: inner.stage != Stage::Open && inner.records.is_empty(),
            records,
        }
    }

    fn wait<'a>(
        &'a self,
        inner: MutexGuard<'a, Inner>,
        limit: Option<Duration>,
    ) -> MutexGuard<'a, Inner> {
        match limit {
            None => self
                .filled
                .wait(inner)
                .unwrap_or_else(PoisonError::into_inner),
            Some(limit) => {
                let waited = self.filled.wait_timeout(inner, limit);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// Lets others come to what has come: callers wake the writer once for all of them, and
    /// they are written together.
    fn linger<'a>(&'a self, inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        let is_open = |inner: &mut Inner| inner.stage == Stage::Open;
        let waited = self.filled.wait_timeout_while(inner, LINGER, is_open);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Lets time pass before the next attempt. Says whether the queue was closed meanwhile.
    pub(super) fn rest(&self, wait: Duration) -> bool {
        let inner = self.inner();
        let waited = self
            .filled
            .wait_timeout_while(inner, wait, |inner| inner.stage == Stage::Open);
        waited.unwrap_or_else(PoisonError::into_inner).0.stage != Stage::Open
    }

    /// What was taken out has been written. Says since when that had failed.
    pub(super) fn wrote(&self) -> Option<SystemTime> {
        let mut inner = self.inner();
        inner.held = 0;
        inner.is_telling = false;
        let failed = inner.failing.take().map(|(since, _)| since);
        self.judge(&inner);
        drop(inner);
        self.settled.notify_all();
        failed
    }

    /// An attempt to write failed. Says whether it is the first since one did not.
    pub(super) fn failed(&self, now: SystemTime, kind: FailureKind) -> bool {
        self.failed_writes.fetch_add(1, Ordering::Relaxed);
        let mut inner = self.inner();
        let before = inner.failing;
        let since = before.map_or(now, |(since, _)| since);
        inner.failing = Some((since, kind));
        self.judge(&inner);
        before.is_none()
    }

    /// Records that are not written and will not be: the writer ends.
    pub(super) fn end(&self, unwritten: &[RecordKind]) -> u64 {
        let mut inner = self.inner();
        for record in std::mem::take(&mut inner.records) {
            self.lost.add(record.kind);
        }
        for kind in unwritten {
            self.lost.add(*kind);
        }
        inner.held = 0;
        inner.stage = Stage::Ended;
        self.is_unsound.store(true, Ordering::Release);
        drop(inner);
        self.settled.notify_all();
        self.lost.total()
    }

    fn judge(&self, inner: &Inner) {
        let used = inner.records.len() + inner.held;
        let is_near_full = used >= self.room - self.room / RESERVE;
        let is_unsound = inner.failing.is_some() || is_near_full;
        self.is_unsound.store(is_unsound, Ordering::Release);
    }

    /// Whether records are written, and there is room for more.
    pub(super) fn is_sound(&self) -> bool {
        !self.is_unsound.load(Ordering::Acquire)
    }

    /// Takes nothing more. Waits for the writer's end, at most so long; says whether it
    /// has come, with everything written.
    pub(super) fn close(&self, limit: Duration) -> bool {
        let mut inner = self.inner();
        if inner.stage == Stage::Open {
            inner.stage = Stage::Closed;
        }
        self.filled.notify_one();
        let lost = self.lost.total();
        let waited = self
            .settled
            .wait_timeout_while(inner, limit, |inner| inner.stage != Stage::Ended);
        let inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        inner.stage == Stage::Ended && self.lost.total() == lost
    }

    /// Waits until nothing waits, at most so long; says whether it came to that.
    pub(super) fn flush(&self, limit: Duration) -> bool {
        let unsettled = |inner: &mut Inner| {
            let waits = !inner.records.is_empty() || inner.held > 0;
            (waits || inner.gap.is_some() || inner.is_telling) && inner.stage != Stage::Ended
        };
        let waited = self
            .settled
            .wait_timeout_while(self.inner(), limit, unsettled);
        let (mut inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !unsettled(&mut inner)
    }

    pub(super) fn status(&self) -> AuditStatus {
        let inner = self.inner();
        let lost = self.lost.total();
        AuditStatus {
            failing: inner.failing,
            written: self.written.total(),
            write_failures: self.failed_writes.load(Ordering::Relaxed) + lost,
            lost,
            waiting: inner.records.len() + inner.held,
            ..AuditStatus::default()
        }
    }
}

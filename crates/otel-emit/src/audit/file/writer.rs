//! The thread that writes.

use super::SyncPolicy;
use super::error::AuditError;
use super::pages::Pages;
use super::queue::Queue;
use super::tail::Tail;
use crate::audit::chain::{Chain, Sealed};
use crate::audit::kind::RecordKind;
use crate::audit::record::{AuditGap, AuditPolicy, Record};
use crate::audit::time::WallTime;
use evenkeel_core::Clock;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Records that are written together, at most.
const BATCH: usize = 256;
/// The first pause after a failed attempt; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest one.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How often the last hash is told, while there is anything new.
const CHECKPOINT: Duration = Duration::from_secs(300);

/// Seals records and writes them, until its queue is closed and empty.
///
/// A record has its place in the log from the moment it is sealed. After a failure what
/// has been sealed is tried again, unchanged, as often as it takes; where a part of it is
/// found on the disk, the rest.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Arc<Queue>,
    pages: Pages,
    chain: Chain,
    sync: SyncPolicy,
    clock: Arc<dyn Clock>,
    /// Taken from the queue; they get their places when it is known where the log stands.
    taken: VecDeque<Record>,
    /// Sealed, and not known to be written.
    sealed: VecDeque<Sealed>,
    /// The configuration that the last record named, for records of the log's own.
    policy: Option<AuditPolicy>,
    pause: Duration,
    synced: Instant,
    told: Instant,
    /// The number that the last checkpoint came before.
    told_to: u64,
    /// Whether the folder is to be looked at before anything is written.
    is_lost: bool,
    /// Whether it has ever been seen where the log stands.
    is_found: bool,
}

impl Writer {
    pub(super) fn new(
        queue: Arc<Queue>,
        pages: Pages,
        chain: Chain,
        sync: SyncPolicy,
        clock: Arc<dyn Clock>,
        opened: Result<(), AuditError>,
    ) -> Self {
        let now = now();
        let mut writer = Self {
            queue,
            pages,
            told_to: chain.next_seq(),
            chain,
            sync,
            clock,
            taken: VecDeque::new(),
            sealed: VecDeque::new(),
            policy: None,
            pause: FIRST_PAUSE,
            synced: now,
            told: now,
            is_lost: false,
            is_found: opened.is_ok(),
        };
        if let Err(error) = opened {
            writer.fail(&error);
        }
        writer
    }

    /// Writes until there is nothing more to come.
    pub(super) fn run(mut self) {
        loop {
            let taken = self.queue.take(BATCH, self.patience());
            self.take(taken.records);
            if let Some(gap) = taken.gap {
                self.tell_of(gap);
            }
            while let Err(error) = self.write() {
                self.fail(&error);
                let pause = self.pause;
                self.pause = (pause * 2).min(LONGEST_PAUSE);
                if self.queue.rest(pause) && self.write().is_err() {
                    // Asked to end, and the disk does not do: once more was tried.
                    return self.give_up();
                }
            }
            self.pause = FIRST_PAUSE;
            if let Some(since) = self.queue.wrote() {
                let lasted = self.clock.now().duration_since(since).unwrap_or_default();
                tracing::info!(
                    event = "audit_write_recovered",
                    failed_for_s = lasted.as_secs_f64(),
                    "the audit log is written again"
                );
            }
            if taken.is_closed {
                break;
            }
            if now().duration_since(self.told) >= CHECKPOINT {
                self.checkpoint();
            }
        }
        self.checkpoint();
        self.queue.end(&[]);
    }

    /// How long nothing needs to be done unless something comes.
    fn patience(&self) -> Option<Duration> {
        if self.is_lost {
            // It could not be opened when the process began, and nothing may ever come.
            return Some(FIRST_PAUSE);
        }
        let since = |then| now().saturating_duration_since(then);
        match self.sync {
            SyncPolicy::Interval(every) if self.pages.is_dirty() => {
                Some(every.saturating_sub(since(self.synced)))
            }
            _ if self.told_to < self.chain.next_seq() => {
                Some(CHECKPOINT.saturating_sub(since(self.told)))
            }
            _ => None,
        }
    }

    fn take(&mut self, records: VecDeque<Box<Record>>) {
        if let Some(last) = records.back() {
            self.policy = Some(last.policy.clone());
        }
        self.taken.extend(records.into_iter().map(|record| *record));
    }

    /// Tells of what was lost, after what came before it.
    fn tell_of(&mut self, gap: AuditGap) {
        let lost = gap.lost.total();
        tracing::error!(event = "audit_records_lost", lost);
        // Nothing is lost before something has been taken.
        if let Some(policy) = self.policy.clone() {
            let mut record = Record::new(RecordKind::Gap, WallTime(self.clock.now()), policy);
            record.gap = Some(gap);
            self.taken.push_back(record);
        }
    }

    fn seal(&mut self) {
        for record in self.taken.drain(..) {
            let kind = record.kind;
            match self.chain.seal(record) {
                Ok(sealed) => self.sealed.push_back(sealed),
                Err(error) => {
                    self.queue.lost.add(kind);
                    let kind = kind.as_str();
                    tracing::error!(event = "audit_record_unwritable", kind, %error);
                }
            }
        }
    }

    /// Writes what was taken, and syncs where that is due.
    fn write(&mut self) -> Result<(), AuditError> {
        if self.is_lost {
            let (tail, odd) = self.pages.open()?;
            if let Some(odd) = odd.filter(|_| !self.is_found) {
                odd.tell();
            }
            self.find(tail);
            self.is_lost = false;
        }
        self.seal();
        while !self.sealed.is_empty() {
            self.write_page()?;
        }
        let is_due = match self.sync {
            SyncPolicy::Always => true,
            SyncPolicy::Interval(every) => {
                self.pages.is_dirty() && now().saturating_duration_since(self.synced) >= every
            }
            SyncPolicy::Never => false,
        };
        if is_due {
            self.pages.sync()?;
            self.synced = now();
        }
        Ok(())
    }

    /// Writes as much of what is sealed as the file takes.
    fn write_page(&mut self) -> Result<(), AuditError> {
        let time = self.clock.now();
        let (first, length) = (self.sealed[0].seq, self.sealed[0].line.len());
        if !self.pages.takes(length, time) {
            self.turn(first)?;
        }
        let room = self.pages.room();
        let mut lines = Vec::new();
        let mut count = 0;
        for sealed in &self.sealed {
            if count > 0 && lines.len() + sealed.line.len() > room {
                break;
            }
            lines.extend_from_slice(&sealed.line);
            count += 1;
        }
        self.pages.write(&lines, time)?;
        for sealed in self.sealed.drain(..count) {
            self.queue.written.add(sealed.kind);
        }
        Ok(())
    }

    /// Begins another file.
    fn turn(&mut self, first: u64) -> Result<(), AuditError> {
        if self.pages.is_open() {
            if self.sync != SyncPolicy::Never {
                self.pages.sync()?;
            }
            tracing::debug!(event = "audit_file_ended", file = %self.pages.path().display());
        }
        self.pages.turn(first)
    }

    /// Leaves out what is on the disk already: an attempt that failed may have written
    /// a part.
    fn find(&mut self, tail: Option<Tail>) {
        let is_tail = |s: &Sealed| tail.is_some_and(|t| (t.seq, t.hash) == (s.seq, s.hash));
        if let Some(last) = self.sealed.iter().position(is_tail) {
            for sealed in self.sealed.drain(..=last) {
                self.queue.written.add(sealed.kind);
            }
        }
        if !std::mem::replace(&mut self.is_found, true)
            && let Some(tail) = tail
        {
            self.chain = self.chain.clone().after(tail.seq, tail.hash);
            self.told_to = self.chain.next_seq();
        }
    }

    fn fail(&mut self, error: &AuditError) {
        self.pages.leave();
        self.is_lost = true;
        let kind = error.kind();
        if self.queue.failed(self.clock.now(), kind) {
            tracing::error!(
                event = "audit_write_failed",
                kind = kind.as_str(),
                %error,
                "the audit log cannot be written; it is tried again"
            );
        }
    }

    /// Tells where the log stands: published, it shows that nothing was cut off its end.
    fn checkpoint(&mut self) {
        self.told = now();
        let next = self.chain.next_seq();
        if next == self.told_to {
            return;
        }
        self.told_to = next;
        tracing::info!(
            event = "audit_checkpoint",
            seq = next - 1,
            hash = %self.chain.last_hash(),
            file = %self.pages.path().display(),
        );
    }

    fn give_up(self) {
        let taken = self.taken.iter().map(|record| record.kind);
        let unwritten: Vec<RecordKind> = self.sealed.iter().map(|s| s.kind).chain(taken).collect();
        let lost = self.queue.end(&unwritten);
        tracing::error!(
            event = "audit_records_lost",
            lost,
            "the program ends, and the audit log cannot be written"
        );
    }
}

/// The disk's time is real, whatever a test does with that of the runtime.
fn now() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "a thread beside the runtime, which waits for the disk"
    )]
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::super::FileSinkConfig;
    use super::*;
    use crate::audit::hash::Hash;
    use crate::audit::verify::Verifier;
    use evenkeel_core::SystemClock;
    use std::path::Path;

    fn writer(folder: &Path) -> Writer {
        let mut pages = Pages::new(&FileSinkConfig::new(folder.to_owned(), "gw-1"));
        pages.open().unwrap();
        let chain = Chain::new("gw-1", true);
        let queue = Arc::new(Queue::new(8));
        let clock = Arc::new(SystemClock);
        Writer::new(queue, pages, chain, SyncPolicy::Always, clock, Ok(()))
    }

    fn records(count: usize) -> VecDeque<Box<Record>> {
        let policy = AuditPolicy::new(None, Hash::ZERO);
        let time = WallTime(SystemClock.now());
        let record = Record::new(RecordKind::PolicyChange, time, policy);
        (0..count).map(|_| Box::new(record.clone())).collect()
    }

    /// An attempt that failed may have written all, a part or nothing of what it was given.
    #[test]
    fn after_a_failure_what_is_there_is_not_written_again() {
        let lines: Vec<Vec<u8>> = {
            let mut chain = Chain::new("gw-1", true);
            let seal = |r: Box<Record>| chain.seal(*r).unwrap().line;
            records(3).into_iter().map(seal).collect()
        };
        let (length, all) = (lines.concat().len(), 3);
        for part in [0, 1, length / 2, length - 1, length] {
            let folder = tempfile::tempdir().unwrap();
            let mut writer = writer(folder.path());
            writer.take(records(all));
            writer.seal();
            let sealed: Vec<u8> = writer.sealed.iter().flat_map(|s| s.line.clone()).collect();
            let file = folder.path().join("audit-000000000000.jsonl");
            std::fs::write(&file, &sealed[..part.min(sealed.len())]).unwrap();
            let gone = AuditError::Gone { path: file.clone() };
            writer.fail(&gone);
            writer.write().unwrap();
            writer.take(records(1));
            writer.write().unwrap();
            let mut verifier = Verifier::new();
            let text = std::fs::read(&file).unwrap();
            verifier.read("log", &text[..]).unwrap();
            let verdict = verifier.finish();
            assert!(verdict.is_sound(), "{part}: {:?}", verdict.faults);
            assert_eq!(verdict.records, 4, "{part}");
            assert_eq!(writer.queue.written.total(), 4, "{part}");
        }
    }
}

//! A log in files of one folder, written by a thread of its own.

mod error;
mod folder;
mod pages;
mod queue;
mod tail;
mod writer;

pub use self::error::AuditError;
pub use self::folder::audit_files;

use self::pages::Pages;
use self::queue::Queue;
use self::writer::Writer;
use super::chain::Chain;
use super::kind::{KindCounts, RecordKind};
use super::record::Record;
use super::sink::{AuditSink, AuditStatus};
use evenkeel_core::{Clock, SystemClock};
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Records that may wait to be written: at the thousand a second that one gateway
/// does on a small machine, what comes in eight seconds; about 8 MB.
const WAITING: usize = 8_192;

/// How a [`FileSink`] writes.
#[derive(Debug, Clone)]
pub struct FileSinkConfig {
    /// The folder of the files. It is made where it is not there.
    pub folder: PathBuf,
    /// Names this process in its records.
    pub instance: String,
    /// A file that would grow beyond so many bytes is left for a new one.
    pub rotate_bytes: NonZeroU64,
    /// A file whose first record is so old is left for a new one when there is
    /// something to write.
    pub rotate_after: Duration,
    /// So many files are kept, the one that is written included; none: all of them.
    pub keep_files: Option<NonZeroU32>,
    /// When the disk is asked to have it.
    pub sync: SyncPolicy,
    /// Whether records carry the hashes that hold their order.
    pub is_chained: bool,
    /// What happens to calls while nothing can be written.
    pub on_failure: OnFailure,
}

impl FileSinkConfig {
    /// The defaults for a folder: files of 64 MiB or a day, all kept, on the disk within
    /// a second, chained, calls going on when it cannot be written.
    pub fn new(folder: PathBuf, instance: &str) -> Self {
        Self {
            folder,
            instance: instance.to_owned(),
            rotate_bytes: const { NonZeroU64::new(64 * 1024 * 1024).unwrap() },
            rotate_after: Duration::from_secs(86_400),
            keep_files: None,
            sync: SyncPolicy::Interval(Duration::from_secs(1)),
            is_chained: true,
            on_failure: OnFailure::Open,
        }
    }
}

/// When what was written is forced to the disk. Without it a crash of the process loses
/// nothing that was written, one of the machine may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPolicy {
    /// After each write; records that come together share one.
    Always,
    /// At most so long after a write.
    Interval(Duration),
    /// When the system sees fit.
    Never,
}

/// What happens to calls while records cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// They go on. What finds no room in the queue is lost, counted, and told of by a
    /// record when there is room again.
    Open,
    /// No new ones are taken, so that those under way find room.
    Closed,
}

/// Writes records to files. Dropping it ends its thread when it has written what it
/// was given; [`FileSink::close`] waits for that.
#[derive(Debug)]
pub struct FileSink {
    queue: Arc<Queue>,
    is_closed_on_failure: bool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl FileSink {
    /// Takes the folder for this process alone, finds where its log stands, and goes on
    /// from there. Blocks for some reads.
    ///
    /// # Errors
    /// [`AuditError::InUse`] where another process has it. Where it cannot be written,
    /// with [`OnFailure::Closed`], what the system says, or [`AuditError::LaterVersion`];
    /// with [`OnFailure::Open`] it is told to the log, and tried again while calls go on.
    pub fn open(config: &FileSinkConfig) -> Result<Self, AuditError> {
        Self::with(config, WAITING, Arc::new(SystemClock))
    }

    /// The same with room for so many waiting records, by another clock.
    ///
    /// # Errors
    /// As [`FileSink::open`].
    pub fn with(
        config: &FileSinkConfig,
        waiting: usize,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, AuditError> {
        let is_closed_on_failure = config.on_failure == OnFailure::Closed;
        let chain = Chain::new(&config.instance, config.is_chained);
        let mut pages = Pages::new(config);
        let queue = Arc::new(Queue::new(waiting));
        let (chain, opened) = match pages.open() {
            Ok((tail, odd)) => {
                if let Some(odd) = odd {
                    odd.tell();
                }
                let chain = match tail {
                    Some(tail) => chain.after(tail.seq, tail.hash),
                    None => chain,
                };
                (chain, Ok(()))
            }
            Err(error @ AuditError::InUse { .. }) => return Err(error),
            Err(error) if is_closed_on_failure => return Err(error),
            Err(error) => (chain, Err(error)),
        };
        let writer = Writer::new(queue.clone(), pages, chain, config.sync, clock, opened);
        let thread = std::thread::Builder::new()
            .name("evenkeel-audit".to_owned())
            .spawn(move || writer.run())
            .map_err(|source| AuditError::Thread { source })?;
        Ok(Self {
            queue,
            is_closed_on_failure,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Waits until what has been appended so far is written, at most so long. Says
    /// whether it is. Blocks.
    pub fn flush(&self, limit: Duration) -> bool {
        self.queue.flush(limit)
    }

    /// Lets the thread write what it was given, and waits for its end, at most so long.
    /// Says whether everything was written. Blocks.
    pub fn close(&self, limit: Duration) -> bool {
        let written = self.queue.close(limit);
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if written && let Some(thread) = thread.take() {
            // It has nothing left to do, and panics are its own.
            return thread.join().is_ok();
        }
        written
    }

    /// Records that this process has written, of a kind.
    pub fn written(&self, kind: RecordKind) -> u64 {
        self.queue.written.of(kind)
    }

    /// Records that this process has lost, by kind, those already told of included.
    pub fn lost(&self) -> &KindCounts {
        &self.queue.lost
    }
}

impl AuditSink for FileSink {
    fn append(&self, record: Box<Record>) {
        self.queue.push(record);
    }

    fn status(&self) -> AuditStatus {
        AuditStatus {
            is_closed_on_failure: self.is_closed_on_failure,
            written_by_kind: RecordKind::ALL
                .map(|kind| (kind, self.written(kind)))
                .to_vec(),
            ..self.queue.status()
        }
    }

    fn admits_calls(&self) -> bool {
        !self.is_closed_on_failure || self.queue.is_sound()
    }
}

impl Drop for FileSink {
    fn drop(&mut self) {
        self.queue.close(Duration::ZERO);
    }
}

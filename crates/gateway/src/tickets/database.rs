//! The database of tickets: one file, one thread that owns the connection.

use super::error::{Fault, OpenError};
use super::timeline::Timeline;
use evenkeel_core::TicketId;
use rusqlite::{Connection, OpenFlags};
use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// Marks the file as ours ("evkt"); SQLite keeps it in the header.
const APPLICATION_ID: i64 = 0x6576_6b74;
/// The form of the tables below.
const VERSION: i64 = 1;
/// Jobs that share one commit, and with it one wait for the disk.
const BATCH: usize = 64;

/// Times are milliseconds of the [`Timeline`], except `created`, which is what
/// the calendar clock said.
const TABLES: &str = "
CREATE TABLE tickets (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL,
    caller TEXT NOT NULL,
    idempotency_key TEXT,
    fingerprint BLOB NOT NULL,
    request TEXT NOT NULL,
    context TEXT NOT NULL,
    escalated INTEGER NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    events INTEGER NOT NULL,
    created INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    due INTEGER,
    expires INTEGER NOT NULL,
    max_age INTEGER NOT NULL,
    why TEXT,
    message TEXT,
    answer TEXT
) STRICT;
CREATE UNIQUE INDEX tickets_by_key ON tickets (caller, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX tickets_open ON tickets (role, due)
    WHERE state IN ('queued', 'escalated');
CREATE INDEX tickets_ended ON tickets (changed)
    WHERE state NOT IN ('queued', 'escalated');
CREATE TABLE outbox (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    created INTEGER NOT NULL,
    due INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX outbox_due ON outbox (due);
";

/// What the thread holds.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) db: Connection,
    /// Tickets given out and not yet back. They are due again when the process dies.
    pub(super) claimed: HashSet<TicketId>,
}

/// Tells whoever asked for a job how it ended, once it is on the disk.
type Reply = Box<dyn FnOnce(Result<(), Fault>) + Send>;
type Job = Box<dyn FnOnce(&mut Desk) -> Reply + Send>;

/// The thread's front. Dropped, it lets the thread finish what it was given.
pub(super) struct Database {
    jobs: Mutex<Option<Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}

impl Database {
    /// Opens the file, makes it where it is not there, and takes it for this
    /// process alone.
    pub(super) fn open(file: &Path, timeline: Timeline) -> Result<Self, OpenError> {
        let db = connect(file).map_err(|fault| OpenError::of(file, fault))?;
        prepare(&db, file, timeline.now())?;
        let (jobs, queue) = channel();
        let desk = Desk {
            db,
            claimed: HashSet::new(),
        };
        let thread = std::thread::Builder::new()
            .name("evenkeel-tickets".to_owned())
            .spawn(move || serve(desk, &queue))
            .map_err(|source| OpenError::Thread { source })?;
        Ok(Self {
            jobs: Mutex::new(Some(jobs)),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Does `job` in a transaction; what it changed is on the disk when this
    /// returns. Where it fails nothing of it is.
    ///
    /// Dropping the future does not undo the job.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Desk) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |desk| {
            let done = saved(desk, job);
            Box::new(move |committed| {
                // Nobody may wait any more.
                let _ = answer.send(committed.and(done));
            })
        });
        {
            let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            let sent = jobs.as_ref().map(|jobs| jobs.send(job));
            if !matches!(sent, Some(Ok(()))) {
                return Err(Fault::Closed);
            }
        }
        answered.await.unwrap_or(Err(Fault::Closed))
    }

    /// Lets the thread finish what it was given, and waits for it. Blocks.
    pub(super) fn close(&self) {
        drop(
            self.jobs
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// A job within a savepoint of its own, so that its failure leaves what others
/// of the same commit did.
fn saved<T>(desk: &mut Desk, job: impl FnOnce(&mut Desk) -> Result<T, Fault>) -> Result<T, Fault> {
    desk.db.execute_batch("SAVEPOINT job")?;
    let done = job(desk);
    if done.is_ok() {
        desk.db.execute_batch("RELEASE job")?;
    } else if !desk.db.is_autocommit() {
        desk.db.execute_batch("ROLLBACK TO job; RELEASE job")?;
    }
    done
}

/// Does jobs until nobody can ask for more.
fn serve(mut desk: Desk, queue: &Receiver<Job>) {
    while let Ok(first) = queue.recv() {
        let mut next = Some(first);
        let mut replies = Vec::new();
        let begun = desk.db.execute_batch("BEGIN IMMEDIATE");
        while let Some(job) = next {
            replies.push(job(&mut desk));
            // A full disk may take the whole transaction back, with what
            // earlier jobs did.
            let lost = desk.db.is_autocommit();
            next = (!lost && replies.len() < BATCH)
                .then(|| queue.try_recv().ok())
                .flatten();
        }
        let committed = begun.and_then(|()| {
            if desk.db.is_autocommit() {
                return Err(full());
            }
            desk.db.execute_batch("COMMIT")
        });
        if committed.is_err() && !desk.db.is_autocommit() {
            let _ = desk.db.execute_batch("ROLLBACK");
        }
        let committed = committed.map_err(Fault::from);
        for reply in replies {
            reply(committed.clone());
        }
    }
}

/// The error of a transaction that SQLite took back by itself.
fn full() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL), None)
}

/// Makes the file where it is not there, for its owner alone: it holds what callers said.
/// SQLite makes those beside it with the same mode. What stands in the way it says better.
fn make(file: &Path) {
    let mut options = std::fs::OpenOptions::new();
    options.create_new(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _ = options.open(file);
}

fn connect(file: &Path) -> Result<Connection, Fault> {
    make(file);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(file, flags)?;
    db.busy_timeout(std::time::Duration::ZERO)?;
    // The lock is held from the first access on, by whatever else this process
    // does, and is gone when the process is.
    db.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.execute_batch("BEGIN EXCLUSIVE; COMMIT")?;
    Ok(db)
}

/// Checks what is there, or makes the tables.
fn prepare(db: &Connection, file: &Path, now: i64) -> Result<(), OpenError> {
    let at = |fault: rusqlite::Error| OpenError::of(file, fault.into());
    let found: String = db
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(at)?;
    if found != "ok" {
        return Err(OpenError::Corrupt {
            file: file.to_owned(),
            found,
        });
    }
    let pragma = |name: &str| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let tables: i64 = db
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(at)?;
    if tables > 0 {
        let (application, version) = (
            pragma("application_id").map_err(at)?,
            pragma("user_version").map_err(at)?,
        );
        if (application, version) != (APPLICATION_ID, VERSION) {
            return Err(OpenError::Foreign {
                file: file.to_owned(),
                application,
                version,
            });
        }
        return restart(db, now).map_err(at);
    }
    db.execute_batch(&format!(
        "BEGIN; {TABLES} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; COMMIT"
    ))
    .map_err(at)
}

/// What was waited for may have come while nobody looked: everything open is
/// due, and no clock that was set back keeps anything longer than its age.
fn restart(db: &Connection, now: i64) -> Result<(), rusqlite::Error> {
    db.execute(
        "UPDATE tickets SET due = min(due, ?1), expires = min(expires, ?1 + max_age)
         WHERE state IN ('queued', 'escalated') AND due IS NOT NULL",
        [now],
    )?;
    db.execute("UPDATE outbox SET due = min(due, ?1)", [now])?;
    db.execute("UPDATE tickets SET changed = min(changed, ?1)", [now])?;
    Ok(())
}

//! Calls that found nothing left, kept in the state folder until something
//! answers them, and whoever is told of them.

pub(crate) mod address;
pub(crate) mod admin;
pub(crate) mod client;
mod database;
mod error;
mod outbox;
mod record;
mod replay;
mod store;
mod timeline;
mod webhook;
mod written;

#[cfg(test)]
mod tests;

pub use error::OpenError;

use self::database::Database;
use self::error::Fault;
use self::record::Record;
use self::timeline::Timeline;
use crate::webhook::Webhook;
use evenkeel_core::{
    Accepted, ChatRequest, Event, EventKind, Observer, SystemClock, TicketError, TicketId,
    TicketState,
};
use evenkeel_otel_emit::audit::AuditSink;
use evenkeel_roster::TicketsConfig;
use rusqlite::params;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// The file in the state folder.
const FILE: &str = "tickets.db";
/// How often tickets past their keeping are deleted. The first time after the
/// process has run so long: a clock that is wrong at its start deletes nothing.
const PURGE_EVERY: Duration = Duration::from_secs(3_600);

/// The tickets of one state folder: a store for the router, and what clients and
/// operators are shown.
///
/// One process at a time works with a folder. What a caller has been told is on
/// the disk; what a webhook is to be told is there too, in the same transaction.
#[derive(Debug)]
pub struct Tickets {
    database: Database,
    timeline: Timeline,
    /// The name of evenkeel's object in an answer.
    meta_key: String,
    keep: Duration,
    webhook: Option<Webhook>,
    observer: Arc<dyn Observer>,
    /// None where no audit log is written.
    audit: Option<Arc<dyn AuditSink>>,
    /// Rung where a ticket may be due in another way than by time.
    bell: Notify,
    /// Rung where something is to be told.
    outbox: Notify,
}

impl Tickets {
    /// Opens the tickets in `folder`, which is made where it is not there.
    /// `meta_key` names evenkeel's object in answers. Blocks for the disk.
    ///
    /// # Errors
    /// [`OpenError`]: the folder cannot be used, or another process uses it.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn open(
        folder: &Path,
        config: &TicketsConfig,
        meta_key: &str,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, OpenError> {
        std::fs::create_dir_all(folder).map_err(|source| OpenError::Folder {
            folder: folder.to_owned(),
            source,
        })?;
        let timeline = Timeline::begin(&SystemClock);
        let webhook = config.webhook.as_ref().map(Webhook::new).transpose();
        let webhook = webhook.map_err(|error| OpenError::Webhook {
            message: error.to_string(),
        })?;
        Ok(Self {
            database: Database::open(&folder.join(FILE), timeline)?,
            timeline,
            meta_key: meta_key.to_owned(),
            keep: config.keep,
            webhook,
            observer,
            audit: None,
            bell: Notify::new(),
            outbox: Notify::new(),
        })
    }

    /// Gives out no tickets to be asked for while this log takes no calls: they stay due.
    #[must_use]
    pub fn with_audit(mut self, audit: Arc<dyn AuditSink>) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Tells the webhook what it is to be told, and deletes what has been kept
    /// long enough, until `stop`. What is not told by then is told next time.
    pub async fn run(&self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.post() => {}
            () = self.purge() => {}
        }
    }

    /// Ends the work of the database after what it was given. Blocks; to be called
    /// once the router is shut down.
    pub fn close(&self) {
        self.database.close();
    }

    async fn purge(&self) {
        loop {
            sleep(PURGE_EVERY).await;
            if let Err(error) = self.delete_old().await {
                tracing::warn!(event = "ticket_store_failed", doing = "purge", %error);
            }
        }
    }

    /// Deletes tickets that have been at their end for `tickets.keep_ms`.
    async fn delete_old(&self) -> Result<usize, Fault> {
        let before = self
            .timeline
            .now()
            .saturating_sub(timeline::whole_ms(self.keep));
        let job = move |desk: &mut database::Desk| {
            let sql =
                "DELETE FROM tickets WHERE state NOT IN ('queued', 'escalated') AND changed < ?1";
            Ok(desk.db.execute(sql, params![before])?)
        };
        self.database.run(job).await
    }

    /// Open tickets that nobody works on, because their role is none of `roles`: a
    /// warning for each such role.
    pub async fn strays(&self, roles: &[String]) -> Vec<String> {
        match self.counts().await {
            Ok(counts) => {
                let mut strays: BTreeMap<String, u64> = BTreeMap::new();
                for (role, state, count) in counts {
                    if state.is_open() && !roles.contains(&role) {
                        *strays.entry(role).or_default() += count;
                    }
                }
                let told = strays.iter().map(|(role, count)| {
                    format!(
                        "role `{role}` is gone and has {count} open tickets: nobody works on them; \
                         bring the role back, or answer or drop them at /admin/tickets"
                    )
                });
                told.collect()
            }
            Err(error) => {
                tracing::warn!(event = "ticket_store_failed", doing = "look for strays", %error);
                Vec::new()
            }
        }
    }

    /// The ticket of that id, if it is `caller`'s; of anybody's where that is none.
    pub(crate) async fn find(
        &self,
        id: TicketId,
        caller: Option<String>,
    ) -> Result<Option<Record>, Fault> {
        let job = move |desk: &mut database::Desk| Record::find(desk, &id);
        let found = self.database.run(job).await?;
        Ok(found.filter(|record| caller.is_none_or(|caller| caller == record.caller)))
    }

    /// The ticket that a caller's idempotency key has made, if it has.
    pub(crate) async fn known(
        &self,
        caller: Option<&str>,
        key: &str,
        role: &str,
        request: &ChatRequest,
    ) -> Result<Option<Accepted>, TicketError> {
        let (caller, key) = (caller.unwrap_or_default().to_owned(), key.to_owned());
        let job = move |desk: &mut database::Desk| Record::by_key(desk, &caller, &key);
        let Some(record) = self.database.run(job).await? else {
            return Ok(None);
        };
        let request = written::write_request(request, role)?;
        record.again(&written::fingerprint(&request)).map(Some)
    }

    /// At most `most` tickets, the newest first.
    pub(crate) async fn list(
        &self,
        state: Option<TicketState>,
        role: Option<String>,
        most: u32,
    ) -> Result<Vec<Record>, Fault> {
        let job = move |desk: &mut database::Desk| Record::list(desk, state, role.as_deref(), most);
        self.database.run(job).await
    }

    /// What a ticket asks, as the caller's JSON.
    pub(crate) async fn request(&self, id: TicketId) -> Result<Option<String>, Fault> {
        let job = move |desk: &mut database::Desk| {
            use rusqlite::OptionalExtension;
            let sql = "SELECT request FROM tickets WHERE id = ?1";
            let found = desk
                .db
                .query_row(sql, params![id.as_str()], |row| row.get(0));
            Ok(found.optional()?)
        };
        self.database.run(job).await
    }

    /// How many there are of each role in each state.
    pub(crate) async fn counts(&self) -> Result<Vec<(String, TicketState, u64)>, Fault> {
        let job = move |desk: &mut database::Desk| Record::counts(desk);
        self.database.run(job).await
    }

    fn has_webhook(&self) -> bool {
        self.webhook.is_some()
    }

    fn ring_outbox(&self) {
        if self.has_webhook() {
            self.outbox.notify_one();
        }
    }

    /// Tells of a change that a caller or an operator made.
    fn tell(&self, record: &Record) {
        self.observer.on(&Event {
            at: Instant::now().into_std(),
            call: None,
            kind: EventKind::TicketChanged {
                ticket: record.id.clone(),
                role: Arc::from(record.role.as_str()),
                state: record.state,
                request_id: record.request_id(),
                attempts: record.attempts,
                why: None,
            },
        });
    }
}

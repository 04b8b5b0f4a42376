//! What the webhook is to be told, until it has been.

use super::database::Desk;
use super::error::Fault;
use super::record::Record;
use super::timeline::until;
use evenkeel_core::{Clock, SystemClock, TicketId};
use rusqlite::params;
use serde_json::json;
use std::time::Duration;

/// One thing to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Post {
    /// The event's id, the same at every try.
    pub(super) id: String,
    /// Its kind: `ticket.` and the state.
    pub(super) kind: String,
    pub(super) body: String,
    /// Tries so far.
    pub(super) attempts: u32,
    /// Milliseconds since it was written.
    pub(super) age: i64,
}

/// Puts the ticket's present state into the outbox, in the transaction that
/// changed it: what is told has happened, and what has happened is told.
pub(super) fn post(desk: &Desk, ticket: &TicketId, now: i64) -> Result<(), Fault> {
    desk.db.execute(
        "UPDATE tickets SET events = events + 1 WHERE id = ?1",
        params![ticket.as_str()],
    )?;
    let Some(record) = Record::find(desk, ticket)? else {
        return Ok(());
    };
    let id = format!("evt_{ticket}_{}", record.events);
    let kind = format!("ticket.{}", record.state);
    let created = super::timeline::unix_ms(SystemClock.now()) / 1_000;
    let body = json!({
        "id": id,
        "type": kind,
        "created": created,
        "ticket": record.shown(),
    });
    desk.db.execute(
        "INSERT INTO outbox (id, kind, body, attempts, created, due) VALUES (?1, ?2, ?3, 0, ?4, ?4)",
        params![id, kind, body.to_string(), now],
    )?;
    Ok(())
}

/// At most `most` posts that are due and not among `under_way`, and when the next
/// one is.
pub(super) fn due(
    desk: &Desk,
    under_way: &[String],
    most: usize,
    now: i64,
) -> Result<(Vec<Post>, Option<Duration>), Fault> {
    let mut query = desk.db.prepare_cached(
        "SELECT id, kind, body, attempts, created, due FROM outbox ORDER BY due LIMIT ?1",
    )?;
    let limit = most + under_way.len() + 1;
    let mut rows = query.query(params![i64::try_from(limit).unwrap_or(i64::MAX)])?;
    let mut posts = Vec::new();
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        if under_way.contains(&id) {
            continue;
        }
        let due: i64 = row.get(5)?;
        if due > now || posts.len() == most {
            return Ok((posts, Some(until(due, now))));
        }
        posts.push(Post {
            id,
            kind: row.get(1)?,
            body: row.get(2)?,
            attempts: row.get(3)?,
            age: now.saturating_sub(row.get(4)?),
        });
    }
    Ok((posts, None))
}

/// The post was taken, or is given up.
pub(super) fn remove(desk: &Desk, id: &str) -> Result<(), Fault> {
    desk.db
        .execute("DELETE FROM outbox WHERE id = ?1", params![id])?;
    Ok(())
}

/// The post was not taken: it is tried again at `due`.
pub(super) fn put_off(desk: &Desk, id: &str, due: i64) -> Result<(), Fault> {
    desk.db.execute(
        "UPDATE outbox SET attempts = attempts + 1, due = ?2 WHERE id = ?1",
        params![id, due],
    )?;
    Ok(())
}

//! A ticket as it is kept, and how it is shown.

use super::database::Desk;
use super::error::Fault;
use evenkeel_core::{TicketId, TicketState};
use rusqlite::{OptionalExtension, Row, params};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Everything of a ticket but its request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub(crate) id: TicketId,
    pub(crate) role: String,
    pub(crate) caller: String,
    pub(crate) state: TicketState,
    pub(crate) attempts: u32,
    /// Unix milliseconds by the calendar clock.
    pub(crate) created: i64,
    /// None: nothing is asked any more.
    pub(crate) due: Option<i64>,
    pub(crate) escalated: bool,
    /// How many events it has had.
    pub(super) events: u32,
    pub(super) fingerprint: Vec<u8>,
    why: Option<String>,
    message: Option<String>,
    context: String,
    pub(crate) answer: Option<String>,
}

/// The columns of a [`Record`], in the order they are read.
const COLUMNS: &str = "id, role, caller, state, attempts, created, due, escalated, events, \
                       fingerprint, why, message, context, answer";

impl Record {
    fn read(row: &Row<'_>) -> Result<Result<Self, Fault>, rusqlite::Error> {
        let id: String = row.get(0)?;
        let state: String = row.get(3)?;
        let (Ok(named), Some(state)) = (TicketId::new(&id), TicketState::named(&state)) else {
            return Ok(Err(Fault::Unreadable {
                ticket: id,
                message: format!("its state is `{state}`"),
            }));
        };
        Ok(Ok(Self {
            id: named,
            role: row.get(1)?,
            caller: row.get(2)?,
            state,
            attempts: row.get(4)?,
            created: row.get(5)?,
            due: row.get(6)?,
            escalated: row.get(7)?,
            events: row.get(8)?,
            fingerprint: row.get(9)?,
            why: row.get(10)?,
            message: row.get(11)?,
            context: row.get(12)?,
            answer: row.get(13)?,
        }))
    }

    /// The ticket of that id.
    pub(super) fn find(desk: &Desk, id: &TicketId) -> Result<Option<Self>, Fault> {
        Self::one(desk, "id = ?1", params![id.as_str()])
    }

    /// The ticket of a caller's idempotency key.
    pub(super) fn by_key(desk: &Desk, caller: &str, key: &str) -> Result<Option<Self>, Fault> {
        Self::one(
            desk,
            "caller = ?1 AND idempotency_key = ?2",
            params![caller, key],
        )
    }

    fn one(
        desk: &Desk,
        which: &str,
        params: &[&dyn rusqlite::ToSql],
    ) -> Result<Option<Self>, Fault> {
        let sql = format!("SELECT {COLUMNS} FROM tickets WHERE {which}");
        let mut query = desk.db.prepare_cached(&sql)?;
        query.query_row(params, Self::read).optional()?.transpose()
    }

    /// At most `most` tickets, the newest first: of a state, of a role.
    pub(super) fn list(
        desk: &Desk,
        state: Option<TicketState>,
        role: Option<&str>,
        most: u32,
    ) -> Result<Vec<Self>, Fault> {
        let sql = format!(
            "SELECT {COLUMNS} FROM tickets
             WHERE (?1 IS NULL OR state = ?1) AND (?2 IS NULL OR role = ?2)
             ORDER BY number DESC LIMIT ?3"
        );
        let mut query = desk.db.prepare_cached(&sql)?;
        let state = state.map(TicketState::as_str);
        let rows = query.query_map(params![state, role, most], Self::read)?;
        rows.map(|row| row?).collect()
    }

    /// The caller's id of the request it was made of.
    pub(crate) fn request_id(&self) -> Option<Arc<str>> {
        let context: Value = serde_json::from_str(&self.context).ok()?;
        context.get("request_id")?.as_str().map(Arc::from)
    }

    /// How many tickets there are of each role in each state.
    pub(super) fn counts(desk: &Desk) -> Result<Vec<(String, TicketState, u64)>, Fault> {
        let sql = "SELECT role, state, count(*) FROM tickets GROUP BY role, state";
        let mut query = desk.db.prepare_cached(sql)?;
        let mut rows = query.query([])?;
        let mut counts = Vec::new();
        while let Some(row) = rows.next()? {
            let (state, count): (String, i64) = (row.get(1)?, row.get(2)?);
            // A state that a later version has written is for that to count.
            if let Some(state) = TicketState::named(&state) {
                counts.push((row.get(0)?, state, count.unsigned_abs()));
            }
        }
        Ok(counts)
    }

    /// The ticket as callers, webhooks and operators see it.
    pub(crate) fn shown(&self) -> Value {
        let mut shown = Map::new();
        let mut put = |name: &str, value: Value| shown.insert(name.to_owned(), value);
        put("object", "evenkeel.ticket".into());
        put("id", self.id.as_str().into());
        put("role", self.role.as_str().into());
        put("state", self.state.as_str().into());
        put("attempts", self.attempts.into());
        put("created", (self.created / 1_000).into());
        if self.state.is_open() {
            put("retrying", self.due.is_some().into());
        }
        let context: Value = serde_json::from_str(&self.context).unwrap_or_default();
        for name in ["request_id", "session", "workflow"] {
            if let Some(value) = context.get(name) {
                put(name, value.clone());
            }
        }
        let answer = self.answer.as_deref().map(serde_json::from_str::<Value>);
        match answer {
            Some(Ok(answer)) => put("answer", answer),
            _ => put(
                "error",
                json!({ "code": self.why, "message": self.message }),
            ),
        };
        Value::Object(shown)
    }
}

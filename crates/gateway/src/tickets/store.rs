//! The router's side of the tickets.

use super::database::Desk;
use super::error::Fault;
use super::outbox;
use super::record::Record;
use super::timeline::{unix_ms, until, whole_ms};
use super::{Tickets, written};
use crate::answer::completion;
use async_trait::async_trait;
use evenkeel_core::{
    Accepted, Claimed, Clock, SystemClock, Ticket, TicketCause, TicketDraft, TicketError, TicketId,
    TicketOutcome, TicketState, TicketStore, Wanted,
};
use ring::rand::{SecureRandom, SystemRandom};
use rusqlite::{named_params, params};
use serde_json::Value;
use std::time::Duration;

/// When tickets are looked at again that may not be asked for, since their answers could not
/// be recorded.
const UNRECORDED: Duration = Duration::from_secs(1);

#[async_trait]
impl TicketStore for Tickets {
    async fn accept(&self, draft: TicketDraft) -> Result<Accepted, TicketError> {
        let request = written::write_request(&draft.request, &draft.role)?;
        let new = New {
            id: new_id()?,
            fingerprint: written::fingerprint(&request),
            context: written::write_context(&draft.context),
            request,
            created: unix_ms(SystemClock.now()),
            now: self.timeline.now(),
            draft,
        };
        let posts = self.has_webhook();
        let accepted = self
            .database
            .run(move |desk| new.insert(desk, posts))
            .await?;
        if accepted.is_new {
            self.bell.notify_one();
            self.ring_outbox();
        }
        Ok(accepted)
    }

    async fn claim(&self, role: &str, most: usize, wanted: Wanted) -> Result<Claimed, TicketError> {
        if self.audit.as_ref().is_some_and(|log| !log.admits_calls()) {
            return Ok(Claimed {
                tickets: Vec::new(),
                next: Some(UNRECORDED),
            });
        }
        let (role, now) = (role.to_owned(), self.timeline.now());
        let job = move |desk: &mut Desk| claim(desk, &role, most, wanted, now);
        Ok(self.database.run(job).await?)
    }

    async fn record(
        &self,
        ticket: &TicketId,
        outcome: TicketOutcome,
    ) -> Result<Option<TicketState>, TicketError> {
        let (id, now) = (ticket.clone(), self.timeline.now());
        let end = End::of(outcome, &self.meta_key, &id);
        let posts = self.has_webhook();
        let job = move |desk: &mut Desk| end.record(desk, &id, now, posts);
        let state = self.database.run(job).await?;
        // Only now: an outcome that was not recorded leaves the claim as it was.
        self.release(ticket).await;
        self.ring_outbox();
        Ok(state)
    }

    async fn release(&self, ticket: &TicketId) {
        let id = ticket.clone();
        let job = move |desk: &mut Desk| Ok(desk.claimed.remove(&id));
        // A store that is closed has no claims.
        let _ = self.database.run(job).await;
    }

    async fn changed(&self) {
        self.bell.notified().await;
    }
}

/// 128 random bits: who does not know an id cannot guess it.
fn new_id() -> Result<TicketId, TicketError> {
    let mut bits = [0_u8; 16];
    SystemRandom::new().fill(&mut bits).map_err(|_| {
        let error = std::io::Error::other("the system gives no random bytes");
        TicketError::Store(std::sync::Arc::new(error))
    })?;
    let id = format!("tkt_{:032x}", u128::from_be_bytes(bits));
    Ok(TicketId::new(&id).expect("letters, digits and an underscore"))
}

/// A ticket that is being accepted.
struct New {
    id: TicketId,
    request: String,
    fingerprint: Vec<u8>,
    context: String,
    created: i64,
    now: i64,
    draft: TicketDraft,
}

impl New {
    fn insert(self, desk: &mut Desk, posts: bool) -> Result<Accepted, Fault> {
        let draft = &self.draft;
        let caller = draft.context.caller.as_deref().unwrap_or_default();
        let key = draft.context.idempotency_key.as_deref();
        if let Some(key) = key
            && let Some(known) = Record::by_key(desk, caller, key)?
        {
            return known.again(&self.fingerprint).map_err(Fault::Ticket);
        }
        self.check_room(desk)?;
        let state = if draft.escalated {
            TicketState::Escalated
        } else {
            TicketState::Queued
        };
        let max_age = whole_ms(draft.max_age);
        let mut insert = desk.db.prepare_cached(
            "INSERT INTO tickets (id, role, caller, idempotency_key, fingerprint, request, context,
                 escalated, state, attempts, events, created, changed, due, expires, max_age, why, message)
             VALUES (:id, :role, :caller, :key, :fingerprint, :request, :context,
                 :escalated, :state, 0, 0, :created, :now, :due, :expires, :max_age, :why, :message)",
        )?;
        insert.execute(named_params! {
            ":id": self.id.as_str(),
            ":role": &*draft.role,
            ":caller": caller,
            ":key": key,
            ":fingerprint": self.fingerprint,
            ":request": self.request,
            ":context": self.context,
            ":escalated": draft.escalated,
            ":state": state.as_str(),
            ":created": self.created,
            ":now": self.now,
            ":due": self.now.saturating_add(whole_ms(draft.wait)),
            ":expires": self.now.saturating_add(max_age),
            ":max_age": max_age,
            ":why": draft.cause.word,
            ":message": draft.cause.message,
        })?;
        drop(insert);
        if posts && draft.escalated {
            outbox::post(desk, &self.id, self.now)?;
        }
        Ok(Accepted {
            ticket: self.id,
            state,
            is_new: true,
        })
    }

    fn check_room(&self, desk: &Desk) -> Result<(), Fault> {
        let most = self.draft.max_open;
        let mut count = desk.db.prepare_cached(
            "SELECT count(*) FROM (SELECT 1 FROM tickets
             WHERE role = ?1 AND state IN ('queued', 'escalated') LIMIT ?2)",
        )?;
        let open: u32 = count.query_row(params![&*self.draft.role, most], |row| row.get(0))?;
        if open < most {
            return Ok(());
        }
        Err(Fault::Ticket(TicketError::TooMany {
            role: self.draft.role.clone(),
            open,
        }))
    }
}

impl Record {
    /// This ticket as the answer to a call of the same idempotency key.
    pub(super) fn again(&self, fingerprint: &[u8]) -> Result<Accepted, TicketError> {
        if self.fingerprint != fingerprint {
            return Err(TicketError::KeyReused {
                ticket: self.id.clone(),
            });
        }
        Ok(Accepted {
            ticket: self.id.clone(),
            state: self.state,
            is_new: false,
        })
    }
}

fn claim(
    desk: &mut Desk,
    role: &str,
    most: usize,
    wanted: Wanted,
    now: i64,
) -> Result<Claimed, Fault> {
    let mut claimed = Claimed::default();
    let mut query = desk.db.prepare_cached(
        "SELECT id, due, expires FROM tickets
         WHERE role = ?1 AND state IN ('queued', 'escalated') AND due IS NOT NULL
         ORDER BY due",
    )?;
    let mut rows = query.query(params![role])?;
    let mut taken = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, due, expires): (String, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let Ok(id) = TicketId::new(&id) else { continue };
        if desk.claimed.contains(&id) {
            continue;
        }
        let is_expired = expires <= now;
        if due > now || taken.len() == most {
            claimed.next = Some(until(due, now));
            break;
        }
        if wanted == Wanted::Due || is_expired {
            taken.push((id, is_expired));
        }
    }
    drop(rows);
    drop(query);
    for (id, is_expired) in taken {
        if let Some(ticket) = read(desk, &id, is_expired, now)? {
            desk.claimed.insert(id);
            claimed.tickets.push(ticket);
        }
    }
    Ok(claimed)
}

/// A ticket to be worked on; one that cannot be read is given up, so that it
/// stands in the way of no other.
fn read(desk: &Desk, id: &TicketId, is_expired: bool, now: i64) -> Result<Option<Ticket>, Fault> {
    let mut query = desk
        .db
        .prepare_cached("SELECT request, context, state, attempts FROM tickets WHERE id = ?1")?;
    let (request, context, state, attempts) = query.query_row(params![id.as_str()], |row| {
        let state: String = row.get(2)?;
        Ok((
            row.get::<_, String>(0)?,
            row.get::<_, String>(1)?,
            state,
            row.get(3)?,
        ))
    })?;
    let read = written::read_request(&request)
        .and_then(|request| Ok((request, written::read_context(&context)?)));
    match read {
        Ok((request, context)) => Ok(Some(Ticket {
            id: id.clone(),
            request,
            context,
            state: TicketState::named(&state).unwrap_or(TicketState::Queued),
            attempts,
            is_expired,
        })),
        Err(message) => {
            let cause = TicketCause {
                word: "unreadable",
                message,
            };
            End::GivenUp(cause).write(desk, id, now)?;
            Ok(None)
        }
    }
}

/// How a call for a ticket ended, ready to be written.
enum End {
    Answered(String),
    PutOff(i64, TicketCause),
    GivenUp(TicketCause),
}

impl End {
    fn of(outcome: TicketOutcome, meta_key: &str, id: &TicketId) -> Self {
        match outcome {
            TicketOutcome::Answered { response, meta } => {
                let answer = completion(*response, &meta, meta_key, id.as_str());
                Self::Answered(answer.to_string())
            }
            TicketOutcome::PutOff { wait, cause } => Self::PutOff(whole_ms(wait), cause),
            TicketOutcome::GivenUp { cause } => Self::GivenUp(cause),
        }
    }

    fn record(
        self,
        desk: &mut Desk,
        id: &TicketId,
        now: i64,
        posts: bool,
    ) -> Result<Option<TicketState>, Fault> {
        let tells = !matches!(self, Self::PutOff(..));
        if !self.write(desk, id, now)? {
            return Ok(None);
        }
        if posts && tells {
            outbox::post(desk, id, now)?;
        }
        Ok(Record::find(desk, id)?.map(|record| record.state))
    }

    /// True where the ticket was open, and now stands as this end says.
    fn write(self, desk: &Desk, id: &TicketId, now: i64) -> Result<bool, Fault> {
        let (due, cause, answer) = match self {
            Self::Answered(answer) => (None, None, Some(answer)),
            Self::PutOff(wait, cause) => (Some(now.saturating_add(wait)), Some(cause), None),
            Self::GivenUp(cause) => (None, Some(cause), None),
        };
        let mut update = desk.db.prepare_cached(
            "UPDATE tickets SET attempts = attempts + 1, changed = :now, due = :due,
                 answer = :answer, why = :why, message = :message,
                 state = CASE WHEN :answer IS NOT NULL THEN 'answered'
                              WHEN :due IS NULL AND state = 'queued' THEN 'failed'
                              ELSE state END
             WHERE id = :id AND state IN ('queued', 'escalated')",
        )?;
        let changed = update.execute(named_params! {
            ":id": id.as_str(),
            ":now": now,
            ":due": due,
            ":answer": answer,
            ":why": cause.as_ref().map(|cause| cause.word),
            ":message": cause.as_ref().map(|cause| cause.message.as_str()),
        })?;
        Ok(changed == 1)
    }
}

/// What became of an operator's or a caller's wish.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Changed {
    /// It is done.
    Done(Box<Record>),
    /// The ticket is in a state in which it cannot be done.
    Not(Box<Record>),
    /// There is no such ticket.
    Unknown,
}

/// What may be wished of a ticket.
#[derive(Debug, Clone)]
pub(crate) enum Wish {
    /// That nobody works on it any more.
    Drop,
    /// That it is tried again, from now on for its full time.
    Retry,
    /// That this is its answer.
    Answer(Value),
}

impl Tickets {
    /// Does to a ticket what is wished; where `caller` is one, only to a ticket of
    /// that caller.
    pub(crate) async fn change(
        &self,
        id: TicketId,
        caller: Option<String>,
        wish: Wish,
    ) -> Result<Changed, Fault> {
        let (now, posts) = (self.timeline.now(), self.has_webhook());
        let job = move |desk: &mut Desk| wish.apply(desk, &id, caller.as_deref(), now, posts);
        let changed = self.database.run(job).await?;
        if let Changed::Done(record) = &changed {
            self.bell.notify_one();
            self.ring_outbox();
            self.tell(record);
        }
        Ok(changed)
    }
}

impl Wish {
    fn apply(
        self,
        desk: &mut Desk,
        id: &TicketId,
        caller: Option<&str>,
        now: i64,
        posts: bool,
    ) -> Result<Changed, Fault> {
        let Some(record) = Record::find(desk, id)? else {
            return Ok(Changed::Unknown);
        };
        if caller.is_some_and(|caller| caller != record.caller) {
            return Ok(Changed::Unknown);
        }
        let may = match self {
            Self::Drop | Self::Answer(_) => record.state.is_open(),
            Self::Retry => record.state.is_open() || record.state == TicketState::Failed,
        };
        if !may {
            return Ok(Changed::Not(Box::new(record)));
        }
        let tells = !matches!(self, Self::Retry);
        self.write(desk, id, now)?;
        if posts && tells {
            outbox::post(desk, id, now)?;
        }
        Ok(match Record::find(desk, id)? {
            Some(record) => Changed::Done(Box::new(record)),
            None => Changed::Unknown,
        })
    }

    fn write(self, desk: &Desk, id: &TicketId, now: i64) -> Result<(), Fault> {
        let id = id.as_str();
        match self {
            Self::Drop => desk.db.execute(
                "UPDATE tickets SET state = 'dropped', due = NULL, changed = ?2 WHERE id = ?1",
                params![id, now],
            ),
            Self::Retry => desk.db.execute(
                "UPDATE tickets SET due = ?2, changed = ?2, expires = ?2 + max_age, attempts = 0,
                     state = CASE WHEN escalated THEN 'escalated' ELSE 'queued' END
                 WHERE id = ?1",
                params![id, now],
            ),
            Self::Answer(answer) => desk.db.execute(
                "UPDATE tickets SET state = 'answered', due = NULL, changed = ?2, answer = ?3,
                     why = NULL, message = NULL
                 WHERE id = ?1",
                params![id, now, answer.to_string()],
            ),
        }?;
        Ok(())
    }
}

//! A ticket store that forgets with the process, and fails on command.

use evenkeel_core::{
    Accepted, CallContext, ChatRequest, Claimed, Ticket, TicketCause, TicketDraft, TicketError,
    TicketId, TicketOutcome, TicketState, TicketStore, Wanted,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// One kept call.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) id: TicketId,
    role: Arc<str>,
    request: ChatRequest,
    pub(crate) context: CallContext,
    pub(crate) state: TicketState,
    pub(crate) attempts: u32,
    /// None: nothing is asked any more.
    due: Option<Instant>,
    expires: Instant,
    pub(crate) claimed: bool,
    pub(crate) cause: TicketCause,
    pub(crate) answers: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Shelf {
    rows: Mutex<Vec<Row>>,
    /// How many of the next calls fail.
    broken: Mutex<usize>,
    /// Most rows claimed at a time.
    most_claimed: Mutex<usize>,
    bell: Notify,
}

impl Shelf {
    pub(crate) fn rows(&self) -> Vec<Row> {
        self.rows.lock().unwrap().clone()
    }

    /// The only ticket.
    pub(crate) fn row(&self) -> Row {
        let rows = self.rows();
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows[0].clone()
    }

    pub(crate) fn most_claimed(&self) -> usize {
        *self.most_claimed.lock().unwrap()
    }

    /// Lets the next `times` calls fail.
    pub(crate) fn break_down(&self, times: usize) {
        *self.broken.lock().unwrap() = times;
    }

    /// Ends a ticket as an operator would.
    pub(crate) fn drop_ticket(&self, id: &TicketId) {
        let mut rows = self.rows.lock().unwrap();
        let row = rows.iter_mut().find(|row| row.id == *id).unwrap();
        row.state = TicketState::Dropped;
    }

    fn fail(&self) -> Result<(), TicketError> {
        let mut broken = self.broken.lock().unwrap();
        if *broken == 0 {
            return Ok(());
        }
        *broken -= 1;
        let below = std::io::Error::other("no space left on device");
        Err(TicketError::Full(Arc::new(below)))
    }
}

#[async_trait::async_trait]
impl TicketStore for Shelf {
    async fn accept(&self, draft: TicketDraft) -> Result<Accepted, TicketError> {
        self.fail()?;
        let mut rows = self.rows.lock().unwrap();
        let (key, caller) = (&draft.context.idempotency_key, &draft.context.caller);
        let known = rows.iter().find(|row| {
            key.is_some() && row.context.idempotency_key == *key && row.context.caller == *caller
        });
        if let Some(known) = known {
            return Ok(Accepted {
                ticket: known.id.clone(),
                state: known.state,
                is_new: false,
            });
        }
        let now = Instant::now();
        let id = TicketId::new(&format!("t{}", rows.len())).unwrap();
        let state = if draft.escalated {
            TicketState::Escalated
        } else {
            TicketState::Queued
        };
        rows.push(Row {
            id: id.clone(),
            role: draft.role,
            request: (*draft.request).clone(),
            context: draft.context,
            state,
            attempts: 0,
            due: Some(now + draft.wait),
            expires: now + draft.max_age,
            claimed: false,
            cause: draft.cause,
            answers: Vec::new(),
        });
        self.bell.notify_one();
        Ok(Accepted {
            ticket: id,
            state,
            is_new: true,
        })
    }

    async fn claim(&self, role: &str, most: usize, wanted: Wanted) -> Result<Claimed, TicketError> {
        self.fail()?;
        let now = Instant::now();
        let mut rows = self.rows.lock().unwrap();
        let mut claimed = Claimed::default();
        for row in rows.iter_mut() {
            let open = row.state.is_open() && !row.claimed && *row.role == *role;
            let Some(due) = row.due.filter(|_| open) else {
                continue;
            };
            let is_expired = row.expires <= now;
            let wanted = wanted == Wanted::Due || is_expired;
            if due > now || !wanted || claimed.tickets.len() == most {
                let wait = due.saturating_duration_since(now);
                claimed.next = Some(claimed.next.map_or(wait, |next: Duration| next.min(wait)));
                continue;
            }
            row.claimed = true;
            claimed.tickets.push(Ticket {
                id: row.id.clone(),
                request: row.request.clone(),
                context: row.context.clone(),
                state: row.state,
                attempts: row.attempts,
                is_expired,
            });
        }
        let held = rows.iter().filter(|row| row.claimed).count();
        let mut most = self.most_claimed.lock().unwrap();
        *most = held.max(*most);
        Ok(claimed)
    }

    async fn record(
        &self,
        ticket: &TicketId,
        outcome: TicketOutcome,
    ) -> Result<Option<TicketState>, TicketError> {
        self.fail()?;
        let mut rows = self.rows.lock().unwrap();
        let row = rows.iter_mut().find(|row| row.id == *ticket).unwrap();
        assert!(row.claimed, "an outcome without a claim");
        row.claimed = false;
        if !row.state.is_open() {
            return Ok(None);
        }
        row.attempts += 1;
        match outcome {
            TicketOutcome::Answered { response, .. } => {
                row.answers.push(response.plain_text());
                row.state = TicketState::Answered;
            }
            TicketOutcome::PutOff { wait, cause } => {
                row.due = Some(Instant::now() + wait);
                row.cause = cause;
            }
            TicketOutcome::GivenUp { cause } => {
                row.cause = cause;
                row.due = None;
                if row.state == TicketState::Queued {
                    row.state = TicketState::Failed;
                }
            }
        }
        Ok(Some(row.state))
    }

    async fn release(&self, ticket: &TicketId) {
        let mut rows = self.rows.lock().unwrap();
        let row = rows.iter_mut().find(|row| row.id == *ticket).unwrap();
        row.claimed = false;
    }

    async fn changed(&self) {
        self.bell.notified().await;
    }
}

//! A ticket store that forgets with the process, and fails on command.

use evenkeel_core::{
    Accepted, BoxError, CallContext, ChatRequest, Claimed, Ticket, TicketCause, TicketDraft,
    TicketError, TicketId, TicketOutcome, TicketState, TicketStore, Wanted,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// One kept call.
#[derive(Debug, Clone)]
pub struct ShelvedCall {
    /// Names it: `t0`, `t1`, …
    pub id: TicketId,
    /// The role that was asked.
    pub role: Arc<str>,
    request: ChatRequest,
    /// What accompanied it.
    pub context: CallContext,
    /// How it stands.
    pub state: TicketState,
    /// Outcomes that were recorded of it.
    pub attempts: u32,
    /// None: nothing is asked any more.
    due: Option<Instant>,
    expires: Instant,
    /// Whether it is given out.
    pub claimed: bool,
    /// Why it has no answer, as last told.
    pub cause: TicketCause,
    /// The text of each answer that was recorded; more than one is a fault.
    pub answers: Vec<String>,
}

/// A [`TicketStore`] in memory, on tokio's clock: for tests, and for scenarios on
/// simulated time. What it keeps does not survive the process.
#[derive(Debug, Default)]
pub struct Shelf {
    held: Mutex<Held>,
    bell: Notify,
}

#[derive(Debug, Default)]
struct Held {
    calls: Vec<ShelvedCall>,
    /// How many of the next requests fail.
    broken: usize,
    most_claimed: usize,
}

impl Shelf {
    /// Every call that was kept, in the order they came.
    pub fn calls(&self) -> Vec<ShelvedCall> {
        self.lock().calls.clone()
    }

    /// Most calls that were given out at a time.
    pub fn most_claimed(&self) -> usize {
        self.lock().most_claimed
    }

    /// Lets the next `times` requests to the store fail as a full disk does.
    pub fn break_down(&self, times: usize) {
        self.lock().broken = times;
    }

    /// Ends a ticket as an operator would; whether there is one.
    pub fn drop_ticket(&self, id: &TicketId) -> bool {
        let mut held = self.lock();
        let call = held.find(id);
        call.map(|call| call.state = TicketState::Dropped).is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn fail(&mut self) -> Result<(), TicketError> {
        if self.broken == 0 {
            return Ok(());
        }
        self.broken -= 1;
        let below = std::io::Error::other("no space left on device");
        Err(TicketError::Full(Arc::new(below)))
    }

    fn find(&mut self, id: &TicketId) -> Result<&mut ShelvedCall, TicketError> {
        let found = self.calls.iter_mut().find(|call| call.id == *id);
        found.ok_or_else(|| broken_rule(format!("no ticket `{id}`")))
    }
}

/// What the router must not do.
fn broken_rule(what: String) -> TicketError {
    let below: BoxError = Arc::new(std::io::Error::other(what));
    TicketError::Store(below)
}

#[async_trait::async_trait]
impl TicketStore for Shelf {
    async fn accept(&self, draft: TicketDraft) -> Result<Accepted, TicketError> {
        let mut held = self.lock();
        held.fail()?;
        let (key, caller) = (&draft.context.idempotency_key, &draft.context.caller);
        let known = held.calls.iter().find(|call| {
            key.is_some() && call.context.idempotency_key == *key && call.context.caller == *caller
        });
        if let Some(known) = known {
            return Ok(Accepted {
                ticket: known.id.clone(),
                state: known.state,
                is_new: false,
            });
        }
        let now = Instant::now();
        let id = TicketId::new(&format!("t{}", held.calls.len()));
        let id = id.map_err(|error| broken_rule(error.to_string()))?;
        let state = if draft.escalated {
            TicketState::Escalated
        } else {
            TicketState::Queued
        };
        held.calls.push(ShelvedCall {
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
        let mut held = self.lock();
        held.fail()?;
        let now = Instant::now();
        let mut claimed = Claimed::default();
        for call in &mut held.calls {
            let open = call.state.is_open() && !call.claimed && *call.role == *role;
            let Some(due) = call.due.filter(|_| open) else {
                continue;
            };
            let is_expired = call.expires <= now;
            let wanted = wanted == Wanted::Due || is_expired;
            if due > now || !wanted || claimed.tickets.len() == most {
                let wait = due.saturating_duration_since(now);
                claimed.next = Some(claimed.next.map_or(wait, |next: Duration| next.min(wait)));
                continue;
            }
            call.claimed = true;
            claimed.tickets.push(Ticket {
                id: call.id.clone(),
                request: call.request.clone(),
                context: call.context.clone(),
                state: call.state,
                attempts: call.attempts,
                is_expired,
            });
        }
        let out = held.calls.iter().filter(|call| call.claimed).count();
        held.most_claimed = held.most_claimed.max(out);
        Ok(claimed)
    }

    async fn record(
        &self,
        ticket: &TicketId,
        outcome: TicketOutcome,
    ) -> Result<Option<TicketState>, TicketError> {
        let mut held = self.lock();
        held.fail()?;
        let call = held.find(ticket)?;
        if !call.claimed {
            return Err(broken_rule(format!("ticket `{ticket}` was not claimed")));
        }
        call.claimed = false;
        if !call.state.is_open() {
            return Ok(None);
        }
        call.attempts += 1;
        match outcome {
            TicketOutcome::Answered { response, .. } => {
                call.answers.push(response.plain_text());
                call.state = TicketState::Answered;
            }
            TicketOutcome::PutOff { wait, cause } => {
                call.due = Some(Instant::now() + wait);
                call.cause = cause;
            }
            TicketOutcome::GivenUp { cause } => {
                call.cause = cause;
                call.due = None;
                if call.state == TicketState::Queued {
                    call.state = TicketState::Failed;
                }
            }
        }
        Ok(Some(call.state))
    }

    async fn release(&self, ticket: &TicketId) {
        if let Ok(call) = self.lock().find(ticket) {
            call.claimed = false;
        }
    }

    async fn changed(&self) {
        self.bell.notified().await;
    }
}

//! Tickets: calls that found nothing left and are kept until something answers.

use crate::{BoxError, CallContext, ChatRequest, ChatResponse, Meta};
use async_trait::async_trait;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Longest id of a ticket, in bytes.
const LONGEST_ID: usize = 128;

/// Names one ticket for good. It goes into addresses and headers as it is.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TicketId(Arc<str>);

/// A text that cannot name a ticket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a ticket id: expected 1 to 128 ASCII letters, digits, `-` and `_`")]
pub struct InvalidTicketId;

impl TicketId {
    /// Reads an id.
    ///
    /// # Errors
    /// [`InvalidTicketId`] where it is empty, too long, or has another character
    /// than an ASCII letter, a digit, `-` or `_`.
    pub fn new(text: &str) -> Result<Self, InvalidTicketId> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if text.is_empty() || text.len() > LONGEST_ID || !text.bytes().all(fits) {
            return Err(InvalidTicketId);
        }
        Ok(Self(Arc::from(text)))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// How a ticket stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TicketState {
    /// Waits, and is retried when a rung of its role can be asked.
    Queued,
    /// As queued, and an operator has been told. It never fails by itself: when
    /// its retries have come to an end it waits for the operator.
    Escalated,
    /// Has its answer.
    Answered,
    /// Nothing answered in its time, or the request cannot be answered at all.
    Failed,
    /// Taken back by its caller or an operator.
    Dropped,
}

impl TicketState {
    /// Every state.
    pub const ALL: [Self; 5] = [
        Self::Queued,
        Self::Escalated,
        Self::Answered,
        Self::Failed,
        Self::Dropped,
    ];

    /// The name used outside Rust.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Escalated => "escalated",
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }

    /// The state of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }

    /// Whether it still waits for an answer.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Queued | Self::Escalated)
    }
}

impl fmt::Display for TicketState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a call got no answer, as a ticket keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TicketCause {
    /// The class, the refusal, or `roster_exhausted`.
    pub word: &'static str,
    /// One line for the caller. It may quote what a provider said, so it is for
    /// the caller and the operator, not for telemetry.
    pub message: String,
}

/// A call that is to be kept.
#[derive(Debug, Clone)]
pub struct TicketDraft {
    /// The role that was asked.
    pub role: Arc<str>,
    /// What it was asked.
    pub request: Arc<ChatRequest>,
    /// What accompanied the call: caller and idempotency key, session, workflow
    /// and so on. Its clocks and its trace ended with the call and are none.
    pub context: CallContext,
    /// Whether an operator is told.
    pub escalated: bool,
    /// Why the call got no answer.
    pub cause: TicketCause,
    /// The first retry is not made before that.
    pub wait: Duration,
    /// How long it is retried.
    pub max_age: Duration,
    /// Most open tickets of the role, this one included.
    pub max_open: u32,
}

/// What became of a draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The ticket.
    pub ticket: TicketId,
    /// How it stands.
    pub state: TicketState,
    /// False where the caller's idempotency key had a ticket already: this one.
    pub is_new: bool,
}

/// A ticket that is due.
#[derive(Debug, Clone)]
pub struct Ticket {
    /// Its id.
    pub id: TicketId,
    /// What is asked.
    pub request: ChatRequest,
    /// What accompanies the call.
    pub context: CallContext,
    /// How it stands; open.
    pub state: TicketState,
    /// Calls made for it so far, the one that led to it not counted.
    pub attempts: u32,
    /// Its time is over: the next call is the last.
    pub is_expired: bool,
}

/// Which tickets are claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Those that are due.
    Due,
    /// Of those that are due only the ones whose time is over.
    Expired,
}

/// Tickets to be worked on.
#[derive(Debug, Default)]
pub struct Claimed {
    /// Those that are due, the longest due first.
    pub tickets: Vec<Ticket>,
    /// When the next unclaimed one of the role is due, from now; none where
    /// there is no other.
    pub next: Option<Duration>,
}

/// How a call for a ticket ended.
#[derive(Debug, Clone)]
pub enum TicketOutcome {
    /// With an answer.
    Answered {
        /// The answer.
        response: Box<ChatResponse>,
        /// Who gave it.
        meta: Box<Meta>,
    },
    /// Without one; it is tried again.
    PutOff {
        /// Not before that.
        wait: Duration,
        /// Why.
        cause: TicketCause,
    },
    /// Without one; it is not tried again: a queued ticket fails, an escalated
    /// one stays with the operator.
    GivenUp {
        /// Why.
        cause: TicketCause,
    },
}

/// Why a store did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TicketError {
    /// The role has as many open tickets as it may have.
    #[error("role `{role}` has {open} open tickets, as many as `queue.max_open` allows")]
    TooMany {
        /// The role.
        role: Arc<str>,
        /// How many are open.
        open: u32,
    },
    /// The caller's idempotency key belongs to a ticket with another request.
    #[error("the idempotency key was used for another request, ticket `{ticket}`")]
    KeyReused {
        /// That ticket.
        ticket: TicketId,
    },
    /// The request cannot be kept so that it reads back the same.
    #[error("the request cannot be kept: {0}")]
    Unwritable(String),
    /// The store has no room.
    #[error("the ticket store is full")]
    Full(#[source] BoxError),
    /// The store failed otherwise.
    #[error("the ticket store failed")]
    Store(#[source] BoxError),
}

/// Keeps tickets so that none is lost when the process dies.
///
/// Times are told as durations: the process's clock does not survive it, and a
/// store has its own way to make dates of them.
#[async_trait]
pub trait TicketStore: Send + Sync + fmt::Debug {
    /// Keeps a call. Returns when the ticket would survive the process's death
    /// at any later instant. The same idempotency key of the same caller gives
    /// the ticket it gave before.
    ///
    /// Dropping the future may leave a ticket that nobody was told of.
    ///
    /// # Errors
    /// [`TicketError`]: nothing was kept.
    async fn accept(&self, draft: TicketDraft) -> Result<Accepted, TicketError>;

    /// Takes at most `most` of the `wanted` tickets of `role`. They are not given out again
    /// until their outcome is recorded, they are released or the process ends.
    ///
    /// # Errors
    /// [`TicketError`]: nothing was claimed.
    async fn claim(&self, role: &str, most: usize, wanted: Wanted) -> Result<Claimed, TicketError>;

    /// Records how a call for a claimed ticket ended, counts it, and ends the claim. Gives
    /// the ticket's state, or none where the ticket was not open any more: then
    /// nothing was recorded.
    ///
    /// # Errors
    /// [`TicketError`]: nothing was recorded and the claim stands.
    async fn record(
        &self,
        ticket: &TicketId,
        outcome: TicketOutcome,
    ) -> Result<Option<TicketState>, TicketError>;

    /// Ends a claim without an outcome: the ticket is due as it was.
    async fn release(&self, ticket: &TicketId);

    /// Resolves when a ticket may have become due in another way than by time:
    /// one was accepted, or an operator asked for a retry. A change since the
    /// last call counts. At most one caller waits at a time.
    async fn changed(&self);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_fits_an_address() {
        let longest = "a".repeat(LONGEST_ID);
        for good in ["tkt-0f", "A_b-9", longest.as_str()] {
            assert_eq!(TicketId::new(good).unwrap().as_str(), good);
        }
        let too_long = "a".repeat(LONGEST_ID + 1);
        for bad in ["", "a b", "a/b", "a.b", "é", too_long.as_str()] {
            assert_eq!(TicketId::new(bad), Err(InvalidTicketId), "{bad}");
        }
    }

    #[test]
    fn a_state_is_read_by_the_name_it_is_written_with() {
        for state in TicketState::ALL {
            assert_eq!(TicketState::named(state.as_str()), Some(state));
        }
        assert_eq!(TicketState::named("open"), None);
    }
}

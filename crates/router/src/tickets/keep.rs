//! How a call becomes a ticket.

use super::mend::{cause, may_mend};
use crate::call::{Call, Unit};
use crate::drive::now;
use crate::error::{CallError, CallErrorKind};
use crate::role::Role;
use evenkeel_breaker::Backoff;
use evenkeel_core::{
    CallContext, CallId, ChatRequest, ClockOverrides, EventKind, Phase, TicketDraft, TicketError,
    TicketStore,
};
use evenkeel_roster::{OnExhausted, QueuePolicy};
use std::sync::Arc;

/// What is remembered of a call that becomes a ticket if it gets no answer.
pub(crate) struct Keep {
    call: CallId,
    role: Arc<Role>,
    request: Arc<ChatRequest>,
    context: CallContext,
    unit: Unit,
    store: Arc<dyn TicketStore>,
}

/// The waits between two tries of a ticket.
pub(super) fn backoff(policy: &QueuePolicy) -> Backoff {
    Backoff {
        base: policy.base,
        cap: policy.cap,
    }
}

impl Keep {
    /// None where the role keeps no calls, or where this one must not be asked
    /// twice: it has tools that the provider runs, or state there.
    pub(crate) fn of(
        call: &Call,
        unit: &Unit,
        store: Option<&Arc<dyn TicketStore>>,
    ) -> Option<Box<Self>> {
        let store = store.filter(|_| call.role.policy.on_exhausted != OnExhausted::Error)?;
        call.is_replayable().then(|| {
            Box::new(Self {
                call: call.id,
                role: call.role.clone(),
                request: call.request.clone(),
                context: call.context.clone(),
                unit: unit.clone(),
                store: store.clone(),
            })
        })
    }

    /// Keeps the call if time may mend what ended it. The caller is told of a
    /// ticket when the store has it, and not before.
    pub(crate) async fn after(self: Box<Self>, error: CallError) -> CallError {
        if !may_mend(&error.kind) || self.was_hurried(&error.kind) {
            return error;
        }
        let policy = &self.role.policy;
        let wait = backoff(&policy.queue).delay(1, (self.unit.0)());
        let draft = TicketDraft {
            role: self.role.name.clone(),
            request: self.request.clone(),
            context: CallContext {
                clocks: ClockOverrides::default(),
                trace: None,
                ..self.context.clone()
            },
            escalated: policy.on_exhausted == OnExhausted::Escalate,
            cause: cause(&error.kind),
            wait,
            max_age: policy.queue.max_age,
            max_open: policy.queue.max_open,
        };
        let why = draft.cause.word;
        let cause = Box::new(error.kind);
        match self.store.accept(draft).await {
            Ok(accepted) => {
                if accepted.is_new {
                    self.tell(EventKind::TicketChanged {
                        ticket: accepted.ticket.clone(),
                        role: self.role.name.clone(),
                        state: accepted.state,
                        request_id: self.context.request_id.clone(),
                        attempts: 0,
                        why: Some(why),
                    });
                }
                CallError {
                    kind: CallErrorKind::Queued {
                        ticket: accepted.ticket,
                        state: accepted.state,
                        cause,
                    },
                    retry_after: Some(wait.max(error.retry_after.unwrap_or_default())),
                    ..error
                }
            }
            Err(refused) => {
                if let TicketError::Full(_) | TicketError::Store(_) = refused {
                    self.tell(EventKind::TicketStoreFailed {
                        role: self.role.name.clone(),
                        doing: "accept",
                        error: chain(&refused),
                    });
                }
                CallError {
                    kind: CallErrorKind::NotKept {
                        error: refused,
                        cause,
                    },
                    ..error
                }
            }
        }
    }

    /// Whether a deadline ended the call that its caller had made shorter than
    /// the role's own: then the caller has plans of its own.
    fn was_hurried(&self, kind: &CallErrorKind) -> bool {
        let CallErrorKind::Failed(failure) = kind else {
            return false;
        };
        let own = self.role.policy.clocks.deadline;
        failure.phase == Some(Phase::Deadline)
            && self
                .context
                .clocks
                .deadline
                .is_some_and(|asked| asked < own)
    }

    fn tell(&self, kind: EventKind) {
        self.role.around.tell(now(), Some(self.call), kind);
    }
}

/// An error with what is below it, in one line.
pub(super) fn chain(error: &TicketError) -> String {
    let mut text = error.to_string();
    let mut below = std::error::Error::source(error);
    while let Some(error) = below {
        text = format!("{text}: {error}");
        below = error.source();
    }
    text
}

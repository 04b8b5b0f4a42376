//! Asks for tickets that are due, when a rung of their role can be asked.

use super::keep::{backoff, chain};
use super::mend::{cause, may_mend};
use crate::answer::Answer;
use crate::call::{Call, Mode, Unit};
use crate::demand::Demand;
use crate::drive::{drive, now};
use crate::error::CallErrorKind;
use crate::role::Role;
use evenkeel_breaker::Backoff;
use evenkeel_core::{
    CallContext, Claimed, EventKind, Refusal, Ticket, TicketCause, TicketId, TicketOutcome,
    TicketState, TicketStore, Wanted,
};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// Longest time between two looks at the store: a ticket whose time is over
/// while no rung can be asked is told so within it.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Shortest, so that a rounded-down wait is no busy loop.
const LOOK_AFTER: Duration = Duration::from_millis(10);
/// When a role whose models lack a free place is looked at again.
const CAPACITY_PAUSE: Duration = Duration::from_secs(1);
/// Waits before a failing store is asked again.
const STORE_BACKOFF: Backoff = Backoff {
    base: Duration::from_secs(1),
    cap: Duration::from_secs(30),
};

/// One task for the tickets of all roles.
pub(crate) struct Worker {
    desks: Vec<Desk>,
    unit: Unit,
    store: Arc<dyn TicketStore>,
}

/// One role's tickets.
struct Desk {
    role: Arc<Role>,
    /// Tickets worked on.
    running: usize,
    look_at: Instant,
    /// How often in a row the store has failed.
    failures: u32,
}

impl Worker {
    pub(crate) fn new(roles: Vec<Arc<Role>>, unit: Unit, store: Arc<dyn TicketStore>) -> Self {
        let look_at = now();
        let desk = |role| Desk {
            role,
            running: 0,
            look_at,
            failures: 0,
        };
        Self {
            desks: roles.into_iter().map(desk).collect(),
            unit,
            store,
        }
    }

    /// Works until `stop`. Calls under way are then dropped and their tickets
    /// given back; how a call has ended is still recorded, and told.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut work = FuturesUnordered::new();
        let mut claimed: HashSet<TicketId> = HashSet::new();
        while !stop.is_cancelled() {
            for index in 0..self.desks.len() {
                for ticket in self.look(index).await {
                    claimed.insert(ticket.id.clone());
                    let (task, stop) = (Task::new(&self, index, ticket), stop.clone());
                    work.push(async move { (index, task.run(&stop).await) });
                }
            }
            let wake = self.desks.iter().map(|desk| desk.look_at).min();
            let wake = wake.unwrap_or_else(|| now() + LOOK_EVERY);
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                Some((index, settled)) = work.next(), if !work.is_empty() => {
                    settled.inspect(|ticket| _ = claimed.remove(ticket));
                    self.desks[index].running -= 1;
                    self.desks[index].look_at = now();
                }
                () = self.store.changed() => {
                    for desk in &mut self.desks {
                        desk.look_at = now();
                    }
                }
                () = sleep_until(tokio::time::Instant::from_std(wake)) => {}
            }
        }
        while let Some((_, settled)) = work.next().await {
            settled.inspect(|ticket| _ = claimed.remove(ticket));
        }
        for ticket in claimed {
            self.store.release(&ticket).await;
        }
    }

    /// The role's tickets to be asked for now, if it is time to look.
    async fn look(&mut self, index: usize) -> Vec<Ticket> {
        let now = now();
        let desk = &mut self.desks[index];
        if now < desk.look_at {
            return Vec::new();
        }
        let most = usize::try_from(desk.role.policy.queue.max_concurrency).unwrap_or(usize::MAX);
        let free = most.saturating_sub(desk.running);
        desk.look_at = now + LOOK_EVERY;
        if free == 0 {
            return Vec::new();
        }
        // Where nothing can be asked only those whose time is over are of interest.
        let blocked = blocked_for(&desk.role, now);
        let wanted = if blocked.is_some() {
            Wanted::Expired
        } else {
            Wanted::Due
        };
        match self.store.claim(&desk.role.name, free, wanted).await {
            Ok(Claimed { tickets, next }) => {
                desk.failures = 0;
                desk.running += tickets.len();
                let next = blocked.or(next).unwrap_or(LOOK_EVERY);
                if desk.running < most {
                    desk.look_at = now + next.clamp(LOOK_AFTER, LOOK_EVERY);
                }
                tickets
            }
            Err(error) => {
                desk.failures += 1;
                desk.look_at = now + STORE_BACKOFF.delay(desk.failures, 1.0);
                if desk.failures == 1 {
                    tell_store(&desk.role, "claim", &chain(&error));
                }
                Vec::new()
            }
        }
    }
}

/// How long no rung of the role can be asked, as far as is known; none where
/// one can.
fn blocked_for(role: &Role, now: Instant) -> Option<Duration> {
    let today = role.around.today();
    let mut least = LOOK_EVERY;
    for (index, rung) in role.rungs.iter().enumerate() {
        let refusal = role.refusal(index, now, today);
        let full = rung.model.capacity.available_permits() == 0;
        match refusal.or(full.then_some(Refusal::AtCapacity)) {
            None => return None,
            Some(Refusal::AtCapacity) => least = least.min(CAPACITY_PAUSE),
            Some(refusal) => least = least.min(refusal.retry_in().unwrap_or(LOOK_EVERY)),
        }
    }
    Some(least)
}

fn tell_store(role: &Role, doing: &'static str, error: &str) {
    let kind = EventKind::TicketStoreFailed {
        role: role.name.clone(),
        doing,
        error: error.to_owned(),
    };
    role.around.tell(now(), None, kind);
}

/// One call for one ticket.
struct Task {
    role: Arc<Role>,
    unit: Unit,
    store: Arc<dyn TicketStore>,
    ticket: TicketId,
    /// The one that is made, from 1.
    attempt: u32,
    /// Whether it is the last.
    is_last: bool,
    request: evenkeel_core::ChatRequest,
    request_id: Option<Arc<str>>,
    context: CallContext,
}

impl Task {
    fn new(worker: &Worker, desk: usize, ticket: Ticket) -> Self {
        let role = worker.desks[desk].role.clone();
        let attempt = ticket.attempts.saturating_add(1);
        let most = role.policy.queue.max_attempts;
        Self {
            is_last: ticket.is_expired || most.is_some_and(|most| attempt >= most),
            role,
            unit: worker.unit.clone(),
            store: worker.store.clone(),
            ticket: ticket.id,
            attempt,
            request: ticket.request,
            request_id: ticket.context.request_id.clone(),
            context: ticket.context,
        }
    }

    /// Asks, and records how it ended: until that is done the ticket is claimed. None where
    /// it still is when this ends, because of `stop`.
    async fn run(mut self, stop: &CancellationToken) -> Option<TicketId> {
        // A provider's panic must not end the work for all other tickets.
        let asking = AssertUnwindSafe(self.ask()).catch_unwind();
        let asked = tokio::select! {
            biased;
            asked = asking => asked,
            () = stop.cancelled() => return None,
        };
        let outcome = asked.unwrap_or_else(|_| {
            let message = "the call panicked".to_owned();
            self.without_answer(
                TicketCause {
                    word: "internal",
                    message,
                },
                true,
            )
        });
        let why = match &outcome {
            TicketOutcome::Answered { .. } => None,
            TicketOutcome::PutOff { cause, .. } | TicketOutcome::GivenUp { cause } => {
                Some(cause.word)
            }
        };
        let request_id = self.request_id.take();
        if let Some(state) = self.record(outcome, stop).await? {
            let kind = EventKind::TicketChanged {
                ticket: self.ticket.clone(),
                role: self.role.name.clone(),
                state,
                request_id,
                attempts: self.attempt,
                why,
            };
            self.role.around.tell(now(), None, kind);
        }
        Some(self.ticket)
    }

    async fn ask(&mut self) -> TicketOutcome {
        let context = std::mem::take(&mut self.context);
        let asked = match Demand::of(&self.role, &context) {
            Ok(asked) => asked,
            // The policy has changed since the call was kept.
            Err(failure) => {
                let kind = CallErrorKind::Failed(failure);
                return self.without_answer(cause(&kind), false);
            }
        };
        let call = Call::new(
            asked,
            std::mem::take(&mut self.request),
            context,
            Mode::Whole,
            self.unit.clone(),
            now(),
        );
        match Box::pin(drive(call, Mode::Whole)).await {
            Ok(won) => {
                let answer = Answer::new(won);
                TicketOutcome::Answered {
                    response: Box::new(answer.response),
                    meta: Box::new(answer.meta),
                }
            }
            Err(error) => self.without_answer(cause(&error.kind), may_mend(&error.kind)),
        }
    }

    fn without_answer(&self, cause: TicketCause, may_mend: bool) -> TicketOutcome {
        if self.is_last || !may_mend {
            return TicketOutcome::GivenUp { cause };
        }
        let nth = self.attempt.saturating_add(1);
        let wait = backoff(&self.role.policy.queue).delay(nth, (self.unit.0)());
        TicketOutcome::PutOff { wait, cause }
    }

    /// A store that fails is asked until it has recorded the outcome: an answer
    /// that was paid for is not thrown away because a disk is full. None where it still
    /// fails at `stop`.
    async fn record(
        &self,
        outcome: TicketOutcome,
        stop: &CancellationToken,
    ) -> Option<Option<TicketState>> {
        let mut failures = 0;
        loop {
            match self.store.record(&self.ticket, outcome.clone()).await {
                Ok(state) => return Some(state),
                Err(error) => {
                    failures += 1;
                    if failures == 1 {
                        tell_store(&self.role, "record", &chain(&error));
                    }
                    tokio::select! {
                        () = stop.cancelled() => return None,
                        () = sleep(STORE_BACKOFF.delay(failures, 1.0)) => {}
                    }
                }
            }
        }
    }
}

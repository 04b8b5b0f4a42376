//! Calls that found nothing left: which are kept, and what becomes of them.

use crate::world::{Plan, ROLE, World, deadline, ms, steady};
use evenkeel_chaos::{Behaviour, Fault, Shelf, ShelvedCall};
use evenkeel_core::{
    Accepted, CallContext, ChatRequest, ChatResponse, Claimed, EventKind, EventStream, Failure,
    Provider, ProviderCall, TicketDraft, TicketError, TicketId, TicketOutcome, TicketState,
    TicketStore, Value, Wanted,
};
use evenkeel_roster::{OnContentFilter, OnExhausted, RolePolicy};
use evenkeel_router::{BuildError, CallErrorKind};
use futures_util::StreamExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

fn keeps(policy: &mut RolePolicy) {
    policy.on_exhausted = OnExhausted::Queue;
    policy.queue.base = ms(1_000);
    policy.queue.cap = ms(8_000);
    policy.clocks.deadline = ms(20_000);
}

fn down() -> Behaviour {
    Behaviour::failing(Fault::status(500))
}

/// A world whose calls are kept, and where they are.
fn keeping(rungs: Vec<Behaviour>, change: impl FnOnce(&mut RolePolicy)) -> (World, Arc<Shelf>) {
    let shelf = Arc::new(Shelf::default());
    let plan = Plan::new(rungs).policy(|policy| {
        keeps(policy);
        change(policy);
    });
    (plan.tickets(shelf.clone()).build(), shelf)
}

impl World {
    /// State and attempts of each change of a ticket, in order.
    fn changes(&self) -> Vec<(TicketState, u32)> {
        self.memory.all(|kind| match kind {
            EventKind::TicketChanged {
                state, attempts, ..
            } => Some((*state, *attempts)),
            _ => None,
        })
    }
}

/// The only ticket.
fn only(shelf: &Shelf) -> ShelvedCall {
    let calls = shelf.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    calls[0].clone()
}

async fn until(shelf: &Shelf, is: impl Fn(&ShelvedCall) -> bool) -> ShelvedCall {
    for _ in 0..20_000 {
        let row = only(shelf);
        if is(&row) {
            return row;
        }
        tokio::time::sleep(ms(100)).await;
    }
    panic!("not within 2,000 s: {:?}", only(shelf));
}

#[tokio::test(start_paused = true)]
async fn a_role_that_wants_errors_gets_errors() {
    let (world, shelf) = keeping(vec![down(), down()], |p| {
        p.on_exhausted = OnExhausted::Error;
    });
    let error = world.ask().await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Exhausted(_)), "{error}");
    assert!(shelf.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_kept_call_is_answered_once_when_a_model_is_back() {
    let (world, shelf) = keeping(vec![down(), down()], |_| {});
    let error = world.ask().await.unwrap_err();
    let CallErrorKind::Queued { ticket, state, .. } = &error.kind else {
        panic!("{error}");
    };
    assert_eq!((ticket.as_str(), *state), ("t0", TicketState::Queued));
    assert!(error.retry_after.is_some());
    assert_eq!(only(&shelf).cause.word, "roster_exhausted");
    tokio::time::sleep(ms(60_000)).await;
    let tried = only(&shelf).attempts;
    assert!(tried >= 3, "{tried}");
    world.set(1, steady(100));
    let row = until(&shelf, |row| row.state == TicketState::Answered).await;
    assert_eq!(row.answers.len(), 1);
    tokio::time::sleep(HOUR).await;
    assert_eq!(only(&shelf).answers.len(), 1);
    let changes = world.changes();
    assert_eq!(changes[0], (TicketState::Queued, 0));
    assert_eq!(changes.last(), Some(&(TicketState::Answered, row.attempts)));
    let answered = changes.iter().filter(|(s, _)| *s == TicketState::Answered);
    assert_eq!(answered.count(), 1);
    assert_eq!(shelf.calls().len(), 1, "a ticket's call makes no ticket");
}

/// While breakers refuse every rung a ticket costs no call and no attempt.
#[tokio::test(start_paused = true)]
async fn nothing_is_asked_while_no_rung_can_be_asked() {
    let (world, shelf) = keeping(vec![Behaviour::failing(Fault::status(401))], |_| {});
    world.ask().await.unwrap_err();
    let asked = world.stats(0).started;
    world.set(0, steady(50));
    tokio::time::sleep(ms(250_000)).await;
    assert_eq!(world.stats(0).started, asked, "the hold lasts 300 s");
    assert_eq!(only(&shelf).attempts, 0);
    tokio::time::sleep(ms(60_000)).await;
    assert_eq!(only(&shelf).state, TicketState::Answered);
    assert_eq!(only(&shelf).attempts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_kept_before_its_commit_and_not_after() {
    let (world, shelf) = keeping(vec![down()], |_| {});
    let error = world.stream().await.unwrap_err();
    assert!(
        matches!(error.kind, CallErrorKind::Queued { .. }),
        "{error}"
    );
    world.set(0, steady(50));
    until(&shelf, |row| row.state == TicketState::Answered).await;

    let (world, shelf) = keeping(vec![steady(50).with_fault(Fault::CutAfter(2))], |_| {});
    let stream = world.stream().await.unwrap();
    let events: Vec<_> = stream.collect().await;
    assert!(events.last().unwrap().is_err());
    assert!(shelf.calls().is_empty());
}

/// What the request itself is the cause of is told, and not kept.
#[tokio::test(start_paused = true)]
async fn only_what_time_may_mend_is_kept() {
    let rate_limited = Fault::rate_limited(Duration::from_secs(60));
    for (fault, kept) in [
        (Fault::status(500), true),
        (Fault::status(503), true),
        (rate_limited, true),
        (Fault::status(402), true),
        (Fault::status(401), true),
        (Fault::status(404), true),
        (Fault::status(504), true),
        (Fault::Refuse, true),
        (Fault::Empty, true),
        (Fault::Hang, true),
        (Fault::status(400), false),
        (Fault::context_window(), false),
    ] {
        for rungs in [1, 2] {
            let models = vec![Behaviour::failing(fault.clone()); rungs];
            let (world, shelf) = keeping(models, |_| {});
            let error = world.ask().await.unwrap_err();
            let queued = matches!(error.kind, CallErrorKind::Queued { .. });
            assert_eq!(queued, kept, "{fault:?}, {rungs} rungs: {error}");
            assert_eq!(shelf.calls().len(), usize::from(kept));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_filtered_request_is_not_kept_even_where_every_rung_was_asked() {
    let filtered = || {
        Behaviour::failing(Fault::Status {
            status: 400,
            code: Some("content_policy_violation".to_owned()),
            message: "no".to_owned(),
            retry_after: None,
        })
    };
    let (world, shelf) = keeping(vec![filtered(), filtered()], |p| {
        p.on_content_filter = OnContentFilter::Next;
    });
    world.ask().await.unwrap_err();
    assert!(shelf.calls().is_empty());
}

/// A caller that wants an answer within half a second has its own plan for none.
#[tokio::test(start_paused = true)]
async fn a_deadline_of_the_callers_own_is_no_reason_to_keep() {
    let hang = || Behaviour::failing(Fault::Hang);
    let (world, shelf) = keeping(vec![hang(), hang()], |_| {});
    let error = world.ask_with(deadline(ms(500))).await.unwrap_err();
    assert!(matches!(error.kind, CallErrorKind::Failed(_)), "{error}");
    assert!(shelf.calls().is_empty());
    // What ended otherwise within it is kept, and asked with the role's clocks.
    let (world, shelf) = keeping(vec![down()], |_| {});
    world.ask_with(deadline(ms(500))).await.unwrap_err();
    world.set(0, steady(900));
    let row = until(&shelf, |row| row.state != TicketState::Queued).await;
    assert_eq!(row.state, TicketState::Answered);
}

/// Twice asked it could be billed twice, or do twice what it does.
#[tokio::test(start_paused = true)]
async fn a_request_with_state_at_its_provider_is_not_kept() {
    let (world, shelf) = keeping(vec![down()], |_| {});
    let mut request = ChatRequest::user("hello");
    request
        .extra
        .fields
        .insert("store".into(), Value::Bool(true));
    let call = world.router.complete(ROLE, request, CallContext::default());
    assert!(call.await.is_err());
    assert!(shelf.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_the_store_cannot_keep_is_not_called_kept() {
    let (world, shelf) = keeping(vec![down()], |_| {});
    shelf.break_down(1);
    let error = world.ask().await.unwrap_err();
    let CallErrorKind::NotKept { cause, .. } = &error.kind else {
        panic!("{error}");
    };
    assert!(matches!(**cause, CallErrorKind::Failed(_)), "{error}");
    let told = world.memory.count(|kind| {
        matches!(kind, EventKind::TicketStoreFailed { doing: "accept", error, .. }
            if error.contains("no space left"))
    });
    assert_eq!(told, 1);
    assert!(world.changes().is_empty());
}

/// The answer has been paid for: it waits for room.
#[tokio::test(start_paused = true)]
async fn an_answer_is_recorded_when_the_store_works_again_and_asked_for_once() {
    let (world, shelf) = keeping(vec![down()], |_| {});
    world.ask().await.unwrap_err();
    world.set(0, steady(2_000));
    while !only(&shelf).claimed {
        tokio::time::sleep(ms(10)).await;
    }
    shelf.break_down(6);
    let asked = world.stats(0).started;
    let row = until(&shelf, |row| row.state == TicketState::Answered).await;
    assert_eq!(row.answers.len(), 1);
    assert_eq!(world.stats(0).started, asked);
}

#[tokio::test(start_paused = true)]
async fn a_ticket_fails_with_its_last_attempt() {
    let (world, shelf) = keeping(vec![down()], |p| p.queue.max_attempts = Some(3));
    world.ask().await.unwrap_err();
    let row = until(&shelf, |row| !row.state.is_open()).await;
    assert_eq!((row.state, row.attempts), (TicketState::Failed, 3));
    assert_eq!(row.cause.word, "transient");
    let states: Vec<_> = world.changes().iter().map(|(state, _)| *state).collect();
    let queued = TicketState::Queued;
    assert_eq!(states, [queued, queued, queued, TicketState::Failed]);
}

/// Also one that is refused by every rung for all its time.
#[tokio::test(start_paused = true)]
async fn a_ticket_fails_when_its_time_is_over() {
    for fault in [Fault::status(500), Fault::status(404)] {
        let (world, shelf) = keeping(vec![Behaviour::failing(fault)], |p| {
            p.queue.max_age = ms(120_000);
        });
        world.ask().await.unwrap_err();
        tokio::time::sleep(ms(119_000)).await;
        assert_eq!(only(&shelf).state, TicketState::Queued);
        tokio::time::sleep(ms(60_000)).await;
        assert_eq!(only(&shelf).state, TicketState::Failed);
        assert!(!world.changes().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_escalated_ticket_stays_with_the_operator() {
    let (world, shelf) = keeping(vec![down()], |p| {
        p.on_exhausted = OnExhausted::Escalate;
        p.queue.max_attempts = Some(2);
    });
    world.ask().await.unwrap_err();
    until(&shelf, |row| row.attempts == 2).await;
    world.set(0, steady(50));
    tokio::time::sleep(HOUR).await;
    assert_eq!(only(&shelf).state, TicketState::Escalated);
    assert_eq!(only(&shelf).attempts, 2);
}

/// A failure that stops ends the ticket too: asking again would not help.
#[tokio::test(start_paused = true)]
async fn a_request_that_turns_out_bad_is_given_up_at_once() {
    let (world, shelf) = keeping(vec![down()], |_| {});
    world.ask().await.unwrap_err();
    world.set(0, Behaviour::failing(Fault::status(400)));
    let row = until(&shelf, |row| !row.state.is_open()).await;
    assert_eq!((row.state, row.attempts), (TicketState::Failed, 1));
    assert_eq!(row.cause.word, "bad_request");
}

#[tokio::test(start_paused = true)]
async fn few_tickets_at_a_time_are_worked_on() {
    let (world, shelf) = keeping(vec![down()], |p| p.queue.max_concurrency = 3);
    for _ in 0..20 {
        world.ask().await.unwrap_err();
    }
    world.set(0, steady(400));
    tokio::time::sleep(HOUR).await;
    let rows = shelf.calls();
    assert_eq!(rows.len(), 20);
    assert!(rows.iter().all(|row| row.state == TicketState::Answered));
    assert!(rows.iter().all(|row| row.answers.len() == 1));
    assert_eq!(shelf.most_claimed(), 3);
}

#[tokio::test(start_paused = true)]
async fn one_idempotency_key_is_one_ticket() {
    let (world, shelf) = keeping(vec![down()], |_| {});
    let by = |caller: &str| CallContext {
        idempotency_key: Some("k".into()),
        caller: Some(caller.into()),
        ..CallContext::default()
    };
    let mut tickets = Vec::new();
    for caller in ["a", "a", "b"] {
        let error = world.ask_with(by(caller)).await.unwrap_err();
        let CallErrorKind::Queued { ticket, .. } = error.kind else {
            panic!("{error}");
        };
        tickets.push(ticket.to_string());
    }
    assert_eq!(tickets, ["t0", "t0", "t1"]);
    assert_eq!(shelf.calls().len(), 2);
    let accepted = world.changes().iter().filter(|(_, n)| *n == 0).count();
    assert_eq!(accepted, 2);
}

/// An answer that comes after its ticket was taken back is nobody's.
#[tokio::test(start_paused = true)]
async fn a_dropped_ticket_stays_dropped() {
    let (world, shelf) = keeping(vec![down()], |_| {});
    world.ask().await.unwrap_err();
    world.set(0, steady(5_000));
    while !only(&shelf).claimed {
        tokio::time::sleep(ms(10)).await;
    }
    shelf.drop_ticket(&only(&shelf).id);
    tokio::time::sleep(HOUR).await;
    assert_eq!(only(&shelf).state, TicketState::Dropped);
    assert!(only(&shelf).answers.is_empty());
    let answered = (TicketState::Answered, 1);
    assert!(!world.changes().contains(&answered));
}

/// Shutting down waits for no ticket; the next router goes on with it.
#[tokio::test(start_paused = true)]
async fn a_shutdown_gives_tickets_back() {
    let (world, shelf) = keeping(vec![down()], |_| {});
    world.ask().await.unwrap_err();
    world.set(0, steady(15_000));
    while !only(&shelf).claimed {
        tokio::time::sleep(ms(10)).await;
    }
    let begun = tokio::time::Instant::now();
    world.router.shutdown().await;
    assert!(begun.elapsed() < ms(5_000), "{:?}", begun.elapsed());
    let row = only(&shelf);
    assert_eq!((row.claimed, row.state), (false, TicketState::Queued));
    let plan = Plan::new(vec![steady(100)]).policy(keeps);
    let next = plan.tickets(shelf.clone()).build();
    until(&shelf, |row| row.state == TicketState::Answered).await;
    assert_eq!(next.changes(), [(TicketState::Answered, 1)]);
}

/// A store that has recorded an outcome a while before it says so.
#[derive(Debug)]
struct Late(Arc<Shelf>);

#[async_trait::async_trait]
impl TicketStore for Late {
    async fn accept(&self, draft: TicketDraft) -> Result<Accepted, TicketError> {
        self.0.accept(draft).await
    }

    async fn claim(&self, role: &str, most: usize, wanted: Wanted) -> Result<Claimed, TicketError> {
        self.0.claim(role, most, wanted).await
    }

    async fn record(
        &self,
        ticket: &TicketId,
        outcome: TicketOutcome,
    ) -> Result<Option<TicketState>, TicketError> {
        let recorded = self.0.record(ticket, outcome).await;
        tokio::time::sleep(ms(300)).await;
        recorded
    }

    async fn release(&self, ticket: &TicketId) {
        self.0.release(ticket).await;
    }

    async fn changed(&self) {
        self.0.changed().await;
    }
}

/// What is recorded is told: else a ticket would be answered that no log knows of.
#[tokio::test(start_paused = true)]
async fn an_outcome_that_is_being_recorded_at_a_shutdown_is_told() {
    let shelf = Arc::new(Shelf::default());
    let plan = Plan::new(vec![down()]).policy(keeps);
    let world = plan.tickets(Arc::new(Late(shelf.clone()))).build();
    world.ask().await.unwrap_err();
    world.set(0, steady(100));
    until(&shelf, |row| row.state == TicketState::Answered).await;
    let answered = (TicketState::Answered, 1);
    assert!(!world.changes().contains(&answered), "not yet");
    world.router.shutdown().await;
    assert!(world.changes().contains(&answered), "{:?}", world.changes());
    assert!(!only(&shelf).claimed);
}

/// A store that fails at the end keeps nobody.
#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_no_store_that_fails() {
    let (world, shelf) = keeping(vec![down()], |_| {});
    world.ask().await.unwrap_err();
    world.set(0, steady(1_000));
    until(&shelf, |row| row.claimed).await;
    shelf.break_down(usize::MAX);
    tokio::time::sleep(ms(5_000)).await;
    let begun = tokio::time::Instant::now();
    world.router.shutdown().await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    let row = only(&shelf);
    assert_eq!((row.claimed, row.state), (false, TicketState::Queued));
}

/// Panics at its second call, and only there.
#[derive(Debug)]
struct Panics<P>(P, AtomicUsize);

#[async_trait::async_trait]
impl<P: Provider> Provider for Panics<P> {
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure> {
        let nth = self.1.fetch_add(1, Ordering::Relaxed);
        assert_ne!(nth, 1, "a bug of a provider");
        self.0.complete(call).await
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        self.0.stream(call).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_panics_costs_one_attempt() {
    let shelf = Arc::new(Shelf::default());
    let plan = Plan::new(vec![down()])
        .policy(keeps)
        .provider(|_, inner| Arc::new(Panics(inner, AtomicUsize::new(0))));
    let world = plan.tickets(shelf.clone()).build();
    world.ask().await.unwrap_err();
    world.set(0, steady(50));
    let row = until(&shelf, |row| row.state == TicketState::Answered).await;
    assert_eq!(row.attempts, 2);
}

#[tokio::test(start_paused = true)]
async fn a_role_that_keeps_calls_needs_a_store() {
    let built = Plan::new(vec![down()]).policy(keeps).try_build();
    assert!(matches!(built, Err(BuildError::NoTicketStore(role)) if role == ROLE));
}

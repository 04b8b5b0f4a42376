//! The store over real files: what it keeps, and what it says where it cannot.

use super::{FILE, OpenError, Tickets};
use crate::tickets::store::{Changed, Wish};
use evenkeel_chaos::{Behaviour, Latency, Simulated};
use evenkeel_core::{
    CallContext, ChatRequest, ModelId, NoObserver, Ticket, TicketCause, TicketDraft, TicketError,
    TicketId, TicketOutcome, TicketState, TicketStore, Wanted,
};
use evenkeel_otel_emit::audit::{AuditSink, AuditStatus, Record};
use evenkeel_roster::{Config, RoleConfig, RolePolicy, RungConfig, TicketsConfig, WebhookConfig};
use evenkeel_router::Router;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn config(webhook: bool) -> TicketsConfig {
    TicketsConfig {
        webhook: webhook.then(|| WebhookConfig {
            url: "http://127.0.0.1:1/hook".into(),
            secret: "s".into(),
            timeout: Duration::from_secs(1),
        }),
        ..TicketsConfig::default()
    }
}

fn open(folder: &Path) -> Result<Tickets, OpenError> {
    Tickets::open(folder, &config(true), "evenkeel", Arc::new(NoObserver))
}

fn draft(text: &str) -> TicketDraft {
    TicketDraft {
        role: "planner".into(),
        request: Arc::new(ChatRequest::user(text)),
        context: CallContext::default(),
        escalated: false,
        cause: cause(),
        wait: Duration::ZERO,
        max_age: Duration::from_secs(3_600),
        max_open: 1_000,
    }
}

fn cause() -> TicketCause {
    TicketCause {
        word: "overloaded",
        message: "no capacity".to_owned(),
    }
}

fn keyed(text: &str, caller: &str, key: &str) -> TicketDraft {
    let mut draft = draft(text);
    draft.context.caller = Some(caller.into());
    draft.context.idempotency_key = Some(key.into());
    draft
}

/// An answer as the router gives it.
async fn answer() -> TicketOutcome {
    let model = ModelId::new("a/m").unwrap();
    let second = Duration::from_secs(1);
    let mut config = Config::default();
    let role = RoleConfig {
        name: "planner".to_owned(),
        policy: RolePolicy::new(second, second, second),
        rungs: vec![RungConfig::primary(model)],
    };
    config.roles.insert("planner".to_owned(), role);
    let behaviour = Behaviour::healthy(Latency::millis(0)).with_inter_token(Duration::ZERO);
    let provider = Simulated::new("a", 1).model("m", behaviour);
    let router = Router::builder(&config).provider("a", Arc::new(provider));
    let router = router.build().unwrap();
    let asked = router.complete("planner", ChatRequest::user("a"), CallContext::default());
    let answer = asked.await.unwrap();
    router.shutdown().await;
    TicketOutcome::Answered {
        response: Box::new(answer.response),
        meta: Box::new(answer.meta),
    }
}

async fn due(tickets: &Tickets) -> Vec<Ticket> {
    let claimed = tickets.claim("planner", 100, Wanted::Due).await.unwrap();
    claimed.tickets
}

async fn claimed(tickets: &Tickets) -> Vec<TicketId> {
    due(tickets).await.into_iter().map(|t| t.id).collect()
}

async fn posts(tickets: &Tickets) -> Vec<String> {
    let job = |desk: &mut super::database::Desk| {
        let mut query = desk
            .db
            .prepare("SELECT kind FROM outbox ORDER BY created, id")?;
        let rows = query.query_map([], |row| row.get(0))?;
        Ok(rows.collect::<Result<Vec<String>, _>>()?)
    };
    tickets.database.run(job).await.unwrap()
}

/// A log that can be written, or not.
#[derive(Debug, Default)]
struct Log(AtomicBool);

impl AuditSink for Log {
    fn append(&self, _: Box<Record>) {}

    fn status(&self) -> AuditStatus {
        AuditStatus::default()
    }

    fn admits_calls(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(unix)]
#[tokio::test]
async fn what_callers_said_is_for_the_owner_of_the_files_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let tickets = open(folder.path()).unwrap();
    tickets.accept(draft("a")).await.unwrap();
    let mut files = 0;
    for file in folder.path().read_dir().unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.path().display());
        files += 1;
    }
    assert!(files >= 2, "the database and what is written ahead of it");
}

#[tokio::test]
async fn while_the_audit_log_takes_no_calls_no_ticket_is_given_out() {
    let folder = tempfile::tempdir().unwrap();
    let log = Arc::new(Log::default());
    let tickets = open(folder.path()).unwrap().with_audit(log.clone());
    let kept = tickets.accept(draft("a")).await.unwrap();
    for wanted in [Wanted::Due, Wanted::Expired] {
        let claimed = tickets.claim("planner", 100, wanted).await.unwrap();
        assert!(claimed.tickets.is_empty());
        assert_eq!(
            claimed.next,
            Some(Duration::from_secs(1)),
            "looked at again"
        );
    }
    log.0.store(true, Ordering::Relaxed);
    assert_eq!(claimed(&tickets).await, [kept.ticket]);
}

#[tokio::test]
async fn one_process_works_with_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(folder.path()).unwrap();
    let second = open(folder.path()).unwrap_err();
    assert!(matches!(second, OpenError::InUse { .. }), "{second}");
    assert!(second.to_string().contains("another gateway"), "{second}");
    first.close();
    assert!(open(folder.path()).is_ok());
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(FILE);
    std::fs::write(&file, "these are no tickets, and long enough to be read").unwrap();
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains(FILE), "{error}");
    std::fs::remove_file(&file).unwrap();
    let other = rusqlite::Connection::open(&file).unwrap();
    other
        .execute_batch("CREATE TABLE boats (name TEXT)")
        .unwrap();
    drop(other);
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    // A file where the folder should be.
    let error = open(&file).unwrap_err();
    assert!(matches!(error, OpenError::Folder { .. }), "{error}");
}

#[tokio::test]
async fn what_is_kept_outlives_the_store_and_claims_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let tickets = open(folder.path()).unwrap();
    let mut waits = draft("wait for me");
    waits.wait = Duration::from_secs(600);
    let kept = tickets.accept(waits).await.unwrap().ticket;
    let other = tickets.accept(draft("now")).await.unwrap().ticket;
    assert_eq!(claimed(&tickets).await, std::slice::from_ref(&other));
    assert!(claimed(&tickets).await.is_empty(), "it is given out once");
    tickets.close();
    tickets.close();
    drop(tickets);
    let tickets = open(folder.path()).unwrap();
    let again = tickets.claim("planner", 9, Wanted::Due).await.unwrap();
    let found: BTreeMap<_, _> = again
        .tickets
        .iter()
        .map(|t| (t.id.clone(), t.request.messages[0].plain_text()))
        .collect();
    // What was waited for may have come meanwhile: both are due.
    let expected = [(kept, "wait for me".to_owned()), (other, "now".to_owned())];
    assert_eq!(found, BTreeMap::from(expected));
}

/// A disk without room: what was not kept is said so, what was is there.
#[tokio::test]
async fn a_full_disk_keeps_nothing_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let tickets = open(folder.path()).unwrap();
    let room = |pages: i64| {
        tickets.database.run(move |desk| {
            let count: i64 = desk
                .db
                .query_row("PRAGMA page_count", [], |row| row.get(0))?;
            let most = format!("PRAGMA max_page_count = {}", count + pages);
            desk.db.query_row(&most, [], |_| Ok(()))?;
            Ok(())
        })
    };
    room(20).await.unwrap();
    let large = "x".repeat(20_000);
    let accepts = (0..12).map(|_| tickets.accept(draft(&large)));
    let ended = futures_util::future::join_all(accepts).await;
    let (kept, refused): (Vec<_>, Vec<_>) = ended.into_iter().partition(Result::is_ok);
    assert!(!refused.is_empty());
    for refused in refused {
        assert!(matches!(refused, Err(TicketError::Full(_))), "{refused:?}");
    }
    let listed = tickets.list(None, None, 100).await.unwrap();
    assert_eq!(listed.len(), kept.len());
    room(1_000).await.unwrap();
    tickets.accept(draft(&large)).await.unwrap();
    assert_eq!(claimed(&tickets).await.len(), kept.len() + 1);
}

#[tokio::test]
async fn a_role_has_so_many_open_tickets_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let tickets = open(folder.path()).unwrap();
    let few = || TicketDraft {
        max_open: 2,
        ..draft("a")
    };
    tickets.accept(few()).await.unwrap();
    let second = tickets.accept(few()).await.unwrap().ticket;
    let third = tickets.accept(few()).await;
    assert!(matches!(third, Err(TicketError::TooMany { open: 2, .. })));
    tickets.change(second, None, Wish::Drop).await.unwrap();
    tickets.accept(few()).await.unwrap();
}

#[tokio::test]
async fn a_key_is_one_ticket_of_one_caller_and_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let tickets = open(folder.path()).unwrap();
    let first = tickets.accept(keyed("a", "ann", "k")).await.unwrap();
    let again = tickets.accept(keyed("a", "ann", "k")).await.unwrap();
    assert_eq!((again.ticket, again.is_new), (first.ticket.clone(), false));
    let other = tickets.accept(keyed("b", "ann", "k")).await;
    let Err(TicketError::KeyReused { ticket }) = other else {
        panic!("{other:?}");
    };
    assert_eq!(ticket, first.ticket);
    let bob = tickets.accept(keyed("a", "bob", "k")).await.unwrap();
    assert!(bob.is_new);
    let request = ChatRequest::user("a");
    let known = tickets.known(Some("ann"), "k", "planner", &request).await;
    assert_eq!(known.unwrap().unwrap().ticket, first.ticket);
    let unknown = tickets.known(None, "k", "planner", &request).await;
    assert_eq!(unknown.unwrap(), None);
    let found = tickets.find(first.ticket, Some("bob".to_owned())).await;
    assert_eq!(found.unwrap(), None, "another caller's ticket is none");
}

/// Every end is told once, in the commit that made it.
#[tokio::test]
async fn the_outbox_holds_each_end_once() {
    let folder = tempfile::tempdir().unwrap();
    let tickets = open(folder.path()).unwrap();
    let escalated = TicketDraft {
        escalated: true,
        ..draft("e")
    };
    let id = tickets.accept(escalated).await.unwrap().ticket;
    assert_eq!(posts(&tickets).await, ["ticket.escalated"]);
    assert_eq!(claimed(&tickets).await, std::slice::from_ref(&id));
    let wait = Duration::ZERO;
    let put_off = TicketOutcome::PutOff {
        wait,
        cause: cause(),
    };
    let state = tickets.record(&id, put_off).await.unwrap();
    assert_eq!(state, Some(TicketState::Escalated));
    assert_eq!(posts(&tickets).await.len(), 1);
    claimed(&tickets).await;
    let given_up = TicketOutcome::GivenUp { cause: cause() };
    let state = tickets.record(&id, given_up).await.unwrap();
    assert_eq!(state, Some(TicketState::Escalated), "the operator has it");
    assert!(claimed(&tickets).await.is_empty());
    let answered = Wish::Answer(serde_json::json!({ "choices": [] }));
    let changed = tickets.change(id.clone(), None, answered).await.unwrap();
    assert!(matches!(changed, Changed::Done(_)));
    let late = tickets.record(&id, answer().await).await.unwrap();
    assert_eq!(late, None, "the operator was first");
    let kinds = ["ticket.escalated", "ticket.escalated", "ticket.answered"];
    assert_eq!(posts(&tickets).await, kinds);
}

#[tokio::test]
async fn an_end_that_was_kept_long_enough_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let mut tickets = open(folder.path()).unwrap();
    let ended = tickets.accept(draft("a")).await.unwrap().ticket;
    let open = tickets.accept(draft("b")).await.unwrap().ticket;
    claimed(&tickets).await;
    tickets.record(&ended, answer().await).await.unwrap();
    assert_eq!(tickets.delete_old().await.unwrap(), 0);
    // As if it had been kept for a millisecond longer than it may.
    tickets.keep = Duration::ZERO;
    tickets.timeline.shift(1);
    assert_eq!(tickets.delete_old().await.unwrap(), 1);
    assert_eq!(tickets.find(ended, None).await.unwrap(), None);
    assert!(tickets.find(open, None).await.unwrap().is_some());
}

#[tokio::test]
async fn open_tickets_of_a_role_that_is_gone_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let tickets = open(folder.path()).unwrap();
    tickets.accept(draft("a")).await.unwrap();
    tickets.accept(draft("b")).await.unwrap();
    let roles = |name: &str| vec![name.to_owned()];
    assert!(tickets.strays(&roles("planner")).await.is_empty());
    let told = tickets.strays(&roles("writer")).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("`planner`") && told[0].contains("2 open"),
        "{told:?}"
    );
    for id in claimed(&tickets).await {
        tickets.record(&id, answer().await).await.unwrap();
    }
    assert!(tickets.strays(&roles("writer")).await.is_empty());
}

/// Ten days, ms.
const TEN_DAYS: i64 = 10 * 24 * 3_600 * 1_000;

/// A process began while the calendar clock was ten days ahead; the next begins when it
/// has been set back.
#[tokio::test]
async fn a_clock_that_was_set_back_between_two_processes_keeps_nothing_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let mut tickets = open(folder.path()).unwrap();
    tickets.timeline.shift(TEN_DAYS);
    let mut waits = draft("a");
    waits.wait = Duration::from_secs(600);
    let id = tickets.accept(waits).await.unwrap().ticket;
    tickets.close();
    drop(tickets);

    let mut tickets = open(folder.path()).unwrap();
    let first = due(&tickets).await;
    assert_eq!(first.len(), 1, "due at once, not in ten days: {first:?}");
    assert_eq!((&first[0].id, first[0].is_expired), (&id, false));
    tickets.release(&id).await;
    // Its age counts from now on: an hour, and not ten days and an hour.
    tickets.timeline.shift(3_601 * 1_000);
    assert!(due(&tickets).await[0].is_expired);
}

/// The time for which no process ran counts like any other, as far as the clock tells it.
#[tokio::test]
async fn a_clock_that_was_set_forward_gives_a_ticket_its_last_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let tickets = open(folder.path()).unwrap();
    let id = tickets.accept(draft("a")).await.unwrap().ticket;
    tickets.close();
    drop(tickets);

    let mut tickets = open(folder.path()).unwrap();
    tickets.timeline.shift(TEN_DAYS);
    let first = due(&tickets).await;
    assert_eq!((&first[0].id, first[0].is_expired), (&id, true));
    tickets.record(&id, answer().await).await.unwrap();
    let found = tickets.find(id, None).await.unwrap().unwrap();
    assert_eq!(
        found.state,
        TicketState::Answered,
        "its last call may answer it"
    );
}

/// What is done to a store.
#[derive(Debug, Clone)]
enum Act {
    Accept(u8),
    Claim(usize),
    Record(u8, u8),
    Release(u8),
    Change(u8, u8),
    Reopen,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..6_u8).prop_map(Act::Accept),
        3 => (0..4_usize).prop_map(Act::Claim),
        4 => (any::<u8>(), 0..3_u8).prop_map(|(t, o)| Act::Record(t, o)),
        1 => any::<u8>().prop_map(Act::Release),
        2 => (any::<u8>(), 0..3_u8).prop_map(|(t, w)| Act::Change(t, w)),
        1 => Just(Act::Reopen),
    ]
}

/// A ticket as a list would keep it.
#[derive(Debug, Clone)]
struct Line {
    id: TicketId,
    key: u8,
    state: TicketState,
    retried: bool,
    claimed: bool,
    attempts: u32,
    ends: usize,
}

/// The list that the store is held to, and an answer.
#[derive(Debug)]
struct Model(Vec<Line>, TicketOutcome);

impl Model {
    fn pick(&self, which: u8) -> Option<usize> {
        (!self.0.is_empty()).then(|| usize::from(which) % self.0.len())
    }

    async fn follow(&mut self, tickets: &mut Tickets, folder: &Path, act: Act) {
        match act {
            Act::Accept(key) => self.accept(tickets, key).await,
            Act::Claim(most) => self.claim(tickets, most).await,
            Act::Record(which, how) => self.record(tickets, which, how).await,
            Act::Release(which) => {
                let Some(at) = self.pick(which) else { return };
                tickets.release(&self.0[at].id).await;
                self.0[at].claimed = false;
            }
            Act::Change(which, wish) => self.change(tickets, which, wish).await,
            Act::Reopen => {
                tickets.close();
                *tickets = open(folder).unwrap();
                for line in &mut self.0 {
                    line.claimed = false;
                }
            }
        }
    }

    /// Keys 0 and 1 are none: each call is a ticket of its own.
    async fn accept(&mut self, tickets: &Tickets, key: u8) {
        let text = format!("question {key}");
        let mut new = if key < 2 {
            draft(&text)
        } else {
            keyed(&text, "ann", &format!("k{key}"))
        };
        new.escalated = key % 2 == 1;
        let accepted = tickets.accept(new).await.unwrap();
        let known = self.0.iter().find(|line| key >= 2 && line.key == key);
        assert_eq!(accepted.is_new, known.is_none());
        if let Some(known) = known {
            assert_eq!((&accepted.ticket, accepted.state), (&known.id, known.state));
            return;
        }
        let state = if key % 2 == 1 {
            TicketState::Escalated
        } else {
            TicketState::Queued
        };
        assert_eq!(accepted.state, state);
        self.0.push(Line {
            id: accepted.ticket,
            key,
            state,
            retried: true,
            claimed: false,
            attempts: 0,
            ends: usize::from(key % 2 == 1),
        });
    }

    async fn claim(&mut self, tickets: &Tickets, most: usize) {
        let claimed = tickets.claim("planner", most, Wanted::Due).await.unwrap();
        let free = |line: &Line| line.state.is_open() && line.retried && !line.claimed;
        let due = self.0.iter().filter(|line| free(line)).count();
        assert_eq!(claimed.tickets.len(), due.min(most));
        assert_eq!(claimed.next.is_some(), due > most);
        for ticket in claimed.tickets {
            let line = self.0.iter_mut().find(|line| line.id == ticket.id);
            let line = line.expect("only what was accepted");
            assert!(free(line), "{line:?}");
            assert_eq!(ticket.attempts, line.attempts);
            let asked = ticket.request.messages[0].plain_text();
            assert_eq!(asked, format!("question {}", line.key));
            line.claimed = true;
        }
    }

    async fn record(&mut self, tickets: &Tickets, which: u8, how: u8) {
        let Some(at) = self.pick(which) else { return };
        let line = &mut self.0[at];
        let (outcome, state, retried) = match how {
            0 => (self.1.clone(), TicketState::Answered, false),
            1 => {
                let wait = Duration::ZERO;
                let put_off = TicketOutcome::PutOff {
                    wait,
                    cause: cause(),
                };
                (put_off, line.state, true)
            }
            _ => {
                let given_up = TicketOutcome::GivenUp { cause: cause() };
                let state = if line.state == TicketState::Queued {
                    TicketState::Failed
                } else {
                    line.state
                };
                (given_up, state, false)
            }
        };
        let recorded = tickets.record(&line.id, outcome).await.unwrap();
        line.claimed = false;
        if !line.state.is_open() {
            assert_eq!(recorded, None);
            return;
        }
        assert_eq!(recorded, Some(state));
        (line.state, line.retried) = (state, retried);
        line.attempts += 1;
        line.ends += usize::from(how != 1);
    }

    async fn change(&mut self, tickets: &Tickets, which: u8, wish: u8) {
        let Some(at) = self.pick(which) else { return };
        let line = &mut self.0[at];
        let (wish, may, state, retried) = match wish {
            0 => (
                Wish::Drop,
                line.state.is_open(),
                TicketState::Dropped,
                false,
            ),
            1 => {
                let state = if line.key % 2 == 1 {
                    TicketState::Escalated
                } else {
                    TicketState::Queued
                };
                let may = line.state.is_open() || line.state == TicketState::Failed;
                (Wish::Retry, may, state, true)
            }
            _ => {
                let answer = Wish::Answer(serde_json::json!({ "by": "hand" }));
                (answer, line.state.is_open(), TicketState::Answered, false)
            }
        };
        let is_end = !retried;
        let changed = tickets.change(line.id.clone(), None, wish).await.unwrap();
        assert_eq!(matches!(changed, Changed::Done(_)), may, "{changed:?}");
        if may {
            (line.state, line.retried) = (state, retried);
            line.ends += usize::from(is_end);
            if retried {
                line.attempts = 0;
            }
        }
    }

    async fn compare(&self, tickets: &Tickets) {
        for line in &self.0 {
            let record = tickets.find(line.id.clone(), None).await.unwrap();
            let record = record.expect("nothing accepted is lost");
            assert_eq!(record.state, line.state);
            assert_eq!(record.attempts, line.attempts);
            assert_eq!(record.due.is_some(), line.state.is_open() && line.retried);
            assert_eq!(record.answer.is_some(), line.state == TicketState::Answered);
        }
        let listed = tickets.list(None, None, 1_000).await.unwrap();
        assert_eq!(listed.len(), self.0.len());
        let ends: usize = self.0.iter().map(|line| line.ends).sum();
        assert_eq!(posts(tickets).await.len(), ends);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is done to the store, and however often it is closed and opened
    /// between, it stands as a plain list would.
    #[test]
    fn the_store_is_a_list_that_lasts(acts in prop::collection::vec(act(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        runtime.block_on(async {
            let mut tickets = open(folder.path()).unwrap();
            let mut model = Model(Vec::new(), answer().await);
            for act in acts {
                model.follow(&mut tickets, folder.path(), act).await;
            }
            model.compare(&tickets).await;
        });
    }
}

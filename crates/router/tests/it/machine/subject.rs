//! The system under test: a router over simulated models, on a paused clock of its own.

use super::history::{Goes, History};
use super::roster::{Mood, Op, RUNGS, Roster};
use crate::world::{Plan, ROLE, World, ms};
use evenkeel_core::{CallContext, ChatRequest};
use evenkeel_roster::{RetryBudgetPolicy, RolePolicy};
use evenkeel_router::Router;
use futures_util::StreamExt;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// Limits and clocks that let a run of a few minutes reach everything.
pub(crate) fn policy(p: &mut RolePolicy) {
    p.clocks.deadline = Duration::from_secs(60);
    p.retry.transient = 1;
    p.retry.overloaded = 1;
    p.hedge.burst = 3;
    p.restore.probe_interval = Duration::from_secs(5);
    p.restore.probe_interval_cap = Duration::from_secs(20);
    p.restore.canary = vec![0.3, 0.6];
    p.restore.canary_max = Duration::from_secs(30);
    p.restore.hold = Duration::from_secs(20);
    p.restore.reset_after = Duration::from_secs(120);
}

pub(crate) const RETRIES: RetryBudgetPolicy = RetryBudgetPolicy {
    ratio: 0.2,
    reserve: 2,
    window: Duration::from_secs(10),
};

/// What a caller saw: who answered, or nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saw {
    AnswerOf(usize),
    Error,
    /// It left before the end.
    Nothing,
}

pub(crate) struct Subject {
    runtime: Runtime,
    world: World,
    origin: Instant,
    /// What the caller of each call saw.
    saw: Vec<Saw>,
}

impl Subject {
    pub(crate) fn new(roster: &Roster) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let behaviours = roster.moods.map(Mood::behaviour).to_vec();
        let (world, origin) = runtime.block_on(async {
            let plan = Plan::new(behaviours).policy(policy);
            let plan = plan
                .model(|_, model| {
                    model.max_concurrency = 1_000;
                    model.breaker.open = Duration::from_secs(5);
                    model.breaker.open_cap = Duration::from_secs(20);
                })
                .retry_budget(RETRIES);
            (plan.build(), tokio::time::Instant::now().into_std())
        });
        Self {
            runtime,
            world,
            origin,
            saw: Vec::new(),
        }
    }

    pub(crate) fn perform(&mut self, op: &Op) {
        match *op {
            Op::Turns { rung, mood } => {
                // Within the runtime: a behaviour counts its time from when it was set.
                let _within = self.runtime.enter();
                self.world.set(rung, mood.behaviour());
            }
            Op::Calls { n, every, streams } => self.crowd(n, every, None, streams),
            Op::Leave { n, after, streams } => self.crowd(n, 0, Some(ms(after)), streams),
            Op::Passes(millis) => self
                .runtime
                .block_on(async { tokio::time::sleep(ms(millis)).await }),
        }
    }

    fn crowd(&mut self, n: usize, every: u64, patience: Option<Duration>, streams: bool) {
        let first = self.saw.len();
        let router = self.world.router.clone();
        let saw = self.runtime.block_on(async move {
            let mut calls = JoinSet::new();
            for nth in 0..n {
                let caller = caller(router.clone(), first + nth, patience, streams);
                calls.spawn(async move { (nth, caller.await) });
                tokio::time::sleep(ms(every)).await;
            }
            let mut saw = calls.join_all().await;
            saw.sort_by_key(|(nth, _)| *nth);
            saw
        });
        self.saw.extend(saw.into_iter().map(|(_, saw)| saw));
    }

    pub(crate) fn history(&self, roster: &Roster) -> History {
        let explanation = self
            .runtime
            .block_on(async { self.world.router.explain(ROLE).unwrap() });
        History::read(
            &self.world.memory.events(),
            self.origin,
            &self.saw,
            roster.safe,
            (explanation.active, explanation.epoch),
        )
    }

    /// Every model is well for a quarter of an hour; then come calls, the last twenty of which the primary
    /// answers.
    pub(crate) fn all_well(&mut self, mut roster: Roster) -> Roster {
        let ops = (0..RUNGS).map(|rung| Op::Turns {
            rung,
            mood: Mood::Answers(100),
        });
        let quiet = Op::Passes(15 * 60 * 1_000);
        let calls = |n, every| Op::Calls {
            n,
            every,
            streams: false,
        };
        // One at a time, for a breaker that has waited to try; then a few at once.
        let calls = [calls(4, 200), calls(20, 10)];
        for op in ops.chain([quiet]).chain(calls) {
            self.perform(&op);
            roster = <Roster as proptest_state_machine::ReferenceStateMachine>::apply(roster, &op);
        }
        let last = &self.saw[self.saw.len() - 20..];
        assert_eq!(last, [Saw::AnswerOf(0); 20], "all is well");
        roster
    }

    pub(crate) fn shut_down(self) {
        self.runtime.block_on(self.world.router.shutdown());
        for rung in 0..RUNGS {
            assert_eq!(self.world.stats(rung).in_flight, 0, "rung {rung}");
        }
    }
}

async fn caller(router: Router, nth: usize, patience: Option<Duration>, streams: bool) -> Saw {
    let asks = ask(router, nth, streams);
    match patience {
        None => asks.await,
        Some(patience) => tokio::time::timeout(patience, asks)
            .await
            .unwrap_or(Saw::Nothing),
    }
}

/// Four in five calls are sessions of their own; the fifth goes on with one of seven.
fn session(nth: usize) -> String {
    if nth % 5 == 4 {
        format!("regular {}", nth % 7)
    } else {
        format!("caller {nth}")
    }
}

async fn ask(router: Router, nth: usize, streams: bool) -> Saw {
    let goes = Goes {
        nth,
        streams,
        session: session(nth),
    };
    let context = CallContext {
        request_id: Some(goes.to_id().into()),
        session: Some(goes.session.as_str().into()),
        ..CallContext::default()
    };
    // The same words from all: a hedge costs one of the budget.
    let request = ChatRequest::user("hello");
    if !streams {
        return match router.complete(ROLE, request, context).await {
            Ok(answer) => Saw::AnswerOf(answer.meta.rung),
            Err(_) => Saw::Error,
        };
    }
    let Ok(mut stream) = router.stream(ROLE, request, context).await else {
        return Saw::Error;
    };
    let rung = stream.meta().rung;
    while let Some(event) = stream.next().await {
        if event.is_err() {
            return Saw::Error;
        }
    }
    Saw::AnswerOf(rung)
}

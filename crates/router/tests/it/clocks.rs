//! The four clocks, and patience, which is none of them.

use crate::world::{Plan, ms, steady, told};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{
    CallContext, ChatResponse, Class, ClockOverrides, Delta, EventStream, Failure, Phase, Provider,
    ProviderCall, StreamEvent, Usage,
};
use evenkeel_roster::{Commit, HedgeMode, OnStreamBreak, Signal};
use evenkeel_router::CallErrorKind;
use futures_util::StreamExt;
use futures_util::stream::{self, once};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

fn no_hedges(plan: Plan) -> Plan {
    plan.policy(|p| {
        p.hedge.mode = HedgeMode::Off;
        p.clocks.first_token = ms(3_000);
        p.clocks.stall = ms(2_000);
        p.clocks.deadline = Duration::from_secs(30);
    })
}

// C030
#[tokio::test(start_paused = true)]
async fn comments_do_not_stop_the_first_token_clock() {
    let comments = Behaviour::failing(Fault::KeepAlivesOnly { every: ms(100) });
    let world = no_hedges(Plan::new(vec![comments, steady(100)])).build();
    let began = Instant::now();
    let answer = world.stream().await.unwrap();
    assert_eq!(began.elapsed(), ms(3_100));
    assert_eq!(answer.meta().rung, 1);
    assert_eq!(
        told(&answer.trail()),
        ["0 first timeout", "no hedge 0 off", "1 failover running"]
    );
}

/// Says one word, and then only that it is there.
#[derive(Debug)]
struct Pings(StreamEvent);

#[async_trait::async_trait]
impl Provider for Pings {
    async fn complete(&self, _: ProviderCall) -> Result<ChatResponse, Failure> {
        unreachable!("the caller streams")
    }

    async fn stream(&self, _: ProviderCall) -> Result<EventStream, Failure> {
        let word = StreamEvent::Delta(Delta::Text("word".into()));
        let pings = stream::repeat(self.0.clone()).then(|ping| async move {
            tokio::time::sleep(ms(300)).await;
            Ok(ping)
        });
        Ok(Box::pin(once(async { Ok(word) }).chain(pings)))
    }
}

/// What the caller is passed on meanwhile is no sign of progress.
#[tokio::test(start_paused = true)]
async fn signs_of_life_do_not_stop_the_stall_clock() {
    let empty = Delta::Text(String::new());
    let signs = [
        StreamEvent::KeepAlive,
        StreamEvent::Usage(Usage::default()),
        StreamEvent::Delta(empty),
    ];
    for sign in signs {
        let pings = Pings(sign.clone());
        let pings = Arc::new(pings);
        let world = no_hedges(Plan::new(vec![steady(100)]))
            .policy(|p| {
                p.commit = Commit::FirstToken;
                p.on_stream_break = OnStreamBreak::Fail;
            })
            .provider(move |_, _| pings.clone())
            .build();
        let began = Instant::now();
        let mut answer = world.stream().await.unwrap();
        let mut last = None;
        while let Some(event) = answer.next().await {
            last = Some(event);
        }
        let failure = last.unwrap().unwrap_err();
        assert_eq!(
            (failure.class, failure.phase),
            (Class::Timeout, Some(Phase::Stall)),
            "{sign:?}"
        );
        assert_eq!(began.elapsed(), ms(2_000), "{sign:?}");
    }
}

/// The time for which the caller does not read is not the model's.
#[tokio::test(start_paused = true)]
async fn a_caller_who_is_away_stalls_nobody() {
    let slow = Behaviour::healthy(evenkeel_chaos::Latency::millis(100))
        .with_tokens(4)
        .with_inter_token(ms(1_500));
    let world = no_hedges(Plan::new(vec![slow])).build();
    let mut answer = world.stream().await.unwrap();
    let mut ended = false;
    while let Some(event) = answer.next().await {
        ended = event.unwrap() == StreamEvent::End;
        tokio::time::sleep(ms(1_900)).await;
    }
    assert!(ended);
}

#[tokio::test(start_paused = true)]
async fn a_stall_before_the_commit_fails_over() {
    let stalls = Behaviour::failing(Fault::StallAfter(2));
    let world = no_hedges(Plan::new(vec![stalls, steady(100)]))
        .policy(|p| p.signal = Signal::FirstToken)
        .build();
    let began = Instant::now();
    let answer = world.ask().await.unwrap();
    assert_eq!(answer.meta.rung, 1);
    assert_eq!(began.elapsed(), ms(2_100));
    let failed = answer.trail.attempts().next().unwrap();
    match &failed.outcome {
        evenkeel_core::AttemptOutcome::Failed(f) => {
            assert_eq!((f.class, f.phase), (Class::Timeout, Some(Phase::Stall)));
        }
        other => panic!("{other:?}"),
    }
}

// C123
#[tokio::test(start_paused = true)]
async fn four_stalled_streams_free_their_places() {
    let stalls = Behaviour::failing(Fault::StallAfter(1));
    let world = no_hedges(Plan::new(vec![stalls, steady(100)]))
        .policy(|p| p.signal = Signal::FirstToken)
        .model(|i, model| {
            if i == 0 {
                model.max_concurrency = 4;
            }
        })
        .build();
    let calls: Vec<_> = (0..5).map(|_| world.ask()).collect();
    let began = Instant::now();
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer.unwrap().meta.rung, 1);
    }
    assert_eq!(began.elapsed(), ms(2_100));
    assert_eq!(
        world.stats(0).started,
        4,
        "the fifth found no place and went on"
    );
}

#[tokio::test(start_paused = true)]
async fn a_caller_may_shorten_a_clock_and_not_lengthen_it() {
    let world = no_hedges(Plan::new(vec![Behaviour::failing(Fault::Hang)])).build();
    for (asked, taken) in [(1_000, 1_000), (60_000, 30_000)] {
        let context = CallContext {
            clocks: ClockOverrides {
                deadline: Some(ms(asked)),
                ..ClockOverrides::default()
            },
            ..CallContext::default()
        };
        let began = Instant::now();
        let error = world.ask_with(context).await.unwrap_err();
        assert_eq!(began.elapsed(), ms(taken));
        assert!(
            matches!(&error.kind, CallErrorKind::Failed(f) if f.phase == Some(Phase::Deadline))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_rung_is_queued_for_up_to_its_patience() {
    let world = Plan::new(vec![steady(400)])
        .model(|_, model| model.max_concurrency = 1)
        .build();
    let began = Instant::now();
    let ends = futures_util::future::join_all((0..4).map(|_| async {
        let end = world.ask().await;
        (end.map(|a| a.meta.rung), began.elapsed())
    }))
    .await;
    // Three fit into a patience of one second; the fourth waits it out.
    for (i, (end, at)) in ends[..3].iter().enumerate() {
        assert_eq!((*end.as_ref().unwrap(), *at), (0, ms(400 * (i as u64 + 1))));
    }
    let (end, at) = &ends[3];
    let error = end.as_ref().unwrap_err();
    assert!(matches!(&error.kind, CallErrorKind::Failed(f) if f.class == Class::Overloaded));
    assert_eq!(*at, ms(1_000));
}

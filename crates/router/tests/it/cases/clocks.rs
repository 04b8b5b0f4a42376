//! Clocks at their edges.

use super::{attempts_told, breaker, failing, read, upstream_calls};
use crate::world::{Plan, ROLE, deadline, ms, steady, told};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{
    CallContext, ChatRequest, ChatResponse, Class, ClockOverrides, Clocks, EventStream, Failure,
    Phase, Provider, ProviderCall,
};
use evenkeel_roster::{HedgeMode, OnStreamBreak, Signal};
use evenkeel_router::CallErrorKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn a_deadline_of_nothing_asks_nobody() {
    for rungs in [1, 3] {
        let world = Plan::new(vec![steady(100); rungs])
            .model(|_, m| m.breaker.failure_threshold = 1)
            .build();
        for _ in 0..3 {
            let began = Instant::now();
            let whole = world.ask_with(deadline(Duration::ZERO)).await.unwrap_err();
            let request = ChatRequest::user("hello");
            let stream = world
                .router
                .stream(ROLE, request, deadline(Duration::ZERO))
                .await;
            for error in [whole, stream.unwrap_err()] {
                assert!(matches!(
                    &error.kind,
                    CallErrorKind::Failed(f) if f.phase == Some(Phase::Deadline)
                ));
                assert_eq!(error.trail.attempts().count(), 0);
            }
            assert_eq!(began.elapsed(), Duration::ZERO);
        }
        assert_eq!((upstream_calls(&world), attempts_told(&world)), (0, 0));
        assert_eq!(breaker(&world, 0), "closed");
        world.ask().await.unwrap();
    }
}

/// Every clock and limit of the role as long as a policy may say.
fn endless(plan: Plan) -> Plan {
    plan.policy(|p| {
        let day = Duration::from_secs(86_400);
        p.p95 = day;
        p.p99 = day;
        p.first_token_p95 = day;
        p.first_token_p99 = day;
        p.retry.transient = 1;
        p.hedge.keep_to_p99 = true;
        p.clocks = Clocks {
            connect: day,
            first_token: day,
            stall: day,
            deadline: day,
        };
    })
}

#[tokio::test(start_paused = true)]
async fn clocks_as_long_as_can_be_said_overflow_nothing() {
    for longest in [Duration::from_millis(u64::MAX), Duration::MAX] {
        let asked = shortened(|clocks| {
            *clocks = ClockOverrides {
                connect: Some(longest),
                first_token: Some(longest),
                stall: Some(longest),
                deadline: Some(longest),
            };
        });
        for signal in [Signal::Auto, Signal::Total, Signal::FirstToken] {
            // The fallback is said to take for ever: it is no use before any deadline.
            let plan = |primary| {
                endless(Plan::new(vec![primary, steady(300)]))
                    .policy(|p| p.signal = signal)
                    .rung(move |i, r| r.median_latency = (i > 0).then_some(longest))
                    .build()
            };
            let once = plan(failing(500).with_fault_times(1));
            let answer = once.ask_with(asked.clone()).await.unwrap();
            assert_eq!(answer.meta.rung, 0, "{longest:?} {signal:?}");
            let request = ChatRequest::user("hello");
            let stream = once.router.stream(ROLE, request, asked.clone()).await;
            let (_, failure, ended) = read(stream.unwrap()).await;
            assert!(ended && failure.is_none(), "{longest:?} {signal:?}");

            let stuck = plan(Behaviour::failing(Fault::Hang));
            let began = Instant::now();
            let error = stuck.ask_with(asked.clone()).await.unwrap_err();
            assert_eq!(error.kind.class(), Some(Class::Timeout));
            assert_eq!(began.elapsed(), Duration::from_secs(86_400), "{signal:?}");
            assert_eq!(stuck.stats(0).in_flight, 0);
        }
    }
}

/// Asks for a wait that no clock can say.
#[derive(Debug)]
struct AsksForEver(u16);

#[async_trait::async_trait]
impl Provider for AsksForEver {
    async fn complete(&self, _: ProviderCall) -> Result<ChatResponse, Failure> {
        let class = match self.0 {
            429 => Class::RateLimited,
            402 => Class::QuotaExhausted,
            _ => Class::Overloaded,
        };
        let failure = Failure::new(class, "come back later").with_status(self.0);
        Err(failure.with_retry_after(Duration::MAX))
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        self.complete(call).await.map(|_| unreachable!("it fails"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_no_clock_can_say_is_not_waited_for() {
    for status in [429, 402, 503] {
        let world = Plan::new(vec![steady(1), steady(100)])
            .policy(|p| {
                p.retry.rate_limited = 3;
                p.retry.overloaded = 3;
            })
            .model(|_, m| m.breaker.failure_threshold = 1)
            .provider(move |i, simulated| {
                if i == 0 {
                    Arc::new(AsksForEver(status))
                } else {
                    Arc::new(simulated)
                }
            })
            .build();
        for _ in 0..3 {
            let began = Instant::now();
            assert_eq!(world.ask().await.unwrap().meta.rung, 1, "{status}");
            assert_eq!(began.elapsed(), ms(100));
        }
    }
}

fn shortened(change: impl Fn(&mut ClockOverrides)) -> CallContext {
    let mut context = CallContext::default();
    change(&mut context.clocks);
    context
}

/// A healthy model must not be taken from everybody by one caller's clocks.
#[tokio::test(start_paused = true)]
async fn clocks_that_one_caller_cut_short_open_no_breaker() {
    let slow = || steady(400).with_tokens(5).with_inter_token(ms(200));
    let world = Plan::new(vec![slow(), slow()]).build();
    for context in [
        shortened(|c| c.first_token = Some(ms(1))),
        shortened(|c| c.first_token = Some(Duration::ZERO)),
        shortened(|c| c.stall = Some(ms(1))),
        shortened(|c| c.deadline = Some(ms(1))),
    ] {
        for _ in 0..10 {
            let request = ChatRequest::user("hello");
            match world.router.stream(ROLE, request, context.clone()).await {
                Ok(stream) => assert_eq!(read(stream).await.1.unwrap().phase, Some(Phase::Stall)),
                Err(error) => assert_eq!(error.kind.class(), Some(Class::Timeout)),
            }
        }
        let states = [breaker(&world, 0), breaker(&world, 1)];
        assert_eq!(states, ["closed"; 2], "{:?}", context.clocks);
    }
    // The role's own clocks go on counting.
    let world = Plan::new(vec![Behaviour::failing(Fault::Hang)])
        .policy(|p| {
            p.clocks.first_token = ms(500);
            p.hedge.mode = HedgeMode::Off;
        })
        .build();
    for _ in 0..5 {
        world.stream().await.unwrap_err();
    }
    assert_eq!(breaker(&world, 0), "open");
}

// C031
#[tokio::test(start_paused = true)]
async fn the_first_token_clock_ends_with_the_first_token_and_a_later_gap_is_the_stall_clocks() {
    let bursts = || steady(500).with_tokens(4).with_inter_token(ms(3_000));
    let plan = |behaviour| {
        Plan::new(vec![behaviour])
            .policy(|p| {
                p.clocks.first_token = ms(1_000);
                p.clocks.stall = ms(5_000);
                p.on_stream_break = OnStreamBreak::Fail;
            })
            .build()
    };
    let (_, failure, ended) = read(plan(bursts()).stream().await.unwrap()).await;
    assert!(ended && failure.is_none(), "gaps of 3 s are no stall");

    let world = plan(bursts().with_fault(Fault::StallAfter(2)));
    let stream = world.stream().await.unwrap();
    let began = Instant::now();
    let (text, failure, ended) = read(stream).await;
    let failure = failure.unwrap();
    assert!(!ended);
    assert_eq!(failure.phase, Some(Phase::Stall));
    assert!(failure.message.contains("5000 ms"), "{}", failure.message);
    assert!(!text.is_empty());
    assert_eq!(began.elapsed(), ms(8_000), "5 s after the second token");
}

// C123
#[tokio::test(start_paused = true)]
async fn streams_that_stall_after_their_commit_free_their_places() {
    let stalls = Behaviour::failing(Fault::StallAfter(1));
    let world = Plan::new(vec![stalls])
        .policy(|p| {
            p.hedge.mode = HedgeMode::Off;
            p.clocks.stall = ms(2_000);
            p.on_stream_break = OnStreamBreak::Fail;
            p.first_token_p95 = ms(1_000);
        })
        .model(|_, m| {
            m.max_concurrency = 4;
            m.breaker.failure_threshold = 100;
        })
        .build();
    let began = Instant::now();
    let four = futures_util::future::join_all((0..4).map(|_| async {
        let (_, failure, ended) = read(world.stream().await.unwrap()).await;
        assert!(!ended);
        (failure.unwrap().phase, began.elapsed())
    }));
    let fifth = async {
        sleep(ms(1_500)).await;
        world.set(0, steady(100));
        // It queues, up to its own patience, and gets a place when they end.
        let answer = world.ask().await.unwrap();
        (told(&answer.trail), began.elapsed())
    };
    let (ends, (trail, at)) = tokio::join!(four, fifth);
    assert_eq!(ends, [(Some(Phase::Stall), ms(2_000)); 4]);
    assert_eq!(trail.last().unwrap(), "0 failover won");
    assert_eq!(at, ms(2_100));
}

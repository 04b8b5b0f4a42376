//! Where a failed call goes, and what is told of it.

use super::{Turns, ask_long, attempts_told, breaker, code, failing, read, text, upstream_calls};
use crate::world::{Plan, World, deadline, ms, steady, told};
use evenkeel_chaos::{Behaviour, Fault, Simulated};
use evenkeel_core::{
    AttemptOutcome, ChatResponse, Class, EventKind, EventStream, Failure, Phase, Provider,
    ProviderCall, Refusal, Trail,
};
use evenkeel_roster::{HedgeMode, Signal};
use evenkeel_router::{CallErrorKind, RungEndKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

fn first_failure(trail: &Trail) -> &Failure {
    match &trail.attempts().next().unwrap().outcome {
        AttemptOutcome::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

// C001 (in the OpenAI dialect)
#[tokio::test(start_paused = true)]
async fn an_error_as_a_streams_first_event_fails_over_and_counts() {
    let error = Fault::ErrorInStream {
        after: 0,
        code: Some("503".to_owned()),
        message: "Overloaded".to_owned(),
    };
    let world = Plan::new(vec![Behaviour::failing(error), steady(100)])
        .model(|_, m| m.breaker.failure_threshold = 1)
        .build();
    let (text, failure, ended) = read(world.stream().await.unwrap()).await;
    assert!(ended && failure.is_none());
    assert!(text.contains("[[p1/m]]") && !text.contains("[[p0/m]]"));
    assert_eq!((world.stats(0).started, world.stats(1).started), (1, 1));
    assert_eq!(breaker(&world, 0), "open");
    let fallbacks = world.memory.all(|k| match k {
        EventKind::ModelFallback { reason, .. } => Some(*reason),
        _ => None,
    });
    assert_eq!(fallbacks, ["overloaded"]);
}

/// Two models that cool down, the first for 1.5 s, the second for a minute.
async fn cooling() -> World {
    let limited = |wait| Behaviour::failing(Fault::rate_limited(wait)).with_fault_times(1);
    let world = Plan::new(vec![limited(ms(1_500)), limited(ms(60_000))]).build();
    world.ask().await.unwrap_err();
    world
}

// C005
#[tokio::test(start_paused = true)]
async fn a_call_waits_for_the_earliest_return_if_it_fits() {
    let world = cooling().await;
    let began = Instant::now();
    let answer = world.ask_with(deadline(ms(10_000))).await.unwrap();
    assert_eq!(answer.meta.rung, 0);
    // Up to a tenth later, so that a crowd does not come back at once.
    assert!((ms(1_500)..=ms(1_650)).contains(&began.elapsed()));
    assert_eq!(world.stats(1).started, 1);
}

// C005
#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_wait_is_told_the_earliest_return_and_each_reason() {
    let world = cooling().await;
    let began = Instant::now();
    let error = world.ask_with(deadline(ms(1_000))).await.unwrap_err();
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(error.retry_after, Some(ms(1_500)));
    let CallErrorKind::Exhausted(ends) = &error.kind else {
        panic!("{error}")
    };
    let ends: Vec<_> = ends.iter().map(|e| e.end).collect();
    let cooldown = |ms_left| RungEndKind::Refused(Refusal::Cooldown(ms(ms_left)));
    assert_eq!(ends, [cooldown(1_500), cooldown(60_000)]);
    assert_eq!(upstream_calls(&world), 2);
}

/// Each fault that sends a call on, its class and the status it came with.
fn faults() -> Vec<(Fault, Class, Option<u16>)> {
    let status = |n, class| (Fault::status(n), class, Some(n));
    vec![
        status(401, Class::Auth),
        status(402, Class::QuotaExhausted),
        status(403, Class::Auth),
        status(404, Class::ModelGone),
        status(408, Class::Timeout),
        status(410, Class::ModelGone),
        status(429, Class::RateLimited),
        status(500, Class::Transient),
        status(502, Class::Transient),
        status(503, Class::Overloaded),
        status(504, Class::Timeout),
        status(529, Class::Overloaded),
        (Fault::context_window(), Class::ContextWindow, Some(400)),
        (
            code(429, "insufficient_quota"),
            Class::QuotaExhausted,
            Some(429),
        ),
        (Fault::Refuse, Class::Unreachable, None),
        (Fault::Reset, Class::Transient, None),
        (Fault::Close, Class::Transient, None),
    ]
}

// C111
#[tokio::test(start_paused = true)]
async fn a_roster_that_fails_throughout_is_tried_once_and_told_in_order() {
    for (fault, class, status) in faults() {
        for streamed in [false, true] {
            let down = || Behaviour::failing(fault.clone());
            let world = Plan::new(vec![down(), down(), down()]).build();
            let error = text(&world, streamed).await.unwrap_err();
            let mut failures = Vec::new();
            for attempt in error.trail.attempts() {
                let AttemptOutcome::Failed(failure) = &attempt.outcome else {
                    panic!("{:?}", attempt.outcome)
                };
                failures.push((attempt.rung, failure.class, failure.status));
            }
            let expected = [0, 1, 2].map(|rung| (rung, class, status));
            assert_eq!(failures, expected, "{fault:?} streamed: {streamed}");
            assert_eq!(error.kind.class(), Some(class));
            assert_eq!(upstream_calls(&world), 3);
            match &error.kind {
                CallErrorKind::Exhausted(ends) => {
                    let told: Vec<_> = ends.iter().map(|e| e.end).collect();
                    assert_eq!(told, [RungEndKind::Failed(class); 3]);
                }
                // No window was large enough: the caller's own error.
                CallErrorKind::Failed(f) => assert_eq!(f.class, Class::ContextWindow),
                other => panic!("{other}"),
            }
        }
    }
}

// C118, C157
#[tokio::test(start_paused = true)]
async fn what_asking_again_cannot_mend_is_asked_once_whatever_the_retries() {
    for (fault, class, _) in faults() {
        let retried = matches!(
            class,
            Class::Transient | Class::RateLimited | Class::Overloaded
        );
        let world = Plan::new(vec![Behaviour::failing(fault.clone()), steady(100)])
            .policy(|p| {
                p.retry.rate_limited = 3;
                p.retry.transient = 3;
                p.retry.overloaded = 3;
                p.retry.malformed = 3;
                p.retry.semantic = 3;
                p.retry.base = ms(1);
            })
            .build();
        world.ask().await.unwrap();
        let expected = if retried { 4 } else { 1 };
        assert_eq!(world.stats(0).started, expected, "{fault:?}");
        // A missing model, a bad key and used-up quota keep the next call off as well.
        let held = matches!(
            class,
            Class::ModelGone | Class::Auth | Class::QuotaExhausted
        );
        sleep(Duration::from_secs(120)).await;
        let answer = world.ask().await.unwrap();
        let skipped = told(&answer.trail).contains(&"skip 0 hold".to_owned());
        assert_eq!(skipped, held, "{fault:?}");
        let alerts = world
            .memory
            .count(|k| matches!(k, EventKind::HoldStarted { .. }));
        assert_eq!(alerts, usize::from(held), "{fault:?}");
    }
}

// C114: a rung that lacks a parameter is passed over once, whatever the retries.
#[tokio::test(start_paused = true)]
async fn a_model_that_lacks_what_the_request_needs_is_passed_over_once() {
    let lacks = Behaviour::failing(code(400, "unsupported_parameter"));
    let world = Plan::new(vec![failing(500), lacks, steady(100)])
        .policy(|p| p.retry.malformed = 3)
        .build();
    let answer = world.ask().await.unwrap();
    assert_eq!(
        told(&answer.trail),
        [
            "0 first transient",
            "1 failover bad_request",
            "2 failover won"
        ]
    );
}

// C120: several keys of one model are rungs of their own.
#[tokio::test(start_paused = true)]
async fn a_fresh_key_is_asked_without_a_wait() {
    let world = Plan::new(vec![failing(401), failing(429), steady(100)])
        .policy(|p| p.retry.base = ms(2_000))
        .build();
    let began = Instant::now();
    let answer = world.ask().await.unwrap();
    assert_eq!(
        told(&answer.trail),
        ["0 first auth", "1 failover rate_limited", "2 failover won"]
    );
    assert_eq!(began.elapsed(), ms(100));

    let dead = Plan::new(vec![failing(401), failing(403), failing(401)]).build();
    let error = dead.ask().await.unwrap_err();
    assert_eq!(error.kind.class(), Some(Class::Auth));
    assert_eq!(upstream_calls(&dead), 3);
}

// C224, C225: what a window is known to be too small for is not sent there.
#[tokio::test(start_paused = true)]
async fn a_rung_too_small_for_the_request_is_skipped_and_does_not_hide_the_cause() {
    let windows = [Some(128_000), Some(8_192), None];
    let plan = |last| {
        Plan::new(vec![failing(429), steady(100), last])
            .model(move |i, m| m.context_window = windows[i])
            .build()
    };
    let world = plan(steady(100));
    let answer = ask_long(&world, 10_000).await.unwrap();
    assert_eq!(
        told(&answer.trail),
        [
            "0 first rate_limited",
            "skip 1 context_window",
            "2 failover won"
        ]
    );
    assert_eq!(world.stats(1).started, 0);

    // The unknown window overflows too: the rate limit leads, each reason is named.
    let world = plan(Behaviour::failing(Fault::context_window()));
    let error = ask_long(&world, 10_000).await.unwrap_err();
    let CallErrorKind::Exhausted(ends) = &error.kind else {
        panic!("{error}")
    };
    let named: Vec<_> = ends.iter().map(|e| e.end.as_str()).collect();
    assert_eq!(named, ["rate_limited", "context_window", "context_window"]);
    assert_eq!(error.kind.class(), Some(Class::RateLimited));
    assert!(matches!(
        ends[1].end,
        RungEndKind::Refused(Refusal::ContextWindow {
            needed: 10_000..,
            window: 8_192
        })
    ));
}

// C225: an overflow that only the answer shows goes on as well.
#[tokio::test(start_paused = true)]
async fn an_overflow_of_a_fallback_does_not_stop_the_chain() {
    let overflow = Behaviour::failing(Fault::context_window());
    let world = Plan::new(vec![failing(429), overflow, steady(100)]).build();
    assert_eq!(world.ask().await.unwrap().meta.rung, 2);
}

// C150
#[tokio::test(start_paused = true)]
async fn a_fallback_that_serves_well_does_not_become_the_primary() {
    // After a failure of one call, and after a breaker that opened.
    let once = failing(500).with_fault_times(1);
    let world = Plan::new(vec![once, steady(100)]).build();
    assert_eq!(world.ask_every(3, ms(10)).await, [1, 0, 0]);

    let world = Plan::new(vec![failing(500), steady(100)]).build();
    assert_eq!(world.ask_every(100, ms(10)).await, [1; 100]);
    world.set(0, steady(100));
    sleep(Duration::from_secs(70)).await;
    assert_eq!(world.ask_every(3, ms(10)).await, [0; 3]);
    assert_eq!(world.memory.substitutions(), []);

    // After a move of the whole role, until its probes have found the primary well.
    let world = Plan::new(vec![steady(5_000), steady(100)])
        .policy(|p| {
            p.restore.canary = vec![];
            p.restore.probe_interval = Duration::from_secs(30);
        })
        .build();
    world.ask_every(10, ms(10)).await;
    assert_eq!(world.memory.substitutions(), [(0, 1)]);
    assert_eq!(world.ask_every(100, ms(10)).await, [1; 100]);
    let explained = world.router.explain(crate::world::ROLE).unwrap();
    assert_eq!(explained.active, 1);
    assert!(explained.rungs[0].is_benched());
    world.set(0, steady(100));
    sleep(Duration::from_secs(120)).await;
    assert_eq!(world.ask_every(3, ms(10)).await, [0; 3]);
}

/// Fails as a connection that never stands does.
#[derive(Debug)]
struct NeverConnects;

#[async_trait::async_trait]
impl Provider for NeverConnects {
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure> {
        sleep(call.connect).await;
        Err(Failure::timeout(Phase::Connect, "no connection"))
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        self.complete(call).await.map(|_| unreachable!("it fails"))
    }
}

/// A way in which a model is too late, before anything was delivered.
#[derive(Debug, Clone)]
enum Late {
    Connect,
    Fault(Fault),
}

fn too_late(late: Late) -> World {
    let behaviour = match &late {
        Late::Connect => steady(1),
        Late::Fault(fault) => Behaviour::failing(fault.clone()),
    };
    Plan::new(vec![behaviour, steady(100)])
        .policy(|p| {
            p.signal = Signal::FirstToken;
            p.hedge.mode = HedgeMode::Off;
            p.clocks.connect = ms(500);
            p.clocks.first_token = ms(2_000);
            p.clocks.stall = ms(2_000);
        })
        .model(|_, m| m.breaker.failure_threshold = 2)
        .provider(move |i, simulated| match late {
            Late::Connect if i == 0 => Arc::new(NeverConnects),
            _ => Arc::new(simulated),
        })
        .build()
}

// C221, C030, C124: the class decides, the same every time.
#[tokio::test(start_paused = true)]
async fn each_way_of_being_late_has_one_verdict_a_hundred_times() {
    let in_stream = Fault::ErrorInStream {
        after: 0,
        code: Some("504".to_owned()),
        message: "timed out".to_owned(),
    };
    let comments = Fault::KeepAlivesOnly { every: ms(100) };
    for (late, phase, after) in [
        (Late::Connect, Phase::Connect, 500),
        // Nothing, from when the request was sent; comments are nothing.
        (Late::Fault(Fault::Hang), Phase::FirstToken, 2_000),
        (Late::Fault(comments), Phase::FirstToken, 2_000),
        (Late::Fault(Fault::status(408)), Phase::Upstream, 0),
        (Late::Fault(Fault::status(504)), Phase::Upstream, 0),
        (Late::Fault(in_stream), Phase::Upstream, 0),
    ] {
        for streamed in [false, true] {
            for _ in 0..100 {
                let world = too_late(late.clone());
                let began = Instant::now();
                let (text, trail) = text(&world, streamed).await.unwrap();
                assert!(text.contains("[[p1/m]]"), "{late:?}");
                assert_eq!(began.elapsed(), ms(after + 100), "{late:?}");
                let failure = first_failure(&trail);
                assert_eq!(
                    (failure.class, failure.phase),
                    (Class::Timeout, Some(phase)),
                    "{late:?}"
                );
                assert_eq!(breaker(&world, 0), "closed", "one failure: {late:?}");
                super::text(&world, streamed).await.unwrap();
                assert_eq!(breaker(&world, 0), "open", "two failures: {late:?}");
                assert_eq!(world.stats(0).in_flight, 0);
            }
        }
    }
    // A whole answer that stalls half way, on an upstream stream.
    for _ in 0..100 {
        let world = too_late(Late::Fault(Fault::StallAfter(2)));
        let answer = world.ask().await.unwrap();
        assert_eq!(first_failure(&answer.trail).phase, Some(Phase::Stall));
        assert_eq!(answer.meta.rung, 1);
    }
}

// C127
#[tokio::test(start_paused = true)]
async fn a_first_token_counts_from_its_attempt_and_from_its_call() {
    let late = failing(503).with_fault_delay(ms(900));
    let world = Plan::new(vec![late, steady(300)]).build();
    let (_, trail) = text(&world, true).await.unwrap();
    let of_call: Vec<_> = trail.attempts().map(|a| a.first_token).collect();
    assert_eq!(of_call, [None, Some(ms(1_200))]);
    let of_attempt = world.memory.all(|k| match k {
        EventKind::AttemptEnded { first_token, .. } => Some(*first_token),
        _ => None,
    });
    assert_eq!(of_attempt, [None, Some(ms(300))]);
}

// C182
#[tokio::test(start_paused = true)]
async fn each_attempt_is_over_before_the_one_that_follows_it() {
    for streamed in [false, true] {
        let world = Plan::new(vec![failing(500), steady(100)])
            .policy(|p| p.retry.transient = 1)
            .build();
        text(&world, streamed).await.unwrap();
        let story = world.memory.all(|k| match k {
            EventKind::CallStarted { .. } => Some("call".to_owned()),
            EventKind::AttemptStarted { attempt, rung, .. } => {
                Some(format!("{attempt} starts at {rung}"))
            }
            EventKind::AttemptEnded {
                attempt, outcome, ..
            } => Some(format!("{attempt} {outcome}")),
            EventKind::ModelFallback { .. } => Some("fallback".to_owned()),
            EventKind::CallEnded { outcome, .. } => Some((*outcome).to_owned()),
            _ => None,
        });
        assert_eq!(
            story,
            [
                "call",
                "0 starts at 0",
                "0 error",
                "1 starts at 0",
                "1 error",
                "2 starts at 1",
                "fallback",
                "2 ok",
                "ok"
            ]
        );
        assert_eq!(attempts_told(&world), upstream_calls(&world));
    }
}

// C119: a transport fault of every kind, at any turn of the call.
#[tokio::test(start_paused = true)]
async fn a_transport_fault_never_escapes_the_roster() {
    for fault in [
        Fault::Refuse,
        Fault::Reset,
        Fault::Close,
        Fault::CutAfter(0),
        Fault::ResetAfter(0),
    ] {
        for streamed in [false, true] {
            let turns = [failing(503), Behaviour::failing(fault.clone())];
            let wrap = move |i: usize, simulated: Simulated| -> Arc<dyn Provider> {
                if i == 0 {
                    Turns::over(simulated, turns.clone())
                } else {
                    Arc::new(simulated)
                }
            };
            let world = Plan::new(vec![steady(1), steady(100)])
                .policy(|p| p.retry.overloaded = 1)
                .provider(wrap)
                .build();
            let (text, _) = text(&world, streamed).await.unwrap();
            assert!(text.contains("[[p1/m]]"), "{fault:?}");
            assert_eq!(world.stats(0).started, 2, "{fault:?}");
        }
    }
}

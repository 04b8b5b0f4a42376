//! Rules at their edges: waits, queues, canaries, readers, refusals.

use crate::world::{Plan, ROLE, World, deadline, ms, router, steady, told};
use evenkeel_chaos::{Behaviour, Fault, Simulated};
use evenkeel_core::{
    CallContext, ChatRequest, ChatResponse, Delta, EventKind, EventStream, Failure, Finish, Phase,
    Provider, ProviderCall, Route, StreamEvent,
};
use evenkeel_roster::{HedgeMode, RolePolicy, Signal};
use evenkeel_router::{CallErrorKind, Router};
use futures_util::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

fn failing(status: u16) -> Behaviour {
    Behaviour::failing(Fault::status(status))
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Events of a stream that are all there at once (`lag` false), or each after
/// one turn of the scheduler, as bytes that wait in a socket are.
#[derive(Debug)]
struct Ready {
    lag: bool,
    events: usize,
}

#[async_trait::async_trait]
impl Provider for Ready {
    async fn complete(&self, _: ProviderCall) -> Result<ChatResponse, Failure> {
        std::future::pending().await
    }

    async fn stream(&self, _: ProviderCall) -> Result<EventStream, Failure> {
        let lag = self.lag;
        let text = (0..self.events).map(|_| StreamEvent::Delta(Delta::Text("word ".to_owned())));
        let rest = [StreamEvent::Finish(Finish::Stop), StreamEvent::End];
        let events = futures_util::stream::iter(text.chain(rest)).then(move |event| async move {
            if lag {
                tokio::task::yield_now().await;
            }
            Ok(event)
        });
        Ok(Box::pin(events))
    }
}

fn policy() -> RolePolicy {
    Plan::new(vec![]).policy
}

// ---- waits and retries

#[tokio::test(start_paused = true)]
async fn a_wait_does_not_fit_a_patience_that_has_run_out() {
    let limited = Behaviour::failing(Fault::rate_limited(secs(20))).with_fault_delay(ms(1_200));
    let world = Plan::new(vec![limited, steady(100)])
        .policy(|p| {
            p.hedge.budget = 0.0;
            p.hedge.burst = 0;
            p.retry.rate_limited = 3;
        })
        .build();
    let began = Instant::now();
    let answer = world.ask().await.unwrap();
    assert_eq!(
        told(&answer.trail),
        [
            "0 first rate_limited",
            "no hedge 0 budget",
            "1 failover won"
        ]
    );
    assert_eq!(began.elapsed(), ms(1_300));
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_first_content_has_a_patience_of_its_own() {
    let breaks = steady(100)
        .with_fault(Fault::ResetAfter(2))
        .with_fault_times(1);
    let world = Plan::new(vec![breaks, steady(100)])
        .policy(|p| {
            p.signal = Signal::FirstToken;
            p.retry.transient = 1;
            p.retry.base = ms(100);
        })
        .build();
    let call = world.ask();
    let slow = async {
        sleep(ms(100)).await;
        // The retry draws this one.
        world.set(0, steady(20_000));
    };
    let began = Instant::now();
    let (answer, ()) = tokio::join!(call, slow);
    let answer = answer.unwrap();
    assert_eq!(world.stats(0).started, 2);
    assert!(
        began.elapsed() < secs(3),
        "{:?} after {:?}",
        told(&answer.trail),
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_wait_for_a_retry_that_the_breaker_will_refuse() {
    let limited = Behaviour::failing(Fault::Status {
        status: 503,
        code: None,
        message: "busy".to_owned(),
        retry_after: Some(ms(800)),
    });
    let world = Plan::new(vec![limited, steady(100)])
        .policy(|p| p.retry.overloaded = 1)
        .model(|_, m| m.breaker.failure_threshold = 1)
        .build();
    let began = Instant::now();
    let answer = world.ask().await.unwrap();
    assert_eq!(answer.meta.rung, 1);
    assert_eq!(began.elapsed(), ms(100), "{:?}", told(&answer.trail));
}

// ---- figures that are out of date

#[tokio::test(start_paused = true)]
async fn a_fallbacks_bad_hour_is_forgotten() {
    let world = Plan::new(vec![failing(500), steady(3_000)])
        .model(|_, m| {
            m.breaker.failure_threshold = 1_000_000;
            m.breaker.min_calls = 1_000_000;
        })
        .build();
    let crowd = (0..30).map(|_| world.ask());
    for answer in futures_util::future::join_all(crowd).await {
        assert_eq!(answer.unwrap().meta.rung, 1);
    }
    world.set(0, steady(100));
    world.set(1, steady(100));
    for _ in 0..5 {
        sleep(secs(600)).await;
        world.ask().await.unwrap();
    }
    // The primary stalls; the fallback has been well and idle for an hour.
    world.set(0, steady(60_000));
    let answer = world.ask_with(deadline(ms(2_500))).await;
    let answer = answer.unwrap();
    assert_eq!(answer.meta.rung, 1);
}

#[tokio::test(start_paused = true)]
async fn a_fallbacks_bad_hour_does_not_make_it_worse() {
    let world = Plan::new(vec![failing(500), steady(3_000)])
        .model(|_, m| {
            m.breaker.failure_threshold = 1_000_000;
            m.breaker.min_calls = 1_000_000;
        })
        .policy(|p| p.hedge.mode = HedgeMode::Off)
        .build();
    let crowd = (0..30).map(|_| world.ask());
    for answer in futures_util::future::join_all(crowd).await {
        assert_eq!(answer.unwrap().meta.rung, 1);
    }
    world.set(0, steady(100));
    world.set(1, steady(100));
    for _ in 0..5 {
        sleep(secs(600)).await;
        world.ask().await.unwrap();
    }
    world.set(0, steady(2_000));
    for _ in 0..10 {
        world.ask().await.unwrap();
    }
    assert_eq!(world.memory.substitutions(), [(0, 1)]);
}

// ---- the breach is judged

#[tokio::test(start_paused = true)]
async fn calls_whose_deadline_is_t95_are_judged() {
    let world = Plan::new(vec![steady(60_000), steady(100)])
        .model(|_, m| {
            m.breaker.failure_threshold = 1_000_000;
            m.breaker.min_calls = 1_000_000;
        })
        .build();
    for _ in 0..10 {
        let _ = world.ask_with(deadline(ms(1_000))).await;
    }
    assert_eq!(world.memory.substitutions(), [(0, 1)]);
}

// ---- the way back

fn back(plan: Plan) -> Plan {
    plan.policy(|p| {
        p.restore.probe_interval = secs(5);
        p.restore.canary = vec![];
        p.restore.restore_after = 1;
    })
}

async fn spike(world: &World) {
    world.set(0, steady(10_000));
    for i in 0..10 {
        world.ask_as(&format!("spike {i}")).await;
    }
    assert_eq!(world.memory.substitutions().last(), Some(&(0, 1)));
    world.set(0, steady(200));
}

#[tokio::test(start_paused = true)]
async fn a_canary_remembers_the_exceedances_of_its_whole_stage() {
    let world = back(Plan::new(vec![steady(200), steady(300)]))
        .policy(|p| {
            p.restore.canary = vec![0.5];
            p.restore.canary_samples = 14;
            p.restore.canary_max = secs(90);
        })
        .build();
    spike(&world).await;
    while world
        .memory
        .count(|k| matches!(k, EventKind::CanaryStarted { .. }))
        == 0
    {
        sleep(secs(1)).await;
    }
    let mut session = None;
    for i in 0..20 {
        let name = format!("s{i}");
        if world.ask_as(&name).await == 0 {
            session = Some(name);
            break;
        }
    }
    let session = session.unwrap();
    // One slow call early, then few and quick ones: never 14 in one window of 20 s,
    // and not the 22 that clear one slow call until the stage's time is up.
    world.set(0, steady(5_000));
    world.ask_as(&session).await;
    world.set(0, steady(200));
    for _ in 0..16 {
        sleep(secs(6)).await;
        world.ask_as(&session).await;
    }
    let failed = world
        .memory
        .count(|k| matches!(k, EventKind::CanaryFailed { .. }));
    assert_eq!(failed, 1);
    assert_eq!(world.memory.restorations(), []);
}

#[tokio::test(start_paused = true)]
async fn a_role_that_left_for_slow_first_tokens_probes_first_tokens() {
    let world = back(Plan::new(vec![steady(200), steady(300)]))
        .policy(|p| {
            p.p95 = secs(20);
            p.p99 = secs(40);
            p.first_token_p95 = secs(1);
            p.first_token_p99 = secs(2);
        })
        .build();
    world.set(0, steady(10_000));
    for _ in 0..10 {
        let mut stream = world.stream().await.unwrap();
        while stream.next().await.is_some() {}
    }
    assert_eq!(world.memory.substitutions(), [(0, 1)]);
    sleep(secs(60)).await;
    assert_eq!(
        world.memory.restorations(),
        [],
        "still 10 s to the first token"
    );
}

#[tokio::test(start_paused = true)]
async fn a_rung_below_its_quality_gate_is_not_restored() {
    let world = back(Plan::new(vec![steady(200), steady(300)]))
        .policy(|p| p.restore.probe_interval = secs(20))
        .model(|i, m| {
            if i == 1 {
                m.breaker.failure_threshold = 1_000_000;
                m.breaker.min_calls = 1_000_000;
            }
        })
        .build();
    spike(&world).await;
    world.set(0, Behaviour::failing(Fault::Empty));
    world.set(1, failing(500));
    for _ in 0..6 {
        let _ = world.ask().await.unwrap_err();
    }
    world.set(0, steady(200));
    world.set(1, steady(300));
    let gate = world.router.explain(ROLE).unwrap().rungs[0].refusal;
    assert_eq!(
        gate.map(evenkeel_core::Refusal::as_str),
        Some("quality_gate")
    );
    sleep(secs(30)).await;
    assert_eq!(world.memory.restorations(), []);
    sleep(secs(60)).await;
    assert_eq!(world.memory.restorations(), [(1, 0)], "it comes again");
}

/// A canary whose last good observation comes while the model cools down for `cooldown`:
/// the restoration that it gives is refused.
async fn refused_restoration(cooldown: Duration) -> World {
    let world = back(Plan::new(vec![steady(200), steady(300)]))
        .policy(|p| {
            p.restore.canary = vec![0.5];
            p.restore.canary_max = secs(60);
        })
        .build();
    spike(&world).await;
    while world.router.explain(ROLE).unwrap().rungs[0].recovery.share == 0.0 {
        sleep(secs(1)).await;
    }
    let mut sessions = Vec::new();
    for i in 0..13 * 8 {
        let name = format!("session {i}");
        if sessions.len() < 13 && world.ask_as(&name).await == 0 {
            sessions.push(name);
        }
    }
    let limits = async {
        sleep(ms(100)).await;
        world.set(0, Behaviour::failing(Fault::rate_limited(cooldown)));
        assert_eq!(world.ask_as(&sessions[1]).await, 1);
        world.set(0, steady(200));
    };
    let (last, ()) = tokio::join!(world.ask_as(&sessions[0]), limits);
    assert_eq!(last, 0, "the fourteenth");
    assert_eq!(world.memory.restorations(), []);
    world
}

#[tokio::test(start_paused = true)]
async fn a_restoration_that_a_cooldown_refused_is_given_again_an_interval_later() {
    let world = refused_restoration(secs(3)).await;
    sleep(secs(6)).await;
    assert_eq!(world.memory.restorations(), [(1, 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_restoration_refused_until_its_evidence_is_gone_is_given_again_without_traffic() {
    let world = refused_restoration(secs(40)).await;
    sleep(secs(600)).await;
    assert_eq!(world.memory.restorations(), [(1, 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_restoration_refused_until_its_evidence_is_gone_is_given_again_by_traffic() {
    let world = refused_restoration(secs(40)).await;
    sleep(secs(45)).await;
    for i in 0..80 {
        world.ask_as(&format!("later {i}")).await;
    }
    assert_eq!(world.memory.restorations(), [(1, 0)]);
}

// ---- capacity

#[tokio::test(start_paused = true)]
async fn a_call_queues_at_a_fallback_before_a_benched_rung() {
    let world = Plan::new(vec![steady(60_000), steady(500)])
        .model(|_, m| m.max_concurrency = 1)
        .policy(|p| {
            p.hedge.mode = HedgeMode::Off;
            p.clocks.deadline = secs(3);
        })
        .build();
    // Breach without the breaker: the primary answers, slowly.
    world.set(0, steady(1_500));
    for _ in 0..6 {
        let _ = world.ask().await;
    }
    assert_eq!(world.memory.substitutions(), [(0, 1)]);
    world.set(0, steady(60_000));
    let calls = futures_util::future::join_all((0..3).map(|_| world.ask())).await;
    let rungs: Vec<_> = calls
        .iter()
        .map(|c| c.as_ref().map(|a| a.meta.rung).ok())
        .collect();
    // One at once, one stuck on the last resort, and one that queued for half a second.
    assert_eq!(rungs, [Some(1), None, Some(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_upstream_is_closed_before_its_call_queues() {
    let stalls = Behaviour::failing(Fault::StallAfter(1));
    let world = Plan::new(vec![stalls, steady(5_000)])
        .policy(|p| {
            p.signal = Signal::FirstToken;
            p.hedge.mode = HedgeMode::Off;
            p.clocks.stall = ms(2_000);
            p.p95 = secs(10);
            p.p99 = secs(20);
            p.first_token_p95 = secs(10);
            p.first_token_p99 = secs(20);
        })
        .model(|i, m| {
            if i == 1 {
                m.max_concurrency = 1;
            }
        })
        .build();
    let calls = futures_util::future::join_all([world.ask(), world.ask()]);
    let look = async {
        sleep(ms(3_000)).await;
        world.stats(0).in_flight
    };
    let (_, in_flight) = tokio::join!(calls, look);
    assert_eq!(in_flight, 0, "both stalled at 2 s");
}

// ---- readers of streams

async fn first_words(router: &Router, n: usize, every: Duration) -> Option<Failure> {
    let request = ChatRequest::user("hello");
    let mut stream = router
        .stream(ROLE, request, CallContext::default())
        .await
        .unwrap();
    for _ in 0..n {
        match stream.next().await {
            Some(Ok(StreamEvent::End)) => return None,
            Some(Ok(_)) => {}
            Some(Err(failure)) => return Some(failure),
            None => panic!("it ended without an end"),
        }
        sleep(every).await;
    }
    panic!("it did not end");
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_no_stall_of_the_upstream() {
    let (router, _) = router(
        vec![(ROLE, policy(), vec!["p0/m"])],
        vec![Arc::new(Ready {
            lag: true,
            events: 4,
        })],
    );
    // The stall clock is 15 s; every word waits in the socket, the reader takes one in 20 s.
    let failure = first_words(&router, 50, secs(20)).await;
    assert!(failure.is_none(), "{failure:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_always_ready_ends_at_the_deadline_too() {
    let (router, _) = router(
        vec![(ROLE, policy(), vec!["p0/m"])],
        vec![Arc::new(Ready {
            lag: false,
            events: 100_000,
        })],
    );
    // The reader takes a word in 100 ms; the deadline is 120 s.
    let began = Instant::now();
    let failure = first_words(&router, 5_000, ms(100)).await.unwrap();
    assert_eq!(failure.phase, Some(Phase::Deadline));
    assert!(began.elapsed() <= ms(120_100), "{:?}", began.elapsed());
}

// ---- what is told

#[tokio::test(start_paused = true)]
async fn a_hold_is_told_once_however_many_calls_find_it() {
    let bad_key = failing(401).with_fault_delay(ms(50));
    let world = Plan::new(vec![bad_key, steady(100)]).build();
    let crowd = (0..10).map(|_| world.ask());
    for answer in futures_util::future::join_all(crowd).await {
        assert_eq!(answer.unwrap().meta.rung, 1);
    }
    let holds = world
        .memory
        .count(|k| matches!(k, EventKind::HoldStarted { .. }));
    assert_eq!(holds, 1);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_a_probe_finds_is_told() {
    let world = back(Plan::new(vec![steady(200), steady(300)])).build();
    spike(&world).await;
    world.set(0, failing(401));
    sleep(secs(10)).await;
    let explained = world.router.explain(ROLE).unwrap();
    assert_eq!(
        explained.rungs[0]
            .refusal
            .map(evenkeel_core::Refusal::as_str),
        Some("hold")
    );
    let holds = world
        .memory
        .count(|k| matches!(k, EventKind::HoldStarted { .. }));
    assert_eq!(holds, 1);
}

#[tokio::test(start_paused = true)]
async fn a_bad_request_names_no_time_to_ask_again() {
    let world = Plan::new(vec![
        Behaviour::failing(Fault::rate_limited(secs(40))),
        steady(100),
    ])
    .build();
    world.ask().await.unwrap();
    world.set(1, failing(400));
    let error = world.ask().await.unwrap_err();
    assert!(matches!(&error.kind, CallErrorKind::Failed(f) if f.status == Some(400)));
    assert_eq!(error.retry_after, None);
}

/// Left because it was slow, it is asked again when nobody else answers: late is better
/// than none.
#[tokio::test(start_paused = true)]
async fn a_switched_first_attempt_is_the_last_resort() {
    let world = Plan::new(vec![steady(30_000), failing(500)])
        .policy(|p| p.hedge.mode = HedgeMode::Switch)
        .build();
    let answer = world.ask().await.unwrap();
    assert_eq!((answer.meta.rung, answer.meta.attempts), (0, 3));
    let told = told(&answer.trail);
    assert_eq!(
        told[..3],
        ["0 first lost", "1 hedge transient", "0 retry won"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_switched_first_attempt_is_named_as_tried() {
    let late = failing(500).with_fault_delay(secs(1));
    let world = Plan::new(vec![steady(60_000), late])
        .policy(|p| p.hedge.mode = HedgeMode::Switch)
        .build();
    let breaks = async {
        tokio::time::sleep(ms(1_500)).await;
        world.set(0, failing(500));
    };
    let (answer, ()) = tokio::join!(world.ask(), breaks);
    let error = answer.unwrap_err();
    let CallErrorKind::Exhausted(ends) = &error.kind else {
        panic!("{error}")
    };
    let named: Vec<_> = ends.iter().map(|e| e.end.as_str()).collect();
    assert_eq!(named, ["transient", "transient"]);
}

#[tokio::test(start_paused = true)]
async fn a_failover_among_fallbacks_is_told() {
    let world = Plan::new(vec![steady(10_000), steady(100), steady(150)]).build();
    for _ in 0..10 {
        world.ask().await.unwrap();
    }
    assert_eq!(world.memory.substitutions(), [(0, 1)]);
    world.set(1, failing(500));
    let answer = world.ask().await.unwrap();
    assert_eq!(answer.meta.rung, 2);
    let told = world
        .memory
        .count(|k| matches!(k, EventKind::ModelFallback { .. }));
    assert_eq!(told, 1);
}

#[tokio::test(start_paused = true)]
async fn who_comes_back_to_the_primary_has_not_fallen_back() {
    let world = Plan::new(vec![steady(10_000), steady(100)]).build();
    for _ in 0..10 {
        world.ask().await.unwrap();
    }
    assert_eq!(world.memory.substitutions(), [(0, 1)]);
    world.set(0, steady(100));
    world.set(1, failing(500));
    let answer = world.ask().await.unwrap();
    assert_eq!((answer.meta.rung, answer.meta.route), (0, Route::Primary));
    let told = world
        .memory
        .count(|k| matches!(k, EventKind::ModelFallback { .. }));
    assert_eq!(told, 0);
}

#[tokio::test(start_paused = true)]
async fn a_callers_short_deadline_on_a_long_stream_opens_no_breaker() {
    let long = steady(100).with_tokens(1_000).with_inter_token(ms(100));
    let world = Plan::new(vec![long]).build();
    for _ in 0..6 {
        let stream = world
            .router
            .stream(ROLE, ChatRequest::user("hello"), deadline(ms(2_000)))
            .await;
        let mut stream = stream.unwrap();
        while stream.next().await.is_some() {}
    }
    assert_eq!(
        world.router.explain(ROLE).unwrap().rungs[0]
            .health
            .breaker
            .state,
        "closed"
    );
}

#[tokio::test(start_paused = true)]
async fn a_retry_does_not_ask_a_provider_on_hold() {
    let limited = Behaviour::failing(Fault::rate_limited(ms(500)));
    let shared = Simulated::new("p0", 1)
        .model("m", limited)
        .model("n", failing(401));
    let other = Simulated::new("p1", 2).model("m", steady(100));
    let mut one = policy();
    one.retry.rate_limited = 1;
    let (router, _) = router(
        vec![
            ("one", one, vec!["p0/m", "p1/m"]),
            ("two", policy(), vec!["p0/n", "p1/m"]),
        ],
        vec![Arc::new(shared.clone()), Arc::new(other)],
    );
    let ask = |role| router.complete(role, ChatRequest::user("hello"), CallContext::default());
    let later = async {
        sleep(ms(100)).await;
        ask("two").await.unwrap()
    };
    let (answer, _) = tokio::join!(ask("one"), later);
    assert_eq!(answer.unwrap().meta.rung, 1);
    assert_eq!(shared.stats("m").started, 1, "the key is known to be bad");
}

#[tokio::test(start_paused = true)]
async fn a_probe_begun_before_the_role_left_does_not_count() {
    let primary = Simulated::new("p0", 1).model("m", steady(10_000));
    let fallback = Simulated::new("p1", 2).model("m", steady(100));
    let mut policy = policy();
    policy.restore.probe_interval = secs(5);
    policy.restore.canary = vec![0.5];
    policy.restore.restore_after = 3;
    policy.restore.restore_below = 0.9;
    let rungs = vec!["p0/m", "p1/m"];
    let (router, memory) = router(
        vec![
            ("one", policy.clone(), rungs.clone()),
            ("two", policy, rungs),
        ],
        vec![Arc::new(primary.clone()), Arc::new(fallback)],
    );
    let ask = |role| router.complete(role, ChatRequest::user("hello"), CallContext::default());
    futures_util::future::join_all((0..10).map(|_| ask("one"))).await;
    assert_eq!(memory.substitutions(), [(0, 1)]);
    let begun = primary.stats("m").started;
    while primary.stats("m").started == begun {
        sleep(ms(10)).await;
    }
    // The next probe begins in 5.0 to 5.5 s; the second role leaves at 5.7 s, while it runs.
    sleep(ms(4_700)).await;
    let crowd = futures_util::future::join_all((0..10).map(|_| ask("two")));
    let quick = async {
        sleep(ms(10)).await;
        primary.set("m", steady(850));
    };
    tokio::join!(crowd, quick);
    assert_eq!(memory.substitutions(), [(0, 1), (0, 1)]);
    // Three probes of its own: at about 10.5, 15.8 and 21 s.
    sleep(secs(12)).await;
    let canaries = memory.all(|k| match k {
        EventKind::CanaryStarted { role, .. } => Some(role.to_string()),
        _ => None,
    });
    assert!(!canaries.contains(&"two".to_owned()), "{canaries:?}");
}

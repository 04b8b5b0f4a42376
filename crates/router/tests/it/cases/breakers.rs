//! What counts on a breaker, and what gives its permit back.

use super::{attempts_told, breaker, code, failing, read, text, upstream_calls};
use crate::world::{Plan, ROLE, World, deadline, ms, router, steady};
use evenkeel_chaos::{Behaviour, Fault, Simulated};
use evenkeel_core::{
    CallContext, ChatRequest, ChatResponse, Class, Event, EventKind, EventStream, Failure,
    Observer, Provider, ProviderCall, Refusal,
};
use evenkeel_roster::{Config, HedgeMode, ModelConfig, RoleConfig, RungConfig, Signal};
use evenkeel_router::{CallErrorKind, Router};
use futures_util::StreamExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{sleep, timeout};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// One rung with a breaker that one failure opens for ten seconds and one
/// success closes; one permit at a time when half open.
fn quick(behaviour: Behaviour) -> Plan {
    Plan::new(vec![behaviour, steady(100)]).model(|_, m| {
        m.breaker.failure_threshold = 1;
        m.breaker.success_threshold = 1;
        m.breaker.open = secs(10);
        m.breaker.jitter = 0.0;
    })
}

// C194
#[tokio::test(start_paused = true)]
async fn each_outcome_counts_on_the_breaker_as_the_table_says() {
    for (fault, state) in [
        (Fault::Refuse, "open"),
        (Fault::Hang, "open"),
        (Fault::status(500), "open"),
        (Fault::status(529), "open"),
        (Fault::Html { status: 200 }, "open"),
        (Fault::status(429), "closed"),
        (Fault::status(402), "closed"),
        (Fault::status(401), "closed"),
        (Fault::status(404), "closed"),
        (Fault::status(400), "closed"),
        (Fault::status(422), "closed"),
        (Fault::context_window(), "closed"),
        (code(400, "content_policy_violation"), "closed"),
        (Fault::Empty, "closed"),
    ] {
        let world = quick(Behaviour::failing(fault.clone()))
            .policy(|p| {
                p.hedge.mode = HedgeMode::Off;
                p.clocks.first_token = ms(2_000);
            })
            .build();
        let _ = text(&world, true).await;
        assert_eq!(breaker(&world, 0), state, "{fault:?}");
        // Neither does the failure of a caller that leaves.
        if state == "closed" {
            let left = quick(steady(10_000)).build();
            assert!(timeout(ms(500), left.stream()).await.is_err());
            assert_eq!(breaker(&left, 0), "closed");
        }
    }
}

// C064 (through the router; the gateway has its own)
#[tokio::test(start_paused = true)]
async fn outcomes_reach_the_breaker_and_it_trips() {
    for streamed in [false, true] {
        let world = Plan::new(vec![failing(500), steady(100)])
            .model(|_, m| m.breaker.failure_threshold = 3)
            .build();
        for _ in 0..6 {
            let (text, _) = text(&world, streamed).await.unwrap();
            assert!(text.contains("[[p1/m]]"));
        }
        assert_eq!((world.stats(0).started, world.stats(1).started), (3, 6));
    }
}

/// A trial at a half-open breaker that ends without a verdict.
async fn trial(world: &World, end: &str) {
    match end {
        "caller leaves" => {
            world.set(0, steady(10_000));
            assert!(timeout(ms(500), world.ask()).await.is_err());
        }
        "caller leaves a race" => {
            world.set(0, steady(10_000));
            world.set(1, steady(10_000));
            assert!(timeout(ms(1_500), world.ask()).await.is_err());
            world.set(1, steady(100));
        }
        "caller leaves a stream" => {
            world.set(0, steady(10).with_tokens(50).with_inter_token(ms(100)));
            let mut stream = world.stream().await.unwrap();
            stream.next().await.unwrap().unwrap();
            drop(stream);
        }
        "loses a race" => {
            world.set(0, steady(10_000));
            assert_eq!(world.ask().await.unwrap().meta.rung, 1);
        }
        "short deadline" => {
            world.set(0, steady(10_000));
            world.ask_with(deadline(ms(200))).await.unwrap_err();
        }
        "bad request" => {
            world.set(0, failing(400));
            world.ask().await.unwrap_err();
        }
        "content filter" => {
            world.set(0, Behaviour::failing(code(400, "content_policy_violation")));
            world.ask().await.unwrap_err();
        }
        "context window" => {
            world.set(0, Behaviour::failing(Fault::context_window()));
            assert_eq!(world.ask().await.unwrap().meta.rung, 1);
        }
        other => panic!("{other}"),
    }
}

// C062, C059, C061 through the router: every way out of a trial gives its permit back.
#[tokio::test(start_paused = true)]
async fn a_trial_without_a_verdict_gives_its_permit_back() {
    for end in [
        "caller leaves",
        "caller leaves a race",
        "caller leaves a stream",
        "loses a race",
        "short deadline",
        "bad request",
        "content filter",
        "context window",
    ] {
        let world = quick(failing(500)).build();
        world.ask().await.unwrap();
        assert_eq!(breaker(&world, 0), "open");
        sleep(secs(10)).await;
        let before = world.stats(0).started;
        trial(&world, end).await;
        assert_eq!(world.stats(0).started, before + 1, "{end}: it was a trial");
        assert_eq!(breaker(&world, 0), "half_open", "{end}");
        world.set(0, steady(100));
        assert_eq!(world.ask().await.unwrap().meta.rung, 0, "{end}");
        assert_eq!(breaker(&world, 0), "closed", "{end}");
    }
}

/// Panics where it is told to.
#[derive(Debug)]
struct Panics {
    simulated: Simulated,
    armed: Arc<AtomicBool>,
}

#[async_trait::async_trait]
impl Provider for Panics {
    async fn complete(&self, call: ProviderCall) -> Result<ChatResponse, Failure> {
        assert!(
            !self.armed.load(Ordering::Relaxed),
            "a provider's own fault"
        );
        self.simulated.complete(call).await
    }

    async fn stream(&self, call: ProviderCall) -> Result<EventStream, Failure> {
        self.simulated.stream(call).await
    }
}

// C065
#[tokio::test(start_paused = true)]
async fn a_trial_that_panics_gives_its_permit_and_its_place_back() {
    let armed = Arc::new(AtomicBool::new(false));
    let switch = armed.clone();
    let plan = quick(failing(500)).provider(move |_, simulated| {
        Arc::new(Panics {
            simulated,
            armed: switch.clone(),
        })
    });
    let world = plan.build();
    world.ask().await.unwrap();
    sleep(secs(10)).await;
    world.set(0, steady(100));
    armed.store(true, Ordering::Relaxed);
    let asked = {
        let router = world.router.clone();
        async move {
            let request = ChatRequest::user("hello");
            router.complete(ROLE, request, CallContext::default()).await
        }
    };
    assert!(
        tokio::task::JoinSet::from_iter([asked])
            .join_next()
            .await
            .unwrap()
            .unwrap_err()
            .is_panic()
    );
    armed.store(false, Ordering::Relaxed);
    assert_eq!(world.ask().await.unwrap().meta.rung, 0);
    assert_eq!(breaker(&world, 0), "closed");
    let ends = world
        .memory
        .count(|k| matches!(k, EventKind::CallEnded { .. }));
    assert_eq!(ends, 3);
}

/// Panics at everything it hears.
#[derive(Debug, Default)]
struct Fragile(AtomicUsize);

impl Observer for Fragile {
    fn on(&self, _: &Event) {
        self.0.fetch_add(1, Ordering::Relaxed);
        panic!("an observer's own fault");
    }
}

// C200 through the router
#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_costs_no_caller_an_answer() {
    let mut config = Config::default();
    let [big, mid] = ["p0/m", "p1/m"].map(|id| evenkeel_core::ModelId::new(id).unwrap());
    for id in [&big, &mid] {
        let mut model = ModelConfig::new(id.clone());
        model.breaker.failure_threshold = 1;
        config.models.insert(id.clone(), model);
    }
    let role = RoleConfig {
        name: ROLE.to_owned(),
        policy: Plan::new(vec![]).policy,
        rungs: vec![RungConfig::primary(big), RungConfig::fallback(mid, 0.9)],
    };
    config.roles.insert(ROLE.to_owned(), role);
    let fragile = Arc::new(Fragile::default());
    let router = Router::builder(&config)
        .provider(
            "p0",
            Arc::new(Simulated::new("p0", 1).model("m", failing(500))),
        )
        .provider(
            "p1",
            Arc::new(Simulated::new("p1", 2).model("m", steady(100))),
        )
        .observer(fragile.clone())
        .build()
        .unwrap();
    let calls = (0..100).map(|_| {
        let request = ChatRequest::user("hello");
        router.complete(ROLE, request, CallContext::default())
    });
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer.unwrap().meta.rung, 1);
    }
    let state = router.explain(ROLE).unwrap();
    assert_eq!(state.rungs[0].health.breaker.state, "open");
    assert!(fragile.0.load(Ordering::Relaxed) > 400, "it heard them all");
}

// C147
#[tokio::test(start_paused = true)]
async fn a_rate_trips_where_no_run_of_failures_does() {
    let world = Plan::new(vec![steady(100), steady(100)])
        .model(|_, m| {
            m.breaker.min_calls = 10;
            m.breaker.failure_rate = 0.4;
        })
        .build();
    for i in 0..20 {
        world.set(
            0,
            if i % 2 == 0 {
                failing(500)
            } else {
                steady(100)
            },
        );
        world.ask().await.unwrap();
        sleep(secs(1)).await;
    }
    world.set(0, steady(100));
    assert_eq!(world.ask().await.unwrap().meta.rung, 1);
    let opened = world
        .memory
        .count(|k| matches!(k, EventKind::BreakerTransition { to, .. } if *to == "open"));
    assert_eq!(opened, 1);
}

// C191
#[tokio::test(start_paused = true)]
async fn callers_who_hang_up_leave_no_trace_on_health() {
    let long = steady(50).with_tokens(10).with_inter_token(ms(50));
    let world = quick(long).build();
    for _ in 0..10 {
        let mut stream = world.stream().await.unwrap();
        stream.next().await.unwrap().unwrap();
        stream.next().await.unwrap().unwrap();
        drop(stream);
    }
    assert_eq!(breaker(&world, 0), "closed");
    assert_eq!(world.stats(1).started, 0);
    let ends = world.memory.all(|k| match k {
        EventKind::CallEnded { outcome, .. } => Some(*outcome),
        _ => None,
    });
    assert_eq!(ends, ["cancelled"; 10]);
    let (_, failure, ended) = read(world.stream().await.unwrap()).await;
    assert!(ended && failure.is_none());
}

// C211
#[tokio::test(start_paused = true)]
async fn a_roster_of_one_is_set_aside_by_evidence_and_not_by_one_failure() {
    let only = Simulated::new("p0", 1).model("m", Behaviour::failing(Fault::status(429)));
    let other = Simulated::new("p1", 2).model("m", steady(100));
    let policy = || Plan::new(vec![]).policy;
    let (router, _) = router(
        vec![
            ("one", policy(), vec!["p0/m"]),
            ("two", policy(), vec!["p1/m"]),
        ],
        vec![Arc::new(only.clone()), Arc::new(other)],
    );
    let ask = |role| router.complete(role, ChatRequest::user("hello"), CallContext::default());
    ask("one").await.unwrap_err();
    only.set("m", steady(10));
    // It is asked again, once the cooldown of a second is over.
    ask("one").await.unwrap();
    only.set("m", failing(500));
    for _ in 0..30 {
        ask("one").await.unwrap_err();
    }
    let asked = only.stats("m").started;
    assert_eq!(asked, 2 + 5);
    let error = ask("one").await.unwrap_err();
    let CallErrorKind::Failed(failure) = &error.kind else {
        panic!("{error}")
    };
    assert_eq!(failure.class, Class::Overloaded);
    let back = error.retry_after.unwrap();
    assert!(back > secs(50) && back <= secs(66), "{back:?}");
    assert_eq!(only.stats("m").started, asked);
    assert_eq!(ask("two").await.unwrap().meta.rung, 0);
}

// C008: a rung that has no place is no failing rung.
#[tokio::test(start_paused = true)]
async fn a_refusal_of_our_own_is_no_failure_of_the_model() {
    let world = Plan::new(vec![steady(5_000)])
        .model(|_, m| {
            m.max_concurrency = 1;
            m.breaker.failure_threshold = 1;
        })
        .policy(|p| p.hedge.mode = HedgeMode::Off)
        .build();
    let (served, refused) = tokio::join!(world.ask(), world.ask());
    served.unwrap();
    let error = refused.unwrap_err();
    assert!(matches!(&error.kind, CallErrorKind::Failed(f) if f.class == Class::Overloaded));
    assert!(error.trail.steps.iter().any(|s| matches!(
        s,
        evenkeel_core::TrailStep::Skipped {
            refusal: Refusal::AtCapacity,
            ..
        }
    )));
    assert_eq!((upstream_calls(&world), attempts_told(&world)), (1, 1));
    assert_eq!(breaker(&world, 0), "closed");
    let samples = world.router.explain(ROLE).unwrap().rungs[0].total.samples;
    assert_eq!(samples, 1, "the call that was served");
}

// ---- probes

/// The role has left its primary, which then answers as told.
async fn left(then: Behaviour, signal: Signal) -> World {
    let world = quick(steady(5_000))
        .policy(|p| {
            p.signal = signal;
            p.restore.canary = vec![];
            p.restore.probe_interval = secs(5);
        })
        .build();
    world.ask_every(10, ms(10)).await;
    assert_eq!(world.memory.substitutions(), [(0, 1)]);
    world.set(0, then);
    world
}

fn probes(world: &World) -> Vec<Option<Class>> {
    world.memory.all(|k| match k {
        EventKind::Probed { class, .. } => Some(*class),
        _ => None,
    })
}

// C066
#[tokio::test(start_paused = true)]
async fn a_probe_whose_tokens_were_spent_on_thinking_finds_the_model_there() {
    let out_of_tokens = Fault::Status {
        status: 400,
        code: None,
        message:
            "Could not finish the message because max_tokens or model output limit was reached"
                .to_owned(),
        retry_after: None,
    };
    for fault in [out_of_tokens, Fault::Empty] {
        for signal in [Signal::Total, Signal::FirstToken, Signal::Auto] {
            let world = left(Behaviour::failing(fault.clone()), signal).await;
            sleep(secs(30)).await;
            assert_eq!(breaker(&world, 0), "closed", "{fault:?}");
            assert_eq!(probes(&world), [None, None], "{fault:?} {signal:?}");
            assert_eq!(
                world.memory.restorations(),
                [(1, 0)],
                "{fault:?} {signal:?}"
            );
        }
    }
}

// C171
#[tokio::test(start_paused = true)]
async fn probes_that_time_out_end_no_call_in_flight_and_open_no_breaker() {
    let world = quick(steady(60_000))
        .policy(|p| {
            p.hedge.mode = HedgeMode::Off;
            p.restore.probe_interval = secs(5);
        })
        .build();
    let long = world.ask();
    let rest = async {
        sleep(ms(10)).await;
        world.set(0, steady(3_000));
        world.ask_every(10, ms(10)).await;
        assert_eq!(world.memory.substitutions(), [(0, 1)]);
        world.set(0, Behaviour::failing(Fault::Hang));
    };
    let (answer, ()) = tokio::join!(long, rest);
    assert_eq!(answer.unwrap().meta.rung, 0);
    let timeouts = probes(&world);
    assert!(timeouts.len() >= 3, "{timeouts:?}");
    assert!(timeouts.iter().all(|c| *c == Some(Class::Timeout)));
    assert_eq!(breaker(&world, 0), "closed");
}

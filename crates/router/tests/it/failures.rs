//! What each class of failure leads to, by its whole trail.

use crate::world::{Plan, World, deadline, model_id, ms, steady, told};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{Class, EventKind, Refusal};
use evenkeel_roster::OnContentFilter;
use evenkeel_router::{BreakerAction, BreakerTarget, CallErrorKind, RungEndKind};
use std::time::Duration;
use tokio::time::Instant;

fn failing(status: u16) -> Behaviour {
    Behaviour::failing(Fault::status(status))
}

fn code(status: u16, code: &str) -> Behaviour {
    Behaviour::failing(Fault::Status {
        status,
        code: Some(code.to_owned()),
        message: "no".to_owned(),
        retry_after: None,
    })
}

async fn trail(world: &World) -> Vec<String> {
    told(&world.ask().await.unwrap().trail)
}

// C110 (absent: the documented default), C119
#[tokio::test(start_paused = true)]
async fn each_class_goes_on_as_the_table_says() {
    for (primary, expected) in [
        (failing(500), "0 first transient"),
        (failing(502), "0 first transient"),
        (failing(429), "0 first rate_limited"),
        (failing(503), "0 first overloaded"),
        (failing(529), "0 first overloaded"),
        (failing(402), "0 first quota_exhausted"),
        (failing(401), "0 first auth"),
        (failing(404), "0 first model_gone"),
        (failing(408), "0 first timeout"),
        (failing(504), "0 first timeout"),
        (Behaviour::failing(Fault::Refuse), "0 first unreachable"),
        (Behaviour::failing(Fault::Reset), "0 first transient"),
        (
            Behaviour::failing(Fault::Html { status: 200 }),
            "0 first malformed",
        ),
        (Behaviour::failing(Fault::NoChoices), "0 first malformed"),
        (
            Behaviour::failing(Fault::TruncatedJson),
            "0 first malformed",
        ),
        (Behaviour::failing(Fault::Empty), "0 first semantic"),
        (
            Behaviour::failing(Fault::context_window()),
            "0 first context_window",
        ),
    ] {
        let world = Plan::new(vec![primary, steady(100)]).build();
        assert_eq!(trail(&world).await, [expected, "1 failover won"]);
        assert_eq!(world.stats(0).started, 1, "{expected}");
    }
}

// C110 (absent: the documented default)
#[tokio::test(start_paused = true)]
async fn a_bad_request_and_a_refused_content_stop_at_the_first_rung() {
    for (primary, class) in [
        (code(400, "invalid_value"), Class::BadRequest),
        (code(400, "content_policy_violation"), Class::ContentFilter),
    ] {
        let world = Plan::new(vec![primary, steady(100)]).build();
        let error = world.ask().await.unwrap_err();
        assert!(matches!(&error.kind, CallErrorKind::Failed(f) if f.class == class));
        assert_eq!(world.stats(1).started, 0);
    }
}

/// The caller learns why a fallback was asked that finds fault with the request.
#[tokio::test(start_paused = true)]
async fn a_refusal_of_a_fallback_does_not_hide_what_failed_before() {
    let world = Plan::new(vec![failing(503), failing(400), steady(100)]).build();
    let error = world.ask().await.unwrap_err();
    let CallErrorKind::Failed(failure) = &error.kind else {
        panic!("{error}")
    };
    assert_eq!(failure.class, Class::BadRequest);
    let lead = "p0/m failed (overloaded), and p1/m says: ";
    assert!(failure.message.starts_with(lead), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn a_content_filter_goes_on_where_the_role_says_next() {
    let world = Plan::new(vec![code(400, "content_policy_violation"), steady(100)])
        .policy(|p| p.on_content_filter = OnContentFilter::Next)
        .build();
    assert_eq!(
        trail(&world).await,
        ["0 first content_filter", "1 failover won"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_is_retried_once_on_the_same_rung() {
    let once = failing(500).with_fault_times(1);
    let world = Plan::new(vec![once, steady(100)])
        .policy(|p| p.retry.transient = 1)
        .build();
    assert_eq!(
        trail(&world).await,
        ["0 first transient", "wait 0 transient", "0 retry won"]
    );
}

#[tokio::test(start_paused = true)]
async fn retries_that_go_on_failing_end_at_the_next_rung() {
    let world = Plan::new(vec![failing(503), steady(100)])
        .policy(|p| p.retry.overloaded = 2)
        .build();
    let answer = world.ask().await.unwrap();
    assert_eq!(answer.meta.rung, 1);
    assert_eq!(world.stats(0).started, 3);
}

#[tokio::test(start_paused = true)]
async fn a_short_retry_after_is_waited_for_and_a_long_one_is_not() {
    let limited = |wait| Behaviour {
        first_token: evenkeel_chaos::Latency::millis(100),
        ..Behaviour::failing(Fault::rate_limited(wait)).with_fault_times(1)
    };
    let world = Plan::new(vec![limited(ms(500)), steady(100)])
        .policy(|p| p.retry.rate_limited = 3)
        .build();
    let began = Instant::now();
    let answer = world.ask().await.unwrap();
    assert_eq!(
        told(&answer.trail),
        ["0 first rate_limited", "wait 0 rate_limited", "0 retry won"]
    );
    assert!(began.elapsed() >= ms(500));

    let world = Plan::new(vec![limited(ms(5_000)), steady(100)])
        .policy(|p| p.retry.rate_limited = 3)
        .build();
    assert_eq!(
        trail(&world).await,
        ["0 first rate_limited", "1 failover won"]
    );
    // The model cools down: new calls keep off it, its breaker knows nothing.
    assert_eq!(trail(&world).await, ["skip 0 cooldown", "1 failover won"]);
    tokio::time::sleep(ms(5_100)).await;
    assert_eq!(trail(&world).await, ["0 first won"]);
}

// C005, C211
#[tokio::test(start_paused = true)]
async fn a_lone_rung_in_cooldown_waits_if_that_fits_the_deadline() {
    let limited = Behaviour::failing(Fault::rate_limited(ms(2_000))).with_fault_times(1);
    let world = Plan::new(vec![limited]).build();
    let error = world.ask_with(deadline(ms(1_000))).await.unwrap_err();
    assert!(matches!(&error.kind, CallErrorKind::Failed(f) if f.class == Class::RateLimited));
    let error = world.ask_with(deadline(ms(1_000))).await.unwrap_err();
    assert!(matches!(&error.kind, CallErrorKind::Failed(f) if f.class == Class::RateLimited));
    assert!(error.retry_after.unwrap() <= ms(2_000));
    assert_eq!(world.stats(0).started, 1);
    let answer = world.ask().await.unwrap();
    assert_eq!(told(&answer.trail)[1], "wait 0 cooldown");
}

// C118
/// A limit that the call has met itself is waited for like one that others have met.
#[tokio::test(start_paused = true)]
async fn a_limit_is_waited_for_when_nobody_else_answers() {
    let limited = Behaviour::failing(Fault::rate_limited(ms(3_000)));
    let world = Plan::new(vec![limited, Behaviour::failing(Fault::status(500))])
        .policy(|p| p.retry.rate_limited = 1)
        .build();
    let again = async {
        tokio::time::sleep(ms(1_000)).await;
        world.set(0, steady(100));
    };
    let (answer, ()) = tokio::join!(world.ask(), again);
    let answer = answer.unwrap();
    assert_eq!(answer.meta.rung, 0);
    assert!(answer.meta.latency_added >= ms(3_000));
    let told = told(&answer.trail);
    assert_eq!(
        told,
        [
            "0 first rate_limited",
            "1 failover transient",
            "wait 0 rate_limited",
            "0 retry won"
        ]
    );
}

/// The earliest return is of no use to a call that it leaves too little time for its answer.
#[tokio::test(start_paused = true)]
async fn a_return_that_fits_is_waited_for_though_another_is_earlier() {
    let limited = |wait| Behaviour::failing(Fault::rate_limited(ms(wait)));
    let world = Plan::new(vec![limited(3_000), limited(2_000)])
        .rung(|rung, config| {
            if rung == 1 {
                config.median_latency = Some(ms(8_000));
            }
        })
        .build();
    world.ask().await.unwrap_err();
    world.set(0, steady(100));
    world.set(1, steady(100));
    let answer = world.ask_with(deadline(ms(5_000))).await.unwrap();
    assert_eq!(answer.meta.rung, 0);
}

#[tokio::test(start_paused = true)]
async fn a_missing_model_is_set_aside_with_an_alert() {
    let world = Plan::new(vec![failing(404), steady(100)]).build();
    assert_eq!(
        trail(&world).await,
        ["0 first model_gone", "1 failover won"]
    );
    assert_eq!(trail(&world).await, ["skip 0 hold", "1 failover won"]);
    let holds = world.memory.all(|k| match k {
        EventKind::HoldStarted {
            class, duration, ..
        } => Some((*class, *duration)),
        _ => None,
    });
    assert_eq!(holds, [(Class::ModelGone, Duration::from_secs(3_600))]);
}

#[tokio::test(start_paused = true)]
async fn a_bad_key_sets_its_provider_aside_for_five_minutes() {
    let world = Plan::new(vec![failing(401), steady(100)]).build();
    assert_eq!(trail(&world).await, ["0 first auth", "1 failover won"]);
    world.set(0, steady(10));
    assert_eq!(trail(&world).await, ["skip 0 hold", "1 failover won"]);
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert_eq!(trail(&world).await, ["0 first won"]);
}

// C225
#[tokio::test(start_paused = true)]
async fn an_overflow_goes_to_a_rung_with_a_larger_or_unknown_window() {
    let overflow = || Behaviour::failing(Fault::context_window());
    let world = Plan::new(vec![overflow(), steady(1), steady(2), steady(3)])
        .model(|i, model| {
            model.context_window = [Some(8_000), Some(4_000), Some(8_000), None][i];
        })
        .build();
    assert_eq!(
        trail(&world).await,
        [
            "0 first context_window",
            "skip 1 context_window",
            "skip 2 context_window",
            "3 failover won"
        ]
    );
}

// C111
#[tokio::test(start_paused = true)]
async fn when_all_rungs_fail_the_error_names_each_and_leads_with_the_first() {
    let world = Plan::new(vec![failing(429), failing(503), failing(401)]).build();
    let error = world.ask().await.unwrap_err();
    let CallErrorKind::Exhausted(rungs) = &error.kind else {
        panic!("{error}");
    };
    let ends: Vec<_> = rungs.iter().map(|r| r.end).collect();
    assert_eq!(
        ends,
        [
            RungEndKind::Failed(Class::RateLimited),
            RungEndKind::Failed(Class::Overloaded),
            RungEndKind::Failed(Class::Auth),
        ]
    );
    assert_eq!(error.kind.class(), Some(Class::RateLimited));
    // The model that cools down is back first.
    assert!(error.retry_after.unwrap() <= Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn one_episode_of_exhaustion_is_told_once() {
    let world = Plan::new(vec![failing(503), failing(503)]).build();
    for _ in 0..20 {
        world.ask().await.unwrap_err();
    }
    let told = || {
        world
            .memory
            .count(|k| matches!(k, EventKind::RosterExhausted { .. }))
    };
    assert_eq!(told(), 1);
    assert_eq!(world.stats(0).started, 5);
    assert_eq!(world.stats(1).started, 5);
    // Once the breakers are open a call makes no attempt at all.
    let error = world.ask().await.unwrap_err();
    let CallErrorKind::Exhausted(rungs) = &error.kind else {
        panic!("{error}");
    };
    assert!(
        rungs
            .iter()
            .all(|r| matches!(r.end, RungEndKind::Refused(Refusal::BreakerOpen(_))))
    );
}

/// What each episode of exhaustion had: how its rungs failed or refused, and the last class.
fn exhausted(world: &World) -> Vec<(Vec<&'static str>, Option<Class>)> {
    world.memory.all(|kind| match kind {
        EventKind::RosterExhausted {
            tried,
            refused,
            last,
            ..
        } => {
            let failed = tried.iter().map(|(_, class)| class.as_str());
            let refused = refused.iter().map(|(_, refusal)| refusal.as_str());
            Some((failed.chain(refused).collect(), *last))
        }
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn a_roster_of_one_is_exhausted_like_any_other() {
    let world = Plan::new(vec![failing(503)]).build();
    for _ in 0..8 {
        let error = world.ask().await.unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::Failed(_)), "{error}");
    }
    let failed = (vec!["overloaded"], Some(Class::Overloaded));
    assert_eq!(exhausted(&world).len(), 1, "once an episode");
    world.set(0, steady(100));
    tokio::time::sleep(Duration::from_secs(120)).await;
    world.ask().await.unwrap();
    world.set(0, failing(503));
    world.ask().await.unwrap_err();
    assert_eq!(exhausted(&world), [failed.clone(), failed]);

    // Nobody is asked: the breaker is open from the first call on.
    let world = Plan::new(vec![steady(100)]).build();
    let breaker = BreakerTarget::Model(model_id(0));
    let eve = world.router.operator("eve");
    eve.breaker(&breaker, BreakerAction::ForceOpen).unwrap();
    world.ask().await.unwrap_err();
    assert_eq!(exhausted(&world), [(vec!["breaker_open"], None)]);

    // What is the request's own exhausts nobody.
    let world = Plan::new(vec![failing(400)]).build();
    world.ask().await.unwrap_err();
    assert_eq!(exhausted(&world), []);
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_lets_trials_in_and_closes_on_success() {
    let world = Plan::new(vec![failing(500), steady(100)])
        .model(|_, model| {
            model.breaker.open = Duration::from_secs(10);
            model.breaker.jitter = 0.0;
        })
        .build();
    world.ask_every(7, ms(10)).await;
    assert_eq!(world.stats(0).started, 5);
    world.set(0, steady(50));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(world.ask_every(4, ms(10)).await.iter().all(|r| *r == 0));
    let states = world.memory.all(|k| match k {
        EventKind::BreakerTransition { from, to, .. } => Some((*from, *to)),
        _ => None,
    });
    assert_eq!(
        states,
        [
            ("closed", "open"),
            ("open", "half_open"),
            ("half_open", "closed")
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_hold_lasts_as_long_as_its_model_says_and_zero_is_none() {
    for (status, hold, asked) in [(401, 1_000, 2), (404, 1_000, 2), (404, 0, 3), (401, 0, 3)] {
        let world = Plan::new(vec![failing(status), steady(10)])
            .model(move |_, model| {
                model.hold.credential = ms(hold);
                model.hold.model_gone = ms(hold);
            })
            .build();
        // At once, within the hold, and after it.
        for pause in [0, 500, 600] {
            tokio::time::sleep(ms(pause)).await;
            world.ask().await.unwrap();
        }
        assert_eq!(world.stats(0).started, asked, "{status}, {hold} ms");
        let holds = world
            .memory
            .count(|k| matches!(k, EventKind::HoldStarted { .. }));
        assert_eq!(holds, if hold == 0 { 0 } else { 2 });
    }
}

#[tokio::test(start_paused = true)]
async fn retries_stop_when_the_providers_budget_is_spent() {
    let world = Plan::new(vec![failing(429), steady(10)])
        .policy(|p| {
            p.retry.rate_limited = 1;
            p.retry.base = ms(1);
            p.retry.cap = ms(1);
        })
        .model(|_, model| {
            model.cooldown.base = ms(1);
            model.cooldown.growth = 1.0;
            model.cooldown.cap = ms(1);
        })
        .build();
    for _ in 0..100 {
        world.ask().await.unwrap();
        tokio::time::sleep(ms(5)).await;
    }
    let stats = world.stats(0);
    assert!(stats.started >= 110, "{stats:?}");
    assert!(stats.started <= 100 + 10 + 20, "{stats:?}");
}

// C222
#[tokio::test(start_paused = true)]
async fn jitter_spreads_the_retries_of_a_crowd() {
    let world = std::sync::Arc::new(
        Plan::new(vec![failing(503).with_fault_times(200)])
            .policy(|p| {
                p.retry.overloaded = 1;
                p.retry.base = ms(1_000);
            })
            .model(|_, model| {
                model.breaker.failure_threshold = 10_000;
                model.breaker.min_calls = 10_000;
                model.max_concurrency = 1_000;
            })
            .build(),
    );
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let world = world.clone();
        callers.spawn(async move { world.ask().await });
    }
    callers.join_all().await;
    let waits = world.memory.all(|k| match k {
        EventKind::CallEnded { trail, .. } => trail.attempts().nth(1).map(|a| a.started),
        _ => None,
    });
    // The reserve of the retry budget and 20% of the first attempts.
    assert!((40..=50).contains(&waits.len()), "{}", waits.len());
    let mut slots = [0; 20];
    for wait in waits {
        slots[usize::try_from(wait.as_millis() / 50).unwrap().min(19)] += 1;
    }
    assert!(slots.iter().all(|n| *n <= 12), "{slots:?}");
}

#[tokio::test(start_paused = true)]
async fn useless_answers_have_a_count_of_their_own() {
    let empty = Behaviour::failing(Fault::Empty);
    let world = Plan::new(vec![empty, steady(100)]).build();
    for _ in 0..8 {
        assert_eq!(world.ask().await.unwrap().meta.rung, 1);
    }
    assert_eq!(world.stats(0).started, 5);
    let answer = world.ask().await.unwrap();
    assert_eq!(answer.meta.fallback_reason, Some("quality_gate"));
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_provider_skips_its_other_models() {
    use evenkeel_core::ModelId;
    let world = Plan::new(vec![
        Behaviour::failing(Fault::Refuse),
        steady(1),
        steady(2),
    ])
    .rung(|i, rung| {
        if i == 1 {
            rung.model = ModelId::new("p0/other").unwrap();
        }
    })
    .build();
    assert_eq!(
        trail(&world).await,
        [
            "0 first unreachable",
            "skip 1 provider_failed",
            "2 failover won"
        ]
    );
}

/// Both rungs come back from an outage at once, and more callers are there
/// than trials: nobody is sent away while a trial is about to tell.
#[tokio::test(start_paused = true)]
async fn callers_beyond_the_trials_of_a_breaker_wait_for_their_end() {
    let world = Plan::new(vec![failing(503), failing(503)])
        .model(|_, model| {
            model.breaker.open = Duration::from_secs(5);
            model.breaker.jitter = 0.0;
        })
        .build();
    for _ in 0..6 {
        world.ask().await.unwrap_err();
    }
    world.set(0, steady(100));
    world.set(1, steady(100));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let began = Instant::now();
    let calls = (0..30).map(|_| world.ask());
    for answer in futures_util::future::join_all(calls).await {
        answer.unwrap();
    }
    assert!(began.elapsed() < ms(500), "{:?}", began.elapsed());

    // Where the trials fail, the others are told so as soon as they have.
    for rung in [0, 1] {
        world.set(rung, failing(503).with_fault_delay(ms(300)));
    }
    for _ in 0..6 {
        world.ask().await.unwrap_err();
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let began = Instant::now();
    let calls = (0..30).map(|_| world.ask());
    for answer in futures_util::future::join_all(calls).await {
        answer.unwrap_err();
    }
    assert!(began.elapsed() <= ms(500), "{:?}", began.elapsed());
}

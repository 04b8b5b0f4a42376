//! How often and when the same model is asked again.

use super::{Turns, attempts_told, failing, text, upstream_calls};
use crate::world::{Plan, World, ms, steady};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{EventKind, TrailStep};
use evenkeel_roster::RolePolicy;
use std::collections::BTreeSet;
use std::time::Duration;

fn retries(policy: &mut RolePolicy, n: u32) {
    policy.retry.rate_limited = n;
    policy.retry.transient = n;
    policy.retry.overloaded = n;
    policy.retry.malformed = n;
    policy.retry.semantic = n;
}

fn retriable() -> Vec<Fault> {
    vec![
        Fault::status(429),
        Fault::status(500),
        Fault::status(503),
        Fault::status(529),
        Fault::Reset,
        Fault::Html { status: 200 },
        Fault::NoChoices,
        Fault::Empty,
    ]
}

fn patient(world: Plan) -> Plan {
    world.model(|_, m| {
        m.breaker.failure_threshold = 1_000;
        m.breaker.min_calls = 1_000;
    })
}

/// When each attempt of the last call began.
fn starts(world: &World) -> Vec<Duration> {
    let trails = world.memory.all(|k| match k {
        EventKind::CallEnded { trail, .. } => Some(trail.clone()),
        _ => None,
    });
    trails
        .last()
        .unwrap()
        .attempts()
        .map(|a| a.started)
        .collect()
}

async fn gaps(fault: &Fault, seed: u64) -> Vec<Duration> {
    let world = patient(Plan::new(vec![Behaviour::failing(fault.clone())]))
        .policy(|p| {
            retries(p, 3);
            p.retry.base = ms(200);
            p.retry.cap = ms(5_000);
        })
        .seed(seed)
        .build();
    world.ask().await.unwrap_err();
    let starts = starts(&world);
    starts
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]))
        .collect()
}

// C029
#[tokio::test(start_paused = true)]
async fn retries_are_spaced_by_a_growing_jittered_wait_that_a_seed_repeats() {
    for fault in retriable() {
        let mut seen = BTreeSet::new();
        for seed in 0..20 {
            let drawn = gaps(&fault, seed).await;
            assert_eq!(drawn.len(), 3, "{fault:?}");
            for (gap, most) in drawn.iter().zip([200, 400, 800]) {
                assert!(*gap <= ms(most), "{fault:?}: {drawn:?}");
            }
            assert!(
                drawn.iter().sum::<Duration>() > ms(1),
                "back to back: {drawn:?}"
            );
            assert_eq!(drawn, gaps(&fault, seed).await);
            seen.insert(drawn);
        }
        assert!(seen.len() >= 19, "{fault:?}: seeds draw alike");
    }
}

// C158
#[tokio::test(start_paused = true)]
async fn streams_are_retried_by_the_same_rules_and_waits() {
    let mut stories = Vec::new();
    for streamed in [false, true] {
        let world = patient(Plan::new(vec![steady(100)]))
            .policy(|p| retries(p, 2))
            .provider(|_, simulated| {
                let limited = Behaviour::failing(Fault::rate_limited(Duration::ZERO));
                Turns::over(simulated, [limited, failing(503), steady(100)])
            })
            .build();
        let (text, trail) = text(&world, streamed).await.unwrap();
        assert!(text.contains("[[p0/m]]"));
        assert_eq!(world.stats(0).started, 3);
        let waits: Vec<_> = trail
            .steps
            .iter()
            .filter_map(|step| match step {
                TrailStep::Waited { wait, reason, .. } => Some((*wait, *reason)),
                _ => None,
            })
            .collect();
        stories.push((starts(&world), waits));
    }
    assert_eq!(stories[0], stories[1]);
}

// C214, C215: a retry count N is 1 + N calls, each of them an attempt that is told.
#[tokio::test(start_paused = true)]
async fn a_retry_count_is_so_many_calls_more_and_nobody_else_retries() {
    for fault in retriable() {
        for n in [0, 1, 3, 5] {
            for streamed in [false, true] {
                let world = patient(Plan::new(vec![Behaviour::failing(fault.clone())]))
                    .policy(|p| {
                        retries(p, n);
                        p.retry.base = ms(1);
                    })
                    .build();
                let error = text(&world, streamed).await.unwrap_err();
                let calls = u64::from(n) + 1;
                assert_eq!(upstream_calls(&world), calls, "{fault:?}, {n} retries");
                assert_eq!(attempts_told(&world), calls);
                assert_eq!(error.trail.attempts().count() as u64, calls);
            }
        }
    }
}

// C222: instances of one configuration do not come back in step.
#[tokio::test(start_paused = true)]
async fn trials_and_probes_of_two_instances_are_not_in_step() {
    let mut opens = BTreeSet::new();
    let mut probes = BTreeSet::new();
    for seed in 0..20 {
        let down = Plan::new(vec![failing(500), steady(1)])
            .model(|_, m| {
                m.breaker.failure_threshold = 1;
                m.breaker.open = Duration::from_secs(10);
            })
            .seed(seed)
            .build();
        down.ask().await.unwrap();
        let open = down.memory.all(|k| match k {
            EventKind::BreakerTransition { retry_in, .. } => *retry_in,
            _ => None,
        });
        assert!((ms(9_000)..=ms(11_000)).contains(&open[0]), "{open:?}");
        opens.insert(open[0].as_millis());

        let slow = Plan::new(vec![steady(5_000), steady(100)])
            .policy(|p| p.restore.probe_interval = Duration::from_secs(30))
            .seed(seed)
            .build();
        slow.ask_every(10, ms(1)).await;
        assert_eq!(slow.memory.substitutions(), [(0, 1)]);
        let before = slow.stats(0).started;
        let began = tokio::time::Instant::now();
        while slow.stats(0).started == before {
            tokio::time::sleep(ms(10)).await;
        }
        let first = began.elapsed();
        assert!(first <= ms(33_010), "{first:?}");
        probes.insert(first.as_millis() / 10);
    }
    assert!(opens.len() >= 18, "{opens:?}");
    assert!(probes.len() >= 15, "{probes:?}");
}

//! Waiting for a free place at a model.

use crate::world::{Plan, World, ms, steady, told};
use evenkeel_chaos::{Behaviour, Fault};
use evenkeel_core::{EventKind, Trail, TrailStep};
use evenkeel_roster::HedgeMode;
use futures_util::future::join_all;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// One model that takes one call at a time, each for 300 ms.
fn narrow() -> World {
    Plan::new(vec![steady(300)])
        .model(|_, model| model.max_concurrency = 1)
        .policy(|p| p.hedge.mode = HedgeMode::Off)
        .build()
}

fn waits(trail: &Trail) -> Vec<(&'static str, Duration, Duration)> {
    let of = |step: &TrailStep| match step {
        TrailStep::Waited {
            reason, wait, at, ..
        } => Some((*reason, *at, *wait)),
        _ => None,
    };
    trail.steps.iter().filter_map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn calls_that_queue_are_served_in_the_order_they_came() {
    let world = narrow();
    let served = std::sync::Mutex::new(Vec::new());
    join_all((0..4).map(|nth| {
        let (world, served) = (&world, &served);
        async move {
            sleep(ms(nth)).await;
            world.ask().await.unwrap();
            served.lock().unwrap().push(nth);
        }
    }))
    .await;
    assert_eq!(*served.lock().unwrap(), [0, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_does_not_pass_those_who_queue() {
    let world = narrow();
    let late = async {
        sleep(ms(300)).await;
        // The place is free this moment, and somebody waits for it.
        world.ask().await.unwrap()
    };
    let (_, queued, late) = tokio::join!(world.ask(), world.ask(), late);
    assert_eq!(waits(&queued.unwrap().trail)[0].2, ms(300));
    assert_eq!(
        waits(&late.trail),
        [("at_capacity", Duration::ZERO, ms(300))]
    );
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_place_is_in_the_trail() {
    let world = narrow();
    let (first, second) = tokio::join!(world.ask(), world.ask());
    assert_eq!(told(&first.unwrap().trail), ["0 first won"]);
    let trail = second.unwrap().trail;
    assert_eq!(
        told(&trail),
        ["skip 0 at_capacity", "wait 0 at_capacity", "0 failover won"]
    );
    assert_eq!(waits(&trail), [("at_capacity", Duration::ZERO, ms(300))]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_in_vain_is_in_the_trail_too() {
    let world = Plan::new(vec![steady(5_000)])
        .model(|_, model| model.max_concurrency = 1)
        .policy(|p| p.hedge.mode = HedgeMode::Off)
        .build();
    let (_, second) = tokio::join!(world.ask(), world.ask());
    let trail = second.unwrap_err().trail;
    // As long as its patience.
    assert_eq!(waits(&trail), [("at_capacity", Duration::ZERO, ms(1_000))]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_leaves_the_queue_leaves_its_place_to_the_next() {
    let world = narrow();
    let impatient = timeout(ms(100), world.ask());
    let third = async {
        sleep(ms(50)).await;
        world.ask().await.unwrap()
    };
    let (_, impatient, third) = tokio::join!(world.ask(), impatient, third);
    assert!(impatient.is_err());
    assert_eq!(
        waits(&third.trail),
        [("at_capacity", Duration::ZERO, ms(250))]
    );
    let left = world.memory.all(|kind| match kind {
        EventKind::CallEnded { outcome, trail, .. } if *outcome == "cancelled" => {
            Some(waits(trail))
        }
        _ => None,
    });
    assert_eq!(left, [[("at_capacity", Duration::ZERO, ms(100))]]);
}

/// Two models that take one call at a time.
fn two_narrow(rungs: [Behaviour; 2]) -> World {
    Plan::new(rungs.into())
        .model(|_, model| model.max_concurrency = 1)
        .policy(|p| p.hedge.mode = HedgeMode::Off)
        .build()
}

/// Whoever waits for a place takes the first that is free, at whichever model.
#[tokio::test(start_paused = true)]
async fn the_first_free_place_of_any_model_is_taken() {
    let world = two_narrow([steady(8_000), steady(300)]);
    let answers = join_all((0..4).map(|nth| {
        let world = &world;
        async move {
            sleep(ms(nth * 10)).await;
            world.ask().await.unwrap()
        }
    }))
    .await;
    let rungs: Vec<_> = answers.iter().map(|answer| answer.meta.rung).collect();
    assert_eq!(rungs, [0, 1, 1, 1]);
    assert_eq!(
        told(&answers[3].trail),
        [
            "skip 0 at_capacity",
            "skip 1 at_capacity",
            "wait 1 at_capacity",
            "1 failover won"
        ]
    );
}

/// A model that comes back while the call queues at another is asked then.
#[tokio::test(start_paused = true)]
async fn who_queues_asks_a_model_that_is_back_meanwhile() {
    let limited = Fault::rate_limited(ms(700));
    let world = two_narrow([Behaviour::failing(limited), steady(8_000)]);
    let busy = async { world.ask().await.unwrap().meta.rung };
    let waiting = async {
        sleep(ms(50)).await;
        world.set(0, steady(100));
        let began = tokio::time::Instant::now();
        let rung = world.ask().await.unwrap().meta.rung;
        (rung, began.elapsed())
    };
    let (first, (second, after)) = tokio::join!(busy, waiting);
    assert_eq!((first, second), (1, 0));
    assert!(after < ms(1_000), "{after:?}");
}

/// A hedge that nobody could take when patience ran out begins when somebody can.
#[tokio::test(start_paused = true)]
async fn a_hedge_begins_when_a_place_is_free_for_it() {
    let world = Plan::new(vec![Behaviour::failing(Fault::Hang), steady(900)])
        .model(|_, model| model.max_concurrency = 1)
        .build();
    let first = world.ask();
    // From 0.5 s to 1.4 s somebody else has the fallback's only place.
    let other = async {
        sleep(ms(500)).await;
        world.ask().await.unwrap().meta.rung
    };
    let (answer, rung) = tokio::join!(first, other);
    let answer = answer.unwrap();
    assert_eq!((rung, answer.meta.rung), (1, 1));
    let took = answer.meta.latency_added;
    assert!((ms(1_400)..ms(1_700)).contains(&took), "{took:?}");
}

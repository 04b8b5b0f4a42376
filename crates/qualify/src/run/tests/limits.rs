//! Rate limits, quota and money.

use super::super::{Load, RunError, Stop};
use super::world::{Scripted, World, failed, items, right};
use crate::outcome::OutcomeKind;
use evenkeel_core::{Class, Failure};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

fn limited(seconds: u64) -> Failure {
    Failure::new(Class::RateLimited, "slow down").with_retry_after(Duration::from_secs(seconds))
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_is_waited_for_and_is_no_bad_quality() {
    let primary = Scripted::new(|_, question| right(question));
    let candidate = Scripted::new(|n, question| match n {
        2 | 9 => failed(limited(30)),
        _ => right(question).after_ms(200),
    });
    let world = World::new(&items(12), primary, candidate.clone());
    let began = Instant::now();
    let heard = world.run().await;
    let of = heard.of("south/small");
    assert_eq!(of.len(), 12);
    assert!(of.iter().all(|o| o.kind == OutcomeKind::Answered(1.0)));
    assert!(
        of.iter().all(|o| o.total == Duration::from_millis(200)),
        "waits are left out"
    );
    assert_eq!(candidate.asked(), 14);
    let took = began.elapsed().as_secs();
    assert!((60..63).contains(&took), "{took}");
    let waits = heard
        .shown
        .0
        .iter()
        .filter(|line| line.contains("waits 30000 ms"));
    assert!(waits.count() >= 2);
}

#[tokio::test(start_paused = true)]
async fn without_a_stated_time_the_waits_grow() {
    let primary = Scripted::new(|_, question| right(question));
    let candidate = Scripted::new(|n, question| match n {
        0..5 => failed(Failure::new(Class::RateLimited, "slow down")),
        _ => right(question),
    });
    let mut world = World::new(&items(1), primary, candidate.clone());
    world.options.load = Load::Closed { concurrency: 1 };
    let began = Instant::now();
    let heard = world.run().await;
    assert_eq!(heard.of("south/small")[0].kind, OutcomeKind::Answered(1.0));
    // 1, 2, 4, 8 and 16 s.
    let took = began.elapsed().as_secs();
    assert!((31..36).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn when_patience_ends_nothing_was_learnt_and_it_is_asked_again_another_day() {
    let primary = Scripted::new(|_, question| right(question));
    let candidate = Scripted::new(|n, question| match n {
        0..60 => failed(Failure::new(Class::RateLimited, "slow down")),
        _ => right(question),
    });
    let mut world = World::new(&items(30), primary.clone(), candidate.clone());
    world.options.patience = Duration::from_secs(100);
    let began = Instant::now();
    let heard = world.run().await;
    let of = heard.of("south/small");
    let unmeasured = OutcomeKind::Unmeasured(Class::RateLimited);
    assert_eq!(of.len(), 3);
    assert!(
        of.iter()
            .all(|o| o.kind == unmeasured && o.is_valid.is_none())
    );
    assert!(
        began.elapsed() < Duration::from_secs(110),
        "{:?}",
        began.elapsed()
    );
    let shown = heard.shown.0.join("\n");
    assert!(
        shown.contains("3 questions in a row were never taken (rate_limited)"),
        "{shown}"
    );
    let asked = candidate.asked();
    world.models.insert(
        super::world::model("south/small"),
        Scripted::new(|_, question| right(question)),
    );
    let again = world.put(true, CancellationToken::new()).await.unwrap();
    assert!(asked < 60);
    assert_eq!(again.of("south/small").len(), 30);
    assert!(
        again
            .of("south/small")
            .iter()
            .all(|o| o.kind == OutcomeKind::Answered(1.0))
    );
    assert_eq!(primary.asked(), 30, "what was learnt is not asked again");
}

#[tokio::test(start_paused = true)]
async fn a_quota_that_nobody_knows_the_end_of_is_not_waited_for() {
    let primary = Scripted::new(|_, question| right(question));
    let candidate = Scripted::new(|_, _| failed(Failure::new(Class::QuotaExhausted, "pay")));
    let world = World::new(&items(30), primary, candidate);
    let began = Instant::now();
    let heard = world.run().await;
    assert!(began.elapsed() < Duration::from_secs(1));
    let unmeasured = OutcomeKind::Unmeasured(Class::QuotaExhausted);
    assert!(heard.of("south/small").iter().all(|o| o.kind == unmeasured));
    assert_eq!(heard.ended.halted.len(), 1);
}

/// A limit whose end is beyond all patience holds up nobody else.
#[tokio::test(start_paused = true)]
async fn a_limit_of_a_day_is_not_waited_for() {
    let primary = Scripted::new(|_, question| right(question));
    let candidate = Scripted::new(|_, _| failed(limited(86_400)));
    let world = World::new(&items(30), primary, candidate);
    let began = Instant::now();
    let heard = world.run().await;
    // The router believes it too, and does not wait past its deadline either.
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(heard.ended.halted.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_budget_stops_the_run_and_a_larger_one_lets_it_go_on() {
    // Each answer costs a dollar.
    let model = || Scripted::new(|_, question| right(question).after_ms(10));
    let (primary, candidate) = (model(), model());
    let mut world = World::new(&items(50), primary.clone(), candidate.clone());
    world.options.budget_usd = Some(30.0);
    let heard = world.run().await;
    assert_eq!(heard.ended.stopped, Some(Stop::Budget));
    let spent = heard.ended.spent_usd;
    assert!((29.0..=30.0).contains(&spent), "{spent}");
    assert_eq!(heard.outcomes.len(), 30);
    let begun_anew = world.put(false, CancellationToken::new()).await;
    assert!(matches!(begun_anew, Err(RunError::Unfinished { .. })));
    let same = world.put(true, CancellationToken::new()).await.unwrap();
    assert_eq!(same.ended.stopped, Some(Stop::Budget), "it is spent");
    world.options.budget_usd = Some(200.0);
    let rest = world.put(true, CancellationToken::new()).await.unwrap();
    assert_eq!(rest.ended.stopped, None);
    assert_eq!(rest.outcomes.len(), 100);
    assert_eq!((primary.asked(), candidate.asked()), (50, 50));
}

/// Many at a time, each for a dollar: nobody knows that before the first has ended.
#[tokio::test(start_paused = true)]
async fn a_budget_is_not_passed_by_those_that_are_under_way() {
    let model = || Scripted::new(|_, question| right(question).after_ms(10));
    let (primary, candidate) = (model(), model());
    let mut world = World::new(&items(200), primary.clone(), candidate.clone());
    world.options.load = Load::Closed { concurrency: 64 };
    world.options.budget_usd = Some(30.5);
    let heard = world.run().await;
    assert_eq!(heard.ended.stopped, Some(Stop::Budget));
    let spent = heard.ended.spent_usd;
    assert!((30.0..=30.5).contains(&spent), "{spent}");
    assert_eq!(primary.asked() + candidate.asked(), 30);
    assert!(primary.most_under_way() > 8, "once a cost is known");
}

/// In an open loop the wait for the first cost is no latency.
#[tokio::test(start_paused = true)]
async fn the_clock_of_an_open_loop_stands_still_until_a_cost_is_known() {
    let model = || Scripted::new(|_, question| right(question).after_ms(5_000));
    let mut world = World::new(&items(50), model(), model());
    world.options.load = Load::Open {
        per_second: 10.0,
        at_most: 100,
    };
    world.options.budget_usd = Some(1_000.0);
    let heard = world.run().await;
    assert!(
        heard.outcomes.iter().all(|o| o.total.as_millis() == 5_000),
        "{:?}",
        heard.outcomes.iter().map(|o| o.total).max()
    );
}

#[test]
fn a_budget_needs_prices() {
    let model = || Scripted::new(|_, question| right(question));
    let world = World::new(&items(1), model(), model());
    let mut config = world.settings.config().clone();
    for model in config.models.values_mut() {
        model.output_usd_per_mtok = None;
    }
    let settings = world.settings.with_config(config);
    let options = super::super::RunOptions {
        budget_usd: Some(1.0),
        ..world.options.clone()
    };
    let golden = world.golden.clone();
    let refused = super::super::Plan::new(&settings, super::world::ROLE, None, golden, options);
    let error = refused.unwrap_err().to_string();
    assert!(
        error.contains("the prices of north/big, south/small"),
        "{error}"
    );
}

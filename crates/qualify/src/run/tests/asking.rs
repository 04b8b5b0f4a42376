//! What is asked of whom, and what is heard of it.

use super::super::Load;
use super::world::{Behaved, Scripted, World, failed, items, read, right, said};
use crate::outcome::OutcomeKind;
use evenkeel_core::{Class, Failure, Phase};
use std::time::Duration;
use tokio::time::Instant;

fn ms(span: Duration) -> u128 {
    span.as_millis()
}

#[tokio::test(start_paused = true)]
async fn every_model_is_asked_everything_once_and_scored() {
    let primary = Scripted::new(|_, question| right(question).after_ms(100));
    let candidate = Scripted::new(|n, question| match n % 2 {
        0 => right(question).after_ms(50),
        _ => said("none").after_ms(50),
    });
    let world = World::new(&items(10), primary.clone(), candidate.clone());
    let heard = world.run().await;
    assert_eq!((primary.asked(), candidate.asked()), (10, 10));
    assert_eq!(
        (primary.most_under_way(), candidate.most_under_way()),
        (4, 4)
    );
    let score = |id| {
        let scores = heard.of(id).into_iter().filter_map(|o| o.kind.score());
        scores.sum::<f64>()
    };
    assert_eq!((score("north/big"), score("south/small")), (10.0, 5.0));
    let mut asked: Vec<usize> = heard.of("north/big").iter().map(|o| o.index).collect();
    asked.sort_unstable();
    assert_eq!(asked, (0..10).collect::<Vec<_>>());
    let first = heard.of("north/big")[0];
    assert_eq!(
        (ms(first.total), first.first_token.map(ms)),
        (100, Some(100))
    );
    assert_eq!(first.usage.map(|usage| usage.input), Some(1));
    assert_eq!(first.cost_usd, Some(1.0));
    assert_eq!(first.snapshot.as_deref(), Some("big-2026-11-30"));
    assert_eq!(first.fingerprint.as_deref(), Some("fp_1"));
    assert_eq!(first.answer.as_deref(), Some("0"));
    assert_eq!(heard.ended.stopped, None);
    assert!((heard.ended.spent_usd - 20.0).abs() < 1e-9);
    assert_eq!(world.journal().lines().count(), 20);
    let seen = &heard.ended.manifest.seen()["south/small"];
    assert!(seen.snapshots.contains("small-2026-11-30"), "{seen:?}");
    assert!(read(&world.report().manifest()).contains("\"is_finished\": true"));
    assert_eq!(
        heard.shown.0[..2],
        ["north/big 0 of 10", "south/small 0 of 10"]
    );
}

#[tokio::test(start_paused = true)]
async fn whole_answers_have_no_first_token() {
    let model = || Scripted::new(|_, question| right(question));
    let mut world = World::new(&items(2), model(), model());
    world.options.is_streamed = false;
    let heard = world.run().await;
    assert!(heard.outcomes.iter().all(|o| o.first_token.is_none()));
}

#[tokio::test(start_paused = true)]
async fn questions_are_repeated_after_one_another() {
    let model = || Scripted::new(|_, question| right(question));
    let (primary, candidate) = (model(), model());
    let mut world = World::new(&items(3), primary.clone(), candidate);
    world.options.repeat = 2;
    world.options.limit = Some(2);
    world.options.load = Load::Closed { concurrency: 1 };
    let heard = world.run().await;
    let expected = ["say 0", "say 1", "say 0", "say 1"];
    assert_eq!(primary.questions(), expected);
    let of: Vec<_> = heard
        .of("north/big")
        .iter()
        .map(|o| (o.index, o.repeat))
        .collect();
    assert_eq!(of, [(0, 0), (1, 0), (0, 1), (1, 1)]);
}

#[tokio::test(start_paused = true)]
async fn items_of_other_roles_are_left_out_and_keep_their_places() {
    let named = |role: &str, n: usize| {
        format!(
            r#"{{"id":"{role}{n}","role":"{role}","prompt":"say {n}","expected":"{n}","check":"number"}}"#
        )
    };
    let lines: Vec<String> = (0..6)
        .map(|n| named(if n % 2 == 0 { "pilot" } else { "clerk" }, n))
        .collect();
    let model = || Scripted::new(|_, question| right(question));
    let (primary, candidate) = (model(), model());
    let mut world = World::new(&lines.join("\n"), primary.clone(), candidate);
    world.options.limit = Some(2);
    let heard = world.run().await;
    assert_eq!(primary.questions(), ["say 1", "say 3"]);
    let places: Vec<usize> = heard.of("south/small").iter().map(|o| o.index).collect();
    assert_eq!(places, [1, 3]);
}

/// An open loop: questions wait for their turn, and that counts.
#[tokio::test(start_paused = true)]
async fn in_an_open_loop_latency_counts_from_when_a_question_was_due() {
    let slow = || Scripted::new(|_, question| right(question).after_ms(1_000));
    let mut world = World::new(&items(30), slow(), slow());
    // Ten a second come, one a second goes.
    world.options.load = Load::Open {
        per_second: 10.0,
        at_most: 1,
    };
    let began = Instant::now();
    let heard = world.run().await;
    let took = began.elapsed();
    let last = heard.of("north/big")[29];
    assert!(
        ms(last.total) > 24_000 && last.total < took,
        "{:?} of {took:?}",
        last.total
    );
    assert!(last.first_token.unwrap() <= last.total);
    // With room for all each takes what its model takes, and they overlap.
    world.options.load = Load::Open {
        per_second: 10.0,
        at_most: 100,
    };
    std::fs::remove_dir_all(world.report().path()).unwrap();
    let heard = world.run().await;
    assert!(
        heard.outcomes.iter().all(|o| ms(o.total) == 1_000),
        "{:?}",
        heard.outcomes[0]
    );
    assert!(
        world
            .models
            .values()
            .all(|model| model.most_under_way() > 4)
    );
}

/// A model is asked as production asks it: a useless answer is asked for again once,
/// with a hint. The caller has a good answer, and the first one was none.
#[tokio::test(start_paused = true)]
async fn an_answer_that_had_to_be_repaired_was_not_valid() {
    let item = r#"{"id":"a","prompt":"say","schema":{"type":"object","properties":{"label":{"type":"string"}},"required":["label"],"additionalProperties":false},"expected":{"label":"x"},"check":"fields"}"#;
    let good = r#"{"label":"x"}"#;
    let primary = Scripted::new(move |_, _| said(good));
    let candidate = Scripted::new(move |n, _| said(if n == 0 { "{}" } else { good }));
    let world = World::new(item, primary, candidate.clone());
    let heard = world.run().await;
    let of = |id| (heard.of(id)[0].kind, heard.of(id)[0].is_valid);
    assert_eq!(of("north/big"), (OutcomeKind::Answered(1.0), Some(true)));
    assert_eq!(of("south/small"), (OutcomeKind::Answered(1.0), Some(false)));
    assert_eq!(candidate.asked(), 2);
    assert_eq!(
        heard.of("south/small")[0].cost_usd,
        Some(2.0),
        "both were paid for"
    );
}

#[tokio::test(start_paused = true)]
async fn failures_keep_their_class_and_refusals_are_none() {
    let primary = Scripted::new(|_, question| right(question));
    let candidate = Scripted::new(|_, question| {
        let class = match question {
            "say 0" => Class::ContentFilter,
            "say 1" => Class::ContextWindow,
            "say 2" => Class::Semantic,
            _ => return right(question),
        };
        match class {
            Class::Semantic => said(" "),
            class => failed(Failure::new(class, "no")),
        }
    });
    let world = World::new(&items(4), primary, candidate);
    let heard = world.run().await;
    let mut kinds: Vec<_> = heard
        .of("south/small")
        .iter()
        .map(|o| (o.index, o.kind))
        .collect();
    kinds.sort_by_key(|(index, _)| *index);
    let expected = [
        (0, OutcomeKind::Refused),
        (1, OutcomeKind::Failed(Class::ContextWindow)),
        (2, OutcomeKind::Failed(Class::Semantic)),
        (3, OutcomeKind::Answered(1.0)),
    ];
    assert_eq!(kinds, expected);
}

/// Nothing moves traffic here: a slow answer is waited for up to the role's deadline.
#[tokio::test(start_paused = true)]
async fn a_slow_model_is_measured_and_not_replaced() {
    let primary = Scripted::new(|_, question| right(question));
    let candidate = Scripted::new(|_, question| right(question).after_ms(29_000));
    let world = World::new(&items(40), primary, candidate.clone());
    let heard = world.run().await;
    assert!(
        heard
            .of("south/small")
            .iter()
            .all(|o| ms(o.total) == 29_000)
    );
    assert_eq!(candidate.asked(), 40);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_fails_every_call_is_soon_let_be() {
    let primary = Scripted::new(|_, question| right(question).after_ms(10));
    let broken = |_: usize, _: &str| -> Behaved {
        failed(Failure::timeout(Phase::Deadline, "late")).after_ms(100)
    };
    let candidate = Scripted::new(broken);
    let world = World::new(&items(500), primary.clone(), candidate.clone());
    let began = Instant::now();
    let heard = world.run().await;
    assert_eq!(primary.asked(), 500, "the other goes on");
    let failed = heard.of("south/small");
    assert!(
        (20..24).contains(&failed.len()),
        "{} were asked",
        failed.len()
    );
    assert!(
        failed
            .iter()
            .all(|o| o.kind == OutcomeKind::Failed(Class::Timeout))
    );
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(heard.ended.halted.len(), 1);
    let shown = heard.shown.0.join("\n");
    assert!(
        shown.contains("south/small: 20 questions in a row failed (timeout)"),
        "{shown}"
    );
    assert_eq!(heard.ended.stopped, None, "there is nothing to go on with");
}

/// Useless answers are what is measured: they are no reason to stop.
#[tokio::test(start_paused = true)]
async fn a_model_that_is_always_wrong_is_asked_to_the_end() {
    let primary = Scripted::new(|_, question| right(question));
    let candidate = Scripted::new(|_, _| said(""));
    let world = World::new(&items(60), primary, candidate);
    let heard = world.run().await;
    assert_eq!(heard.of("south/small").len(), 60);
    assert!(heard.ended.halted.is_empty());
}

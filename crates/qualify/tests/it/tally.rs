//! Outcomes added up.

use crate::outcomes::{id, outcome};
use evenkeel_core::{Class, ModelId};
use evenkeel_qualify::{
    CandidateMeasures, ForeignOutcome, Outcome, OutcomeKind, Resampling, Tally,
};
use std::sync::Arc;
use std::time::Duration;

const PRIMARY: &str = "north/large";
const FALLBACK: &str = "south/medium";

fn tally(items: usize) -> Tally {
    Tally::new(id(PRIMARY), [id(PRIMARY), id(FALLBACK)], items)
}

fn measures(items: usize, outcomes: &[Outcome]) -> Vec<CandidateMeasures> {
    let mut tally = tally(items);
    for outcome in outcomes {
        tally.record(outcome).expect("it is measured");
    }
    tally.measures(&Resampling::new(3))
}

fn tagged(mut outcome: Outcome, tags: &[&str]) -> Outcome {
    outcome.tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    outcome
}

fn ended(mut outcome: Outcome, kind: OutcomeKind) -> Outcome {
    outcome.kind = kind;
    outcome.is_valid = None;
    outcome.usage = None;
    outcome.cost_usd = None;
    outcome
}

#[test]
fn a_candidate_without_an_outcome_is_measured_as_nothing() {
    let found = measures(10, &[]);
    assert_eq!(found.len(), 2);
    for measures in found {
        assert_eq!((measures.items, measures.paired), (0, 0));
        assert_eq!((measures.quality, measures.ratio), (None, None));
        assert_eq!((measures.compliance, measures.latency.total), (None, None));
        assert_eq!(measures.error_share.to_bits(), 0.0_f64.to_bits());
    }
}

#[test]
fn errors_and_refusals_score_0_and_what_was_not_measured_has_no_score() {
    let fallback = |index| outcome(FALLBACK, index, 1.0);
    let found = measures(
        4,
        &[
            fallback(0),
            ended(fallback(1), OutcomeKind::Refused),
            ended(fallback(2), OutcomeKind::Failed(Class::Timeout)),
            ended(fallback(3), OutcomeKind::Unmeasured(Class::RateLimited)),
        ],
    );
    let fallback = &found[1];
    assert_eq!((fallback.items, fallback.unmeasured), (3, 1));
    assert!((fallback.quality.unwrap().estimate - 1.0 / 3.0).abs() < 1e-9);
    assert!((fallback.error_share - 1.0 / 3.0).abs() < 1e-9);
    assert!((fallback.refusal_share - 1.0 / 3.0).abs() < 1e-9);
    assert_eq!(fallback.errors[&Class::Timeout], 1);
}

#[test]
fn the_ratio_is_over_the_items_that_both_were_asked() {
    let mut outcomes = Vec::new();
    for index in 0..40 {
        outcomes.push(outcome(PRIMARY, index, 0.5));
    }
    // Nothing was learnt of the fallback at the first 20.
    for index in 0..40 {
        let of = outcome(FALLBACK, index, 0.25);
        outcomes.push(if index < 20 {
            ended(of, OutcomeKind::Unmeasured(Class::QuotaExhausted))
        } else {
            of
        });
    }
    let found = measures(40, &outcomes);
    assert_eq!((found[1].items, found[1].paired), (20, 20));
    assert!((found[1].ratio.unwrap().estimate - 0.5).abs() < 1e-9);
    assert_eq!(found[0].ratio, None);
    assert_eq!(found[0].paired, 40);
}

/// Of the primary a failure of the way is no score; any other one, and any of a candidate,
/// is a 0.
#[test]
fn an_item_that_the_primary_could_not_be_asked_is_in_no_pair() {
    let mut outcomes = Vec::new();
    for index in 0..40 {
        let primary = outcome(PRIMARY, index, 1.0);
        outcomes.push(match index {
            0..10 => primary,
            10..12 => ended(primary, OutcomeKind::Failed(Class::Malformed)),
            _ => ended(primary, OutcomeKind::Failed(Class::Overloaded)),
        });
        let fallback = outcome(FALLBACK, index, 0.5);
        outcomes.push(match index {
            0..4 => ended(fallback, OutcomeKind::Failed(Class::Overloaded)),
            _ => fallback,
        });
    }
    let found = measures(40, &outcomes);
    let primary = &found[0];
    assert_eq!((primary.items, primary.scored), (12, 12));
    assert_eq!((primary.unreached, primary.questions), (28, 40));
    assert!((primary.quality.unwrap().estimate - 10.0 / 12.0).abs() < 1e-9);
    assert!((primary.error_share - 0.75).abs() < 1e-9);
    assert_eq!(primary.errors[&Class::Overloaded], 28);
    let fallback = &found[1];
    assert_eq!((fallback.items, fallback.paired), (40, 12));
    assert_eq!(fallback.unreached, 0);
    assert!((fallback.ratio.unwrap().estimate - 4.0 / 10.0).abs() < 1e-9);
    assert!((fallback.error_share - 0.1).abs() < 1e-9);
}

#[test]
fn judgements_that_agree_are_counted_where_there_are_any() {
    let judged = |index, judges_agree| Outcome {
        judges_agree,
        ..outcome(FALLBACK, index, 0.5)
    };
    let found = measures(
        4,
        &[
            judged(0, Some(true)),
            judged(1, Some(false)),
            judged(2, Some(true)),
            judged(3, None),
        ],
    );
    assert_eq!((found[1].judged, found[1].judges_agree), (3, 2));
    assert_eq!((found[0].judged, found[0].judges_agree), (0, 0));
}

#[test]
fn repeats_are_averaged_before_items_are() {
    let mut outcomes = Vec::new();
    for (index, scores) in [(0, vec![1.0, 0.0, 0.0, 0.0]), (1, vec![1.0])] {
        for (repeat, score) in (0..).zip(scores) {
            outcomes.push(Outcome {
                repeat,
                ..outcome(FALLBACK, index, score)
            });
        }
    }
    let found = measures(2, &outcomes);
    assert_eq!(found[1].items, 2);
    assert!((found[1].quality.unwrap().estimate - 0.625).abs() < 1e-9);
}

#[test]
fn the_order_of_the_outcomes_changes_nothing() {
    let mut outcomes: Vec<Outcome> = (0..60)
        .flat_map(|index| {
            let score = f64::from(u32::try_from(index).unwrap()) * 0.1 % 1.0;
            let of = |name| tagged(outcome(name, index, score), &["a"]);
            [of(PRIMARY), of(FALLBACK)]
        })
        .collect();
    let forwards = measures(60, &outcomes);
    outcomes.reverse();
    assert_eq!(forwards, measures(60, &outcomes));
}

/// C187: a whole group fails, and the overall ratio does not show it.
#[test]
fn every_tag_has_its_own_ratio() {
    let mut outcomes = Vec::new();
    for index in 0..100 {
        let (tag, is_right) = if index < 80 {
            ("plain", true)
        } else {
            ("tools", index < 86)
        };
        let score = f64::from(u8::from(is_right));
        outcomes.push(tagged(outcome(PRIMARY, index, 1.0), &[tag, tag]));
        outcomes.push(tagged(outcome(FALLBACK, index, score), &[tag, tag]));
    }
    let found = &measures(100, &outcomes)[1];
    assert!((found.ratio.unwrap().estimate - 0.86).abs() < 1e-9);
    let tools = found.tags["tools"];
    assert_eq!((tools.items, tools.paired), (20, 20));
    assert!((tools.ratio.unwrap().estimate - 0.3).abs() < 1e-9);
    assert!((found.tags["plain"].ratio.unwrap().estimate - 1.0).abs() < 1e-9);
}

#[test]
fn tags_without_end_are_counted_and_not_kept() {
    let mut tally = tally(300);
    for index in 0..300 {
        let own = format!("only-{index}");
        tally
            .record(&tagged(outcome(PRIMARY, index, 1.0), &[&own, "all"]))
            .unwrap();
    }
    let found = &tally.measures(&Resampling::new(1))[0];
    assert_eq!(found.tags.len(), 256);
    assert_eq!(found.tags["all"].items, 300);
    assert_eq!(tally.tags_left_out(), 300 - 255);
}

#[test]
fn latency_is_of_answers_and_never_below_the_nearest_rank() {
    let mut outcomes = Vec::new();
    for index in 0..100 {
        let mut of = outcome(FALLBACK, index, 1.0);
        of.total = Duration::from_millis(if index == 0 { 9_000 } else { 100 });
        of.first_token = None;
        outcomes.push(of);
    }
    let mut hung = ended(
        outcome(FALLBACK, 100, 1.0),
        OutcomeKind::Failed(Class::Timeout),
    );
    hung.total = Duration::from_secs(120);
    outcomes.push(hung);
    let latency = measures(101, &outcomes)[1].latency;
    let total = latency.total.unwrap();
    for quantile in [total.p50, total.p95, total.p99] {
        let ms = quantile.as_secs_f64() * 1_000.0;
        assert!((100.0..=100.1).contains(&ms), "{total:?}");
    }
    assert_eq!(latency.first_token, None);
}

#[test]
fn latencies_of_no_time_and_of_days_are_taken() {
    let mut now = outcome(FALLBACK, 0, 1.0);
    now.total = Duration::ZERO;
    let mut never = outcome(FALLBACK, 1, 1.0);
    never.total = Duration::MAX;
    let total = measures(2, &[now, never])[1].latency.total.unwrap();
    assert_eq!(total.p50, Duration::from_micros(1));
    assert!(total.p99 >= Duration::from_secs(86_400));
}

#[test]
fn a_cost_that_is_not_known_is_not_told() {
    let of = |index| outcome(FALLBACK, index, 1.0);
    let cost = |outcomes: &[Outcome]| measures(2, outcomes)[1].cost_usd;
    assert!((cost(&[of(0), of(1)]).unwrap() - 0.002).abs() < 1e-12);
    let unpriced = Outcome {
        cost_usd: None,
        ..of(1)
    };
    assert_eq!(cost(&[of(0), unpriced.clone()]), None);
    let refused = Outcome {
        usage: None,
        ..unpriced
    };
    assert!((cost(&[of(0), refused]).unwrap() - 0.001).abs() < 1e-12);
}

#[test]
fn compliance_is_over_the_answers_that_were_checked() {
    let mut outcomes: Vec<Outcome> = (0..10).map(|n| outcome(FALLBACK, n, 1.0)).collect();
    outcomes[0].is_valid = Some(false);
    outcomes[1].is_valid = None;
    let found = &measures(10, &outcomes)[1];
    assert_eq!(found.checked, 9);
    assert!((found.compliance.unwrap().estimate - 8.0 / 9.0).abs() < 1e-9);
}

#[test]
fn a_running_score_is_the_mean_so_far() {
    let mut tally = tally(3);
    assert_eq!(tally.running_score(&id(FALLBACK)), None);
    tally.record(&outcome(FALLBACK, 0, 1.0)).unwrap();
    tally.record(&outcome(FALLBACK, 1, 0.5)).unwrap();
    assert!((tally.running_score(&id(FALLBACK)).unwrap() - 0.75).abs() < 1e-9);
    assert_eq!(tally.running_score(&id("x/y")), None);
}

#[test]
fn what_is_not_measured_is_refused() {
    let mut tally = tally(3);
    let stranger: ModelId = id("x/y");
    assert_eq!(
        tally.record(&outcome("x/y", 0, 1.0)),
        Err(ForeignOutcome::Candidate(stranger))
    );
    assert_eq!(
        tally.record(&outcome(FALLBACK, 3, 1.0)),
        Err(ForeignOutcome::Item { index: 3, items: 3 })
    );
}

#[test]
fn the_worst_items_are_those_where_the_primary_is_furthest_ahead() {
    let scores = [(1.0, 1.0), (1.0, 0.5), (0.0, 1.0), (1.0, 0.0), (0.5, 0.25)];
    let outcomes: Vec<Outcome> = (0..)
        .zip(scores)
        .flat_map(|(n, (first, second))| [outcome(PRIMARY, n, first), outcome(FALLBACK, n, second)])
        .collect();
    let mut tally = tally(5);
    for outcome in &outcomes {
        tally.record(outcome).expect("it is measured");
    }
    let mut worst = tally.worst_items(2);
    assert_eq!(worst.indices().collect::<Vec<_>>(), [3, 1]);
    for outcome in outcomes.iter().rev() {
        worst.record(outcome);
    }
    let again = Outcome {
        repeat: 1,
        answer: Some(Arc::from("another time")),
        ..outcome(FALLBACK, 3, 1.0)
    };
    worst.record(&again);
    worst.describe(3, Arc::from("why?"), None);
    let items = worst.into_items();
    assert_eq!(&*items[0].item, "item-3");
    assert_eq!(items[0].question.as_deref(), Some("why?"));
    let said: Vec<_> = items[0]
        .answers
        .iter()
        .map(|a| a.answer.as_deref())
        .collect();
    assert_eq!(
        said,
        [Some("north/large says 3"), Some("south/medium says 3")]
    );
    assert_eq!(items[0].answers[1].kind, Some(OutcomeKind::Answered(0.0)));
    assert_eq!(items[1].question, None);
    assert_eq!(tally.worst_items(9).indices().count(), 3);
}

//! What passes, what fails, and what cannot be told.

use crate::outcomes::{FACTS, id, judged, limits, measured, ones, outcome};
use evenkeel_core::Class;
use evenkeel_qualify::{
    CandidateMeasures, Check, CheckName, GateLimits, Halt, Interval, Judged, LatencyKind,
    ModelFacts, MoreItems, OutcomeKind, Resampling, Tally, Verdict, judge, judge_primary,
    share_interval,
};
use evenkeel_roster::{EolState, ModelConfig, RolePolicy, Signal};
use jiff::civil::date;
use proptest::prelude::*;
use std::time::Duration;

const PRIMARY: &str = "north/large";
const FALLBACK: &str = "south/medium";

fn check<'j>(judged: &'j Judged, name: &CheckName) -> &'j Check {
    let mut checks = judged.checks.iter();
    checks
        .find(|check| check.name == *name)
        .expect("it is checked")
}

/// A fallback with so many of `of` items right, at a primary with all of them.
fn with_right(right: usize, of: usize, limits: &GateLimits) -> Judged {
    let candidates = [(PRIMARY, ones(of, of)), (FALLBACK, ones(right, of))];
    judged(measured(&candidates), limits).remove(0)
}

#[test]
fn a_fallback_that_is_as_good_passes_every_check() {
    let found = with_right(200, 200, &limits());
    let verdicts: Vec<_> = found
        .checks
        .iter()
        .map(|c| (c.name.to_string(), c.verdict))
        .collect();
    let pass = |name: &str| (name.to_owned(), Verdict::Pass);
    assert_eq!(
        verdicts,
        [
            pass("quality"),
            pass("latency"),
            pass("schema_compliance"),
            pass("context_window"),
            pass("provider"),
            pass("end_of_life"),
        ]
    );
    assert_eq!(found.verdict(), Verdict::Pass);
}

/// C188: the same fallback, five runs of 20 cases: no verdict flips, and the words
/// say that the set is too small.
#[test]
fn twenty_cases_do_not_tell_80_percent_from_90() {
    for right in [17, 16, 18, 17, 16] {
        let found = with_right(right, 20, &limits());
        let quality = check(&found, &CheckName::Quality);
        assert_eq!(quality.verdict, Verdict::NotEnoughData, "{right}");
        assert!(
            quality.words.ends_with("so few do not tell 0.80 from 0.90"),
            "{}",
            quality.words
        );
    }
}

/// C188: the verdict is the same for the same scores.
#[test]
fn the_same_scores_are_judged_the_same() {
    assert_eq!(
        with_right(170, 200, &limits()),
        with_right(170, 200, &limits())
    );
}

/// C187: without a minimum for the tag it passes; with one the check that fails
/// names it.
#[test]
fn a_minimum_for_a_tag_fails_the_group_that_is_below() {
    let mut tally = Tally::new(id(PRIMARY), [id(FALLBACK)], 1_000);
    for index in 0..1_000 {
        let is_tools = index >= 900;
        let tag = if is_tools { "tools" } else { "plain" };
        for name in [PRIMARY, FALLBACK] {
            let is_right = name == PRIMARY || !is_tools || index >= 970;
            let mut outcome = outcome(name, index, f64::from(u8::from(is_right)));
            outcome.tags = [tag.to_owned()].into();
            tally.record(&outcome).unwrap();
        }
    }
    let measures = tally.measures(&Resampling::new(1));
    assert_eq!(
        judged(measures.clone(), &limits())[0].verdict(),
        Verdict::Pass
    );
    let mut strict = limits();
    strict.quality_by_tag = [("tools".to_owned(), 0.8), ("plain".to_owned(), 0.8)].into();
    let found = judged(measures.clone(), &strict).remove(0);
    let tools = check(&found, &CheckName::TagQuality("tools".to_owned()));
    assert_eq!(tools.verdict, Verdict::Fail);
    assert_eq!(tools.name.to_string(), "quality[tools]");
    let plain = check(&found, &CheckName::TagQuality("plain".to_owned()));
    assert_eq!(plain.verdict, Verdict::Pass);
    strict.quality_by_tag = [("images".to_owned(), 0.8)].into();
    let found = judged(measures, &strict).remove(0);
    let images = check(&found, &CheckName::TagQuality("images".to_owned()));
    assert_eq!(images.verdict, Verdict::NotEnoughData);
}

/// C046: who was not measured is neither passed nor failed.
#[test]
fn a_candidate_that_was_not_measured_is_not_enough_data() {
    let candidates = [(PRIMARY, ones(50, 50)), (FALLBACK, Vec::new())];
    let found = judged(measured(&candidates), &limits()).remove(0);
    assert_eq!(found.verdict(), Verdict::NotEnoughData);
    assert_eq!(
        check(&found, &CheckName::Quality).words,
        "no item was answered by both it and the primary"
    );
    assert_eq!(
        check(&found, &CheckName::Latency).verdict,
        Verdict::NotEnoughData
    );
}

#[test]
fn a_primary_that_scores_nothing_is_no_measure() {
    let mut measures = measured(&[(PRIMARY, ones(0, 50)), (FALLBACK, ones(50, 50))]);
    let primary = judge_primary(measures.remove(0), FACTS);
    assert_eq!(primary.verdict(), Verdict::Fail);
    let found = judge(measures.remove(0), FACTS, &primary, &limits());
    assert_eq!(found.verdict(), Verdict::NotEnoughData);
    assert_eq!(
        check(&found, &CheckName::Quality).words,
        "the primary scores 0: there is nothing to compare with"
    );
    let nothing = measured(&[(PRIMARY, Vec::new())]).remove(0);
    let primary = judge_primary(nothing, FACTS);
    assert_eq!(primary.verdict(), Verdict::NotEnoughData);
}

/// A primary that answered 25 of 200 questions and was let be, beside a fallback that is
/// right at three of four.
#[test]
fn against_a_primary_that_was_let_be_there_is_never_enough_data() {
    let mut tally = Tally::new(id(PRIMARY), [id(FALLBACK)], 200);
    for index in 0..200 {
        let fallback = f64::from(u8::from(index % 4 > 0));
        tally.record(&outcome(FALLBACK, index, fallback)).unwrap();
        let mut primary = outcome(PRIMARY, index, 1.0);
        if index >= 25 {
            primary.kind = OutcomeKind::Failed(Class::Overloaded);
        }
        if index < 45 {
            tally.record(&primary).unwrap();
        }
    }
    let mut measures = tally.measures(&Resampling::new(1));
    measures[0].questions = 200;
    let judged_beside = |measures: &[CandidateMeasures]| {
        let primary = judge_primary(measures[0].clone(), FACTS);
        let mut strict = limits();
        strict.quality_by_tag = [("tools".to_owned(), 0.8)].into();
        let found = judge(measures[1].clone(), FACTS, &primary, &strict);
        (primary, found)
    };
    let (primary, found) = judged_beside(&measures);
    let coverage = check(&primary, &CheckName::Coverage);
    assert_eq!(coverage.verdict, Verdict::NotEnoughData);
    assert_eq!(
        coverage.words,
        "25 of 200 questions were measured, below 0.9 of them"
    );
    assert!(!primary.is_measure());
    assert_eq!(found.verdict(), Verdict::NotEnoughData);
    let halt = Halt::Failing {
        in_a_row: 20,
        class: Class::Overloaded,
    };
    measures[0].halted = Some(halt);
    let (primary, found) = judged_beside(&measures);
    let why = "20 questions in a row failed (overloaded): not asked further; 25 of 200 questions \
               were measured; --resume asks the rest";
    assert_eq!(check(&primary, &CheckName::Coverage).words, why);
    let told = format!("the primary was not measured enough: {why}");
    for name in [
        CheckName::Quality,
        CheckName::TagQuality("tools".to_owned()),
    ] {
        let check = check(&found, &name);
        assert_eq!(
            (check.verdict, &check.words),
            (Verdict::NotEnoughData, &told)
        );
    }
    assert_eq!(found.verdict(), Verdict::NotEnoughData);
}

/// To be better than a primary that declines every fifth question is no merit.
#[test]
fn a_primary_that_fails_or_declines_too_much_is_no_measure() {
    let primary_with = |spoilt: usize| {
        let mut tally = Tally::new(id(PRIMARY), [id(FALLBACK)], 100);
        for index in 0..100 {
            let mut primary = outcome(PRIMARY, index, 1.0);
            if index < spoilt {
                primary.kind = match index % 2 {
                    0 => OutcomeKind::Refused,
                    _ => OutcomeKind::Failed(Class::Malformed),
                };
            }
            tally.record(&primary).unwrap();
            tally.record(&outcome(FALLBACK, index, 1.0)).unwrap();
        }
        let mut measures = tally.measures(&Resampling::new(1));
        let primary = judge_primary(measures.remove(0), FACTS);
        let found = judge(measures.remove(0), FACTS, &primary, &limits());
        (primary, found)
    };
    let (primary, found) = primary_with(10);
    assert_eq!(primary.verdict(), Verdict::Pass);
    assert_eq!(found.verdict(), Verdict::Pass);
    let (primary, found) = primary_with(20);
    assert_eq!(primary.verdict(), Verdict::Fail);
    let why = "it failed 10 and declined 10 of 100 questions, above 0.1 of them: to be better \
               than that says little";
    assert_eq!(check(&primary, &CheckName::Yardstick).words, why);
    assert!(!primary.is_measure());
    let quality = check(&found, &CheckName::Quality);
    assert_eq!(quality.words, format!("the primary is no measure: {why}"));
    assert_eq!(found.verdict(), Verdict::NotEnoughData);
}

/// However good what it answered was: what it was not asked is not known.
#[test]
fn a_candidate_that_was_let_be_does_not_pass() {
    let candidates = [(PRIMARY, ones(200, 200)), (FALLBACK, ones(100, 100))];
    let mut measures = measured(&candidates);
    measures[1].halted = Some(Halt::Limited {
        in_a_row: 3,
        class: Class::RateLimited,
    });
    measures[1].questions = 200;
    let found = judged(measures, &limits()).remove(0);
    assert_eq!(check(&found, &CheckName::Quality).verdict, Verdict::Pass);
    assert_eq!(found.verdict(), Verdict::NotEnoughData);
    assert_eq!(
        check(&found, &CheckName::Coverage).words,
        "3 questions in a row were never taken (rate_limited): not asked further; 100 of 200 \
         questions were measured; --resume asks the rest"
    );
}

#[test]
fn a_candidate_that_fails_every_call_fails() {
    let found = with_right(0, 50, &limits());
    assert_eq!(check(&found, &CheckName::Quality).verdict, Verdict::Fail);
}

#[test]
fn the_median_has_to_be_below_the_threshold() {
    let at = |ms: u64, kind: LatencyKind| {
        let limits = GateLimits {
            latency: Duration::from_millis(ms),
            latency_kind: kind,
            ..limits()
        };
        check(&with_right(200, 200, &limits), &CheckName::Latency).verdict
    };
    assert_eq!(at(101, LatencyKind::Total), Verdict::Pass);
    assert_eq!(at(100, LatencyKind::Total), Verdict::Fail);
    assert_eq!(at(21, LatencyKind::FirstToken), Verdict::Pass);
    assert_eq!(at(20, LatencyKind::FirstToken), Verdict::Fail);
}

#[test]
fn a_role_that_watches_first_tokens_is_judged_by_them() {
    let seconds = Duration::from_secs;
    let mut policy = RolePolicy::new(seconds(2), seconds(3), seconds(15));
    policy.first_token_p95 = seconds(1);
    for (signal, kind, limit) in [
        (Signal::Auto, LatencyKind::Total, 2),
        (Signal::Total, LatencyKind::Total, 2),
        (Signal::FirstToken, LatencyKind::FirstToken, 1),
    ] {
        policy.signal = signal;
        let limits = GateLimits::of(&policy);
        assert_eq!(
            (limits.latency_kind, limits.latency),
            (kind, seconds(limit))
        );
    }
}

#[test]
fn compliance_is_judged_by_its_interval_and_only_where_it_was_asked_for() {
    let with_invalid = |invalid: usize, of: usize| {
        let mut tally = Tally::new(id(PRIMARY), [id(FALLBACK)], of);
        for index in 0..of {
            tally.record(&outcome(PRIMARY, index, 1.0)).unwrap();
            let mut outcome = outcome(FALLBACK, index, 1.0);
            outcome.is_valid = Some(index >= invalid);
            tally.record(&outcome).unwrap();
        }
        let found = judged(tally.measures(&Resampling::new(1)), &limits()).remove(0);
        let check = check(&found, &CheckName::SchemaCompliance);
        (check.verdict, check.more)
    };
    assert_eq!(with_invalid(0, 200).0, Verdict::Pass);
    assert_eq!(with_invalid(40, 200).0, Verdict::Fail);
    let (verdict, more) = with_invalid(0, 50);
    assert_eq!(verdict, Verdict::NotEnoughData);
    // Wilson's lower end of all valid is n / (n + z²): 0.95 from 73 on.
    assert_eq!(more, Some(MoreItems::About(23)));
    assert_eq!(with_invalid(0, 72).0, Verdict::NotEnoughData);
    assert_eq!(with_invalid(0, 73).0, Verdict::Pass);
    let (verdict, more) = with_invalid(2, 100);
    assert_eq!(verdict, Verdict::NotEnoughData);
    let Some(MoreItems::About(more)) = more else {
        panic!("{more:?}");
    };
    let all = 100 + u32::try_from(more).unwrap();
    let share =
        |of: u32| share_interval(0.98 * f64::from(of), of as usize, &Resampling::new(1)).unwrap();
    assert!(
        share(all).lower >= 0.95 && share(all - 1).lower < 0.95,
        "{all}"
    );

    let mut tally = Tally::new(id(PRIMARY), [id(FALLBACK)], 1);
    for name in [PRIMARY, FALLBACK] {
        let mut outcome = outcome(name, 0, 1.0);
        outcome.is_valid = None;
        tally.record(&outcome).unwrap();
    }
    let found = judged(tally.measures(&Resampling::new(1)), &limits()).remove(0);
    let names: Vec<_> = found.checks.iter().map(|check| &check.name).collect();
    assert!(!names.contains(&&CheckName::SchemaCompliance));
}

fn judged_facts(own: ModelFacts, primary: ModelFacts, limits: &GateLimits) -> Judged {
    let mut measures = measured(&[(PRIMARY, ones(200, 200)), (FALLBACK, ones(200, 200))]);
    let primary = judge_primary(measures.remove(0), primary);
    judge(measures.remove(0), own, &primary, limits)
}

#[test]
fn a_window_has_to_hold_what_the_role_needs_or_else_what_the_primary_does() {
    let window = |own, primary, needed| {
        let facts = |context_window| ModelFacts {
            context_window,
            ..FACTS
        };
        let limits = GateLimits {
            context_window: needed,
            ..limits()
        };
        let found = judged_facts(facts(own), facts(primary), &limits);
        check(&found, &CheckName::ContextWindow).verdict
    };
    assert_eq!(window(Some(8_192), Some(8_192), None), Verdict::Pass);
    assert_eq!(window(Some(8_191), Some(8_192), None), Verdict::Fail);
    assert_eq!(window(Some(4_096), Some(8_192), Some(4_096)), Verdict::Pass);
    assert_eq!(window(Some(4_095), None, Some(4_096)), Verdict::Fail);
    assert_eq!(window(None, Some(8_192), None), Verdict::Warning);
    assert_eq!(window(Some(8_192), None, None), Verdict::Warning);
}

#[test]
fn a_model_past_its_last_day_fails_and_one_that_is_near_warns() {
    let of = |eol| {
        let mut model = ModelConfig::new(id(FALLBACK));
        model.registered = true;
        model.eol_date = eol;
        let facts = ModelFacts::of(&model, date(2027, 1, 10));
        let found = judged_facts(facts, FACTS, &limits());
        let check = check(&found, &CheckName::EndOfLife);
        (check.verdict, check.words.clone())
    };
    assert_eq!(of(None).0, Verdict::Pass);
    assert_eq!(of(Some(date(2028, 1, 1))).0, Verdict::Pass);
    assert_eq!(
        of(Some(date(2027, 1, 20))),
        (
            Verdict::Warning,
            "it ends its life on 2027-01-20, in 10 days".to_owned()
        )
    );
    assert_eq!(
        of(Some(date(2027, 1, 9))),
        (Verdict::Fail, "its last day was 2027-01-09".to_owned())
    );
    let overdue = ModelFacts {
        eol: EolState::Overdue,
        eol_date: Some(date(2026, 1, 1)),
        ..FACTS
    };
    let found = judged_facts(overdue, FACTS, &limits());
    assert_eq!(found.verdict(), Verdict::Warning);
    assert!(found.verdict().is_pass());
    let found = judged_facts(ModelFacts::unknown(), FACTS, &limits());
    assert_eq!(
        check(&found, &CheckName::EndOfLife).verdict,
        Verdict::Warning
    );
}

#[test]
fn the_estimate_of_items_brings_the_end_of_the_interval_to_the_limit() {
    let found = Interval {
        estimate: 0.869,
        lower: 0.819,
        upper: 0.912,
    };
    // 200 × (0.05 / 0.019)² − 200
    assert_eq!(
        MoreItems::to_settle(found, 0.85, 200),
        MoreItems::About(1_186)
    );
    // Below the limit the other end counts: 200 × (0.043 / 0.031)² − 200
    assert_eq!(MoreItems::to_settle(found, 0.9, 200), MoreItems::About(185));
    assert_eq!(
        MoreItems::to_settle(found, 0.869, 200),
        MoreItems::CannotBeSettled
    );
    assert_eq!(
        MoreItems::to_settle(found, 0.8689, 200),
        MoreItems::CannotBeSettled
    );
}

/// Where two agree on everything the interval is MOVER's, and narrows with the number of
/// items and not with its root.
#[test]
fn so_many_more_items_settle_a_ratio_and_not_one_less() {
    let strict = GateLimits {
        quality: 0.95,
        ..limits()
    };
    for of in [30, 40] {
        let found = with_right(of, of, &strict);
        let quality = check(&found, &CheckName::Quality);
        assert_eq!(quality.verdict, Verdict::NotEnoughData, "{of}");
        let Some(MoreItems::About(more)) = quality.more else {
            panic!("{:?}", quality.more);
        };
        let all = of + usize::try_from(more).unwrap();
        let verdict = |of| check(&with_right(of, of, &strict), &CheckName::Quality).verdict;
        assert_eq!(verdict(all), Verdict::Pass, "{more} more than {of}");
        assert_eq!(
            verdict(all - 1),
            Verdict::NotEnoughData,
            "{more} more than {of}"
        );
        let by_root = MoreItems::to_settle(quality.measured.unwrap(), 0.95, of);
        assert!(
            matches!(by_root, MoreItems::About(root) if root > more),
            "{by_root:?}"
        );
    }
}

proptest! {
    /// Asking for more never turns a fail into anything better.
    #[test]
    fn a_higher_threshold_is_never_easier(
        right in 0..=100_usize,
        first in 0.0..=1.0_f64,
        second in 0.0..=1.0_f64,
    ) {
        let at = |quality: f64| {
            let found = with_right(right, 100, &GateLimits { quality, ..limits() });
            check(&found, &CheckName::Quality).verdict
        };
        let (lower, higher) = (at(first.min(second)), at(first.max(second)));
        prop_assert!(lower <= higher, "{lower:?} {higher:?}");
    }
}

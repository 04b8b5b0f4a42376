//! Who is the first fallback, and whether the whole job holds.

use crate::banking::measured_on;
use crate::outcomes::{FACTS, id, limits, measured, measured_by, ones, outcome};
use evenkeel_qualify::{
    CandidateMeasures, CheckName, GateLimits, Resampling, RoleVerdict, Tally, Verdict,
};
use evenkeel_roster::RankingPolicy;
use fastrand::Rng;
use std::time::Duration;

const PRIMARY: &str = "north/large";

fn ranked(
    measures: Vec<CandidateMeasures>,
    limits: &GateLimits,
    weights: RankingPolicy,
) -> RoleVerdict {
    RoleVerdict::of(measures, |_| FACTS, limits, &weights).expect("something was measured")
}

fn names(verdict: &RoleVerdict) -> Vec<&str> {
    let qualified = verdict.qualified();
    qualified
        .map(|judged| judged.measures.candidate.as_str())
        .collect()
}

/// The primary and candidates that are right at so many of 200 items, after so many ms.
fn measured_with(candidates: &[(&str, usize, u64)]) -> Vec<CandidateMeasures> {
    let ids = candidates.iter().map(|(name, _, _)| id(name));
    let mut tally = Tally::new(id(PRIMARY), ids, 200);
    for (name, right, ms) in [(PRIMARY, 200, 100)].iter().chain(candidates) {
        for index in 0..200 {
            let mut outcome = outcome(name, index, f64::from(u8::from(index < *right)));
            outcome.total = Duration::from_millis(*ms);
            tally.record(&outcome).expect("it is measured");
        }
    }
    tally.measures(&Resampling::new(1))
}

#[test]
fn the_better_ones_come_first_and_ranks_count_from_1() {
    let found = ranked(measured_on("banking8"), &limits(), RankingPolicy::default());
    assert_eq!(names(&found), ["south/nb-40", "south/nb-20", "south/nb-10"]);
    let ranks: Vec<_> = found.qualified().map(|j| j.rank.map(|r| r.rank)).collect();
    assert_eq!(ranks, [Some(1), Some(2), Some(3)]);
    let rest: Vec<_> = found.candidates[3..].iter().map(|j| j.rank).collect();
    assert_eq!(rest, [None; 4]);
    assert_eq!((found.verdict(), found.exit_code()), (Verdict::Fail, 1));
}

#[test]
fn a_job_whose_candidates_all_pass_holds() {
    let mut measures = measured_on("banking8");
    measures.truncate(4);
    let found = ranked(measures, &limits(), RankingPolicy::default());
    assert_eq!((found.verdict(), found.exit_code()), (Verdict::Pass, 0));
    let words: Vec<_> = found
        .checks
        .iter()
        .map(|check| check.words.as_str())
        .collect();
    assert_eq!(
        words,
        [
            "3 of 3 candidates qualify",
            "the first fallback does not stand at `north`"
        ]
    );
}

#[test]
fn the_first_fallback_stands_elsewhere_unless_the_role_allows_the_same() {
    let measures = measured_with(&[("north/small", 200, 100), ("south/a", 190, 100)]);
    let found = ranked(measures.clone(), &limits(), RankingPolicy::default());
    assert_eq!(names(&found), ["south/a", "north/small"]);
    assert_eq!(found.verdict(), Verdict::Warning);
    assert_eq!(found.exit_code(), 0);

    let allowed = GateLimits {
        allow_same_provider: true,
        ..limits()
    };
    let found = ranked(measures, &allowed, RankingPolicy::default());
    assert_eq!(names(&found), ["north/small", "south/a"]);

    let unsettled = measured_with(&[("north/small", 200, 100), ("south/a", 172, 100)]);
    let found = ranked(unsettled, &limits(), RankingPolicy::default());
    assert_eq!(found.checks[1].verdict, Verdict::NotEnoughData);

    let alone = measured_with(&[("north/small", 200, 100)]);
    let found = ranked(alone.clone(), &limits(), RankingPolicy::default());
    let gravest = found
        .checks
        .iter()
        .find(|check| check.verdict == Verdict::Fail);
    assert_eq!(
        gravest.map(|c| &c.name),
        Some(&CheckName::ProviderDiversity)
    );
    let found = ranked(alone, &allowed, RankingPolicy::default());
    assert_eq!(found.exit_code(), 0);
}

#[test]
fn weights_decide_between_a_better_and_a_quicker_one() {
    let measures = || measured_with(&[("south/better", 198, 1_200), ("west/quicker", 190, 100)]);
    let weights = |quality, latency| RankingPolicy {
        quality,
        latency,
        compliance: 0.0,
    };
    let by_quality = ranked(measures(), &limits(), weights(1.0, 0.0));
    assert_eq!(names(&by_quality), ["south/better", "west/quicker"]);
    let by_latency = ranked(measures(), &limits(), weights(0.0, 1.0));
    assert_eq!(names(&by_latency), ["west/quicker", "south/better"]);
    let rank = by_latency.candidates[0].rank.unwrap();
    assert!(
        (rank.score - (1.0 - 100.0 / 1_500.0)).abs() < 0.001,
        "{rank:?}"
    );
}

#[test]
fn equal_ones_are_in_the_order_of_their_names_however_they_were_measured() {
    for order in [
        ["south/b", "south/a", "west/c"],
        ["west/c", "south/b", "south/a"],
    ] {
        let candidates = order.map(|name| (name, 195, 100));
        let found = ranked(
            measured_with(&candidates),
            &limits(),
            RankingPolicy::default(),
        );
        assert_eq!(names(&found), ["south/a", "south/b", "west/c"]);
    }
}

#[test]
fn a_job_without_a_candidate_or_without_a_primary_does_not_hold() {
    let alone = measured(&[(PRIMARY, ones(50, 50))]);
    let found = ranked(alone, &limits(), RankingPolicy::default());
    assert_eq!(found.checks[0].words, "there is no candidate");
    assert_eq!(found.exit_code(), 1);
    let nothing = RoleVerdict::of(Vec::new(), |_| FACTS, &limits(), &RankingPolicy::default());
    assert_eq!(nothing, None);
}

/// Whenever the planted gap exceeds the interval the ranking is right: always where it
/// exceeds the intervals of both together, and in 99 of 100 where it exceeds the wider
/// one (then it is 2.8 standard deviations of the difference).
#[test]
fn the_ranking_is_right_whenever_the_planted_gap_exceeds_the_interval() {
    let (mut told_apart, mut wrong) = (0, 0);
    for run in 0..300 {
        for (gap, widths) in ranked_pairs(0xabcd + run * 7_919) {
            assert!(gap <= widths[0] + widths[1], "run {run}: {gap} {widths:?}");
            let wider = widths[0].max(widths[1]);
            told_apart += u32::from(gap.abs() > wider);
            wrong += u32::from(gap > wider);
        }
    }
    assert!(told_apart > 1_000, "{told_apart}");
    assert!(wrong * 100 <= told_apart, "{wrong} of {told_apart}");
}

/// Five candidates of planted quality, ranked; of every two of them by how much the
/// second is planted above the first, and how wide their intervals are.
fn ranked_pairs(seed: u64) -> Vec<(f64, [f64; 2])> {
    let planted = [
        ("south/a", 0.86),
        ("south/b", 0.9),
        ("south/c", 0.94),
        ("south/d", 0.98),
        ("south/e", 0.995),
    ];
    let mut random = Rng::with_seed(seed);
    let mut scores = |quality: f64| -> Vec<f64> {
        let draw = |_| f64::from(u8::from(random.f64() < quality));
        (0..400).map(draw).collect()
    };
    let mut candidates = vec![(PRIMARY, scores(0.99))];
    candidates.extend(planted.map(|(name, quality)| (name, scores(quality))));
    // Everything passes, so that everything is ranked.
    let open = GateLimits {
        quality: 0.0,
        ..limits()
    };
    // What ranks is the estimate, so few resamples do.
    let measures = measured_by(&Resampling::new(7).with_resamples(100), &candidates);
    let found = ranked(measures, &open, RankingPolicy::default());
    let order: Vec<(f64, f64)> = found
        .qualified()
        .map(|judged| {
            let name = judged.measures.candidate.as_str();
            let quality = planted.iter().find(|(planted, _)| *planted == name);
            let width = judged.measures.quality.map_or(1.0, |found| found.width());
            (quality.expect("one of them").1, width)
        })
        .collect();
    assert_eq!(order.len(), planted.len());
    let mut pairs = Vec::new();
    for (place, first) in order.iter().enumerate() {
        for second in &order[place + 1..] {
            pairs.push((second.0 - first.0, [first.1, second.1]));
        }
    }
    pairs
}

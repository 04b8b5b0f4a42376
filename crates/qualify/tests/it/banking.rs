//! Real classifiers of known quality on real questions.

use crate::outcomes::{id, judged, limits, measured};
use evenkeel_qualify::{CandidateMeasures, MoreItems, Verdict};

/// Which items each classifier of a golden file answers rightly.
pub(crate) fn measured_on(file: &str) -> Vec<CandidateMeasures> {
    let names: Vec<(String, Vec<f64>)> = include_str!("banking.txt")
        .lines()
        .filter_map(|line| line.strip_prefix(file)?.strip_prefix(' '))
        .map(|line| {
            let (name, bits) = line.split_once(' ').expect("a name and bits");
            let scores = bits.bytes().map(|bit| f64::from(bit - b'0')).collect();
            let provider = if name == "nb-all" { "north" } else { "south" };
            (format!("{provider}/{name}"), scores)
        })
        .collect();
    let candidates: Vec<_> = names.iter().map(|(n, s)| (n.as_str(), s.clone())).collect();
    measured(&candidates)
}

fn verdicts(file: &str) -> Vec<(String, Verdict)> {
    judged(measured_on(file), &limits())
        .iter()
        .map(|judged| {
            let name = judged.measures.candidate.model().to_owned();
            (name, judged.verdict())
        })
        .collect()
}

fn said(verdicts: &[(&str, Verdict)]) -> Vec<(String, Verdict)> {
    let said = verdicts
        .iter()
        .map(|(name, verdict)| ((*name).to_owned(), *verdict));
    said.collect()
}

#[test]
fn eight_labels_tell_all_but_the_one_at_the_threshold() {
    let expected = [
        ("nb-40", Verdict::Pass),
        ("nb-20", Verdict::Pass),
        ("nb-10", Verdict::Pass),
        ("nb-7", Verdict::NotEnoughData),
        ("nb-4", Verdict::Fail),
        ("nb-2", Verdict::Fail),
        ("nb-1", Verdict::Fail),
    ];
    assert_eq!(verdicts("banking8"), said(&expected));
}

#[test]
fn seventy_seven_labels_are_too_many_for_all_but_the_best() {
    let found = verdicts("banking77");
    assert_eq!(found[0], ("nb-40".to_owned(), Verdict::Pass));
    assert!(
        found[1..].iter().all(|(_, v)| *v == Verdict::Fail),
        "{found:?}"
    );
}

#[test]
fn scores_are_those_that_were_measured() {
    let measures = measured_on("banking8");
    let credit = [0.990, 0.985, 0.955, 0.900, 0.860, 0.775, 0.625, 0.560];
    for (measures, credit) in measures.iter().zip(credit) {
        let quality = measures.quality.unwrap().estimate;
        assert!(
            (quality - credit).abs() < 1e-9,
            "{}: {quality}",
            measures.candidate
        );
    }
    let near = measures
        .iter()
        .find(|m| m.candidate == id("south/nb-7"))
        .unwrap();
    assert!((near.ratio.unwrap().estimate - 172.0 / 198.0).abs() < 1e-9);
}

#[test]
fn the_one_at_the_threshold_is_told_how_far_it_is_from_a_verdict() {
    let judged = judged(measured_on("banking8"), &limits());
    let near = &judged[3].checks[0];
    let Some(MoreItems::About(more)) = near.more else {
        panic!("{near:?}");
    };
    assert!((500..3_000).contains(&more), "{}", near.words);
}

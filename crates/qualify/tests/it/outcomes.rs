//! Outcomes for tests.

use evenkeel_core::{ModelId, Usage};
use evenkeel_qualify::{
    CandidateMeasures, GateLimits, Judged, ModelFacts, Outcome, OutcomeKind, Resampling, Tally,
    judge, judge_primary,
};
use evenkeel_roster::{EolState, RolePolicy};
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn id(text: &str) -> ModelId {
    ModelId::new(text).expect("a model")
}

/// An answer with that score, valid, after 100 ms.
pub(crate) fn outcome(candidate: &str, index: usize, score: f64) -> Outcome {
    Outcome {
        candidate: id(candidate),
        index,
        item: Arc::from(format!("item-{index}")),
        tags: Arc::from([]),
        repeat: 0,
        kind: OutcomeKind::Answered(score),
        is_valid: Some(true),
        total: Duration::from_millis(100),
        first_token: Some(Duration::from_millis(20)),
        usage: Some(Usage {
            input: 10,
            output: 2,
            ..Usage::default()
        }),
        cost_usd: Some(0.001),
        judges_agree: None,
        snapshot: None,
        fingerprint: None,
        answer: Some(Arc::from(format!("{candidate} says {index}"))),
    }
}

/// The measures of candidates with the given scores, the first of them primary.
pub(crate) fn measured(candidates: &[(&str, Vec<f64>)]) -> Vec<CandidateMeasures> {
    measured_by(&Resampling::new(7), candidates)
}

/// The same, with intervals made in that way.
pub(crate) fn measured_by(
    resampling: &Resampling,
    candidates: &[(&str, Vec<f64>)],
) -> Vec<CandidateMeasures> {
    let items = candidates.iter().map(|(_, scores)| scores.len()).max();
    let ids: Vec<ModelId> = candidates.iter().map(|(name, _)| id(name)).collect();
    let mut tally = Tally::new(ids[0].clone(), ids, items.unwrap_or(0));
    for (name, scores) in candidates {
        for (index, score) in scores.iter().enumerate() {
            tally
                .record(&outcome(name, index, *score))
                .expect("it is measured");
        }
    }
    tally.measures(resampling)
}

/// What a role with the default policy asks, at thresholds of 1.5 and 2.5 s.
pub(crate) fn limits() -> GateLimits {
    let seconds = Duration::from_secs_f64;
    GateLimits::of(&RolePolicy::new(seconds(1.5), seconds(2.5), seconds(15.0)))
}

/// A model of the registry that serves on and takes 8,192 tokens.
pub(crate) const FACTS: ModelFacts = ModelFacts {
    is_registered: true,
    context_window: Some(8_192),
    eol_date: None,
    eol: EolState::Current,
};

/// All but the first judged beside the first.
pub(crate) fn judged(measures: Vec<CandidateMeasures>, limits: &GateLimits) -> Vec<Judged> {
    let mut measures = measures.into_iter();
    let primary = judge_primary(measures.next().expect("a primary"), FACTS);
    measures
        .map(|measures| judge(measures, FACTS, &primary, limits))
        .collect()
}

/// `right` ones, then zeros, `of` in all.
pub(crate) fn ones(right: usize, of: usize) -> Vec<f64> {
    (0..of).map(|n| if n < right { 1.0 } else { 0.0 }).collect()
}

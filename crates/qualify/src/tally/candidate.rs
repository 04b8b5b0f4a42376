//! What one candidate's outcomes came to.

use super::ItemTally;
use super::item::{parts, whole};
use crate::latencies::Latencies;
use crate::statistics::{Resampling, share_interval};
use crate::{CandidateMeasures, Outcome, OutcomeKind};
use evenkeel_core::{Class, ModelId, Usage};
use std::collections::BTreeMap;

/// One part of a dollar, as costs are added up in.
const PICO: f64 = 1e12;

/// Adds up one candidate's outcomes.
#[derive(Debug)]
pub(super) struct CandidateTally {
    id: ModelId,
    /// Whether the others are measured against it.
    is_primary: bool,
    items: Vec<ItemTally>,
    /// Sum of all scores in parts, for the running score.
    sum: u128,
    scored: usize,
    unmeasured: usize,
    unscored: usize,
    unreached: usize,
    refused: usize,
    judged: usize,
    judges_agree: usize,
    errors: BTreeMap<Class, usize>,
    latencies: Latencies,
    usage: Usage,
    /// None once a question took tokens whose price is not known.
    cost: Option<u128>,
}

impl CandidateTally {
    pub(super) fn new(id: ModelId, is_primary: bool, items: usize) -> Self {
        Self {
            id,
            is_primary,
            items: vec![ItemTally::default(); items],
            sum: 0,
            scored: 0,
            unmeasured: 0,
            unscored: 0,
            unreached: 0,
            refused: 0,
            judged: 0,
            judges_agree: 0,
            errors: BTreeMap::new(),
            latencies: Latencies::default(),
            usage: Usage::default(),
            cost: Some(0),
        }
    }

    pub(super) const fn id(&self) -> &ModelId {
        &self.id
    }

    /// The item at `index`, which is one of the dataset's.
    pub(super) fn item(&self, index: usize) -> ItemTally {
        self.items[index]
    }

    pub(super) fn record(&mut self, outcome: &Outcome) {
        self.spend(outcome);
        match outcome.kind {
            OutcomeKind::Answered(_) => self.time(outcome),
            OutcomeKind::Refused => {
                self.refused += 1;
                self.time(outcome);
            }
            OutcomeKind::Failed(class) => *self.errors.entry(class).or_default() += 1,
            OutcomeKind::Unmeasured(_) => self.unmeasured += 1,
            OutcomeKind::Unscored => {
                self.unscored += 1;
                self.time(outcome);
            }
        }
        if let Some(agree) = outcome.judges_agree {
            self.judged += 1;
            self.judges_agree += usize::from(agree);
        }
        if self.is_primary && outcome.kind.is_of_the_way() {
            // A 0 would make everybody better than a primary that was away.
            self.unreached += 1;
        } else if let Some(score) = outcome.kind.score() {
            self.items[outcome.index].record(score, outcome.is_valid);
            self.sum += u128::from(parts(score));
            self.scored += 1;
        }
    }

    fn time(&mut self, outcome: &Outcome) {
        self.latencies.record(outcome.total, outcome.first_token);
    }

    fn spend(&mut self, outcome: &Outcome) {
        if let Some(usage) = outcome.usage {
            self.usage = self.usage.plus(usage);
        }
        match outcome.cost_usd {
            Some(usd) => {
                self.cost = self.cost.map(|sum| sum.saturating_add(pico(usd)));
            }
            None if outcome.usage.is_some() => self.cost = None,
            None => {}
        }
    }

    pub(super) fn running_score(&self) -> Option<f64> {
        let mean = self.sum.checked_div(self.scored as u128)?;
        Some(whole(u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    /// What it says without the primary.
    pub(super) fn measures(&self, resampling: &Resampling) -> CandidateMeasures {
        let failed: usize = self.errors.values().sum();
        let ended = self.scored + self.unreached;
        let validities = self.items.iter().filter_map(|item| item.validity());
        let (checked, valid) = validities.fold((0, 0.0), |(n, sum), v| (n + 1, sum + v));
        CandidateMeasures {
            candidate: self.id.clone(),
            items: 0,
            paired: 0,
            questions: ended + self.unmeasured + self.unscored,
            scored: self.scored,
            unmeasured: self.unmeasured,
            unreached: self.unreached,
            refused: self.refused,
            halted: None,
            judged: self.judged,
            judges_agree: self.judges_agree,
            unscored: self.unscored,
            quality: None,
            ratio: None,
            outlook: None,
            compliance: share_interval(valid, checked, resampling),
            checked,
            latency: self.latencies.measures(),
            error_share: share(failed, ended),
            errors: self.errors.clone(),
            refusal_share: share(self.refused, ended),
            usage: self.usage,
            cost_usd: self.cost.map(dollars),
            tags: BTreeMap::new(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of questions")]
fn share(part: usize, of: usize) -> f64 {
    if of == 0 {
        0.0
    } else {
        part as f64 / of as f64
    }
}

/// What is no amount counts as nothing.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion to a whole number takes the nearest that there is"
)]
fn pico(usd: f64) -> u128 {
    (usd * PICO).round() as u128
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a part in 2^53 of what a run costs"
)]
fn dollars(pico: u128) -> f64 {
    pico as f64 / PICO
}

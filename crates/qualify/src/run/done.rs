//! Which questions have been asked already.

use super::plan::{Plan, repeats};
use crate::outcome::Outcome;
use evenkeel_core::ModelId;
use std::collections::BTreeMap;

/// Which questions have been asked already: a bit for each.
#[derive(Debug)]
pub(crate) struct Done {
    primary: ModelId,
    by_model: BTreeMap<ModelId, Asked>,
    items: usize,
    repeat: usize,
}

#[derive(Debug, Clone, Default)]
struct Asked {
    bits: Vec<u64>,
}

impl Done {
    /// Nothing asked yet.
    pub(crate) fn nothing(plan: &Plan) -> Self {
        let asked = |model: &ModelId| (model.clone(), Asked::default());
        Self {
            primary: plan.primary.clone(),
            by_model: plan.models().map(asked).collect(),
            // By their places in the dataset, whoever's they are.
            items: plan.golden.count(),
            repeat: repeats(plan.options.repeat),
        }
    }

    /// Notes what an outcome says; false where the question was noted before. One
    /// that nothing was learnt from, or that could not be scored, is to be asked again; so
    /// is the primary where it could not be asked.
    ///
    /// # Errors
    /// Where it answers no question of the plan.
    pub(crate) fn note(&mut self, outcome: &Outcome) -> Result<bool, String> {
        let place = self.place(outcome.index, outcome.repeat);
        let model = self.by_model.get_mut(&outcome.candidate);
        let (Some(place), Some(asked)) = (place, model) else {
            return Err(format!(
                "item {} (repeat {}) of `{}` is no question of this run",
                outcome.index, outcome.repeat, outcome.candidate
            ));
        };
        let was_away = outcome.candidate == self.primary && outcome.kind.is_of_the_way();
        if outcome.kind.score().is_none() || was_away {
            return Ok(false);
        }
        let (word, bit) = (place / 64, 1_u64 << (place % 64));
        if asked.bits.len() <= word {
            asked.bits.resize(word + 1, 0);
        }
        let is_new = asked.bits[word] & bit == 0;
        asked.bits[word] |= bit;
        Ok(is_new)
    }

    /// Whether the question has been asked.
    pub(crate) fn has(&self, model: &ModelId, index: usize, repeat: u32) -> bool {
        let place = self.place(index, repeat);
        let (Some(place), Some(asked)) = (place, self.by_model.get(model)) else {
            return false;
        };
        let word = asked.bits.get(place / 64).copied().unwrap_or_default();
        word & (1 << (place % 64)) != 0
    }

    fn place(&self, index: usize, repeat: u32) -> Option<usize> {
        let repeat = repeats(repeat);
        let is_one = index < self.items && repeat < self.repeat;
        is_one.then(|| repeat * self.items + index)
    }
}

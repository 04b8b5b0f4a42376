//! What all items of a role are scored by.

use super::{Item, WeightedScorer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The scorers that every item has, by the role that items name.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedScorers(BTreeMap<Option<Arc<str>>, Vec<WeightedScorer>>);

impl SharedScorers {
    /// Keeps what this item has too.
    pub(super) fn take(&mut self, item: &Item) {
        let own = || {
            let scorers = item.scorers.iter().filter_map(|weighted| {
                Some(WeightedScorer {
                    weight: weighted.weight,
                    scorer: weighted.scorer.without_expected()?,
                })
            });
            scorers.collect::<Vec<_>>()
        };
        match self.0.get_mut(&item.role) {
            None => {
                self.0.insert(item.role.clone(), own());
            }
            Some(shared) if shared.is_empty() => {}
            Some(shared) => {
                let own = own();
                keep(shared, &own);
            }
        }
    }

    /// Those of `role`.
    pub(super) fn of(&self, role: &str) -> Vec<WeightedScorer> {
        let named = self.0.get(&Some(Arc::from(role)));
        match (named, self.0.get(&None)) {
            (Some(named), Some(unnamed)) => {
                let mut both = named.clone();
                keep(&mut both, unnamed);
                both
            }
            (one, other) => one.or(other).cloned().unwrap_or_default(),
        }
    }
}

fn keep(shared: &mut Vec<WeightedScorer>, own: &[WeightedScorer]) {
    shared.retain(|kept| own.iter().any(|own| own.scorer.is_same(&kept.scorer)));
}

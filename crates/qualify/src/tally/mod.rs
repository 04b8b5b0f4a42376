//! Outcomes, added up as they come.
//!
//! Nothing of an outcome is kept but numbers: 16 bytes an item and candidate, 4
//! an item and tag, and two histograms a candidate. Sums are of whole numbers, so
//! the same outcomes come to the same measures in whatever order they arrive.

mod candidate;
mod item;
mod tags;
mod worst;

pub use worst::{ItemAnswer, WorstItem, WorstItems};

use self::candidate::CandidateTally;
use self::item::ItemTally;
use self::tags::Tags;
use crate::statistics::{Resampling, mean_interval, ratio_and_outlook};
use crate::{CandidateMeasures, Outcome, TagMeasures};
use evenkeel_core::ModelId;

/// An outcome of something that is not measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForeignOutcome {
    /// Of a model that is no candidate.
    #[error("an outcome is of `{0}`, which is not measured")]
    Candidate(ModelId),
    /// Of an item beyond the dataset.
    #[error("an outcome is of item {index} (from 0), expected below {items}")]
    Item {
        /// The item's place.
        index: usize,
        /// Items of the dataset.
        items: usize,
    },
}

/// Adds up the outcomes of a role's candidates.
#[derive(Debug)]
pub struct Tally {
    items: usize,
    tags: Tags,
    /// The primary first.
    candidates: Vec<CandidateTally>,
}

impl Tally {
    /// Of `primary` and `candidates` on a dataset of `items` items. The order of the
    /// candidates is that of the measures; the primary among them counts once.
    pub fn new(
        primary: ModelId,
        candidates: impl IntoIterator<Item = ModelId>,
        items: usize,
    ) -> Self {
        let mut ids = vec![primary];
        for candidate in candidates {
            if !ids.contains(&candidate) {
                ids.push(candidate);
            }
        }
        let of = |(place, id)| CandidateTally::new(id, place == 0, items);
        Self {
            items,
            tags: Tags::new(items),
            candidates: ids.into_iter().enumerate().map(of).collect(),
        }
    }

    /// Adds one outcome. The same outcome added twice counts twice.
    ///
    /// # Errors
    /// [`ForeignOutcome`] where its candidate or its item is not measured.
    pub fn record(&mut self, outcome: &Outcome) -> Result<(), ForeignOutcome> {
        let (index, items) = (outcome.index, self.items);
        if index >= items {
            return Err(ForeignOutcome::Item { index, items });
        }
        let of = &outcome.candidate;
        let candidate = self.candidates.iter_mut().find(|tally| tally.id() == of);
        let candidate = candidate.ok_or_else(|| ForeignOutcome::Candidate(of.clone()))?;
        candidate.record(outcome);
        self.tags.record(index, &outcome.tags);
        Ok(())
    }

    /// The mean score of `candidate` so far, 0..1; none without a score.
    pub fn running_score(&self, candidate: &ModelId) -> Option<f64> {
        let mut all = self.candidates.iter();
        all.find(|tally| tally.id() == candidate)?.running_score()
    }

    /// Tags beyond the 256 that are kept, each time one was met.
    pub fn tags_left_out(&self) -> usize {
        self.tags.left_out()
    }

    /// What the outcomes say of every candidate, the primary first. Questions there were
    /// to put are taken for those that were put, and nobody for halted: of that the
    /// outcomes say nothing.
    ///
    /// Of the primary a question has no score that it could not be asked: an item
    /// is paired where both were measured.
    pub fn measures(&self, resampling: &Resampling) -> Vec<CandidateMeasures> {
        let measures = |(place, tally): (usize, &CandidateTally)| {
            let primary = (place > 0).then(|| &self.candidates[0]);
            let side_by_side = SideBySide { tally, primary };
            let mut measures = tally.measures(resampling);
            let all = side_by_side.over(0..self.items, resampling);
            measures.items = all.items;
            measures.paired = all.paired;
            measures.quality = all.quality;
            measures.ratio = all.ratio;
            measures.outlook = all.outlook;
            let by_tag = |(tag, items): (&str, &[u32])| {
                let items = items.iter().map(|index| *index as usize);
                (tag.to_owned(), side_by_side.over(items, resampling))
            };
            measures.tags = self.tags.iter().map(by_tag).collect();
            measures
        };
        self.candidates.iter().enumerate().map(measures).collect()
    }

    /// The items at which a candidate loses most against the primary, at most
    /// `most`, the greatest loss first. Their texts are collected in a second pass
    /// over the outcomes: [`WorstItems::record`].
    pub fn worst_items(&self, most: usize) -> WorstItems {
        let mut losses: Vec<(u64, usize)> = (0..self.items)
            .filter_map(|index| Some((self.loss(index)?, index)))
            .collect();
        losses.sort_by_key(|(loss, index)| (std::cmp::Reverse(*loss), *index));
        losses.truncate(most);
        let chosen = losses.into_iter().map(|(_, index)| index);
        WorstItems::new(chosen, self.candidates.iter().map(CandidateTally::id))
    }

    /// How far the worst candidate is below the primary at an item, as whole
    /// numbers; none where nobody is.
    fn loss(&self, index: usize) -> Option<u64> {
        let (primary, candidates) = self.candidates.split_first()?;
        let primary = primary.item(index).mean()?;
        let below = |tally: &CandidateTally| {
            let score = tally.item(index).mean()?;
            Some(primary.saturating_sub(score))
        };
        candidates.iter().filter_map(below).max().filter(|l| *l > 0)
    }
}

/// A candidate beside the primary; none beside the primary itself.
#[derive(Clone, Copy)]
struct SideBySide<'t> {
    tally: &'t CandidateTally,
    primary: Option<&'t CandidateTally>,
}

impl SideBySide<'_> {
    fn over(self, items: impl Iterator<Item = usize>, resampling: &Resampling) -> TagMeasures {
        let (mut scores, mut pairs) = (Vec::new(), Vec::new());
        for index in items {
            let Some(score) = self.tally.item(index).score() else {
                continue;
            };
            scores.push(score);
            let primary = self.primary.and_then(|primary| primary.item(index).score());
            pairs.extend(primary.map(|primary| (score, primary)));
        }
        let found = ratio_and_outlook(&pairs, resampling);
        TagMeasures {
            items: scores.len(),
            paired: match self.primary {
                Some(_) => pairs.len(),
                None => scores.len(),
            },
            quality: mean_interval(&scores, resampling),
            ratio: found.map(|(ratio, _)| ratio),
            outlook: found.and_then(|(_, outlook)| outlook),
        }
    }
}

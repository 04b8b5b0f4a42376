//! The items at which a candidate loses most, side by side.

use crate::{Outcome, OutcomeKind};
use evenkeel_core::ModelId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Collects the texts of chosen items from a second pass over the outcomes, so
/// that no other text is ever kept.
#[derive(Debug, Clone, PartialEq)]
pub struct WorstItems {
    /// In the order that they are shown in.
    order: Vec<usize>,
    items: BTreeMap<usize, WorstItem>,
}

/// One item with every candidate's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct WorstItem {
    /// Its id; empty until an outcome of it is met.
    pub item: Arc<str>,
    /// Its tags.
    pub tags: Arc<[String]>,
    /// What was asked, where the caller said: [`WorstItems::describe`].
    pub question: Option<Arc<str>>,
    /// What was expected, where the caller said.
    pub expected: Option<Arc<str>>,
    /// The primary first.
    pub answers: Vec<ItemAnswer>,
}

/// What one candidate made of an item, at its first repeat.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemAnswer {
    /// Who.
    pub candidate: ModelId,
    /// How it ended; none where it was not asked.
    pub kind: Option<OutcomeKind>,
    /// The answer, where there is one.
    pub answer: Option<Arc<str>>,
    repeat: u32,
}

impl ItemAnswer {
    /// Of nobody yet.
    fn new(candidate: &ModelId) -> Self {
        Self {
            candidate: candidate.clone(),
            kind: None,
            answer: None,
            repeat: u32::MAX,
        }
    }
}

impl WorstItems {
    pub(super) fn new<'m>(
        chosen: impl Iterator<Item = usize>,
        candidates: impl Iterator<Item = &'m ModelId>,
    ) -> Self {
        let order: Vec<usize> = chosen.collect();
        let answers: Vec<ItemAnswer> = candidates.map(ItemAnswer::new).collect();
        let item = || WorstItem {
            item: Arc::from(""),
            tags: Arc::from([]),
            question: None,
            expected: None,
            answers: answers.clone(),
        };
        let items = order.iter().map(|index| (*index, item())).collect();
        Self { order, items }
    }

    /// The places of the items in the dataset, from 0, the worst first.
    pub fn indices(&self) -> impl Iterator<Item = usize> {
        self.order.iter().copied()
    }

    /// Keeps the outcome's text where it is of one of the items.
    pub fn record(&mut self, outcome: &Outcome) {
        let Some(item) = self.items.get_mut(&outcome.index) else {
            return;
        };
        item.item = Arc::clone(&outcome.item);
        item.tags = Arc::clone(&outcome.tags);
        let mut answers = item.answers.iter_mut();
        let Some(answer) = answers.find(|answer| answer.candidate == outcome.candidate) else {
            return;
        };
        if answer.kind.is_none() || outcome.repeat < answer.repeat {
            answer.kind = Some(outcome.kind);
            answer.answer.clone_from(&outcome.answer);
            answer.repeat = outcome.repeat;
        }
    }

    /// Says what was asked and expected at the item at `index`; of another item it
    /// does nothing.
    pub fn describe(&mut self, index: usize, question: Arc<str>, expected: Option<Arc<str>>) {
        if let Some(item) = self.items.get_mut(&index) {
            item.question = Some(question);
            item.expected = expected;
        }
    }

    /// The items, the worst first.
    pub fn into_items(mut self) -> Vec<WorstItem> {
        let taken = self
            .order
            .iter()
            .filter_map(|index| self.items.remove(index));
        taken.collect()
    }
}

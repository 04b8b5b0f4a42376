//! One question of a golden dataset.

use crate::scorers::{Form, Scorer};
use evenkeel_core::{ChatRequest, Value};
use std::sync::Arc;

/// A question, what is expected of its answer, and who scores it.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its line in the file, from 1.
    pub line: usize,
    /// Its place among the items, from 0: what pairs candidates.
    pub index: usize,
    /// Its id, of which there is one in the dataset.
    pub id: Arc<str>,
    /// The role that it belongs to, where it names one.
    pub role: Option<Arc<str>>,
    /// What is asked.
    pub request: ChatRequest,
    /// What is expected, as it is written.
    pub expected: Option<Value>,
    /// Who scores the answer; at least one.
    pub scorers: Vec<WeightedScorer>,
    /// Groups that it counts in.
    pub tags: Arc<[String]>,
    /// What makes an answer valid.
    pub(crate) form: Form,
}

/// A scorer and its share of an item's score.
#[derive(Debug, Clone)]
pub struct WeightedScorer {
    /// Its weight beside the item's other scorers; finite and above 0.
    pub weight: f64,
    /// The scorer, with what it expects of this item.
    pub scorer: Scorer,
}

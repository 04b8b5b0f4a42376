//! What one question of a golden dataset came to at one candidate.

use evenkeel_core::{Class, ModelId, Usage};
use std::sync::Arc;
use std::time::Duration;

/// One question, asked once of one candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The candidate.
    pub candidate: ModelId,
    /// The item's place in the dataset, from 0: what pairs candidates.
    pub index: usize,
    /// The item's id.
    pub item: Arc<str>,
    /// The item's tags.
    pub tags: Arc<[String]>,
    /// Which repetition, from 0.
    pub repeat: u32,
    /// How it ended.
    pub kind: OutcomeKind,
    /// Whether the answer was valid for the item's schema or tools; none where
    /// the item asks for neither.
    pub is_valid: Option<bool>,
    /// From when the question was due (open loop: whether or not it could be
    /// sent then) to the end of the answer.
    pub total: Duration,
    /// The same to the first content of the answer; none where not streamed.
    pub first_token: Option<Duration>,
    /// Tokens, where known.
    pub usage: Option<Usage>,
    /// US dollars, where the model's prices are known.
    pub cost_usd: Option<f64>,
    /// Whether both judgements of every judge agree; none where nobody judged.
    pub judges_agree: Option<bool>,
    /// The model that says it answered, where it says so.
    pub snapshot: Option<Arc<str>>,
    /// Its `system_fingerprint`, where it says so.
    pub fingerprint: Option<Arc<str>>,
    /// The answer, cut short, for a report's worst items.
    pub answer: Option<Arc<str>>,
}

/// How a question ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OutcomeKind {
    /// Answered, with the weighted score of the item's scorers, 0 to 1.
    Answered(f64),
    /// The model declined to answer: scores 0, and counts as a refusal.
    Refused,
    /// No answer, for a reason that a caller would meet too: scores 0, and
    /// counts as an error.
    Failed(Class),
    /// Answered, and no scorer could score it: a judge failed, or a command. It has no
    /// score, and is asked again when the run goes on.
    Unscored,
    /// Nothing was learnt about the model: rate limits or quota until patience
    /// ended. It has no score.
    Unmeasured(Class),
}

impl OutcomeKind {
    /// The score, 0 to 1; none where nothing was learnt.
    pub const fn score(self) -> Option<f64> {
        match self {
            Self::Answered(score) => Some(score),
            Self::Refused | Self::Failed(_) => Some(0.0),
            Self::Unscored | Self::Unmeasured(_) => None,
        }
    }

    /// Whether it failed because the model could not be asked, which says nothing of what
    /// it is worth when it can. A candidate has to answer for that too; of the primary,
    /// which the others are measured against, nothing was learnt then.
    pub const fn is_of_the_way(self) -> bool {
        let Self::Failed(class) = self else {
            return false;
        };
        match class {
            Class::Transient
            | Class::Overloaded
            | Class::Unreachable
            | Class::Timeout
            | Class::Auth
            | Class::ModelGone
            | Class::BadRequest => true,
            Class::RateLimited
            | Class::QuotaExhausted
            | Class::ContextWindow
            | Class::ContentFilter
            | Class::Malformed
            | Class::Semantic
            | Class::Cancelled => false,
        }
    }
}

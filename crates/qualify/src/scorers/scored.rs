//! The score of an answer by all scorers of its item.

use super::{Answered, Asked, CommandLimits, Judge, ScoringError};
use crate::golden::Item;
use evenkeel_core::ChatResponse;
use std::sync::Arc;

/// A refusal that scores so much was asked for, or was none.
const NO_REFUSAL: f64 = 0.5;

/// What scorers may use beside the answer.
#[derive(Debug, Clone, Default)]
pub struct ScoringContext {
    /// Asks roles for a judgement; none: a judge among the scorers is an error.
    pub judge: Option<Arc<dyn Judge>>,
    /// Limits of external commands; none: they may not run, and one among the
    /// scorers is an error. A dataset can name any command, so who runs it has to
    /// allow that.
    pub commands: Option<CommandLimits>,
}

/// What an answer is worth.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The weighted mean of the scorers, 0 to 1.
    pub score: f64,
    /// Whether the answer obeys the item's schema or its tools' schemas; none
    /// where the item has neither.
    pub is_valid: Option<bool>,
    /// Whether the model declined: by a refusal, a content filter, or a first
    /// sentence that refuses, and with a score below one half. An item that
    /// expects a refusal scores it higher.
    pub is_refusal: bool,
    /// What each scorer gave, in the item's order.
    pub details: Vec<ScoreDetail>,
}

/// What one scorer gave.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreDetail {
    /// The scorer's kind.
    pub scorer: &'static str,
    /// Its weight.
    pub weight: f64,
    /// Its score, 0 to 1.
    pub score: f64,
    /// What the score comes from, in a line; none where it is plain.
    pub note: Option<String>,
    /// Of a judge, whether both of its judgements agree; none of any other scorer.
    pub judges_agree: Option<bool>,
}

impl Scored {
    /// Whether both judgements of every judge agree; none where nobody judged.
    pub fn judges_agree(&self) -> Option<bool> {
        let all = self.details.iter();
        all.filter_map(|detail| detail.judges_agree)
            .reduce(|one, other| one && other)
    }
}

/// Scores an answer by the scorers of its item.
///
/// Dropping the future gives it up; an external command is ended then.
///
/// # Errors
/// [`ScoringError`] where a scorer could not do its work.
pub async fn score(
    item: &Item,
    answer: &ChatResponse,
    context: &ScoringContext,
) -> Result<Scored, ScoringError> {
    let asked = Asked::of(item);
    let answered = Answered::new(answer);
    let mut mean = WeightedMean::default();
    let mut details = Vec::with_capacity(item.scorers.len());
    for weighted in &item.scorers {
        let scorer = weighted.scorer.kind();
        let grade = weighted.scorer.grade(asked, &answered, context).await?;
        if !(0.0..=1.0).contains(&grade.score) {
            return Err(ScoringError::NoScore {
                scorer: scorer.to_owned(),
                seen: grade.score.to_string(),
            });
        }
        mean.add(weighted.weight, grade.score);
        details.push(ScoreDetail {
            scorer,
            weight: weighted.weight,
            score: grade.score,
            note: grade.note,
            judges_agree: grade.judges_agree,
        });
    }
    // An item has at least one scorer.
    let score = mean.mean().unwrap_or_default();
    Ok(Scored {
        score,
        is_valid: item.form.check(&answered),
        is_refusal: score < NO_REFUSAL && answered.declines(),
        details,
    })
}

/// A mean of scores by weights.
#[derive(Debug, Default)]
pub(crate) struct WeightedMean {
    /// Of the weights so far; they are taken relative to it, so that no sum
    /// overflows.
    largest: f64,
    sum: f64,
    whole: f64,
}

impl WeightedMean {
    /// Takes a score in; `weight` is finite and above 0.
    pub(crate) fn add(&mut self, weight: f64, score: f64) {
        if weight > self.largest {
            let smaller = self.largest / weight;
            self.sum *= smaller;
            self.whole *= smaller;
            self.largest = weight;
        }
        self.sum += weight / self.largest * score;
        self.whole += weight / self.largest;
    }

    /// The mean; none of nothing.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.whole > 0.0).then(|| (self.sum / self.whole).clamp(0.0, 1.0))
    }
}

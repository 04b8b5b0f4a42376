//! What callers say of the answers they got.

use crate::recent::{Key, Recent};
use crate::rung::locked;
use evenkeel_core::{EventKind, Meta, ModelId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// What a caller says of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Feedback {
    /// Whether it served its purpose: a score of 1 or 0.
    Success(bool),
    /// How good it was, 0..=1.
    Score(f64),
}

/// Why feedback is not taken.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FeedbackError {
    /// This caller got no answer to a request of that id, or too long ago.
    #[error(
        "no answer to a request of that id is known: it was not this caller's, or is too long ago"
    )]
    UnknownRequest,
    /// The score is none.
    #[error("the score is {0}, expected 0 to 1")]
    Score(f64),
}

/// An answer that feedback was given on.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The role that was asked.
    pub role: Arc<str>,
    /// Who answered.
    pub model: ModelId,
    /// Its place in the roster, 0 = primary.
    pub rung: usize,
    /// Whether it was not the primary.
    pub degraded: bool,
    /// The score, 0..=1.
    pub score: f64,
}

/// What callers say of one model in one role, since the router was built.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelQuality {
    /// The model.
    pub model: ModelId,
    /// Answers that feedback was given on.
    pub judged: u64,
    /// Their mean score, 0..=1; none without feedback.
    pub mean_score: Option<f64>,
}

#[derive(Debug)]
struct Answered {
    role: Arc<str>,
    model: ModelId,
    rung: usize,
    degraded: bool,
    /// In millionths.
    score: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    judged: u64,
    /// In millionths: whole numbers, so that what is taken back leaves nothing.
    scores: u64,
}

/// The answers of the last day, at most 10,000, and what was said of all.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    answers: Recent<Answered>,
    /// By role and model: as many as the rosters have.
    sums: BTreeMap<(Arc<str>, ModelId), Sum>,
}

impl Answers {
    /// Remembers who answered; of two answers to one id the later one counts.
    pub(crate) fn note(&self, key: &Key, role: &Arc<str>, meta: &Meta, now: Instant) {
        let answered = || Answered {
            role: role.clone(),
            model: meta.model_id.clone(),
            rung: meta.rung,
            degraded: meta.degraded,
            score: None,
        };
        let mut known = locked(&self.0);
        *known.answers.touch(key, now, answered) = answered();
        known.answers.expire(now);
    }

    /// Takes feedback in. Said again it replaces what was said before.
    pub(crate) fn judge(
        &self,
        key: &Key,
        feedback: Feedback,
        now: Instant,
    ) -> Result<(Judged, EventKind), FeedbackError> {
        let score = match feedback {
            Feedback::Success(success) => f64::from(u8::from(success)),
            Feedback::Score(score) if (0.0..=1.0).contains(&score) => score,
            Feedback::Score(score) => return Err(FeedbackError::Score(score)),
        };
        let mut known = locked(&self.0);
        let Known { answers, sums } = &mut *known;
        let answered = answers.get_mut(key, now);
        let answered = answered.ok_or(FeedbackError::UnknownRequest)?;
        let sum = sums
            .entry((answered.role.clone(), answered.model.clone()))
            .or_default();
        let millionths = millionths(score);
        let before = answered.score.replace(millionths);
        sum.judged += u64::from(before.is_none());
        sum.scores = sum.scores + u64::from(millionths) - u64::from(before.unwrap_or(0));
        let judged = Judged {
            role: answered.role.clone(),
            model: answered.model.clone(),
            rung: answered.rung,
            degraded: answered.degraded,
            score,
        };
        let event = EventKind::Feedback {
            request_id: key.id.clone(),
            role: judged.role.clone(),
            model: judged.model.clone(),
            rung: judged.rung,
            degraded: judged.degraded,
            score,
        };
        Ok((judged, event))
    }

    /// What was said of a model in a role.
    pub(crate) fn quality(&self, role: &Arc<str>, model: &ModelId) -> ModelQuality {
        let known = locked(&self.0);
        let sum = known.sums.get(&(role.clone(), model.clone()));
        let Sum { judged, scores } = sum.copied().unwrap_or_default();
        #[expect(
            clippy::cast_precision_loss,
            reason = "a mean needs no exact count beyond 2^52"
        )]
        let mean = || scores as f64 / judged as f64 / 1e6;
        ModelQuality {
            model: model.clone(),
            judged,
            mean_score: (judged > 0).then(mean),
        }
    }
}

/// A score of 0..=1 in millionths.
fn millionths(score: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and a million"
    )]
    let millionths = (score * 1e6).round() as u32;
    millionths
}

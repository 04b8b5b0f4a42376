//! What a role's validators make of an attempt's answer.

use super::Call;
use crate::validation::{Judgement, NoVerdict, Validation};
use evenkeel_core::{ChatResponse, Class, EventKind, Failure, Judged, TrailStep};
use evenkeel_roster::OnValidatorError;
use std::sync::Arc;
use std::time::Instant;

impl Call {
    /// The validators of the call's role; none where it has none.
    pub(crate) fn validation(&self) -> Option<&Validation> {
        Some(&self.role.validation).filter(|v| !v.is_empty())
    }

    /// The attempt's answer is whole, and is judged from now on: its clocks and
    /// its measure end here, the race and the deadline go on.
    pub(crate) fn is_judged(
        &mut self,
        index: usize,
        response: Arc<ChatResponse>,
        now: Instant,
    ) -> Judged {
        self.measured(index, now);
        let attempt = &mut self.attempts[index];
        attempt.judging = Some(now);
        attempt.pace = None;
        attempt.window_ends = None;
        Judged::new(
            self.role.name.clone(),
            self.role.rungs[attempt.rung].model.id.clone(),
            self.request.clone(),
            response,
        )
        .with_request_id(self.context.request_id.clone())
    }

    /// Whether the answer may go to the caller after all. If not, the attempt has failed.
    pub(crate) fn passes(
        &mut self,
        index: usize,
        judgement: Judgement,
        text: &str,
        now: Instant,
    ) -> bool {
        self.tell_judged(index, &judgement, now);
        match judgement {
            Judgement::Valid => true,
            Judgement::Invalid {
                validator,
                message,
                hint,
            } => {
                self.quality_rejected(index, validator.clone(), now);
                let message = format!("validator `{validator}`: {message}");
                let mut failure = Failure::new(Class::Semantic, message);
                failure.same_model_may_help = hint.is_some();
                if let Some(hint) = hint {
                    self.repair_with(index, text, hint);
                }
                self.failed(index, failure, now);
                false
            }
            Judgement::None { validator, why } => self.unjudged(index, &validator, &why, now),
        }
    }

    fn tell_judged(&self, index: usize, judgement: &Judgement, now: Instant) {
        let attempt = &self.attempts[index];
        let (verdict, gate) = match judgement {
            Judgement::Valid => ("valid", None),
            Judgement::Invalid { validator, .. } => ("invalid", Some(validator.clone())),
            Judgement::None { validator, .. } => ("none", Some(validator.clone())),
        };
        self.tell(
            now,
            EventKind::AnswerJudged {
                role: self.role.name.clone(),
                attempt: index,
                model: self.role.rungs[attempt.rung].model.id.clone(),
                duration: now.saturating_duration_since(attempt.judging.unwrap_or(now)),
                verdict,
                gate,
            },
        );
    }

    fn unjudged(
        &mut self,
        index: usize,
        validator: &Arc<str>,
        why: &NoVerdict,
        now: Instant,
    ) -> bool {
        let rung = self.attempts[index].rung;
        let passed = self.role.policy.on_validator_error == OnValidatorError::Pass;
        let message = why.message();
        self.trail.steps.push(TrailStep::NotValidated {
            rung,
            validator: validator.clone(),
            error: message.clone(),
            at: self.since(now),
        });
        self.tell(
            now,
            EventKind::ValidatorFailed {
                role: self.role.name.clone(),
                attempt: index,
                model: self.role.rungs[rung].model.id.clone(),
                validator: validator.clone(),
                why: why.as_str(),
                passed,
            },
        );
        if passed {
            return true;
        }
        // It says nothing of the model, and asking that again would not help.
        let message = format!("not validated: validator `{validator}` {message}");
        let mut failure = Failure::new(Class::Semantic, message);
        failure.same_model_may_help = false;
        self.failed_counting(index, failure, false, now);
        false
    }

    /// An answer that the caller is not given for what is in it, or is not.
    pub(crate) fn quality_rejected(&mut self, index: usize, gate: Arc<str>, now: Instant) {
        self.attempts[index].rejected = true;
        let rung = self.attempts[index].rung;
        self.tell(
            now,
            EventKind::QualityRejected {
                role: self.role.name.clone(),
                task: self.context.task.clone(),
                attempt: index,
                rung,
                model: self.role.rungs[rung].model.id.clone(),
                gate,
            },
        );
    }
}

//! What is remembered of a call after its end, where its caller may come back to it.

use super::Call;
use crate::error::CallErrorKind;
use crate::recent::Key;
use crate::workflows::Step;
use evenkeel_core::Meta;
use std::sync::Arc;
use std::time::Instant;

impl Call {
    fn key(&self, id: &Arc<str>) -> Key {
        Key {
            caller: self.context.caller.clone(),
            id: id.clone(),
        }
    }

    /// The call got an answer, if it `is_whole`, or a part of one.
    pub(super) fn account_answer(&self, meta: &Meta, is_whole: bool, now: Instant) {
        if let Some(id) = &self.context.request_id {
            let answers = &self.role.around.answers;
            answers.note(&self.key(id), &self.role.name, meta, now);
        }
        if self.context.workflow.is_some() {
            let context = self.degradation(meta);
            let step = Step {
                role: &self.role.name,
                answer: Some((meta, &context)),
                is_unanswered: !is_whole,
            };
            self.account_step(step, now);
        }
    }

    /// The call got no answer.
    pub(super) fn account_failure(&self, kind: &CallErrorKind, now: Instant) {
        let is_unanswered = match kind {
            CallErrorKind::Failed(failure) => failure.class.is_of_models(),
            CallErrorKind::Exhausted(_)
            | CallErrorKind::Queued { .. }
            | CallErrorKind::NotKept { .. } => true,
            CallErrorKind::UnknownRole(_) | CallErrorKind::DegradedInput { .. } => false,
        };
        let step = Step {
            role: &self.role.name,
            answer: None,
            is_unanswered,
        };
        self.account_step(step, now);
    }

    fn account_step(&self, step: Step<'_>, now: Instant) {
        let Some(workflow) = &self.context.workflow else {
            return;
        };
        let workflows = &self.role.around.workflows;
        for event in workflows.note(&self.key(workflow), step, now) {
            self.tell(now, event);
        }
    }
}

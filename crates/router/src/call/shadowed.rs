//! What a call hands over to its shadow.

use super::Call;
use crate::shadow::{Answered, Candidate, Size, has_form};
use evenkeel_core::{ChatResponse, ShadowAnswer};
use std::sync::Arc;
use std::time::Instant;

impl Call {
    /// Whether the call is to be shadowed: then its answer is to be added up.
    pub(crate) fn is_shadowed(&self) -> bool {
        self.shadow.is_some()
    }

    /// Another model goes on with the answer: there is nothing to compare it with.
    pub(crate) fn forgo_shadow(&mut self) {
        self.shadow = None;
    }

    /// The answer of the winner is complete, and on its way to the caller.
    pub(crate) fn shadow(&mut self, index: usize, answer: &ChatResponse, now: Instant) {
        let Some(candidate) = self.shadow.take() else {
            return;
        };
        let live = self.live(index, answer, &candidate, now);
        let answered = Answered {
            call: self.id,
            role: self.role.clone(),
            request: self.request.clone(),
            variables: self.context.prompt_variables.clone(),
            draw: self.draw_at(&candidate.model, self.attempts[index].rung),
            streaming: self.streaming,
            connect: self.clocks.connect,
            live,
        };
        candidate.send(answered, now);
    }

    fn live(
        &self,
        index: usize,
        answer: &ChatResponse,
        candidate: &Arc<Candidate>,
        now: Instant,
    ) -> ShadowAnswer {
        let attempt = &self.attempts[index];
        let since = |at: Instant| at.saturating_duration_since(attempt.started);
        let Size {
            text_bytes,
            tool_calls,
        } = Size::of(answer);
        ShadowAnswer {
            model: self.role.rungs[attempt.rung].model.id.clone(),
            latency: since(now),
            first_token: attempt.first_content.map(since),
            usage: attempt.usage,
            cost: attempt.spent.and_then(|spent| spent.cost),
            finish: Some(answer.finish),
            text_bytes,
            tool_calls,
            // Else it would not have won.
            is_valid: has_form(&self.request).then_some(true),
            failure: None,
            content: candidate.capture.then(|| answer.clone()),
        }
    }
}

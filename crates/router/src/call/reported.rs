//! What observers are told of a call and its attempts beside what happens to them.

use super::Call;
use evenkeel_core::{
    Asked, AttemptKind, ChatResponse, Class, EventKind, Exchange, Finish, Meta, Route, Trail,
};
use std::sync::Arc;
use std::time::Instant;

/// How a call ended, to be told.
pub(super) struct End {
    /// `ok`, `error` or `cancelled`.
    pub(super) outcome: &'static str,
    /// Meta of the answer, where there is one.
    pub(super) meta: Option<Meta>,
    /// The class of the failure given to the caller.
    pub(super) class: Option<Class>,
    /// What the caller is given for an error.
    pub(super) error: Option<&'static str>,
}

impl Call {
    /// Tells that the call begins, and asks for its trace.
    pub(super) fn tell_start(&mut self, now: Instant) {
        let context = &self.context;
        self.tell(
            now,
            EventKind::CallStarted {
                role: self.role.name.clone(),
                task: context.task.clone(),
                request_id: context.request_id.clone(),
                workflow: context.workflow.clone(),
                session: context.session.clone(),
                caller: context.caller.clone(),
                primary: self.role.rungs[0].model.id.clone(),
                deadline: self.clocks.deadline,
                streams: self.mode == super::Mode::Stream,
                policy: self.role.stamp.clone(),
                trace: context.trace.clone(),
            },
        );
        self.trace = self.role.around.call_trace(self.id);
    }

    /// Tells that an attempt begins.
    pub(super) fn tell_attempt(&self, index: usize, now: Instant) {
        let attempt = &self.attempts[index];
        let (kind, request) = (attempt.kind, &attempt.tailored.request);
        let model = &self.role.rungs[attempt.rung].model;
        let after = self.last_failure.as_ref().map(|failure| failure.class);
        self.tell(
            now,
            EventKind::AttemptStarted {
                role: self.role.name.clone(),
                attempt: index,
                rung: attempt.rung,
                model: model.id.clone(),
                kind,
                after: after.filter(|_| kind == AttemptKind::Retry),
                server: model.provider.server.clone(),
                streams: self.streaming,
                asked: Asked::of(request),
                breaker: model.breaker.state(now).as_str(),
                content: self.role.around.wants_content.then(|| request.clone()),
            },
        );
    }

    /// Tells how the call ended.
    pub(super) fn tell_end(&mut self, end: End, trail: Arc<Trail>, now: Instant) {
        let End {
            outcome,
            meta,
            class,
            error,
        } = end;
        let (route, reason) = match &meta {
            Some(meta) => (meta.route, meta.fallback_reason),
            None => self.way_without_answer(outcome, error),
        };
        let exchange = self.exchange();
        let answering = self.answering.map(|index| &self.attempts[index]);
        let variant = answering.and_then(|attempt| attempt.tailored.variant.as_deref());
        let is_degraded = meta.as_ref().is_some_and(|meta| meta.degraded);
        let context = &self.context;
        self.tell(
            now,
            EventKind::CallEnded {
                role: self.role.name.clone(),
                task: context.task.clone(),
                request_id: context.request_id.clone(),
                workflow: context.workflow.clone(),
                caller: context.caller.clone(),
                primary: self.role.rungs[0].model.id.clone(),
                policy: self.role.stamp.clone(),
                outcome,
                meta,
                route,
                reason,
                class,
                error,
                prompt_variant: variant.filter(|_| self.role.around.is_heard).map(Arc::from),
                reported: answering.map(|a| a.reported.clone()).unwrap_or_default(),
                depth: context
                    .degradation
                    .depth()
                    .saturating_add(u8::from(is_degraded)),
                duration: self.since(now),
                trail,
                content: exchange,
                trace: self.trace.clone(),
            },
        );
    }

    /// What the call was about, for observers that want content.
    fn exchange(&mut self) -> Option<Exchange> {
        self.role.around.wants_content.then(|| Exchange {
            request: self.request.clone(),
            answer: self.delivered.whole(),
        })
    }

    /// The way that a call took which has no answer, and why.
    pub(super) fn way_without_answer(
        &self,
        outcome: &str,
        error: Option<&'static str>,
    ) -> (Route, Option<&'static str>) {
        if outcome == "cancelled" {
            return (Route::None, Some(Class::Cancelled.as_str()));
        }
        // A pass has one way.
        if self.role.is_pass {
            return (Route::Primary, None);
        }
        self.way_to_refusal(error).unwrap_or((Route::None, error))
    }

    /// The way to the model that refused the request as it stands, and why not the primary;
    /// the primary's where it was refused before anybody was asked. None where `error` is
    /// another: nobody could answer.
    fn way_to_refusal(&self, error: Option<&str>) -> Option<(Route, Option<&'static str>)> {
        let causes = [
            Class::BadRequest,
            Class::ContextWindow,
            Class::ContentFilter,
        ];
        let is_cause = |error: &str| causes.iter().any(|class| class.as_str() == error);
        error.filter(|error| is_cause(error))?;
        let last = self.attempts.len().checked_sub(1);
        Some(last.map_or((Route::Primary, None), |index| self.route(index)))
    }

    /// What a stream says of itself before its content.
    pub(crate) fn began(&mut self, index: usize, id: &str, model: &str) {
        if self.role.around.is_heard {
            let known = |text: &str| (!text.is_empty()).then(|| Arc::from(text));
            let reported = &mut self.attempts[index].reported;
            reported.id = known(id);
            reported.model = known(model);
        }
    }

    /// Why the answer of an attempt ended.
    pub(crate) fn finished(&mut self, index: usize, finish: Finish) {
        self.attempts[index].reported.finish = Some(finish);
    }

    /// The whole answer of an attempt, for observers that want content.
    pub(crate) fn said(&mut self, index: usize, answer: &ChatResponse) {
        if self.role.around.wants_content {
            self.attempts[index].content = Some(Arc::new(answer.clone()));
        }
    }

    /// The caller is given the whole answer of an attempt as it was said.
    pub(crate) fn gives(&mut self, index: usize) {
        let said = &self.attempts[index].content;
        self.delivered.give(said.clone());
    }

    /// Whether a committed stream is to be added up.
    pub(crate) fn adds_up(&self) -> bool {
        self.is_shadowed() || self.role.around.wants_content
    }
}

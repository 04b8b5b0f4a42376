//! Going on with a stream that broke after its commit: who goes on, and from where.

use super::reported::End;
use super::{Call, Step};
use crate::amount::Amount;
use crate::joint::Joint;
use evenkeel_core::{
    Accumulator, AttemptKind, ChatRequest, ChatResponse, Effort, EventKind, Failure, Message, Meta,
    Output, Part, Phase, Reasoning, Refusal, Role, StreamEvent, TrailStep, Usage,
};
use evenkeel_roster::OnStreamBreak;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Longest text that is kept to go on from, in bytes: some 64,000 tokens, more than
/// an answer has. A stream that breaks behind it is not resumed.
const MOST_KEPT: usize = 256 * 1024;

/// What the caller has of a committed stream.
#[derive(Debug, Default)]
pub(super) struct Delivered {
    /// Its text, while there is a way to go on from it.
    text: Option<String>,
    /// How much text that is, kept or not.
    amount: Amount,
    /// Whether a rung takes more than a short text to go on from.
    any_prefills: bool,
    /// Whether the rung that stalled was asked to go on itself.
    in_place: bool,
    /// All of it, where an observer wants content.
    sum: Option<Box<Accumulator>>,
    /// A whole answer that was given at once, likewise.
    whole: Option<Arc<ChatResponse>>,
}

impl Delivered {
    /// A whole answer is given at once.
    pub(super) fn give(&mut self, answer: Option<Arc<ChatResponse>>) {
        self.whole = answer;
    }

    /// The whole answer that the caller has, if it has one and an observer wants content.
    pub(super) fn whole(&mut self) -> Option<Arc<ChatResponse>> {
        let summed = || self.sum.take()?.finish().ok().map(Arc::new);
        self.whole.take().or_else(summed)
    }
}

/// An attempt that goes on with a broken stream.
#[derive(Debug)]
pub(super) struct Resume {
    /// The rung whose stream broke, and with what.
    from: usize,
    broken: Failure,
    /// Tokens of the text so far that the attempt was given and does not say again.
    given: u64,
    /// Where it goes on; none once it does.
    joint: Option<Joint>,
}

impl Resume {
    /// Why another rung goes on, in the words of events.
    pub(super) fn reason(&self) -> &'static str {
        self.broken.class.as_str()
    }
}

impl Call {
    /// The stream has committed: from here on what it delivers is kept to go on from,
    /// where it may be resumed at all.
    pub(crate) fn begin_delivery(&mut self) {
        let resumes = self.role.policy.on_stream_break == OnStreamBreak::Resume
            && self.request.tools.is_empty()
            && self.request.output == Output::Text
            && self.replayable;
        self.delivered.text = resumes.then(String::new);
        let is_told = self.role.around.wants_content;
        self.delivered.sum = is_told.then(Box::default);
        let rungs = &self.role.rungs;
        self.delivered.any_prefills = !reasons(self.request.reasoning)
            && rungs.iter().any(|r| r.model.config.prefill == Some(true));
    }

    /// Takes an event of the committed stream; what the caller gets of it is added to
    /// `out`.
    ///
    /// # Errors
    /// Where an attempt that was to go on does not say what the caller has already.
    pub(crate) fn deliver(
        &mut self,
        index: usize,
        event: StreamEvent,
        out: &mut VecDeque<StreamEvent>,
        now: Instant,
    ) -> Result<(), Failure> {
        let Some(resume) = &mut self.resume else {
            self.note(&event);
            out.push_back(event);
            return Ok(());
        };
        let Some(joint) = &mut resume.joint else {
            self.deliver_behind(event, out);
            return Ok(());
        };
        let sent = self.delivered.text.as_deref().unwrap_or_default();
        if let Some(behind) = joint.meet(event, sent)? {
            self.join(index, out, now);
            for event in behind {
                self.deliver_behind(event, out);
            }
        }
        Ok(())
    }

    /// Delivers an event of an attempt that goes on. Its beginning and its reasoning
    /// are not the caller's: the stream began with another one, and its text is on.
    fn deliver_behind(&mut self, event: StreamEvent, out: &mut VecDeque<StreamEvent>) {
        let event = match event {
            StreamEvent::Start { .. } | StreamEvent::Delta(evenkeel_core::Delta::Reasoning(_)) => {
                return;
            }
            StreamEvent::Usage(usage) => StreamEvent::Usage(self.delivered_usage(usage)),
            event => event,
        };
        self.note(&event);
        out.push_back(event);
    }

    /// The usage of what was delivered, where the attempt was given a part of it.
    fn delivered_usage(&self, usage: Usage) -> Usage {
        let given = self.resume.as_ref().map_or(0, |resume| resume.given);
        Usage {
            input: usage.input.saturating_sub(given),
            output: usage.output.saturating_add(given),
            ..usage
        }
    }

    /// The caller gets this event: its text is kept, while there is a way to go on from it.
    fn note(&mut self, event: &StreamEvent) {
        use evenkeel_core::Delta;
        let delivered = &mut self.delivered;
        if let Some(sum) = &mut delivered.sum {
            sum.push(event);
        }
        match event {
            StreamEvent::Delta(Delta::Text(text)) => {
                delivered.amount.add(event);
                let most = u64::from(self.role.policy.resume_max_tokens);
                if let Some(kept) = &mut delivered.text {
                    kept.push_str(text);
                    let keeps = delivered.any_prefills && kept.len() <= MOST_KEPT;
                    if !keeps && delivered.amount.tokens() >= most {
                        delivered.text = None;
                    }
                }
            }
            // What is no text cannot be gone on from, and what is over need not be.
            StreamEvent::Finish(_) => delivered.text = None,
            StreamEvent::Delta(Delta::Reasoning(_) | Delta::ToolCallExtra { .. }) => {}
            StreamEvent::Delta(_) if event.is_content() => delivered.text = None,
            _ => {}
        }
    }

    /// The committed stream broke. Some is the attempt that goes on, and its rung.
    ///
    /// # Errors
    /// What the caller is told where nobody does: the failure of the break.
    pub(crate) fn broke(
        &mut self,
        index: usize,
        failure: Failure,
        meta: &mut Meta,
        now: Instant,
    ) -> Result<(usize, usize), Failure> {
        let joint = self
            .resume
            .as_ref()
            .and_then(|resume| resume.joint.as_ref());
        // A stream that came along until the deadline says nothing about health, and
        // neither does an answer that differs from another model's.
        let counts = failure.phase != Some(Phase::Deadline)
            && !joint.is_some_and(Joint::differs)
            && self.says_of_model(index, &failure);
        self.stop_attempt(index, &failure, counts, now);
        let (from, told) = match self.resume.take_if(|resume| resume.joint.is_some()) {
            // It was to go on and did not: the caller hears of the break itself.
            Some(resume) => (resume.from, resume.broken),
            None => match self.go_on_from(index, &failure, now) {
                Some(next) => return Ok(next),
                None => (self.attempts[index].rung, failure),
            },
        };
        self.tell_interrupted(from, &told, None, now);
        self.price(index, meta);
        self.account_answer(meta, false, now);
        let end = End {
            outcome: "error",
            meta: Some(meta.clone()),
            class: Some(told.class),
            error: Some(told.class.as_str()),
        };
        self.end(end, now);
        Err(told)
    }

    /// Starts the attempt that goes on: at the best rung this call has not tried, else
    /// once at the same one, if that was left because it stalled.
    fn go_on_from(
        &mut self,
        index: usize,
        failure: &Failure,
        now: Instant,
    ) -> Option<(usize, usize)> {
        let may = failure.phase != Some(Phase::Deadline) && self.another_may_help(index, failure);
        if !may || self.delivered.text.is_none() {
            return None;
        }
        let left = self.attempts[index].rung;
        let mut rungs: Vec<usize> = (0..self.role.rungs.len())
            .filter(|rung| !self.tried(*rung))
            .collect();
        rungs.sort_by_key(|rung| (self.benched(*rung), self.is_cut(*rung), *rung));
        if failure.phase == Some(Phase::Stall) && !self.delivered.in_place {
            rungs.push(left);
        }
        for rung in rungs {
            match self.start_resume(rung, failure, left, now) {
                None => {}
                Some(Ok(next)) => return Some(next),
                Some(Err(refusal)) => self.note_refused(rung, refusal, now),
            }
        }
        None
    }

    /// Starts an attempt that goes on at `rung`; none where the rung has no way to.
    fn start_resume(
        &mut self,
        rung: usize,
        failure: &Failure,
        left: usize,
        now: Instant,
    ) -> Option<Result<(usize, usize), Refusal>> {
        let sent = self.delivered.text.as_deref()?;
        let tokens = self.delivered.amount.tokens();
        let model = &self.role.rungs[rung].model;
        let prefills = model.config.prefill == Some(true)
            && self.delivered.any_prefills
            && !sent.trim().is_empty();
        if !prefills && tokens >= u64::from(self.role.policy.resume_max_tokens) {
            return None;
        }
        let (joint, prefill) = if prefills {
            let joint = Joint::behind(sent);
            let prefill = sent.trim_end().to_owned();
            (joint, Some(prefill))
        } else {
            (Joint::after_repeating(), None)
        };
        if rung == left {
            let model = model.clone();
            if !model.provider.retries.try_withdraw(now) {
                self.trail.steps.push(TrailStep::RetryRefused {
                    rung,
                    at: self.since(now),
                });
                return None;
            }
            self.delivered.in_place = true;
        }
        let started = self.ask_to_go_on(rung, prefill.as_deref(), tokens, now);
        Some(started.inspect(|_| {
            self.resume = Some(Resume {
                from: left,
                broken: failure.clone(),
                given: if prefills { tokens } else { 0 },
                joint: Some(joint),
            });
        }))
    }

    fn ask_to_go_on(
        &mut self,
        rung: usize,
        prefill: Option<&str>,
        tokens: u64,
        now: Instant,
    ) -> Result<(usize, usize), Refusal> {
        let kind = AttemptKind::Resume;
        let permits = self.permits(rung, kind, None, now)?;
        let plain = self.tailored_for(rung, kind)?;
        let tailored = match prefill {
            Some(text) => Arc::new(plain.with_request(begun(&plain.request, text, tokens))),
            None => plain.clone(),
        };
        let index = self.start_with(permits, tailored, rung, kind, None, now);
        self.adapted(index, &plain.notes);
        // The caller waits within its stream: nobody hedges this.
        self.attempts[index].patience.spent = true;
        // The shell that has the stream asks at once.
        let asked = self.steps.pop_back();
        debug_assert!(matches!(asked, Some(Step::Ask { attempt, .. }) if attempt == index));
        Ok((index, rung))
    }

    /// The attempt goes on from here.
    fn join(&mut self, index: usize, out: &mut VecDeque<StreamEvent>, now: Instant) {
        let Some(resume) = &mut self.resume else {
            return;
        };
        resume.joint = None;
        let (from, prefilled) = (resume.from, resume.given > 0);
        let broken = resume.broken.clone();
        let rung = self.attempts[index].rung;
        self.trail.steps.push(TrailStep::Resumed {
            attempt: index,
            rung,
            from,
            prefilled,
            sent_tokens: self.delivered.amount.tokens(),
            at: self.since(now),
        });
        self.tell_interrupted(from, &broken, Some(rung), now);
        if self.is_first_fallback(rung) {
            self.tell_fallback(
                index,
                broken.class.as_str(),
                Some((broken.class, broken.status)),
                now,
            );
        }
        self.answering = Some(index);
        out.push_back(StreamEvent::Resumed(Box::new(self.meta(index))));
        if let Some(usage) = self.attempts[index].usage {
            out.push_back(StreamEvent::Usage(self.delivered_usage(usage)));
        }
    }

    /// Whether a stream that goes on at `rung` is the first of the call's fallbacks.
    fn is_first_fallback(&self, rung: usize) -> bool {
        let Some(winner) = self.winner.filter(|_| self.answering == self.winner) else {
            return false;
        };
        rung > 0 && rung != self.attempts[winner].rung && !self.falls_back(winner)
    }

    fn tell_interrupted(&self, from: usize, broken: &Failure, to: Option<usize>, now: Instant) {
        let model = |rung: usize| self.role.rungs[rung].model.id.clone();
        self.tell(
            now,
            EventKind::StreamInterrupted {
                role: self.role.name.clone(),
                from,
                from_model: model(from),
                class: broken.class,
                sent_tokens: self.delivered.amount.tokens(),
                resumed: to.map(|rung| (rung, model(rung))),
            },
        );
    }
}

/// Whether a request asks for reasoning. A model that is to reason first does not go
/// on from text (Anthropic refuses it).
fn reasons(asked: Option<Reasoning>) -> bool {
    asked.is_some_and(|r| r.effort != Some(Effort::None) && r.budget_tokens != Some(0))
}

/// The request with its answer begun: `text`, of so many tokens, which the cap on the
/// answer has less room for.
fn begun(request: &ChatRequest, text: &str, tokens: u64) -> ChatRequest {
    let mut request = request.clone();
    request.max_output_tokens = request
        .max_output_tokens
        .map(|most| most.saturating_sub(tokens).max(1));
    match request.messages.last_mut() {
        // The caller has begun the answer itself.
        Some(Message {
            role: Role::Assistant,
            parts,
            ..
        }) => match parts.last_mut() {
            Some(Part::Text(begun)) => begun.push_str(text),
            _ => parts.push(Part::Text(text.to_owned())),
        },
        _ => request.messages.push(Message::text(Role::Assistant, text)),
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_the_caller_began_is_gone_on_with_in_its_own_message() {
        let mut request = ChatRequest::user("go");
        request.max_output_tokens = Some(100);
        let ours = begun(&request, "One two", 2);
        assert_eq!(ours.messages.len(), 2);
        assert_eq!(ours.messages[1], Message::text(Role::Assistant, "One two"));
        assert_eq!(ours.max_output_tokens, Some(98));
        request
            .messages
            .push(Message::text(Role::Assistant, "Zero "));
        let theirs = begun(&request, "one two", 200);
        assert_eq!(theirs.messages.len(), 2);
        assert_eq!(theirs.messages[1].plain_text(), "Zero one two");
        assert_eq!(theirs.max_output_tokens, Some(1));
    }

    #[test]
    fn reasoning_that_is_switched_off_is_none() {
        let asked = |effort, budget_tokens| {
            reasons(Some(Reasoning {
                effort,
                budget_tokens,
            }))
        };
        assert!(!reasons(None));
        assert!(!asked(Some(Effort::None), None) && !asked(None, Some(0)));
        assert!(asked(Some(Effort::Low), None) && asked(None, Some(1_024)));
    }
}

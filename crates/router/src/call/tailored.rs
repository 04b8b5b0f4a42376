//! What each rung is asked, in its own words, and what comes back of it.

use super::Call;
use super::attempt::Planned;
use crate::decomposition::Parts;
use crate::tailor::{Place, Tailored, Tailoring, check_demand, is_plain};
use evenkeel_core::{
    AttemptKind, ChatRequest, ChatResponse, Class, Failure, Output, Refusal, TrailStep,
};
use evenkeel_prompts::Mode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// What a call knows of its request at each rung.
#[derive(Debug)]
pub(super) struct ByRung {
    /// Text in and text out: only its length can keep it from a rung.
    is_plain: bool,
    requests: Vec<OnceLock<Result<Arc<Tailored>, Refusal>>>,
    /// Whether the rung's window has refused it once and it was cut further.
    cut_again: Vec<bool>,
    /// Whether the rung's provider has refused our words for a schema, and it
    /// is asked in those that every provider takes.
    reworded: Vec<bool>,
    /// The request of the next retry, after an answer that was not valid.
    repair: Vec<Option<ChatRequest>>,
}

impl ByRung {
    pub(super) fn new(request: &ChatRequest, rungs: usize) -> Self {
        Self {
            is_plain: is_plain(request),
            requests: (0..rungs).map(|_| OnceLock::new()).collect(),
            cut_again: vec![false; rungs],
            reworded: vec![false; rungs],
            repair: vec![None; rungs],
        }
    }
}

impl Call {
    /// Whether the output that the caller wants can be asked for at all.
    pub(super) fn check_demand(&self) -> Result<(), Failure> {
        check_demand(&self.role.tailoring.adapter, &self.request)
    }

    fn tailor(&self, rung: usize, overflowed: Option<&ChatRequest>) -> Result<Tailored, Refusal> {
        let at = &self.role.rungs[rung];
        let simple = at.capability_score < self.role.policy.simplify_below;
        let place = Place {
            role: &self.role.name,
            model: &at.model,
            mode: if simple { Mode::Simple } else { Mode::Full },
            core_only: self.tailoring.reworded[rung],
        };
        let variables = &self.context.prompt_variables;
        self.role
            .tailoring
            .tailor(&self.request, place, variables, overflowed)
    }

    /// The request as the rung is asked it, worked out once.
    fn tailored(&self, rung: usize) -> Result<&Arc<Tailored>, Refusal> {
        let worked_out =
            self.tailoring.requests[rung].get_or_init(|| self.tailor(rung, None).map(Arc::new));
        worked_out.as_ref().map_err(|refusal| *refusal)
    }

    /// Whether it is known without working it out that the rung takes the
    /// request whole.
    fn clearly_fits(&self, rung: usize) -> bool {
        let model = &self.role.rungs[rung].model;
        self.tailoring.is_plain && Tailoring::clearly_fits(&self.request, self.tokens, model)
    }

    /// Why the rung cannot take the request, however it is put.
    pub(super) fn cannot_take(&self, rung: usize) -> Option<Refusal> {
        let window = self.role.rungs[rung].model.config.context_window;
        if let (Some(window), Some(overflowed)) = (window, self.overflowed)
            && window <= overflowed
            && !self.tailoring.cut_again[rung]
        {
            let needed = overflowed.saturating_add(1).max(self.tokens);
            return Some(Refusal::ContextWindow { needed, window });
        }
        if self.clearly_fits(rung) {
            return None;
        }
        self.tailored(rung).err()
    }

    /// Whether the rung can be asked only with messages left out.
    pub(super) fn is_cut(&self, rung: usize) -> bool {
        !self.clearly_fits(rung) && self.tailored(rung).is_ok_and(|t| t.is_cut)
    }

    /// Why a rung that would take a part of the request is passed over: another
    /// one takes all of it.
    pub(super) fn goes_whole_elsewhere(&self, rung: usize, now: Instant) -> Option<Refusal> {
        if !self.is_cut(rung) {
            return None;
        }
        let other = self.next_usable(rung, now)?;
        let window = self.role.rungs[rung].model.config.context_window?;
        (!self.is_cut(other)).then_some(Refusal::ContextWindow {
            needed: self.tokens,
            window,
        })
    }

    /// What an attempt of that kind asks the rung.
    pub(super) fn tailored_for(
        &mut self,
        rung: usize,
        kind: AttemptKind,
    ) -> Result<Arc<Tailored>, Refusal> {
        let tailored = self.tailored(rung)?.clone();
        let repair = self.tailoring.repair[rung].take();
        Ok(match repair.filter(|_| kind == AttemptKind::Retry) {
            Some(request) => Arc::new(tailored.with_request(request)),
            None => tailored,
        })
    }

    /// The parts that an attempt asks, where it asks in parts.
    pub(crate) fn parts(&self, index: usize) -> Option<&Parts> {
        self.attempts[index].tailored.parts.as_ref()
    }

    /// The request that an attempt sends.
    pub(crate) fn sent(&self, index: usize) -> &Arc<ChatRequest> {
        &self.attempts[index].tailored.request
    }

    /// Whether the attempt's answer may differ from what its upstream says.
    pub(crate) fn is_translated(&self, index: usize) -> bool {
        self.attempts[index].tailored.is_translated()
    }

    /// A whole answer in the caller's terms.
    ///
    /// # Errors
    /// Where it is not what was asked for; a retry then tells the model so.
    pub(crate) fn read(
        &mut self,
        index: usize,
        response: ChatResponse,
    ) -> Result<ChatResponse, Failure> {
        let attempt = &self.attempts[index];
        let response = attempt.tailored.read(response).map_err(|error| {
            self.tailoring.repair[attempt.rung] = attempt.tailored.repair(&error);
            Failure::from(error)
        })?;
        self.adapted(index, &response.adapted);
        Ok(response)
    }

    /// A retry of the attempt tells its model what `hint` finds wrong with its answer.
    pub(super) fn repair_with(&mut self, index: usize, said: &str, hint: String) {
        let attempt = &self.attempts[index];
        let request = attempt.tailored.repair_with(said, hint);
        self.tailoring.repair[attempt.rung] = Some(request);
    }

    /// Notes what an attempt's model was not told, or did not say, as it was meant.
    pub(crate) fn adapted(&mut self, index: usize, notes: &[String]) {
        let attempt = &mut self.attempts[index];
        for what in notes {
            if !attempt.adapted.contains(what) {
                attempt.adapted.push(what.clone());
                self.trail.steps.push(TrailStep::Adapted {
                    rung: attempt.rung,
                    what: what.clone(),
                });
            }
        }
    }

    /// Teaches the model's counter what the attempt's request took.
    pub(super) fn calibrate(&self, index: usize, input: u64) {
        let attempt = &self.attempts[index];
        let model = &self.role.rungs[attempt.rung].model;
        // Only a known window is ever compared with a count.
        if model.config.context_window.is_some() {
            model.counter.observe(&attempt.tailored.request, input);
        }
    }

    /// Whether a refusal is about a schema that went out in other words than the
    /// caller's.
    pub(super) fn refuses_our_schema(&self, index: usize, failure: &Failure) -> bool {
        let tailored = &self.attempts[index].tailored;
        failure.class == Class::BadRequest
            && (tailored.must_be_valid || tailored.turns_answer)
            && names_schema(failure)
    }

    /// Whether a refusal says that the model takes tools or a demand for JSON, and not both.
    pub(super) fn refuses_json_with_tools(&self, index: usize, failure: &Failure) -> bool {
        let sent = self.sent(index);
        failure.class == Class::BadRequest
            && !sent.tools.is_empty()
            && sent.output != Output::Text
            && says_tools_or_json(&failure.message)
    }

    /// Asks a rung that refused how the output was asked for again: a schema in the words
    /// that every provider takes, or beside tools in the prompt. Once per rung each.
    pub(super) fn reword(&mut self, index: usize, failure: &Failure, now: Instant) -> bool {
        let rung = self.attempts[index].rung;
        let by_prompt = self.refuses_json_with_tools(index, failure);
        let is_new = if by_prompt {
            // Other calls may have learnt of it meanwhile: this one was not told in the prompt.
            let known = &self.role.rungs[rung].model.tools_or_json;
            known.store(true, Ordering::Relaxed);
            true
        } else {
            self.refuses_our_schema(index, failure) && !self.tailoring.reworded[rung]
        };
        if !is_new || self.would_refuse_retry(rung, now).is_some() {
            return false;
        }
        self.tailoring.reworded[rung] |= !by_prompt;
        let Ok(reworded) = self.tailor(rung, None) else {
            return false;
        };
        let same = *reworded.request == **self.sent(index);
        let retries = &self.role.rungs[rung].model.provider.retries;
        if same || !retries.try_withdraw(now) {
            return false;
        }
        self.ask_otherwise(rung, reworded, now);
        true
    }

    /// Asks the rung again at once, with another request from here on.
    fn ask_otherwise(&mut self, rung: usize, tailored: Tailored, now: Instant) {
        self.tailoring.requests[rung] = OnceLock::from(Ok(Arc::new(tailored)));
        self.planned = Some(Planned {
            rung,
            kind: AttemptKind::Retry,
            at: now,
            repeats: None,
        });
    }

    /// Asks a rung whose window was too small again, with more left out. Once
    /// per rung, and only where that leaves out messages.
    pub(super) fn cut_again(&mut self, index: usize, now: Instant) -> bool {
        let rung = self.attempts[index].rung;
        if self.tailoring.cut_again[rung] || self.would_refuse_retry(rung, now).is_some() {
            return false;
        }
        let sent = self.sent(index).clone();
        let Ok(shorter) = self.tailor(rung, Some(&sent)) else {
            return false;
        };
        let retries = &self.role.rungs[rung].model.provider.retries;
        if !shorter.is_cut || !retries.try_withdraw(now) {
            return false;
        }
        self.tailoring.cut_again[rung] = true;
        self.ask_otherwise(rung, shorter, now);
        true
    }
}

/// Whether a provider says that JSON cannot be demanded of a request with tools: the words
/// of Gemini, Groq, Cerebras and servers like them.
fn says_tools_or_json(message: &str) -> bool {
    let said = message.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    has(&[
        "mime type",
        "response_format",
        "response format",
        "json mode",
        "structured output",
        "json_schema",
        "json_object",
    ]) && has(&["function call", "function_call", "tool"])
        && has(&[
            "unsupported",
            "not supported",
            "cannot",
            "can't",
            "not compatible",
            "incompatible",
            "not allowed",
        ])
}

/// Fields that schemas are sent in, whatever the dialect.
const SCHEMA_FIELDS: [&str; 4] = [
    "response_format",
    "output_config",
    "generation_config",
    "tools",
];

/// Whether a provider names a schema as what it refuses.
fn names_schema(failure: &Failure) -> bool {
    let in_field = failure
        .param
        .as_deref()
        .is_some_and(|param| SCHEMA_FIELDS.iter().any(|field| param.contains(field)));
    in_field || failure.message.to_ascii_lowercase().contains("schema")
}

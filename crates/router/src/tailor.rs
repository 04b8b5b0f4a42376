//! The caller's request as one rung is asked it: the rung's prompt, its
//! dialect of the output schema, and a history that fits its window.

use crate::decomposition::{Decomposition, Parts};
use crate::health::ModelHealth;
use evenkeel_core::{ChatRequest, ChatResponse, Failure, Message, Output, Part, Refusal, Role};
use evenkeel_prompts::{Mode, PromptSet, TokenCounter, Window, fit};
use evenkeel_schema_adapter::{Adapter, AnswerError, Return};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// No calibration makes a count more than this many times the raw one
/// ([`Calibration`](evenkeel_prompts::Calibration)).
const MOST_TIMES_COUNTED: u64 = 4;
/// Of what was sent to a window that turned out too small, this share (in
/// quarters) is sent again.
const QUARTERS_AFTER_OVERFLOW: u64 = 3;

/// What all roles tailor requests with.
#[derive(Debug, Default)]
pub(crate) struct Tailoring {
    pub(crate) prompts: PromptSet,
    pub(crate) adapter: Adapter,
    /// How requests of a role are broken up for rungs of little capability.
    pub(crate) decompositions: BTreeMap<String, Arc<dyn Decomposition>>,
}

/// A rung to tailor for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) role: &'a str,
    pub(crate) model: &'a ModelHealth,
    pub(crate) mode: Mode,
    /// Whether schemas are put in the words that every provider takes.
    pub(crate) core_only: bool,
}

/// A request as a rung is asked it, and the way back from its answer.
#[derive(Debug)]
pub(crate) struct Tailored {
    pub(crate) request: Arc<ChatRequest>,
    /// What the model is not told as the caller said it, a line each.
    pub(crate) notes: Vec<String>,
    /// Whether messages were cut to fit.
    pub(crate) is_cut: bool,
    /// Whether the answer has to be whole and valid before it is of use.
    pub(crate) must_be_valid: bool,
    /// Whether it may come in other terms than the caller's.
    pub(crate) turns_answer: bool,
    /// The variant of the role's prompt that it was put behind.
    pub(crate) variant: Option<String>,
    /// Where it is asked in parts.
    pub(crate) parts: Option<Parts>,
    /// None where the answer goes back as it is.
    back: Option<Return>,
}

/// Whether a request is text in and text out.
pub(crate) fn is_plain(request: &ChatRequest) -> bool {
    request.output == Output::Text
        && request.tools.is_empty()
        && request.parallel_tool_calls.is_none()
        && !has_images(request)
}

impl Tailoring {
    /// Whether a plain `request`, of some `tokens` tokens by the raw estimate,
    /// goes whole to the model however its counter is calibrated.
    pub(crate) fn clearly_fits(request: &ChatRequest, tokens: u64, model: &ModelHealth) -> bool {
        model.config.context_window.is_none_or(|window| {
            let room = Window::of(window, model.config.max_output_tokens, request).room();
            tokens.saturating_mul(MOST_TIMES_COUNTED) <= room
        })
    }

    /// Tailors `request` to a rung. With `overflowed`, the request as it was
    /// sent before to a window that did not take it, it is cut further.
    ///
    /// # Errors
    /// Why the rung cannot be asked at all.
    pub(crate) fn tailor(
        &self,
        request: &Arc<ChatRequest>,
        at: Place<'_>,
        variables: &BTreeMap<String, String>,
        overflowed: Option<&ChatRequest>,
    ) -> Result<Tailored, Refusal> {
        lacks(request, at.model)?;
        let mut notes = Vec::new();
        let mut tailored = Cow::Borrowed(&**request);
        let prompt = self
            .prompts
            .for_rung(at.role, &at.model.id, at.mode, variables);
        let mut variant = None;
        if let Some(prompt) = prompt {
            let placed = prompt.put_into(request);
            notes.extend(placed.adapted);
            tailored = placed.request;
            variant = Some(prompt.variant);
        }
        if let Some(asked) = one_call_at_a_time(&tailored, at.model) {
            tailored.to_mut().parallel_tool_calls = None;
            if asked {
                notes.push("parallel_tool_calls left out: one call at a time".to_owned());
            }
        }
        let mut must_be_valid = false;
        let mut turns_answer = false;
        let mut back = None;
        if tailored.output != Output::Text || !tailored.tools.is_empty() {
            let mut support = at.model.support;
            support.core_only |= at.core_only;
            if !tailored.tools.is_empty() && at.model.tools_or_json.load(Ordering::Relaxed) {
                support.json_schema = false;
                support.json_object = false;
            }
            let adapted = self
                .adapter
                .adapt(&tailored, support)
                .map_err(|_| Refusal::Lacks("schema"))?;
            adapted.apply(tailored.to_mut());
            must_be_valid = adapted.holds_answer();
            turns_answer = adapted.turns_answer();
            notes.extend(adapted.notes);
            back = Some(adapted.back);
            // With the tool that the schema may have been put into.
            let count = u64::try_from(tailored.tools.len()).unwrap_or(u64::MAX);
            if at.model.config.max_tools.is_some_and(|most| count > most) {
                return Err(Refusal::Lacks("tools"));
            }
        }
        let mut is_cut = false;
        if let Some(window) = window(&tailored, at.model, overflowed) {
            let fitted = fit(&tailored, &window, &at.model.counter.counting()).map_err(|e| {
                Refusal::ContextWindow {
                    needed: e.protected_tokens.saturating_add(window.reserve_output),
                    window: window.context_tokens,
                }
            })?;
            is_cut = fitted.report.messages_cut > 0;
            notes.extend(fitted.report.adapted());
            if let Some(request) = fitted.request {
                tailored = Cow::Owned(request);
            }
        }
        let parts = self.parts(&tailored, at);
        Ok(Tailored {
            request: match tailored {
                Cow::Borrowed(_) => request.clone(),
                Cow::Owned(request) => Arc::new(request),
            },
            notes,
            is_cut,
            must_be_valid,
            turns_answer,
            variant,
            parts,
            back,
        })
    }

    /// The parts of a request for a rung that gets simple ones.
    fn parts(&self, request: &ChatRequest, at: Place<'_>) -> Option<Parts> {
        let decomposition = self.decompositions.get(at.role)?;
        (at.mode == Mode::Simple).then(|| Parts::of(decomposition, request))?
    }
}

impl Tailored {
    /// Whether the answer may differ from what the model says.
    pub(crate) fn is_translated(&self) -> bool {
        self.back.is_some()
    }

    /// The whole answer in the caller's terms.
    ///
    /// # Errors
    /// Where it is not what the caller asked for.
    pub(crate) fn read(&self, response: ChatResponse) -> Result<ChatResponse, AnswerError> {
        match &self.back {
            None => Ok(response),
            Some(back) => Ok(back.read(response)?.response),
        }
    }

    /// The same request after an answer that was not valid: with that answer
    /// and what was wrong with it. None where asking again can't mend it.
    pub(crate) fn repair(&self, error: &AnswerError) -> Option<ChatRequest> {
        Some(self.repair_with(&error.text, error.hint()?))
    }

    /// The same request after the answer `said`, which `hint` finds fault with.
    pub(crate) fn repair_with(&self, said: &str, hint: String) -> ChatRequest {
        let mut request = (*self.request).clone();
        if !said.trim().is_empty() {
            request.messages.push(Message::text(Role::Assistant, said));
        }
        request.messages.push(Message::text(Role::User, hint));
        request
    }

    /// The same tailoring of another request.
    pub(crate) fn with_request(&self, request: ChatRequest) -> Self {
        Self {
            request: Arc::new(request),
            notes: Vec::new(),
            is_cut: self.is_cut,
            must_be_valid: self.must_be_valid,
            turns_answer: self.turns_answer,
            variant: self.variant.clone(),
            parts: None,
            back: self.back.clone(),
        }
    }
}

/// What the model is declared to lack of what the request needs.
fn lacks(request: &ChatRequest, model: &ModelHealth) -> Result<(), Refusal> {
    if model.config.tools == Some(false) && !request.tools.is_empty() {
        return Err(Refusal::Lacks("tools"));
    }
    if model.config.images == Some(false) && has_images(request) {
        return Err(Refusal::Lacks("images"));
    }
    Ok(())
}

/// What the request says of parallel calls, where the model has none and is not told.
fn one_call_at_a_time(request: &ChatRequest, model: &ModelHealth) -> Option<bool> {
    let has_none = model.config.parallel_tool_calls == Some(false);
    request.parallel_tool_calls.filter(|_| has_none)
}

fn has_images(request: &ChatRequest) -> bool {
    fn image(part: &Part) -> bool {
        match part {
            Part::Image(_) => true,
            Part::ToolResult(result) => result.parts.iter().any(image),
            _ => false,
        }
    }
    request.messages.iter().flat_map(|m| &m.parts).any(image)
}

/// What the request has to fit into; none where that is not known.
fn window(
    request: &ChatRequest,
    model: &ModelHealth,
    overflowed: Option<&ChatRequest>,
) -> Option<Window> {
    let most = model.config.max_output_tokens;
    let known = model
        .config
        .context_window
        .map(|tokens| Window::of(tokens, most, request));
    let Some(sent) = overflowed else {
        return known;
    };
    let sent = model.counter.counting().request(sent);
    let room = sent.saturating_mul(QUARTERS_AFTER_OVERFLOW) / 4;
    let reserve_output = known.map_or(0, |w| w.reserve_output);
    Some(Window {
        context_tokens: room.saturating_add(reserve_output),
        reserve_output,
    })
}

/// The failure of a schema that no model can be asked for.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check_demand(adapter: &Adapter, request: &ChatRequest) -> Result<(), Failure> {
    match &request.output {
        Output::JsonSchema { schema, .. } => match adapter.checker(schema) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        },
        Output::Text | Output::JsonObject => Ok(()),
    }
}

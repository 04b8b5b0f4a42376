//! Cuts a history to fit a context window.

mod group;
mod marker;
mod plan;

use evenkeel_core::{ChatRequest, Class, Failure, Message};

use self::plan::Plan;
use crate::counter::TokenCounter;
use crate::window::Window;

/// What came of fitting a request into a window.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The request to send; `None` where the caller's fits as it is.
    pub request: Option<ChatRequest>,
    /// What was done.
    pub report: FitReport,
}

/// What was done to a request to make it fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FitReport {
    /// Input tokens of the caller's request, by the counter used.
    pub tokens_before: u64,
    /// Input tokens of the request to send, by the same counter.
    pub tokens_after: u64,
    /// Messages of the caller that are not sent.
    pub messages_cut: usize,
    /// The cap on the answer where the caller's was lowered to the window's reserve, tokens.
    pub output_lowered_to: Option<u64>,
}

impl FitReport {
    /// What the caller said and the model is not told, a line each, for the trail.
    pub fn adapted(&self) -> Vec<String> {
        let cut = (self.messages_cut > 0).then(|| {
            format!(
                "messages: {} cut to fit the context window, {} of {} tokens left",
                self.messages_cut, self.tokens_after, self.tokens_before
            )
        });
        let lowered = self.output_lowered_to.map(|tokens| {
            format!("max_output_tokens: lowered to {tokens} to fit the context window")
        });
        cut.into_iter().chain(lowered).collect()
    }
}

/// What must be kept does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the part that must be kept (system prompt, tools, latest user message, latest tool results) takes {protected_tokens} tokens; the context window of {} has room for {} beside the answer's {}",
    window.context_tokens, window.room(), window.reserve_output
)]
pub struct TooLong {
    /// Input tokens of what must be kept, by the counter used.
    pub protected_tokens: u64,
    /// What it has to fit into.
    pub window: Window,
}

impl From<TooLong> for Failure {
    /// A [`Class::ContextWindow`]: a rung with a larger window may take the call.
    fn from(error: TooLong) -> Self {
        Self::new(Class::ContextWindow, error.to_string()).with_source(error)
    }
}

/// Makes `request` fit into `window`, by the counts of `counter`. The request itself
/// is not changed. Time is linear in its size.
///
/// Always kept: system and developer messages, the latest user message, and of what
/// follows it the last tool results with their calls, and anything behind these.
/// Cut is, until it fits, and in this order, oldest first:
///
/// 1. what stands before the first user message, then whole turns (a user message and
///    all up to the next) between the first turn and the last;
/// 2. in the first turn, what follows its user message;
/// 3. in the last turn, what stands between the user message and what is kept;
/// 4. the first user message.
///
/// In 2 and 3 a call and its results go together, and no more than is needed. Where
/// the first message was cut, a user message says how many were; only if it is that
/// message for which the rest does not fit it is left out.
///
/// What fits is left alone, so that fitting twice is fitting once.
///
/// # Errors
/// [`TooLong`] when what must be kept takes more than the window's room.
pub fn fit(
    request: &ChatRequest,
    window: &Window,
    counter: &dyn TokenCounter,
) -> Result<Fitted, TooLong> {
    let costs: Vec<u64> = request
        .messages
        .iter()
        .map(|m| counter.message(m))
        .collect();
    let fixed = counter.fixed(request);
    let before = costs.iter().copied().fold(fixed, u64::saturating_add);
    let lowered = lowered_output(request, window);
    let mut report = FitReport {
        tokens_before: before,
        tokens_after: before,
        messages_cut: 0,
        output_lowered_to: lowered,
    };
    if before <= window.room() {
        let request = lowered.map(|_| with_messages(request, request.messages.clone(), lowered));
        return Ok(Fitted { request, report });
    }
    let plan = Plan::of(&request.messages);
    let cut = plan.cut(&costs, before, window.room(), counter);
    let Some(cut) = cut else {
        return Err(TooLong {
            protected_tokens: plan.protected_tokens(&costs, fixed),
            window: *window,
        });
    };
    report.tokens_after = cut.tokens;
    report.messages_cut = cut.messages;
    let messages = plan.kept(&request.messages, &cut);
    Ok(Fitted {
        request: Some(with_messages(request, messages, lowered)),
        report,
    })
}

fn lowered_output(request: &ChatRequest, window: &Window) -> Option<u64> {
    let reserve = window.reserve_output;
    let asked = request.max_output_tokens?;
    (reserve > 0 && asked > reserve).then_some(reserve)
}

/// The request with other messages and, where `lowered`, another cap on its answer.
fn with_messages(
    request: &ChatRequest,
    messages: Vec<Message>,
    lowered: Option<u64>,
) -> ChatRequest {
    ChatRequest {
        messages,
        tools: request.tools.clone(),
        tool_choice: request.tool_choice.clone(),
        parallel_tool_calls: request.parallel_tool_calls,
        output: request.output.clone(),
        sampling: request.sampling.clone(),
        max_output_tokens: lowered.or(request.max_output_tokens),
        stop: request.stop.clone(),
        reasoning: request.reasoning,
        user: request.user.clone(),
        metadata: request.metadata.clone(),
        extra: request.extra.clone(),
    }
}

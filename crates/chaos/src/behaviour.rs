//! What a simulated model does with the calls it gets.

use crate::{Fault, Latency};
use std::sync::Arc;
use std::time::Duration;

/// How a model answers: how fast, how much, and what goes wrong.
///
/// It is no model: it makes the smallest answer that the request allows. A
/// demanded tool call has the least arguments that its schema allows, a
/// demanded schema is answered by its least instance, a stop text or the output
/// cap that is met ends the answer; anything else is a numbered text.
///
/// Token `i` (from 0) of an answer is due `first_token + input ×
/// per_input_token + i × inter_token` after the request, where `input` is the
/// estimate of [`ChatRequest::estimated_input_tokens`]. A stream sends each
/// when it is due; a whole answer comes when its last token is due.
///
/// [`ChatRequest::estimated_input_tokens`]: evenkeel_core::ChatRequest::estimated_input_tokens
#[derive(Debug, Clone, PartialEq)]
pub struct Behaviour {
    /// Time to the first token, drawn anew for each call.
    pub first_token: Latency,
    /// Time that each token of the request adds before the first token.
    pub per_input_token: Duration,
    /// Tokens of an answer, at most a million. A request's own output cap may
    /// cut it shorter, with finish `length`.
    pub tokens: u32,
    /// Time between two tokens.
    pub inter_token: Duration,
    /// Whether a stream's status and headers come with its first token. If not
    /// they come at once, and the caller waits within the stream.
    pub late_open: bool,
    /// The answer's text instead of the numbered one; `tokens` is then not
    /// used, each word with the white space before it is a token. It also
    /// stands where the request demands JSON.
    pub text: Option<Arc<str>>,
    /// Tokens of reasoning before the answer. They come at the same pace and
    /// count as output.
    pub reasoning_tokens: u32,
    /// Whether reasoning carries a signature, and in Gemini's format the first
    /// tool call too. `OpenAI`'s has no place for one.
    pub signed: bool,
    /// Tokens of the request that are said to come from a cache, no more than
    /// it has.
    pub cached_tokens: u32,
    /// How many tools an answer calls, in turn, where the request has any and
    /// does not end with their results. 0: one, and only where a call is
    /// demanded.
    pub calls: u32,
    /// Whether a trailing message of the assistant is continued. A numbered
    /// text goes on behind its last token, whoever began it.
    pub continues: bool,
    /// What goes wrong; none means nothing.
    pub fault: Option<Fault>,
    /// Share of calls that get the fault, 0..1. The others are answered.
    pub error_rate: f64,
    /// At most so many calls get the fault, counted from when the behaviour
    /// was set; none means no bound.
    pub fault_times: Option<u64>,
    /// How long after the request a fault shows that comes instead of an
    /// answer (an error status, a closed connection, a page).
    pub fault_delay: Duration,
    /// How many requests it takes in a time; every answer reports what is left
    /// of them, and one more is refused with 429 and the time to wait. None: as
    /// many as come, and nothing is reported.
    pub quota: Option<Quota>,
}

/// Requests that a model takes in a time. The time begins with the first request
/// after the last one is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// So many.
    pub requests: u64,
    /// In this time.
    pub per: Duration,
}

impl Default for Behaviour {
    /// Healthy and immediate, 20 tokens.
    fn default() -> Self {
        Self {
            first_token: Latency::default(),
            per_input_token: Duration::ZERO,
            tokens: 20,
            inter_token: Duration::ZERO,
            late_open: false,
            text: None,
            reasoning_tokens: 0,
            signed: false,
            cached_tokens: 0,
            calls: 0,
            continues: false,
            fault: None,
            error_rate: 1.0,
            fault_times: None,
            fault_delay: Duration::ZERO,
            quota: None,
        }
    }
}

impl Behaviour {
    /// Healthy, with this time to the first token.
    pub fn healthy(first_token: Latency) -> Self {
        Self {
            first_token,
            ..Self::default()
        }
    }

    /// Every call gets `fault`.
    pub fn failing(fault: Fault) -> Self {
        Self::default().with_fault(fault)
    }

    /// Takes no more than `requests` in `per`, and says what is left of them.
    #[must_use]
    pub fn with_quota(mut self, requests: u64, per: Duration) -> Self {
        self.quota = Some(Quota { requests, per });
        self
    }

    /// With so many tokens an answer.
    #[must_use]
    pub fn with_tokens(mut self, tokens: u32) -> Self {
        self.tokens = tokens;
        self
    }

    /// With so much time before the first token for each token of the request.
    #[must_use]
    pub fn with_per_input_token(mut self, time: Duration) -> Self {
        self.per_input_token = time;
        self
    }

    /// With so much time between two tokens.
    #[must_use]
    pub fn with_inter_token(mut self, gap: Duration) -> Self {
        self.inter_token = gap;
        self
    }

    /// With a stream's status and headers held back until its first token.
    #[must_use]
    pub fn with_late_open(mut self) -> Self {
        self.late_open = true;
        self
    }

    /// With this text for an answer.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<Arc<str>>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// With so many tokens of reasoning before the answer.
    #[must_use]
    pub fn with_reasoning(mut self, tokens: u32) -> Self {
        self.reasoning_tokens = tokens;
        self
    }

    /// With a signature over the reasoning.
    #[must_use]
    pub fn with_signature(mut self) -> Self {
        self.signed = true;
        self
    }

    /// With so many tokens of the request from a cache.
    #[must_use]
    pub fn with_cached_tokens(mut self, tokens: u32) -> Self {
        self.cached_tokens = tokens;
        self
    }

    /// With so many tool calls where the request has tools.
    #[must_use]
    pub fn with_calls(mut self, calls: u32) -> Self {
        self.calls = calls;
        self
    }

    /// With a trailing message of the assistant continued.
    #[must_use]
    pub fn with_continuation(mut self) -> Self {
        self.continues = true;
        self
    }

    /// With this fault.
    #[must_use]
    pub fn with_fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// With the fault on this share of the calls, 0..1.
    #[must_use]
    pub fn with_error_rate(mut self, share: f64) -> Self {
        self.error_rate = share;
        self
    }

    /// With the fault on the first `n` calls at most.
    #[must_use]
    pub fn with_fault_times(mut self, n: u64) -> Self {
        self.fault_times = Some(n);
        self
    }

    /// With this much time before the fault shows.
    #[must_use]
    pub fn with_fault_delay(mut self, delay: Duration) -> Self {
        self.fault_delay = delay;
        self
    }
}

//! What a copy of a call at a candidate came to, beside the call itself.

use crate::{ChatRequest, ChatResponse, Class, Cost, Finish, ModelId, Usage};
use std::sync::Arc;
use std::time::Duration;

/// A call and its copy at a candidate, to be scored later.
#[derive(Debug, Clone)]
pub struct ShadowPair {
    /// The role that was asked.
    pub role: Arc<str>,
    /// What the caller got.
    pub live: ShadowAnswer,
    /// What the candidate said.
    pub shadow: ShadowAnswer,
    /// The caller's request, where the role's `shadow.capture` allows to keep it.
    pub request: Option<Arc<ChatRequest>>,
}

/// One answer of a pair: what it took, and its text only where that may be kept.
#[derive(Debug, Clone)]
pub struct ShadowAnswer {
    /// Who gave it.
    pub model: ModelId,
    /// From the start of its attempt to its end.
    pub latency: Duration,
    /// From the start of its attempt to its first content, of a stream.
    pub first_token: Option<Duration>,
    /// Tokens, where reported.
    pub usage: Option<Usage>,
    /// What it cost; none where the model's prices are not known.
    pub cost: Option<Cost>,
    /// Why it ended; none where it failed.
    pub finish: Option<Finish>,
    /// Bytes of its text.
    pub text_bytes: usize,
    /// Tools it calls.
    pub tool_calls: usize,
    /// Whether it is what was asked for: JSON that obeys the schema, tools that
    /// exist with arguments that obey theirs. None where plain text was asked for.
    pub is_valid: Option<bool>,
    /// The class, where it failed.
    pub failure: Option<Class>,
    /// The answer in the caller's terms, where the role's `shadow.capture` allows to
    /// keep it.
    pub content: Option<ChatResponse>,
}

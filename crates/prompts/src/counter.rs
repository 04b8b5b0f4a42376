//! How many tokens a request takes.

use evenkeel_core::{ChatRequest, Message, estimated_tokens};

/// Counts the input tokens of a request, message by message.
///
/// Counts add up: a request takes what [`fixed`](Self::fixed) says and what
/// [`message`](Self::message) says for each of its messages. So a message's count
/// holds whatever separates it from its neighbours, and a request that fits by the
/// sum fits as a whole.
pub trait TokenCounter: Send + Sync {
    /// Tokens of one message with its role, name, parts, and separators.
    fn message(&self, message: &Message) -> u64;

    /// Tokens that no message causes: tools, output schema, the beginning of the answer.
    fn fixed(&self, request: &ChatRequest) -> u64;

    /// Tokens of a whole request.
    fn request(&self, request: &ChatRequest) -> u64 {
        let messages = request.messages.iter().map(|m| self.message(m));
        messages.fold(self.fixed(request), u64::saturating_add)
    }

    /// How far below its own count reported usage may bring this counter, in
    /// thousandths. 1,000, the default: never below.
    fn least_ratio(&self) -> u64 {
        1_000
    }
}

impl<C: TokenCounter + ?Sized> TokenCounter for &C {
    fn message(&self, message: &Message) -> u64 {
        (**self).message(message)
    }

    fn fixed(&self, request: &ChatRequest) -> u64 {
        (**self).fixed(request)
    }

    fn least_ratio(&self) -> u64 {
        (**self).least_ratio()
    }
}

/// The estimate of [`ChatRequest::estimated_input_tokens`]: safe for any model,
/// and thus high for most.
///
/// Letters and spaces count three bytes a token, digits and capitals one, other
/// ASCII signs one and a half; a character of two bytes is 1.2, Chinese,
/// Japanese and Korean ones are 1.5, Indic and Thai ones 1.7, emoji 3; a message is 4
/// beside its content, a call or a result 12, a tool 12, all tools together 350, an
/// image 1,600. Reported usage brings it down to three quarters of that at most:
/// four letters a token, which is still more than English prose takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Estimate;

impl TokenCounter for Estimate {
    fn message(&self, message: &Message) -> u64 {
        message.tokens(&estimated_tokens)
    }

    fn fixed(&self, request: &ChatRequest) -> u64 {
        request.fixed_tokens(&estimated_tokens)
    }

    fn least_ratio(&self) -> u64 {
        750
    }
}

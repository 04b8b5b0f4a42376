//! How much a model takes in.

use evenkeel_core::ChatRequest;

/// Kept for an answer whose length nobody stated, tokens. A choice: long for an
/// answer, and small beside the windows (128,000 and up) whose histories it shortens.
const USUAL_RESERVE: u64 = 8_192;

/// A model's context window and the part of it that is kept for the answer, tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// What input and answer may take together.
    pub context_tokens: u64,
    /// What is kept for the answer. A request that asks for a longer answer is told
    /// to ask for this much; 0 keeps nothing and tells nothing.
    pub reserve_output: u64,
}

impl Window {
    /// The window for `request` at a model whose answers end at `max_output_tokens`,
    /// where that is known.
    ///
    /// Kept for the answer: what the request asks for, at most half of the window,
    /// since agents ask for 32,000 tokens by habit; where it asks for nothing, 8,192,
    /// at most a quarter of the window. Never more than the model's most.
    pub fn of(context_tokens: u64, max_output_tokens: Option<u64>, request: &ChatRequest) -> Self {
        let most = max_output_tokens.unwrap_or(u64::MAX);
        let wanted = match request.max_output_tokens {
            Some(asked) => asked.min(context_tokens / 2),
            None => USUAL_RESERVE.min(context_tokens / 4),
        };
        Self {
            context_tokens,
            reserve_output: wanted.min(most),
        }
    }

    /// What the input may take.
    pub fn room(&self) -> u64 {
        self.context_tokens.saturating_sub(self.reserve_output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserve(context: u64, most: Option<u64>, asked: Option<u64>) -> u64 {
        let mut request = ChatRequest::user("hi");
        request.max_output_tokens = asked;
        Window::of(context, most, &request).reserve_output
    }

    #[test]
    fn the_reserve_is_what_is_asked_for_within_reason() {
        assert_eq!(reserve(8_192, None, None), 2_048);
        assert_eq!(reserve(128_000, None, None), 8_192);
        assert_eq!(reserve(8_192, Some(1_000), None), 1_000);
        assert_eq!(reserve(8_192, Some(8_192), None), 2_048);
        assert_eq!(reserve(8_192, None, Some(100)), 100);
        assert_eq!(reserve(8_192, None, Some(32_000)), 4_096);
        assert_eq!(reserve(8_192, Some(1_000), Some(32_000)), 1_000);
        assert_eq!(reserve(0, None, Some(1)), 0);
    }

    #[test]
    fn a_reserve_beyond_the_window_leaves_no_room() {
        let window = Window {
            context_tokens: 10,
            reserve_output: 11,
        };
        assert_eq!(window.room(), 0);
    }
}

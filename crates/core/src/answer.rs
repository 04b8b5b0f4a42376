//! One whole answer, in no provider's dialect.

use crate::{Extra, Part, RateLimits, ToolCall, part::plain_text};

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// The model was done.
    Stop,
    /// A stop text was met.
    StopSequence,
    /// The output cap was reached.
    Length,
    /// The model waits for tool results.
    ToolUse,
    /// The provider cut the answer.
    ContentFilter,
    /// The model refused.
    Refusal,
    /// The provider paused a long turn.
    Pause,
    /// The context window was full.
    ContextWindow,
    /// A value this version does not know; the answer is kept.
    Unknown,
}

impl Finish {
    /// The name used outside Rust.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::StopSequence => "stop_sequence",
            Self::Length => "length",
            Self::ToolUse => "tool_use",
            Self::ContentFilter => "content_filter",
            Self::Refusal => "refusal",
            Self::Pause => "pause",
            Self::ContextWindow => "context_window",
            Self::Unknown => "unknown",
        }
    }
}

/// Tokens of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// All input tokens, cached ones included.
    pub input: u64,
    /// All generated tokens, reasoning included.
    pub output: u64,
    /// Part of `input` read from the provider's cache.
    pub cached: Option<u64>,
    /// Part of `input` written to the provider's cache.
    pub cache_write: Option<u64>,
    /// Part of `output` spent on reasoning.
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Most tokens of one kind that are believed of one answer: the largest windows are some
    /// ten million.
    pub const MOST: u64 = 1_000_000_000;

    /// What is counted and paid of it: a count above [`Usage::MOST`] is no count, and taken
    /// for that many, so that one answer's nonsense spoils no sum.
    #[must_use]
    pub fn believed(self) -> Self {
        let part = |tokens: Option<u64>| tokens.map(|tokens| tokens.min(Self::MOST));
        Self {
            input: self.input.min(Self::MOST),
            output: self.output.min(Self::MOST),
            cached: part(self.cached),
            cache_write: part(self.cache_write),
            reasoning: part(self.reasoning),
        }
    }

    /// The tokens of both. A part that neither told stays unknown.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let both = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cached: both(self.cached, other.cached),
            cache_write: both(self.cache_write, other.cache_write),
            reasoning: both(self.reasoning, other.reasoning),
        }
    }
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatResponse {
    /// The provider's id of the answer, possibly empty.
    pub id: String,
    /// The model that the answer says it comes from.
    pub model: String,
    /// Unix time in seconds the answer states, 0 where it states none.
    pub created: u64,
    /// Its content.
    pub parts: Vec<Part>,
    /// Why it ended.
    pub finish: Finish,
    /// Tokens, where reported.
    pub usage: Option<Usage>,
    /// What the model could not be told as asked, a short line each.
    pub adapted: Vec<String>,
    /// The rate limits that came with it, where it came in one piece and any were
    /// reported.
    pub rate_limits: Option<Box<RateLimits>>,
    /// Wire fields without a neutral place.
    pub extra: Extra,
}

impl ChatResponse {
    /// All text parts, one after the other.
    pub fn plain_text(&self) -> String {
        plain_text(&self.parts)
    }

    /// The tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|p| match p {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Checks that a complete answer is of use: it says something, calls
    /// something or refuses, and the arguments of its calls parse.
    ///
    /// # Errors
    /// [`Class::ContentFilter`] where the provider cut it, [`Class::Malformed`]
    /// for tool arguments that are no JSON, [`Class::Semantic`] for an empty answer.
    ///
    /// [`Class::ContentFilter`]: crate::Class::ContentFilter
    /// [`Class::Malformed`]: crate::Class::Malformed
    /// [`Class::Semantic`]: crate::Class::Semantic
    pub fn verify(&self) -> Result<(), crate::Failure> {
        use crate::{Class, Failure};
        if self.finish == Finish::ContentFilter {
            return Err(Failure::new(
                Class::ContentFilter,
                "the provider's content filter ended the answer",
            ));
        }
        for call in self.tool_calls() {
            call.verify()?;
        }
        let says_something = self.parts.iter().any(|p| match p {
            Part::Text(text) | Part::Refusal(text) => !text.trim().is_empty(),
            Part::ToolCall(_) | Part::Image(_) | Part::Other(_) => true,
            Part::ToolResult(_) | Part::Reasoning(_) => false,
        });
        if !says_something && self.finish != Finish::Refusal && self.finish != Finish::Pause {
            return Err(Failure::new(
                Class::Semantic,
                format!("the answer is empty (finish {})", self.finish.as_str()),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Class, ReasoningPart};

    fn answer(parts: Vec<Part>, finish: Finish) -> ChatResponse {
        ChatResponse {
            id: String::new(),
            model: "m".into(),
            created: 0,
            parts,
            finish,
            usage: None,
            adapted: Vec::new(),
            rate_limits: None,
            extra: Extra::default(),
        }
    }

    #[test]
    fn an_empty_answer_is_a_semantic_failure() {
        for parts in [
            vec![],
            vec![Part::Text("  \n".into())],
            vec![Part::Reasoning(ReasoningPart::default())],
        ] {
            let failure = answer(parts, Finish::Stop).verify().unwrap_err();
            assert_eq!(failure.class, Class::Semantic);
        }
        assert!(
            answer(vec![Part::Text("a".into())], Finish::Stop)
                .verify()
                .is_ok()
        );
    }

    #[test]
    fn tool_arguments_that_do_not_parse_are_malformed_and_empty_ones_are_fine() {
        let call = |arguments: &str| {
            answer(
                vec![Part::ToolCall(ToolCall {
                    id: "c".into(),
                    name: "t".into(),
                    arguments: arguments.into(),
                    extra: Extra::default(),
                })],
                Finish::ToolUse,
            )
        };
        assert_eq!(
            call("{\"a\":").verify().unwrap_err().class,
            Class::Malformed
        );
        assert!(call("").verify().is_ok());
        assert!(call("{\"a\":1}").verify().is_ok());
    }
}

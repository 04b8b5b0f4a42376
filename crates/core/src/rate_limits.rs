//! What providers say of the rate limits a key has.

use std::time::Duration;

/// One limit as a provider reports it; what it leaves out is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Requests or tokens that the full allowance holds. Of which time it is the
    /// limit is not said: a minute, mostly, but some providers report days.
    pub limit: Option<u64>,
    /// What is left of it.
    pub remaining: Option<u64>,
    /// How long until it is full again.
    pub reset: Option<Duration>,
}

/// The rate limits that an answer's headers report, of the key and the model it was
/// asked with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Requests.
    pub requests: Allowance,
    /// Tokens of input and output together.
    pub tokens: Allowance,
    /// Input tokens, where they have a limit of their own.
    pub input_tokens: Allowance,
    /// Output tokens, where they have a limit of their own.
    pub output_tokens: Allowance,
}

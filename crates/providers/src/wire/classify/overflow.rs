//! Wordings of an input that does not fit the model's window, in lower case.
//!
//! Whoever misses one answers a caller with an error although a rung with a
//! larger window would have taken the request.

use super::Detail;
use super::wording::in_order;

/// Codes that say so.
const CODES: [&str; 4] = [
    "context_length_exceeded",
    // GitHub's models.
    "model_max_prompt_tokens_exceeded",
    "tokens_limit_reached",
    // Zhipu.
    "1261",
];
/// Types of errors that say so.
const KINDS: [&str; 2] = ["exceed_context_size_error", "request_too_large"];

const PARTS: [&str; 29] = [
    "maximum context length is",
    "maximum context length has been exceeded",
    "context_length_exceeded",
    "exceeds the available context size",
    "context size has been exceeded",
    "prompt is too long",
    "input tokens exceed the configured limit",
    "longer than the context length currently available",
    "longer than the model's context length",
    "prompt too long; exceeded",
    "exceeded max context length",
    "max_tokens must be at least 1, got -",
    "input is too long for requested model",
    "larger than the context window",
    // vLLM.
    "model's context length is only",
    "longer than the maximum model length of",
    // SGLang, OpenRouter.
    "exceeds the maximum allowed length",
    "exceeds the maximum allowed input length",
    // LM Studio.
    "greater than the context length",
    "when context the overflows",
    // TGI, Together.
    "`inputs` tokens + `max_new_tokens` must be <=",
    "`inputs` must have less than",
    // Cohere.
    "total number of tokens in the prompt cannot exceed",
    // Kimi.
    "exceeded model token limit",
    // MiniMax.
    "context window exceeds limit",
    // DashScope.
    "range of input length should be",
    // Groq, Cerebras.
    "reduce the length of the messages",
    // Volcengine.
    "exceed max message tokens",
    // LiteLLM.
    "contextwindowexceedederror",
];

/// Parts that say so in this order.
const IN_ORDER: [(&str, &str); 10] = [
    ("input token count", "exceeds the maximum"),
    ("too large for model with", "maximum context"),
    ("exceed", "context length"),
    ("exceed", "context window"),
    ("exceed", "context limit"),
    ("exceeds the model's", "context"),
    // xAI.
    ("maximum prompt length is", "but the request contains"),
    // GitHub's models.
    ("prompt token count of", "exceeds the limit of"),
    // SiliconFlow.
    ("number of input tokens", "exceeded max_prompt_tokens"),
    ("context window", "exceeded"),
];

/// Whether a failure says that the input does not fit, by code, type, status
/// or wording. `message` is its message in lower case.
pub(super) fn is_overflow(d: &Detail, message: &str) -> bool {
    CODES.contains(&d.code.as_str())
        || KINDS.contains(&d.kind.as_str())
        || d.status == Some(413)
        || says_overflow(message)
}

fn says_overflow(message: &str) -> bool {
    PARTS.iter().any(|part| message.contains(part))
        || IN_ORDER
            .iter()
            .any(|(first, then)| in_order(message, first, then))
        || message.starts_with("request too large for")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_sounds_like_an_overflow_is_none() {
        for message in [
            "max_tokens is too large: 200000.",
            "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens",
            "max_tokens=32000 cannot be greater than max_model_len=max_total_tokens=28672",
            "messages[0].tool_calls[0].id: string too long",
            "too many tokens, please wait before trying again.",
            "rate limit exceeded: tokens per minute",
            "you exceeded your current quota, please check your plan and billing details.",
        ] {
            assert!(!says_overflow(message), "{message}");
        }
    }

    #[test]
    fn every_servers_words_for_an_overflow_are_known() {
        for message in [
            "prompt contains 9 tokens, too large for model with 8 maximum context length",
            "you passed 8193 input tokens and requested 0 output tokens. however, the model's context length is only 8192 tokens",
            "the decoder prompt (length 40000) is longer than the maximum model length of 32768.",
            "your input exceeds the context window of this model. please adjust your input and try again.",
            "requested token count exceeds the model's maximum context length of 131072 tokens.",
            "input length (265330) exceeds model's maximum context length (262144).",
            "input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).",
            "input length 300000 exceeds the maximum allowed input length of 262144 tokens.",
            "this model's maximum prompt length is 131072 but the request contains 140000 tokens.",
            "the number of tokens to keep from the initial prompt is greater than the context length.",
            "trying to keep the first 8000 tokens when context the overflows.",
            "input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. given: 5000 `inputs` tokens",
            "input validation error: `inputs` must have less than 1024 tokens. given: 2000",
            "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000.",
            "invalid request: your request exceeded model token limit: 8192",
            "invalid params, context window exceeds limit (2013)",
            "<400> internalerror.algo.invalidparameter: range of input length should be [1, 129024]",
            "please reduce the length of the messages or completion.",
            "this model's maximum context length has been exceeded.",
            "number of input tokens (204703) has exceeded max_prompt_tokens (202752) limit.",
            "requested tokens (3000) exceed context window of 2048",
            "the total length of the input and output exceeds the context window",
            "the input exceeds the model's maximum context limit of 8192 tokens.",
            "total tokens of image and text exceed max message tokens",
            "litellm.contextwindowexceedederror: x",
            "the input length exceeds the context length",
            "prompt token count of 150000 exceeds the limit of 128000",
        ] {
            assert!(says_overflow(message), "{message}");
        }
    }
}

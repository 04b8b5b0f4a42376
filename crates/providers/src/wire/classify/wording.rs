//! Wordings, for what no provider marks in a machine-readable way. All take
//! text in lower case.

/// The input does not fit the context window.
pub(super) fn says_overflow(message: &str) -> bool {
    const PARTS: [&str; 15] = [
        "maximum context length is",
        "context_length_exceeded",
        "exceeds the available context size",
        "context size has been exceeded",
        "prompt is too long",
        "exceed context limit",
        "input tokens exceed the configured limit",
        "longer than the context length currently available",
        "longer than the model's context length",
        "prompt too long; exceeded",
        "exceeded max context length",
        "max_tokens must be at least 1, got -",
        "input is too long for requested model",
        "exceeds the model's context",
        "larger than the context window",
    ];
    PARTS.iter().any(|part| message.contains(part))
        || message.starts_with("request too large for")
        || in_order(message, "input token count", "exceeds the maximum")
        || in_order(message, "too large for model with", "maximum context")
}

fn in_order(message: &str, first: &str, then: &str) -> bool {
    message
        .split_once(first)
        .is_some_and(|(_, rest)| rest.contains(then))
}

/// A limit counted over a day.
pub(super) fn names_a_day(text: &str) -> bool {
    ["per day", "(tpd)", "(rpd)", "perday", "daily"]
        .iter()
        .any(|part| text.contains(part))
}

/// The account is out of credit.
pub(super) fn says_no_credit(message: &str) -> bool {
    [
        "credit balance is too low",
        "specified api usage limits",
        "insufficient balance",
    ]
    .iter()
    .any(|part| message.contains(part))
}

/// The model does not exist, in words that come with any status.
pub(super) fn says_no_such_model(message: &str) -> bool {
    message.starts_with("model not exist") || message.starts_with("no endpoints found for")
}

/// A 404 that speaks of the model and not of the path.
pub(super) fn starts_with_model(message: &str) -> bool {
    let message = message.strip_prefix("the ").unwrap_or(message);
    let Some(rest) = message.strip_prefix("model") else {
        return false;
    };
    let rest = rest.strip_prefix('s').unwrap_or(rest);
    rest.starts_with([':', '/', ' '])
}

/// This model or server lacks what the request asks for.
pub(super) fn says_unsupported(message: &str) -> bool {
    const PARTS: [&str; 22] = [
        "not support",
        "unsupported",
        "is not permitted",
        "inputs are not permitted",
        "is deprecated for this model",
        "unknown variant",
        "unknown name",
        "unknown parameter",
        "unknown field",
        "unexpected field",
        "unrecognized request argument",
        "auto-tool-choice",
        "failed to parse grammar",
        "grammar is too large",
        "jinja exception",
        "requires --jinja",
        "mmproj",
        "no endpoints found that",
        "is not enabled for",
        "is unavailable now",
        "not available for this model",
        "cannot be used with this model",
    ];
    PARTS.iter().any(|part| message.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_sounds_like_an_overflow_is_none() {
        for message in [
            "max_tokens is too large: 200000.",
            "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens",
            "messages[0].tool_calls[0].id: string too long",
        ] {
            assert!(!says_overflow(message), "{message}");
        }
        assert!(says_overflow(
            "prompt contains 9 tokens, too large for model with 8 maximum context length"
        ));
    }

    #[test]
    fn a_404_about_a_path_is_not_about_a_model() {
        assert!(starts_with_model("models/x is not found"));
        assert!(starts_with_model("the model `x` does not exist"));
        assert!(starts_with_model("model: x"));
        assert!(!starts_with_model("modelling endpoint missing"));
        assert!(!starts_with_model("file not found"));
    }
}

//! Wordings, for what no provider marks in a machine-readable way. All take
//! text in lower case.

/// Whether `first` stands in the message, and `then` behind it.
pub(super) fn in_order(message: &str, first: &str, then: &str) -> bool {
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

/// A 404 that says somewhere in its text that a model is missing.
pub(super) fn says_model_is_missing(message: &str) -> bool {
    // Whole words: a path may have the word in it, too.
    let is_named = message
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric() && c != '/'))
        .any(|word| matches!(word, "model" | "models"));
    let is_missing = ["not found", "not exist", "no such", "unknown model"]
        .iter()
        .any(|part| message.contains(part));
    is_named && is_missing
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

/// This model or server lacks what the request asks for: another may have it. What every model
/// would refuse (a value out of any range, a field of the wrong type) is none of these.
pub(super) fn says_unsupported(message: &str) -> bool {
    const PARTS: [&str; 24] = [
        "not support",
        "n't support",
        "unsupported",
        "only supported by",
        "is not permitted",
        "inputs are not permitted",
        "is deprecated for this model",
        "cannot both be specified",
        "unknown variant",
        "unknown name",
        "unknown parameter",
        "unknown field",
        "unexpected field",
        "unrecognized request argument",
        "auto-tool-choice",
        "failed to parse grammar",
        "grammar is too large",
        "requires --jinja",
        "no endpoints found that",
        "is not enabled for",
        "is unavailable now",
        "not available for this model",
        "cannot be used with this model",
        "only works in thinking mode",
    ];
    PARTS.iter().any(|part| message.contains(part))
        || in_order(message, "thinking budget", "is invalid")
        || lacks_input(message)
        || lacks_tools(message)
        || lacks_output(message)
        || lacks_turns(message)
}

/// Kinds of input: images and the like, to a model for text.
fn lacks_input(message: &str) -> bool {
    /// Types of content parts that not every model takes. A caller's own misspelling is none.
    const PARTS: [&str; 8] = [
        "image_url",
        "image",
        "input_image",
        "input_audio",
        "audio_url",
        "video_url",
        "file",
        "document",
    ];
    let refused_part = message
        .strip_prefix("invalid value: '")
        .and_then(|rest| rest.split_once('\''))
        .is_some_and(|(part, _)| PARTS.contains(&part));
    let takes_none = ["image", "audio", "video", "vision", "multimodal"]
        .iter()
        .any(|kind| message.contains(kind))
        && ["not accept", "n't accept", "cannot accept", "can't accept"]
            .iter()
            .any(|verb| message.contains(verb));
    refused_part
        || takes_none
        || in_order(message, "at most ", "(s) may be provided") // vLLM, of each kind
        || message.contains("is not a multimodal model")
        || message.contains("mmproj") // llama.cpp
        || message.contains("content must be a string") // Groq, of a list with images
}

/// As many tools, or calls at once.
fn lacks_tools(message: &str) -> bool {
    in_order(message, "'tools'", "array too long")
        || message.contains("too many tools")
        || message.contains("maximum number of tools")
        || message.contains("only supports single tool-calls")
}

/// As long an answer.
fn lacks_output(message: &str) -> bool {
    let names_cap = ["max_tokens", "max_completion_tokens", "maxoutputtokens"]
        .iter()
        .any(|cap| message.contains(cap));
    names_cap
        && [
            "is too large",
            "supports at most",
            "is the maximum allowed number of output tokens",
            "must be less than or equal to",
            "the valid range of",
            "but the supported range is",
        ]
        .iter()
        .any(|part| message.contains(part))
}

/// Such an order of turns, in the words of chat templates and of strict servers.
fn lacks_turns(message: &str) -> bool {
    [
        "jinja exception",
        "roles must alternate",
        "incompatible with system messages",
        "tool call ids should be alphanumeric",
        "expected last role",
    ]
    .iter()
    .any(|part| message.contains(part))
        || in_order(message, "only ", "roles are supported")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wordings of the providers, as users have met them.
    #[test]
    fn what_another_model_may_have_is_told() {
        for message in [
            "At most 0 image(s) may be provided in one request.",
            "At most 1 audio(s) may be provided in one prompt.",
            "This model does not accept image input",
            "this model does not support image input (ref: 9152fe9a)",
            "This model doesn't support images",
            "google/gemma-2-9b-it is not a multimodal model",
            "Invalid value: 'image_url'. Supported values are: 'text'.",
            "Invalid content type. image_url is only supported by certain models.",
            "messages[0].content must be a string",
            "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 217 instead.",
            "This model only supports single tool-calls at once!",
            "max_tokens is too large: 32000. This model supports at most 16384 completion tokens, whereas you provided 32000.",
            "max_tokens: 10000 > 4096, which is the maximum allowed number of output tokens for claude-3-5-sonnet-20240620",
            "`max_tokens` must be less than or equal to `16384`, the maximum value for `max_tokens` is less than the `context_window` for this model",
            "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
            "Unable to submit request because it has a maxOutputTokens value of 655360 but the supported range is from 1 (inclusive) to 8193 (exclusive).",
            "Budget 0 is invalid. This model only works in thinking mode.",
            "The thinking budget 50000 is invalid. Please choose a value between 512 and 24576.",
            "Conversation roles must alternate user/assistant/user/assistant/...",
            "After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results.",
            "Only user and assistant roles are supported!",
            "System role not supported",
            "Prompting with images is incompatible with system messages.",
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
            "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        ] {
            assert!(says_unsupported(&message.to_lowercase()), "{message}");
        }
    }

    #[test]
    fn what_every_model_would_refuse_is_no_gap() {
        for message in [
            "Invalid value for temperature",
            "temperature: must be between 0 and 2",
            "max_tokens must be at least 1",
            "max_tokens: must be greater than thinking.budget_tokens",
            "messages: at least one message is required",
            "Missing required parameter: 'messages[0].content'.",
            "Invalid value: 'imge_url'. Supported values are: 'text', 'image_url'.",
            "Invalid value: 'usr'. Supported values are: 'system', 'user'.",
            "Could not process image",
            "Invalid 'messages': array too long.",
            "Invalid 'user': string too long.",
            "Invalid schema for function 'f': schema must be an object",
            "top_p must be less than or equal to 1",
        ] {
            assert!(!says_unsupported(&message.to_lowercase()), "{message}");
        }
    }

    #[test]
    fn a_404_about_a_path_is_not_about_a_model() {
        assert!(starts_with_model("models/x is not found"));
        assert!(starts_with_model("the model `x` does not exist"));
        assert!(starts_with_model("model: x"));
        assert!(!starts_with_model("modelling endpoint missing"));
        assert!(!starts_with_model("file not found"));
        assert!(says_model_is_missing(
            "the requested model `x` was not found"
        ));
        assert!(!says_model_is_missing("not found: /v1/models/x:chat"));
        assert!(!says_model_is_missing("modelling endpoint not found"));
    }
}

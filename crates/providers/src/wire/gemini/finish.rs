//! Why an answer ended.

use crate::wire::Server;
use crate::wire::classify::Reply;
use evenkeel_core::{Class, Failure, Finish};

/// What a `finishReason` says.
pub(super) enum Reason {
    /// The answer ended.
    Finish(Finish),
    /// The provider gave it up.
    Broken(Class),
}

/// Reads a `finishReason`. An unknown value is kept as unknown, never as a stop.
pub(super) fn read(reason: &str) -> Reason {
    Reason::Finish(match reason {
        "STOP" => Finish::Stop,
        "MAX_TOKENS" => Finish::Length,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "MODEL_ARMOR"
        | "ESCALATION" => Finish::ContentFilter,
        "CONTINUATION" => Finish::Pause,
        "MALFORMED_FUNCTION_CALL"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MALFORMED_RESPONSE"
        | "MISSING_THOUGHT_SIGNATURE" => return Reason::Broken(Class::Malformed),
        // The account is limited.
        "PUP_LIMITED_DISABLED" => return Reason::Broken(Class::Auth),
        _ => Finish::Unknown,
    })
}

/// The `finishReason` of a finish. What this format cannot say becomes the
/// nearest that it can.
pub(super) fn write(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop | Finish::StopSequence | Finish::ToolUse | Finish::Refusal => "STOP",
        Finish::Length | Finish::ContextWindow => "MAX_TOKENS",
        Finish::ContentFilter => "SAFETY",
        Finish::Pause => "CONTINUATION",
        _ => "OTHER",
    }
}

/// The finish of an answer that calls tools or not: calls mean tool use,
/// although the provider says that it stopped.
pub(super) fn with_calls(finish: Finish, has_calls: bool) -> Finish {
    match finish {
        Finish::Stop | Finish::Unknown if has_calls => Finish::ToolUse,
        other => other,
    }
}

/// The failure of an answer that the provider gave up.
pub(super) fn broken(class: Class, reason: &str) -> Failure {
    let message = format!("the provider gave the answer up with finishReason `{reason}`");
    let mut failure = Reply::in_answer(Server::Gemini, b"").failure(class, &message);
    failure.code = Some(reason.to_owned());
    failure
}

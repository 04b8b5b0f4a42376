//! Why an answer ended.

use evenkeel_core::{Finish, Part};

/// Reads a `stop_reason`. An unknown value is kept as unknown, never as a stop.
pub(super) fn read(reason: &str) -> Finish {
    match reason {
        "end_turn" => Finish::Stop,
        "stop_sequence" => Finish::StopSequence,
        "max_tokens" => Finish::Length,
        "tool_use" => Finish::ToolUse,
        "refusal" => Finish::Refusal,
        "pause_turn" => Finish::Pause,
        "model_context_window_exceeded" => Finish::ContextWindow,
        _ => Finish::Unknown,
    }
}

/// The `stop_reason` of a finish. What this format cannot say becomes the
/// nearest that it can.
pub(super) fn write(finish: Finish) -> &'static str {
    match finish {
        Finish::StopSequence => "stop_sequence",
        Finish::Length => "max_tokens",
        Finish::ToolUse => "tool_use",
        Finish::Refusal | Finish::ContentFilter => "refusal",
        Finish::Pause => "pause_turn",
        Finish::ContextWindow => "model_context_window_exceeded",
        _ => "end_turn",
    }
}

/// The finish that the parts tell: calls mean tool use, whatever was said,
/// unless the answer was cut.
pub(super) fn derived(finish: Finish, calls: bool) -> Finish {
    match finish {
        Finish::Stop | Finish::Unknown if calls => Finish::ToolUse,
        other => other,
    }
}

pub(super) fn has_calls(parts: &[Part]) -> bool {
    parts.iter().any(|p| matches!(p, Part::ToolCall(_)))
}

//! How much two answers to the same question say the same.

use crate::scorers::{Answered, Calls, field_f1, normal_text, token_f1};
use evenkeel_core::{ChatRequest, Output};

/// The agreement of a candidate's answer with the live one, 0 to 1: of tools that
/// are called, the share of calls that are the same; of JSON, F1 over its values;
/// of text, F1 over its words. An answer that declines agrees with one that does,
/// and with no other.
pub(super) fn of(request: &ChatRequest, live: &Answered<'_>, shadow: &Answered<'_>) -> f64 {
    if live.declines() || shadow.declines() {
        return if live.declines() && shadow.declines() {
            1.0
        } else {
            0.0
        };
    }
    let calls = |answer: &Answered<'_>| answer.response.tool_calls().next().is_some();
    if calls(live) || calls(shadow) {
        return Calls::of(live.response.tool_calls()).grade(shadow).score;
    }
    let wants_json = request.output != Output::Text;
    match (live.json(), shadow.json()) {
        (Some(live), Some(shadow)) if wants_json => field_f1(live, shadow, false).score,
        _ if wants_json => 0.0,
        _ => token_f1(&normal_text(live.text()), &normal_text(shadow.text())),
    }
}

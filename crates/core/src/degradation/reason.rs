//! The closed set of words for why an answer did not come from its primary.

use crate::Class;

/// Words that are no failure class: why a role was moved, why a hedge started,
/// why a rung was refused.
const OTHERS: [&str; 21] = [
    "latency_p95_breach",
    "latency_p99_breach",
    "latency_spike",
    "eol",
    "drill",
    "manual",
    "patience_exceeded",
    "projected_deadline_miss",
    "breaker_open",
    "cooldown",
    "hold",
    "at_capacity",
    "below_capability",
    "quality_gate",
    "recovered",
    "roster_exhausted",
    "lacks",
    "benched",
    "worse",
    "provider_failed",
    "tried",
];

/// The word of the set that `text` is.
pub(super) fn known(text: &str) -> Option<&'static str> {
    let classes = Class::ALL.iter().map(|class| class.as_str());
    classes.chain(OTHERS).find(|word| *word == text)
}

//! The closed set of words for why an answer did not come from its primary.

use crate::{Class, Refusal};

/// Words that are no failure class and no refusal: why a role was moved, why a
/// hedge started, how it ended.
const OTHERS: [&str; 8] = [
    "latency_p95_breach",
    "latency_p99_breach",
    "latency_spike",
    "manual",
    "patience_exceeded",
    "projected_deadline_miss",
    "recovered",
    "roster_exhausted",
];

/// The word of the set that `text` is.
pub(super) fn known(text: &str) -> Option<&'static str> {
    let classes = Class::ALL.iter().map(|class| class.as_str());
    let mut words = classes.chain(Refusal::WORDS).chain(OTHERS);
    words.find(|word| *word == text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_word_of_a_refusal_is_known() {
        for refusal in [
            Refusal::RateLimitNear(Duration::ZERO),
            Refusal::Drill(Duration::ZERO),
            Refusal::NotPinned,
            Refusal::OverCost {
                expected_micros: 2,
                ceiling_micros: 1,
            },
            Refusal::Lacks("tools"),
            Refusal::Tried,
        ] {
            assert_eq!(known(refusal.as_str()), Some(refusal.as_str()));
        }
        assert_eq!(known("because"), None);
    }
}

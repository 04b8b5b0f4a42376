//! The closed set of words for why an answer did not come from its primary.

use crate::{Class, Refusal};

/// Words that are no failure class and no refusal: why a role was moved, why a
/// hedge started, how it ended.
const OTHERS: [&str; 7] = [
    "latency_p95_breach",
    "latency_p99_breach",
    "latency_spike",
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

    #[test]
    fn only_what_may_be_told_is_known() {
        for word in ["overloaded", "cooldown", "manual", "patience_exceeded"] {
            assert_eq!(known(word), Some(word));
        }
        // Words of trails are nobody's reasons.
        for word in ["rate_limit_near", "not_pinned", "because", ""] {
            assert_eq!(known(word), None);
        }
    }
}

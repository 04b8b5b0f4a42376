//! The contract's words for why an answer did not come from its primary, or a limit was
//! crossed.

/// The closed set's word for a word of the router, which has some more: for the limits
/// that a rung is refused for before it is asked, and for what a caller asks. Every signal
/// tells this one.
///
/// A rate limit that would be passed is told as the `cooldown` that asking would lead to,
/// something a model lacks as `below_capability`, a provider that failed this call before
/// as `unreachable`, and what a person decided by naming models or a price as `manual`.
pub fn told(word: &'static str) -> &'static str {
    match word {
        "rate_limit_near" => "cooldown",
        "lacks" => "below_capability",
        "not_pinned" | "over_cost" => "manual",
        "provider_failed" => "unreachable",
        "benched" | "worse" | "tried" => "at_capacity",
        word => word,
    }
}

/// The percentile whose limit a detector of breaches holds latencies against: the spike
/// detector counts exceedances of the limit on p95.
pub fn breached_percentile(detector: &str) -> &'static str {
    if detector == "p99" { "p99" } else { "p95" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::{Class, Refusal};

    #[test]
    fn every_refusal_is_told_in_a_word_of_the_contract() {
        let refused = [
            "breaker_open",
            "cooldown",
            "hold",
            "at_capacity",
            "below_capability",
            "quality_gate",
            "eol",
            "drill",
            "manual",
        ];
        for word in Refusal::WORDS {
            let told = told(word);
            let is_class = Class::ALL.iter().any(|class| class.as_str() == told);
            assert!(
                is_class || refused.contains(&told),
                "{word} is told as {told}"
            );
        }
        for class in Class::ALL {
            assert_eq!(told(class.as_str()), class.as_str());
        }
    }
}

//! Levels of reasoning and budgets in tokens, where a provider knows one of
//! the two.

use evenkeel_core::{Effort, Reasoning};

/// The largest budget that each level stands for, as Google's layer for
/// `OpenAI`'s clients maps them (1,024, 8,192 and 24,576 tokens).
const LEVELS: [(u64, Effort); 4] = [
    (0, Effort::None),
    (1024, Effort::Low),
    (8192, Effort::Medium),
    (24_576, Effort::High),
];

/// The level asked for, or the one whose budget comes first above the budget
/// asked for.
pub(crate) fn level(asked: Reasoning) -> Option<Effort> {
    let of_budget = |budget| {
        let found = LEVELS.iter().find(|(most, _)| budget <= *most);
        found.map_or(Effort::XHigh, |(_, level)| *level)
    };
    asked.effort.or(asked.budget_tokens.map(of_budget))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_becomes_the_level_that_has_room_for_it() {
        for (budget, expected) in [
            (0, Effort::None),
            (512, Effort::Low),
            (1025, Effort::Medium),
            (24_576, Effort::High),
            (100_000, Effort::XHigh),
        ] {
            let asked = Reasoning {
                effort: None,
                budget_tokens: Some(budget),
            };
            assert_eq!(level(asked), Some(expected), "{budget}");
        }
        assert_eq!(level(Reasoning::default()), None);
    }
}
